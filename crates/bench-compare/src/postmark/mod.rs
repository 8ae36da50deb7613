//! `postmark`: many small files in SkipFS over Alluvium, in SkipFS over RocksDB, and in ext4, as in SkipStore §6.4 and
//! its figure 12.
//!
//! The work is that of postmark 1.53 with `set size 512 4096`, `set bias create -1` and `set bias read` 0, 1 and 2: all
//! files are created, then transactions read or append to random files, then all files are deleted. `driver` has it,
//! `child` measures its phases.

pub mod child;
mod driver;
mod figures;

use crate::arguments::Postmark;
use crate::engines;
use crate::file_systems::{Comparison, EXT4, LayoutName, ROCKSDB, Shared, TARGETS, select};
use crate::rounds::report::Report;
use child::Job;
use driver::{MEAN_BYTES, Parameters};
use figures::FIGURES;
use serde::Serialize;
use std::collections::BTreeMap;

/// The hidden command of the children.
const CHILD: &str = "postmark-child";

/// What was asked for, for the report.
#[derive(Debug, Serialize)]
struct Conditions {
    versions: BTreeMap<&'static str, String>,
    files: u64,
    transactions: u64,
    subdirectories: u32,
    seed: u64,
    #[serde(flatten)]
    shared: Shared,
}

/// Measures, keeps the figures, and prints a table or JSON. Returns a line about the file systems that failed.
///
/// # Errors
/// Invalid arguments, or a directory that cannot be used.
pub fn run(arguments: &Postmark) -> Result<Option<String>, String> {
    let names = select(&arguments.files.targets, &TARGETS)?;
    let parameters = Parameters {
        files: arguments.num.unwrap_or(arguments.bytes / MEAN_BYTES).max(1),
        transactions: arguments.transactions,
        subdirectories: arguments.subdirectories,
        seed: arguments.seed,
    };
    let comparison = Comparison::new("postmark", &arguments.files, names.clone(), parameters.files * MEAN_BYTES)?;
    let conditions = Conditions {
        versions: names.iter().map(|name| (*name, version(name))).collect(),
        files: parameters.files,
        transactions: parameters.transactions,
        subdirectories: parameters.subdirectories,
        seed: parameters.seed,
        shared: comparison.shared.clone(),
    };
    let report = Report::new(&names, FIGURES, conditions);
    comparison.run(CHILD, report, heading, |target| Job { target, parameters })
}

/// The kernel's release for ext4, otherwise that of the engine.
fn version(name: &str) -> String {
    match name {
        EXT4 => std::fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default().trim().to_owned(),
        ROCKSDB => engines::rocksdb_version(),
        _ => env!("CARGO_PKG_VERSION").to_owned(),
    }
}

fn heading(report: &Report<Conditions>) -> String {
    let Conditions { files, transactions, subdirectories, shared, .. } = &report.conditions;
    let layout = match shared.layout {
        LayoutName::Items => "an item of its own",
        LayoutName::Inline => "the inode's record",
    };
    let places = match subdirectories {
        0 => "one directory".to_owned(),
        count => format!("{count} directories"),
    };
    format!(
        "SkipFS through {}, content in {layout}; source {}. {files} files of 512 to 4096 bytes in {places}, then \
         {transactions} transactions for each share of reads, then deletes; {}. Settled rates include the time \
         until background work is done. Medians (smallest to greatest).",
        shared.face(),
        report.commit,
        shared.memory()
    )
}
