//! The work of a requested compaction (`runs/requested_range.rs`): everything in the range goes down, level by level, to
//! the deepest level that has data there, becomes one run of files, and is rewritten where it holds garbage. Pure
//! functions of versions; any thread.

use super::candidates;
use super::checkpoint;
use super::compaction::Compaction;
use super::overlaps;
use super::policy;
use crate::branch::Branch;
use crate::disk::levels::state::version::{Level, LevelsVersion};
use crate::disk::runs::requested_range::RequestedRange;
use crate::disk::runs::run;
use crate::util::FileNumber;
use crate::util::sync::Arc;

/// The deepest level that counts for the request. Level 0 never does: its runs are merged.
fn deepest(version: &LevelsVersion, requested: &RequestedRange) -> usize {
    let levels = version.levels();
    let meets = |branch: &Arc<Branch>| run::overlaps(branch, &requested.lower, requested.upper.as_deref());
    let last = if version.tuning().is_leveled() {
        levels.iter().rposition(|level| level.branches().any(meets))
    } else {
        // Whole runs are merged.
        levels.len().checked_sub(1)
    };
    last.unwrap_or(0).max(1)
}

/// The next work for the request, the highest levels first; `None` if nothing is left to do. `has_garbage` says whether
/// rewriting a branch may drop something.
pub fn choose(
    version: &LevelsVersion,
    requested: &RequestedRange,
    has_garbage: &dyn Fn(&Branch) -> bool,
    mut accepts: impl FnMut(&Compaction) -> bool,
) -> Option<Compaction> {
    if let Some(below) = requested.buffered_below {
        return buffered(version, requested, below).into_iter().find(|compaction| accepts(compaction));
    }
    let deepest = deepest(version, requested);
    let above = version.levels().iter().enumerate().take(deepest);
    let due = above.map(|(at, level)| down(version, requested, at, level)).find(|due| !due.is_empty());
    // Only those of one level, even if running jobs have claimed them all: what comes from above would have to follow.
    let due = due.or_else(|| {
        let level = version.levels().get(deepest)?;
        Some(in_deepest(version, requested, (deepest, level), has_garbage))
    })?;
    due.into_iter().find(|compaction| accepts(compaction))
}

/// The checkpoints of what was in memory when the request was made, and of what came there since from files of that time.
/// (Merges make new branches of what is in memory, so the number of a branch says nothing.)
fn buffered(version: &LevelsVersion, requested: &RequestedRange, below: FileNumber) -> Vec<Compaction> {
    let is_old = |part: &Branch| {
        let origins = part.in_buffer().map(|buffered| buffered.origins().parents());
        origins.is_some_and(|parents| parents.iter().any(|(parent, _)| *parent < below))
    };
    let counts = |part: &Branch| is_old(part) && requested.counts(part);
    version.runs().flat_map(|(level, run)| checkpoint::of_run(version, level, run, &counts)).collect()
}

/// The compactions that take what counts of a level to the next one.
fn down(version: &LevelsVersion, requested: &RequestedRange, at: usize, level: &Level) -> Vec<Compaction> {
    let mut counting = level.branches().filter(|branch| requested.counts(branch)).peekable();
    if counting.peek().is_none() {
        return Vec::new();
    }
    if !version.tuning().is_leveled() {
        return candidates::of_all_runs(version, at).into_iter().collect();
    }
    if at == 0 {
        let groups = overlaps::groups(&level.runs).into_iter();
        let counts =
            |group: &_| level.runs.iter().flat_map(|run| run.parts_in(group)).any(|part| requested.counts(part));
        return groups.filter(counts).filter_map(|group| candidates::of_group(version, &group)).collect();
    }
    counting.filter_map(|part| candidates::of_part(version, at, part)).collect()
}

/// The compactions of the deepest level: to one run, and of its garbage.
fn in_deepest(
    version: &LevelsVersion,
    requested: &RequestedRange,
    (at, level): (usize, &Level),
    has_garbage: &dyn Fn(&Branch) -> bool,
) -> Vec<Compaction> {
    let counts = |parts: &[Arc<Branch>]| parts.iter().any(|part| requested.counts(part));
    if level.runs.iter().filter(|run| counts(run.run.parts())).count() > 1 {
        if version.tuning().is_leveled() {
            let parts = level.branches().filter(|part| requested.counts(part));
            return parts.filter_map(|part| overlaps::within_level(version, at, part)).collect();
        }
        return candidates::of_all_runs(version, at).into_iter().collect();
    }
    let counts = |part: &Branch| requested.counts(part);
    let buffered = level.runs.iter().flat_map(|run| checkpoint::of_run(version, at, run, &counts));
    let buffered: Vec<_> = buffered.collect();
    if !buffered.is_empty() || !requested.clean {
        return buffered;
    }
    let parts = level.runs.iter().flat_map(|run| run.run.parts().iter().map(move |part| (run, part)));
    let dirty = parts.filter(|(_, part)| requested.counts(part) && has_garbage(part));
    dirty.filter_map(|(run, part)| policy::of_file(version, at, run, part, &|_| true)).collect()
}

/// About how many bytes must still be read for the request.
pub fn remaining(version: &LevelsVersion, requested: &RequestedRange, has_garbage: &dyn Fn(&Branch) -> bool) -> u64 {
    if let Some(below) = requested.buffered_below {
        return buffered(version, requested, below).iter().map(|compaction| compaction.load().bytes).sum();
    }
    let deepest = deepest(version, requested);
    let bytes_of = |level: &Level| -> u64 {
        level.branches().filter(|branch| requested.counts(branch)).map(|branch| branch.meta().bytes).sum()
    };
    let above: u64 = version.levels().iter().take(deepest).map(bytes_of).sum();
    let Some(level) = version.levels().get(deepest) else { return above };
    let is_merged = above > 0 || !in_deepest(version, requested, (deepest, level), has_garbage).is_empty();
    above + if is_merged { bytes_of(level) } else { 0 }
}
