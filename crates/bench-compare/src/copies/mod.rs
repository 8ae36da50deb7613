//! `copies`: a checkpoint and two backups of a store that is being written: how long they take, what they copy, and how long a
//! writer waits meanwhile. RocksDB has both; all have default options.

pub mod child;
mod figures;
mod ours;
#[cfg(feature = "rocksdb")]
mod rocksdb;

use crate::arguments::Copies;
use crate::engines::keyspaces::{select_with_keyspaces, version};
use crate::rounds::report::Report;
use crate::rounds::turns::{self, Comparison};
use alluvium_bench::engine::Result as EngineResult;
use child::Job;
use figures::FIGURES;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// The hidden command of the children.
const CHILD: &str = "copies-child";
/// The engines that are compared here.
const NAMES: [&str; 2] = [crate::engines::OURS, "rocksdb"];

/// A store that copies itself. Any thread.
trait Copied: Sync {
    /// Puts a pair.
    fn put(&self, key: &[u8], value: &[u8]) -> EngineResult<()>;

    /// Writes its memory to files, and waits until background work is done.
    fn settle(&self) -> EngineResult<()>;

    /// Makes a checkpoint: a directory, absent so far, with a store.
    fn checkpoint(&self, directory: &Path) -> EngineResult<()>;

    /// Adds a backup to a directory of backups.
    fn backup(&self, directory: &Path) -> EngineResult<()>;
}

/// Opens a store, with this memory.
type Open = fn(&Path, Option<u64>) -> EngineResult<Box<dyn Copied>>;

/// How an engine is used.
struct Engine {
    open: Open,
    /// Opens a copy and counts its pairs.
    count: fn(&Path) -> EngineResult<u64>,
}

fn engine(name: &str) -> Option<Engine> {
    match name {
        crate::engines::OURS => Some(Engine { open: ours::open, count: ours::count }),
        #[cfg(feature = "rocksdb")]
        "rocksdb" => Some(Engine { open: rocksdb::open, count: rocksdb::count }),
        _ => None,
    }
}

/// What was asked for, for the report.
#[derive(Debug, Serialize)]
struct Conditions {
    versions: BTreeMap<&'static str, String>,
    pairs: u64,
    value_size: u32,
    seconds: f64,
    /// Memory of each engine; its default without.
    memory: Option<u64>,
}

/// Measures, keeps the figures, and prints a table or JSON. Returns a line about the engines that failed.
///
/// # Errors
/// Invalid arguments, or a directory that cannot be used.
pub fn run(arguments: &Copies) -> Result<Option<String>, String> {
    let wanted =
        if arguments.engines.is_empty() { NAMES.map(str::to_owned).to_vec() } else { arguments.engines.clone() };
    if let Some(name) = wanted.iter().find(|name| !NAMES.contains(&name.as_str())) {
        return Err(format!("{name} is not in this comparison; these are: {}", NAMES.join(", ")));
    }
    let Copies { bytes, value_size, seconds, rounds, .. } = arguments;
    let pairs = (bytes / u64::from(*value_size)).max(1);
    let selection = select_with_keyspaces(&wanted)?;
    let names: Vec<&'static str> = selection.taken.iter().map(|kind| kind.name).collect();
    let conditions = Conditions {
        versions: names.iter().map(|name| (*name, version(name))).collect(),
        pairs,
        value_size: *value_size,
        seconds: *seconds,
        memory: rounds.memory,
    };
    let comparison = Comparison { names: &names, child: CHILD, step: "copies", results: "copies", figures: &FIGURES };
    turns::compare(&comparison, rounds, conditions, heading, |engine, directory| Job {
        engine: engine.to_owned(),
        directory: directory.to_owned(),
        memory: rounds.memory,
        pairs,
        value_size: *value_size,
        seconds: *seconds,
    })
}

fn heading(report: &Report<Conditions>) -> String {
    let Conditions { pairs, value_size, seconds, memory, .. } = &report.conditions;
    let memory = memory.map_or("default memory".to_owned(), |bytes| format!("memory of {} MiB", bytes >> 20));
    format!(
        "Default options of every engine, {memory}, source {}. {pairs} pairs of 8 and {value_size} bytes are loaded; then a thread \
         overwrites random ones as fast as it can, for {seconds} s alone, during a checkpoint, a backup, {seconds} s alone and \
         another backup. Medians (smallest to greatest).",
        report.commit
    )
}
