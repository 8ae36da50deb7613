//! `expiry`: a keyspace of which nine in ten pairs expire: when the space is back, what that writes, and what reads see. RocksDB has
//! its store with a time to live; it removes expired pairs when it compacts their files, and its reads see them until then.

pub mod child;
mod figures;
mod ours;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use crate::arguments::Expiry;
use crate::engines::keyspaces::{select_with_keyspaces, version};
use crate::rounds::report::Report;
use crate::rounds::turns::{self, Comparison};
use alluvium_bench::engine::Result as EngineResult;
use child::Job;
use figures::FIGURES;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The hidden command of the children.
const CHILD: &str = "expiry-child";
/// The engines that are compared here.
const NAMES: [&str; 2] = [crate::engines::OURS, "rocksdb"];

/// A store whose pairs expire.
trait Expiring {
    /// Puts pairs by one write.
    fn put_batch(&self, pairs: &[(&[u8], &[u8])]) -> EngineResult<()>;

    /// Whether a get finds a key.
    fn has(&self, key: &[u8]) -> EngineResult<bool>;

    /// The pairs that a scan sees.
    fn count(&self) -> EngineResult<u64>;

    /// Writes its memory to files, and waits until background work is done.
    fn settle(&self) -> EngineResult<()>;
}

/// Opens a store whose pairs have an age, with this memory.
type Open = fn(&Path, Option<u64>, Duration) -> EngineResult<Box<dyn Expiring>>;

fn opener(name: &str) -> Option<Open> {
    match name {
        crate::engines::OURS => Some(ours::open),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Some(rocksdb::open),
        _ => None,
    }
}

/// What was asked for, for the report.
#[derive(Debug, Serialize)]
struct Conditions {
    versions: BTreeMap<&'static str, String>,
    pairs: u64,
    value_size: u32,
    age: f64,
    /// Memory of each engine; its default without.
    memory: Option<u64>,
}

/// Measures, keeps the figures, and prints a table or JSON. Returns a line about the engines that failed.
///
/// # Errors
/// Invalid arguments, or a directory that cannot be used.
pub fn run(arguments: &Expiry) -> Result<Option<String>, String> {
    let wanted =
        if arguments.engines.is_empty() { NAMES.map(str::to_owned).to_vec() } else { arguments.engines.clone() };
    if let Some(name) = wanted.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!("{name} is not in this comparison; these are: {}", NAMES.join(", ")));
    }
    let Expiry { num, value_size, age, gets, rounds, .. } = arguments;
    let selection = select_with_keyspaces(&wanted)?;
    let names: Vec<&'static str> = selection.taken.iter().map(|kind| kind.name).collect();
    let conditions = Conditions {
        versions: names.iter().map(|name| (*name, version(name))).collect(),
        pairs: *num,
        value_size: *value_size,
        age: *age,
        memory: rounds.memory,
    };
    let comparison = Comparison { names: &names, child: CHILD, step: "expiry", results: "expiry", figures: &FIGURES };
    turns::compare(&comparison, rounds, conditions, heading, |engine, directory| Job {
        engine: engine.to_owned(),
        directory: directory.to_owned(),
        memory: rounds.memory,
        pairs: *num,
        value_size: *value_size,
        age: *age,
        gets: *gets,
    })
}

fn heading(report: &Report<Conditions>) -> String {
    let Conditions { pairs, value_size, age, memory, .. } = &report.conditions;
    let memory = memory.map_or("default memory".to_owned(), |bytes| format!("memory of {} MiB", bytes >> 20));
    format!(
        "Default options of every engine, {memory}, source {}. Of {pairs} pairs of 8 and {value_size} bytes nine in ten reach the age \
         of {age} s, at which they expire, two thirds of that before the others. Medians (smallest to greatest).",
        report.commit
    )
}
