//! `large-values`: values of 256 KiB to 16 MiB that are overwritten at random, with every engine's default options, and RocksDB's
//! blob files with their garbage collection: how fast, how much space they take, and the bytes that reach the device.

pub mod child;
mod figures;

use crate::arguments::LargeValues;
use crate::engines::keyspaces::{select_with_keyspaces, version};
use crate::rounds::report::Report;
use crate::rounds::turns::{self, Comparison};
use child::Job;
use figures::FIGURES;
use serde::Serialize;
use std::collections::BTreeMap;

/// The hidden command of the children.
const CHILD: &str = "large-values-child";
/// The engines that are compared here.
const NAMES: [&str; 2] = [crate::engines::OURS, "rocksdb"];

/// What was asked for, for the report.
#[derive(Debug, Serialize)]
struct Conditions {
    versions: BTreeMap<&'static str, String>,
    bytes: u64,
    overwrites: u32,
    smallest: u64,
    largest: u64,
    /// Memory of each engine; its default without.
    memory: Option<u64>,
}

/// Measures, keeps the figures, and prints a table or JSON. Returns a line about the engines that failed.
///
/// # Errors
/// Invalid arguments, or a directory that cannot be used.
pub fn run(arguments: &LargeValues) -> Result<Option<String>, String> {
    let wanted =
        if arguments.engines.is_empty() { NAMES.map(str::to_owned).to_vec() } else { arguments.engines.clone() };
    if let Some(name) = wanted.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!("{name} is not in this comparison; these are: {}", NAMES.join(", ")));
    }
    let LargeValues { bytes, overwrites, smallest, largest, rounds, .. } = arguments;
    if smallest > largest || *smallest == 0 || bytes < largest {
        return Err(format!("values of {smallest} to {largest} bytes, {bytes} in all, are not possible"));
    }
    let selection = select_with_keyspaces(&wanted)?;
    let names: Vec<&'static str> = selection.taken.iter().map(|kind| kind.name).collect();
    let conditions = Conditions {
        versions: names.iter().map(|name| (*name, version(name))).collect(),
        bytes: *bytes,
        overwrites: *overwrites,
        smallest: *smallest,
        largest: *largest,
        memory: rounds.memory,
    };
    let comparison =
        Comparison { names: &names, child: CHILD, step: "large values", results: "large-values", figures: &FIGURES };
    turns::compare(&comparison, rounds, conditions, heading, |engine, directory| Job {
        engine: engine.to_owned(),
        directory: directory.to_owned(),
        memory: rounds.memory,
        bytes: *bytes,
        overwrites: *overwrites,
        smallest: *smallest,
        largest: *largest,
    })
}

fn heading(report: &Report<Conditions>) -> String {
    let Conditions { bytes, overwrites, smallest, largest, memory, .. } = &report.conditions;
    let memory = memory.map_or("default memory".to_owned(), |bytes| format!("memory of {} MiB", bytes >> 20));
    format!(
        "Default options of every engine, RocksDB with blob files, {memory}, source {}. Values of {} KiB to {} KiB, {} MiB in all, \
         are put, and then overwritten at random keys until {overwrites} times as many bytes were written. Medians (smallest to \
         greatest).",
        report.commit,
        smallest >> 10,
        largest >> 10,
        bytes >> 20
    )
}
