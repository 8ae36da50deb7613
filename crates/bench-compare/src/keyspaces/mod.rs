//! `keyspaces`: what many keyspaces cost in one store, with every engine's default options: RocksDB's column families,
//! and fjall's keyspaces. They stay empty, or have some pairs each.
//!
//! A turn of an engine has three child processes, one after the other on the same store (`child`): the first creates
//! the keyspaces and fills them, the second opens all again and drops half, the third opens the rest. So no figure of
//! memory has what an earlier step left to the process.

pub mod child;
mod figures;

use crate::arguments::Keyspaces;
use crate::engines::keyspaces::{select_with_keyspaces, version};
use crate::rounds::host::{Host, Round};
use crate::rounds::report::Report;
use crate::rounds::turns;
use child::{Job, Stage};
use figures::FIGURES;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The hidden command of the children.
const CHILD: &str = "keyspaces-child";

/// What was asked for, for the report.
#[derive(Debug, Serialize)]
struct Conditions {
    versions: BTreeMap<&'static str, String>,
    keyspaces: u32,
    pairs: u32,
    value_bytes: u32,
    /// Memory of each engine; its default without.
    memory: Option<u64>,
    idle_seconds: f64,
}

/// Measures, keeps the figures, and prints a table or JSON. Returns a line about the engines that failed.
///
/// # Errors
/// Invalid arguments, or a directory that cannot be used.
pub fn run(arguments: &Keyspaces) -> Result<Option<String>, String> {
    let selection = select_with_keyspaces(&arguments.engines)?;
    for (name, why) in &selection.skipped {
        eprintln!("skipped {name}: {why}");
    }
    let names: Vec<&'static str> = selection.taken.iter().map(|kind| kind.name).collect();
    let rounds = &arguments.rounds;
    let stores = turns::stores(rounds.directory.as_deref())?;
    let mut report = Report::new(&names, &FIGURES, conditions(&names, arguments));
    for (prefix, pairs) in [("empty", 0), ("filled", arguments.pairs)] {
        turns::take(rounds.rounds, &names, prefix, &stores, &mut report, |engine, directory| {
            let figures = turn(&job(engine, directory, pairs, arguments))?;
            Ok(figures.into_iter().map(|(name, number)| (format!("{prefix}_{name}"), number)).collect())
        });
    }
    turns::show(&report, &heading(&report), rounds.json, &rounds.results, "keyspaces")?;
    Ok(report.failures())
}

fn conditions(names: &[&'static str], arguments: &Keyspaces) -> Conditions {
    Conditions {
        versions: names.iter().map(|name| (*name, version(name))).collect(),
        keyspaces: arguments.keyspaces,
        pairs: arguments.pairs,
        value_bytes: arguments.value_size,
        memory: arguments.rounds.memory,
        idle_seconds: arguments.idle,
    }
}

fn job(engine: &str, directory: &Path, pairs: u32, arguments: &Keyspaces) -> Job {
    Job {
        engine: engine.to_owned(),
        directory: directory.to_owned(),
        memory: arguments.rounds.memory,
        stage: Stage::Create,
        keyspaces: arguments.keyspaces,
        pairs,
        value_bytes: arguments.value_size,
        idle: arguments.idle,
    }
}

/// All stages, each in a process of its own.
fn turn(job: &Job) -> Result<Round, String> {
    let mut figures = Round::new();
    for stage in Stage::ALL {
        figures.extend(Host::start(CHILD, &Job { stage, ..job.clone() })?.round()?);
    }
    Ok(figures)
}

fn heading(report: &Report<Conditions>) -> String {
    let Conditions { keyspaces, pairs, value_bytes, memory, idle_seconds, .. } = &report.conditions;
    let memory = memory.map_or("default memory".to_owned(), |bytes| format!("memory of {} MiB", bytes >> 20));
    format!(
        "Default options of every engine, {memory}, source {}. {keyspaces} keyspaces, empty and with {pairs} pairs of \
         8 and {value_bytes} bytes each. Medians (smallest to greatest). Memory, descriptors and threads of open \
         stores are looked at after {idle_seconds} s; \"each\" is the growth since the store had one keyspace, for \
         each further one; \"all\" is what the process has above what it had before opening.",
        report.commit
    )
}
