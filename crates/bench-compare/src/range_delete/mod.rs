//! `range-delete`: the delete of a range of many small pairs in a store whose data is in files, with every engine's
//! default options: its time, the bytes that it logs, and what seeks into the hole and outside cost afterwards.
//! fjall has no such call, so it deletes each key.

pub mod child;
mod figures;

use crate::arguments::RangeDelete;
use crate::engines::keyspaces::{select_with_keyspaces, version};
use crate::rounds::host::Host;
use crate::rounds::report::Report;
use crate::rounds::turns;
use child::Job;
use figures::FIGURES;
use serde::Serialize;
use std::collections::BTreeMap;

/// The hidden command of the children.
const CHILD: &str = "range-delete-child";

/// What was asked for, for the report.
#[derive(Debug, Serialize)]
struct Conditions {
    versions: BTreeMap<&'static str, String>,
    /// Pairs of the deleted range; as many are outside.
    pairs: u64,
    seeks: u64,
    /// The longest time for the seeks of a figure.
    seek_seconds: f64,
    /// Memory of each engine; its default without.
    memory: Option<u64>,
}

/// Measures, keeps the figures, and prints a table or JSON. Returns a line about the engines that failed.
///
/// # Errors
/// Invalid arguments, or a directory that cannot be used.
pub fn run(arguments: &RangeDelete) -> Result<Option<String>, String> {
    let selection = select_with_keyspaces(&arguments.engines)?;
    for (name, why) in &selection.skipped {
        eprintln!("skipped {name}: {why}");
    }
    let names: Vec<&'static str> = selection.taken.iter().map(|kind| kind.name).collect();
    let rounds = &arguments.rounds;
    let stores = turns::stores(rounds.directory.as_deref())?;
    let conditions = Conditions {
        versions: names.iter().map(|name| (*name, version(name))).collect(),
        pairs: arguments.num,
        seeks: arguments.seeks,
        seek_seconds: arguments.seconds,
        memory: rounds.memory,
    };
    let mut report = Report::new(&names, &FIGURES, conditions);
    turns::take(rounds.rounds, &names, "range delete", &stores, &mut report, |engine, directory| {
        let job = Job {
            engine: engine.to_owned(),
            directory: directory.to_owned(),
            memory: rounds.memory,
            pairs: arguments.num,
            seeks: arguments.seeks,
            seconds: arguments.seconds,
        };
        Host::start(CHILD, &job)?.round()
    });
    turns::show(&report, &heading(&report), rounds.json, &rounds.results, "range-delete")?;
    Ok(report.failures())
}

fn heading(report: &Report<Conditions>) -> String {
    let Conditions { pairs, seeks, seek_seconds, memory, .. } = &report.conditions;
    let memory = memory.map_or("default memory".to_owned(), |bytes| format!("memory of {} MiB", bytes >> 20));
    format!(
        "Default options of every engine, {memory}, source {}. {pairs} of {} pairs of 8 and 8 bytes are deleted as one \
         range in the middle; fjall deletes each key. Times of seeks are means of {seeks} seeks with one step, or of \
         those of {seek_seconds} s. Medians (smallest to greatest).",
        report.commit,
        pairs * 2
    )
}
