//! Which merges take in the keys that skipped levels (SkipStore §4.2, "delayed merge and sort"). They wait in runs above
//! a level's own run. Pure functions of versions; any thread.

use super::compaction::{Compaction, Input, Output};
use super::overlaps;
use crate::disk::levels::state::version::{LevelRun, LevelsVersion};

/// Waiting files are merged into the level's own run once they have one byte for so many that they overlap there: the
/// rewriting that each byte costs.
const OVERLAP_MAX: u64 = 2;

/// The waiting runs of a level, newest first.
pub fn waiting(version: &LevelsVersion, level: usize) -> &[LevelRun] {
    let runs = version.levels().get(level).map_or(&[][..], |level| &level.runs);
    if level == 0 || !version.tuning().skips() { &[] } else { runs.split_last().map_or(&[], |(_, waiting)| waiting) }
}

/// Merges of waiting files into their level's own run that are worth it, of all levels, the best first.
pub fn ripe(version: &LevelsVersion) -> Vec<Compaction> {
    let mut ripe: Vec<_> = (1..version.levels().len()).flat_map(|level| ripe_of(version, level)).collect();
    ripe.sort_by_key(|(overlap, bytes, _)| (*overlap, *bytes));
    ripe.into_iter().map(|(.., compaction)| compaction).collect()
}

/// For each: the bytes of the own run for a waiting byte, in 1/65536, and all bytes.
fn ripe_of(version: &LevelsVersion, level: usize) -> impl Iterator<Item = (u128, u64, Compaction)> {
    let own = version.levels()[level].runs.last().map(|run| run.id);
    let parts = waiting(version, level).iter().flat_map(|run| run.run.parts());
    parts.filter_map(move |part| {
        let compaction = overlaps::within_level(version, level, part)?;
        let of_own = compaction.inputs.iter().filter(|input| Some(input.run) == own);
        let (overlapped, all) = (of_own.map(Input::bytes).sum::<u64>(), compaction.load().bytes);
        let waiting = all.saturating_sub(overlapped);
        let overlap = (u128::from(overlapped) << 16) / u128::from(waiting.max(1));
        (overlapped <= waiting.saturating_mul(OVERLAP_MAX)).then_some((overlap, all, compaction))
    })
}

/// What makes fewer runs of a level that has too many waiting ones: ripe merges, then merges of waiting runs with each
/// other.
pub fn of_level(version: &LevelsVersion, level: usize) -> Vec<Compaction> {
    let mut ripe: Vec<_> = ripe_of(version, level).collect();
    ripe.sort_by_key(|(overlap, bytes, _)| (*overlap, *bytes));
    let joined = cheapest(waiting(version, level)).into_iter().flat_map(|runs| joins(version, level, runs));
    ripe.into_iter().map(|(.., compaction)| compaction).chain(joined).collect()
}

/// The neighbouring runs that cost least to merge for each run that is then gone; at least two.
fn cheapest(waiting: &[LevelRun]) -> Option<&[LevelRun]> {
    let windows = (2..=waiting.len()).flat_map(|length| waiting.windows(length));
    windows.min_by_key(|runs| runs.iter().map(|run| run.load.bytes).sum::<u64>() / (runs.len() as u64 - 1))
}

/// Merges of these neighbouring runs into the newest of them, one for each group of overlapping files.
fn joins(version: &LevelsVersion, level: usize, runs: &[LevelRun]) -> Vec<Compaction> {
    let Some(newest) = runs.first() else { return Vec::new() };
    let output = Output::Into { level, run: newest.id };
    let join = |group| {
        let inputs: Vec<_> = runs.iter().map(|run| Input::of(level, run, run.parts_in(&group))).collect();
        let is_new = inputs.iter().all(|input| input.parts.is_empty() || input.run == newest.id);
        if is_new { None } else { Compaction::new(version, inputs, output) }
    };
    overlaps::groups(runs).into_iter().filter_map(join).collect()
}
