//! The order of ordinary work. Pure functions of versions; any thread.
//!
//! Checkpoints that are due go first (`checkpoint.rs`). Then come full levels, the fullest of all before the others
//! (`score.rs`), then keys that skipped levels and are enough to be merged (`skipped.rs`). If there are none, files that
//! are mostly tombstones go to where they meet what they hide, and files that are mostly garbage are rewritten where
//! nothing older is left, once no snapshot needs the garbage.

use super::candidates;
use super::checkpoint;
use super::compaction::Compaction;
use super::score;
use super::skipped;
use crate::branch::Branch;
use crate::disk::levels::state::key_range::KeyRange;
use crate::disk::levels::state::version::{LevelRun, LevelsVersion};
use crate::util::sync::Arc;

/// The most urgent work that `accepts` accepts. `may_drop` says whether rewriting a branch under which no older data
/// lies may drop something.
pub fn choose(
    version: &LevelsVersion,
    may_drop: &dyn Fn(&Branch) -> bool,
    mut accepts: impl FnMut(&Compaction) -> bool,
) -> Option<Compaction> {
    let checkpoints = checkpoint::due(version).into_iter();
    let full = score::full_levels(version).into_iter().flat_map(|level| candidates::of_level(version, level));
    let ripe = std::iter::once_with(|| skipped::ripe(version)).flatten();
    let tombstones = std::iter::once_with(|| of_tombstones(version, &is_mostly_tombstones, may_drop)).flatten();
    let garbage = std::iter::once_with(|| of_garbage(version, may_drop)).flatten();
    checkpoints.chain(full).chain(ripe).chain(tombstones).chain(garbage).find(|compaction| accepts(compaction))
}

/// Whether more than half of a file is tombstones, range tombstones included.
fn is_mostly_tombstones(branch: &Branch) -> bool {
    let meta = branch.meta();
    (meta.tombstones + meta.range_tombstones).saturating_mul(2) > meta.entries.max(1)
}

/// The rewriting of files that are mostly garbage, under which nothing older is left.
fn of_garbage<'a>(
    version: &'a LevelsVersion,
    may_drop: &'a dyn Fn(&Branch) -> bool,
) -> impl Iterator<Item = Compaction> + 'a {
    let is_mostly_garbage = |branch: &Branch| {
        let meta = branch.meta();
        let newest = meta.distinct_keys.saturating_sub(meta.tombstones);
        newest.saturating_mul(2) < meta.entries
    };
    let parts = version.runs().flat_map(|(level, run)| run.run.parts().iter().map(move |part| (level, run, part)));
    let due = parts.filter(move |(.., part)| is_mostly_garbage(part) && may_drop(part));
    due.filter_map(|(level, run, part)| candidates::in_place(version, level, run, part)).filter(|choice| choice.bottom)
}

/// Work on the files of which `has_many` holds, from level 0 down.
pub fn of_tombstones<'a>(
    version: &'a LevelsVersion,
    has_many: &'a dyn Fn(&Branch) -> bool,
    may_drop: &'a dyn Fn(&Branch) -> bool,
) -> impl Iterator<Item = Compaction> + 'a {
    let parts = version.runs().flat_map(|(level, run)| run.run.parts().iter().map(move |part| (level, run, part)));
    parts
        .filter(|(.., part)| has_many(part))
        .filter_map(|(level, run, part)| of_file(version, level, run, part, may_drop))
}

/// What brings a file nearer to being free of garbage: one level down if older data overlaps it, else a rewrite.
pub fn of_file(
    version: &LevelsVersion,
    level: usize,
    run: &LevelRun,
    part: &Arc<Branch>,
    may_drop: &dyn Fn(&Branch) -> bool,
) -> Option<Compaction> {
    let is_self = |other: &Branch| other.meta().file == part.meta().file;
    if !version.has_older((level, run.id), &KeyRange::of(part), is_self) {
        return if may_drop(part) { candidates::in_place(version, level, run, part) } else { None };
    }
    if version.tuning().is_leveled() {
        candidates::of_part(version, level, part)
    } else {
        candidates::of_all_runs(version, level)
    }
}
