//! `ingest`: sorted pairs that enter an empty range of a store past its log and memory, with every engine's default options:
//! its time with building the files, the bytes that reach the device, and the same pairs as batches of puts. RocksDB builds SST
//! files with its writer and ingests them by moving.

pub mod child;
mod figures;

use crate::arguments::Ingest;
use crate::engines::keyspaces::{select_with_keyspaces, version};
use crate::rounds::report::Report;
use crate::rounds::turns::{self, Comparison};
use child::Job;
use figures::FIGURES;
use serde::Serialize;
use std::collections::BTreeMap;

/// The hidden command of the children.
const CHILD: &str = "ingest-child";
/// The engines that ingest here.
const NAMES: [&str; 2] = [crate::engines::OURS, "rocksdb"];

/// What was asked for, for the report.
#[derive(Debug, Serialize)]
struct Conditions {
    versions: BTreeMap<&'static str, String>,
    /// Pairs that are ingested.
    pairs: u64,
    value_size: u32,
    /// Memory of each engine; its default without.
    memory: Option<u64>,
}

/// Measures, keeps the figures, and prints a table or JSON. Returns a line about the engines that failed.
///
/// # Errors
/// Invalid arguments, or a directory that cannot be used.
pub fn run(arguments: &Ingest) -> Result<Option<String>, String> {
    let wanted =
        if arguments.engines.is_empty() { NAMES.map(str::to_owned).to_vec() } else { arguments.engines.clone() };
    if let Some(name) = wanted.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!("{name} does not ingest in this comparison; these do: {}", NAMES.join(", ")));
    }
    let selection = select_with_keyspaces(&wanted)?;
    let names: Vec<&'static str> = selection.taken.iter().map(|kind| kind.name).collect();
    let conditions = Conditions {
        versions: names.iter().map(|name| (*name, version(name))).collect(),
        pairs: arguments.num,
        value_size: arguments.value_size,
        memory: arguments.rounds.memory,
    };
    let comparison = Comparison { names: &names, child: CHILD, step: "ingest", results: "ingest", figures: &FIGURES };
    turns::compare(&comparison, &arguments.rounds, conditions, heading, |engine, directory| Job {
        engine: engine.to_owned(),
        directory: directory.to_owned(),
        memory: arguments.rounds.memory,
        pairs: arguments.num,
        value_size: arguments.value_size,
        gets: arguments.gets,
    })
}

fn heading(report: &Report<Conditions>) -> String {
    let Conditions { pairs, value_size, memory, .. } = &report.conditions;
    let memory = memory.map_or("default memory".to_owned(), |bytes| format!("memory of {} MiB", bytes >> 20));
    format!(
        "Default options of every engine, {memory}, source {}. {pairs} sorted pairs of 8 and {value_size} bytes are ingested into \
         an empty range, and put into another store by batches. Medians (smallest to greatest).",
        report.commit
    )
}
