//! `metadata`: requests for many empty files in directories of equal size, in SkipFS over several stores, in ext4, and in
//! a mount that passes requests on to ext4.

pub mod child;
mod figures;

use crate::arguments::Metadata;
use crate::file_systems::{Comparison, PASSTHROUGH, Shared, TARGETS, select};
use crate::rounds::report::Report;
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
    #[serde(flatten)]
    shared: Shared,
}

/// Measures, keeps the figures, and prints a table or JSON. Returns a line about the file systems that failed.
///
/// # Errors
/// Invalid arguments, or a directory that cannot be used.
pub fn run(arguments: &Metadata) -> Result<Option<String>, String> {
    let asked = &arguments.files;
    let known = [&TARGETS[..], &[PASSTHROUGH]].concat();
    let by_default = if asked.mount { &known[..] } else { &TARGETS[..] };
    let names = select(&asked.targets, if asked.targets.is_empty() { by_default } else { &known })?;
    let (files, per_directory) = (arguments.num, arguments.per_directory);
    let comparison = Comparison::new("metadata", asked, names.clone(), files * ENTRY_BYTES)?;
    let conditions = Conditions { files, per_directory, shared: comparison.shared.clone() };
    let report = Report::new(&names, FIGURES, conditions);
    comparison.run(CHILD, report, heading, |target| Job { target, files, per_directory })
}

fn heading(report: &Report<Conditions>) -> String {
    let Conditions { files, per_directory, shared } = &report.conditions;
    format!(
        "SkipFS through {}; source {}. {files} empty files in directories of {per_directory}; {}. Settled rates include \
         the time until background work is done. Medians (smallest to greatest).",
        shared.face(),
        report.commit,
        shared.memory()
    )
}
