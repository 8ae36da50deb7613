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
use crate::compare;
use crate::engines;
use crate::file_systems::{EXT4, Face, LayoutName, ROCKSDB, TARGETS, Target, memory_for, results_name, select};
use crate::rounds::host::Host;
use crate::rounds::report::Report;
use crate::rounds::turns;
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
    face: Face,
    layout: LayoutName,
    /// Memory of each process.
    memory: u64,
    /// How it is limited; `None` if it is not.
    limit: Option<&'static str>,
}

/// Measures, keeps the figures, and prints a table or JSON. Returns a line about the file systems that failed.
///
/// # Errors
/// Invalid arguments, or a directory that cannot be used.
pub fn run(arguments: &Postmark) -> Result<Option<String>, String> {
    let files = &arguments.files;
    let names = select(&files.targets, &TARGETS)?;
    let limits = compare::limits(files.no_limit)?;
    let stores = turns::stores(files.directory.as_deref())?;
    let parameters = Parameters {
        files: arguments.num.unwrap_or(arguments.bytes / MEAN_BYTES).max(1),
        transactions: arguments.transactions,
        subdirectories: arguments.subdirectories,
        seed: arguments.seed,
    };
    let data_bytes = parameters.files * MEAN_BYTES;
    let memory = memory_for(data_bytes, files.memory);
    let face = if files.mount { Face::Mount } else { Face::Library };
    let conditions = Conditions {
        versions: names.iter().map(|name| (*name, version(name))).collect(),
        files: parameters.files,
        transactions: parameters.transactions,
        subdirectories: parameters.subdirectories,
        seed: parameters.seed,
        face,
        layout: files.layout,
        memory,
        limit: limits.as_ref().map(|limits| limits.kind()),
    };
    let mut report = Report::new(&names, FIGURES, conditions);
    turns::take(files.rounds, &names, "postmark", &stores, &mut report, |name, directory| {
        let target = Target {
            name: name.to_owned(),
            face,
            layout: files.layout,
            directory: directory.to_owned(),
            memory,
            data_bytes,
        };
        let group = format!("{}-{name}", std::process::id());
        let group = limits.as_ref().map(|limits| limits.limit(&group, memory)).transpose()?;
        Host::start_in(CHILD, &Job { target, parameters }, group)?.round()
    });
    report.compare_with(ROCKSDB);
    let name = results_name("postmark", face, files.layout);
    turns::show(&report, &heading(&report), files.json, &files.results, &name)?;
    Ok(report.failures())
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
    let Conditions { files, transactions, subdirectories, face, layout, memory, limit, .. } = &report.conditions;
    let face = match face {
        Face::Library => "the library",
        Face::Mount => "a FUSE mount",
    };
    let layout = match layout {
        LayoutName::Items => "an item of its own",
        LayoutName::Inline => "the inode's record",
    };
    let places = match subdirectories {
        0 => "one directory".to_owned(),
        count => format!("{count} directories"),
    };
    let memory = match limit {
        Some(_) => format!("{} MiB of memory, page cache included", memory >> 20),
        None => format!("{} MiB of memory for stores, no limit", memory >> 20),
    };
    format!(
        "SkipFS through {face}, content in {layout}; source {}. {files} files of 512 to 4096 bytes in {places}, then \
         {transactions} transactions for each share of reads, then deletes; {memory}. Settled rates include the time \
         until background work is done. Medians (smallest to greatest).",
        report.commit
    )
}
