//! Checkpoints (SkipStore §5.3): what waits in memory is written to files of its run, so that files which are kept only
//! for it can go. Pure functions of versions; any thread.
//!
//! The paper writes all buffers from time to time. Here what is needed is written: of the file that is kept longest, what
//! is still in memory, until the kept files have no more bytes than they may. (Most of what came from an old file has been
//! merged since, so little frees much.)

use super::compaction::{Compaction, Input, Output};
use crate::branch::Branch;
use crate::disk::levels::state::version::{LevelRun, LevelsVersion};
use crate::util::FileNumber;
use crate::util::sync::Arc;

/// The checkpoints that are due, the most urgent first.
pub fn due(version: &LevelsVersion) -> Vec<Compaction> {
    let tuning = version.tuning();
    let is_due =
        version.parents().bytes() > tuning.parent_bytes() || version.buffered_bytes() > 2 * tuning.buffer_bytes;
    if is_due { of_oldest_parent(version) } else { Vec::new() }
}

/// What is still in memory of the file that is kept longest.
pub fn of_oldest_parent(version: &LevelsVersion) -> Vec<Compaction> {
    let oldest = version.parents().iter().next();
    oldest.map_or_else(Vec::new, |(parent, _)| of_parent(version, parent))
}

/// What writes everything that is in memory of the entries of a parent: of each run, the buffered branches that have some,
/// and those between them.
fn of_parent(version: &LevelsVersion, parent: FileNumber) -> Vec<Compaction> {
    let runs = version.runs().filter_map(|(level, run)| {
        let parts = run.run.parts();
        let needs = |branch: &Arc<Branch>| branch.in_buffer().is_some_and(|buffered| buffered.origins().has(parent));
        let (first, last) = (parts.iter().position(needs)?, parts.iter().rposition(needs)?);
        Some(pieces(&parts[first..=last]).filter_map(move |parts| to_files(version, level, run, parts)))
    });
    runs.flatten().collect()
}

/// What writes the branches of a run that are in memory, as far as they count.
pub fn of_run<'a>(
    version: &'a LevelsVersion,
    level: usize,
    run: &'a LevelRun,
    counts: &'a dyn Fn(&Branch) -> bool,
) -> impl Iterator<Item = Compaction> + 'a {
    let counting = pieces(run.run.parts()).filter(move |parts| parts.iter().any(|part| counts(part)));
    counting.filter_map(move |parts| to_files(version, level, run, parts))
}

/// Neighbours that are all in memory.
fn pieces(parts: &[Arc<Branch>]) -> impl Iterator<Item = &[Arc<Branch>]> {
    let is_buffered = |branch: &Arc<Branch>| branch.in_buffer().is_some();
    parts.chunk_by(move |one, other| is_buffered(one) && is_buffered(other)).filter(move |parts| is_buffered(&parts[0]))
}

fn to_files(version: &LevelsVersion, level: usize, run: &LevelRun, parts: &[Arc<Branch>]) -> Option<Compaction> {
    let inputs = vec![Input::of(level, run, parts)];
    Compaction::new(version, inputs, Output::Into { level, run: run.id }).map(Compaction::into_files)
}
