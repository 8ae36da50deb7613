//! `metadata`: requests for many empty files in directories of equal size, in SkipFS over several stores, in ext4, and in
//! a mount that passes requests on to ext4.

pub mod child;
mod figures;

use crate::arguments::Metadata;
use crate::compare;
use crate::file_systems::{Face, LayoutName, PASSTHROUGH, ROCKSDB, TARGETS, Target, memory_for, results_name, select};
use crate::rounds::host::Host;
use crate::rounds::report::Report;
use crate::rounds::turns;
use child::Job;
use figures::FIGURES;
use serde::Serialize;

/// The hidden command of the children.
const CHILD: &str = "metadata-child";
/// About the bytes of a file's entry in a store.
const ENTRY_BYTES: u64 = 128;

/// What was asked for, for the report.
#[derive(Debug, Serialize)]
struct Conditions {
    files: u64,
    per_directory: u64,
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
pub fn run(arguments: &Metadata) -> Result<Option<String>, String> {
    let files = &arguments.files;
    let known = [&TARGETS[..], &[PASSTHROUGH]].concat();
    let by_default = if files.mount { &known[..] } else { &TARGETS[..] };
    let names = select(&files.targets, if files.targets.is_empty() { by_default } else { &known })?;
    let limits = compare::limits(files.no_limit)?;
    let stores = turns::stores(files.directory.as_deref())?;
    let data_bytes = arguments.num * ENTRY_BYTES;
    let memory = memory_for(data_bytes, files.memory);
    let face = if files.mount { Face::Mount } else { Face::Library };
    let conditions = Conditions {
        files: arguments.num,
        per_directory: arguments.per_directory,
        face,
        layout: files.layout,
        memory,
        limit: limits.as_ref().map(|limits| limits.kind()),
    };
    let mut report = Report::new(&names, FIGURES, conditions);
    turns::take(files.rounds, &names, "metadata", &stores, &mut report, |name, directory| {
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
        let job = Job { target, files: arguments.num, per_directory: arguments.per_directory };
        Host::start_in(CHILD, &job, group)?.round()
    });
    report.compare_with(ROCKSDB);
    let name = results_name("metadata", face, files.layout);
    turns::show(&report, &heading(&report), files.json, &files.results, &name)?;
    Ok(report.failures())
}

fn heading(report: &Report<Conditions>) -> String {
    let Conditions { files, per_directory, face, memory, limit, .. } = &report.conditions;
    let face = match face {
        Face::Library => "the library",
        Face::Mount => "a FUSE mount",
    };
    let limit = if limit.is_some() { "page cache included" } else { "no limit" };
    format!(
        "SkipFS through {face}; source {}. {files} empty files in directories of {per_directory}; {} MiB of memory, \
         {limit}. Settled rates include the time until background work is done. Medians \
         (smallest to greatest).",
        report.commit,
        memory >> 20
    )
}
