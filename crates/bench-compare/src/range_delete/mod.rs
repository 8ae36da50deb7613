//! `range-delete`: the delete of a range of many small pairs in a store whose data is in files, with every engine's
//! default options: its time, the bytes that it logs, and what seeks into the hole and outside cost afterwards.
//! fjall has no such call, so it deletes each key.

pub mod child;
mod figures;

use crate::arguments::RangeDelete;
use crate::engines::keyspaces::{select_with_keyspaces, version};
use crate::rounds::report::Report;
use crate::rounds::turns::{self, Comparison};
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
    let conditions = Conditions {
        versions: names.iter().map(|name| (*name, version(name))).collect(),
        pairs: arguments.num,
        seeks: arguments.seeks,
        seek_seconds: arguments.seconds,
        memory: arguments.rounds.memory,
    };
    let comparison =
        Comparison { names: &names, child: CHILD, step: "range delete", results: "range-delete", figures: &FIGURES };
    turns::compare(&comparison, &arguments.rounds, conditions, heading, |engine, directory| Job {
        engine: engine.to_owned(),
        directory: directory.to_owned(),
        memory: arguments.rounds.memory,
        pairs: arguments.num,
        seeks: arguments.seeks,
        seconds: arguments.seconds,
    })
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
