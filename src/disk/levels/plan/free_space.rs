//! What to do on a full disk. Pure functions of versions; any thread.

use super::candidates;
use super::checkpoint;
use super::compaction::{Compaction, Input, Output};
use super::policy;
use crate::branch::Branch;
use crate::disk::levels::state::version::{Level, LevelsVersion};

/// A file has many tombstones if more than one in this many of its entries is one. With fewer, a merge would free less
/// than it costs.
const ENTRIES_PER_TOMBSTONE: u64 = 32;
/// The newest runs of level 0 that have at most this many bytes each are merged with each other: a file of one
/// tombstone is mostly overhead.
const SMALL_RUN_BYTES: u64 = 64 << 10;
/// Or as many as two small files, but a file of one key is no smaller than this.
const SMALLEST_RUN_BYTES: u64 = 32 << 10;
/// At least this many of them.
const SMALL_RUNS: usize = 4;

/// Work that frees space, in this order:
///
/// 1. Small runs of level 0 are merged: a program that opens the store for one delete after the other leaves a run for
///    each.
/// 2. Files with many tombstones go one level down, or are rewritten where nothing older is left. Those with most
///    tombstones per entry go first, and of equal ones those that need least space.
/// 3. The newest runs of level 0 become one, if some have many tombstones: as many runs as there is space for, at first
///    all, then half of them, and so on. What the tombstones delete in these runs goes; for the rest they stay.
/// 4. What waits in memory is written to files, so that files which are kept only for it can go.
/// 5. The second may need more space than there is. So, while some file has many tombstones, data goes in smaller pieces:
///    in a leveled store single files of the oldest run of level 0 go down, until the tombstones are in that run; in a
///    tiered store the two oldest runs of a level become one.
///
/// The results are files. *Otherwise:* the inputs are kept for what is in memory, and nothing is freed.
pub fn choose(
    version: &LevelsVersion,
    may_drop: &dyn Fn(&Branch) -> bool,
    mut accepts: impl FnMut(&Compaction) -> bool,
) -> Option<Compaction> {
    let mut tombstones: Vec<_> = policy::of_tombstones(version, &has_many, may_drop).collect();
    tombstones.sort_by_key(|compaction| (std::cmp::Reverse(density(compaction)), compaction.load().bytes));
    let checkpoints = std::iter::once_with(|| checkpoint::of_oldest_parent(version)).flatten();
    let pieces = std::iter::once_with(|| pieces(version)).flatten();
    let newest = std::iter::once_with(|| merges_of_newest(version)).flatten();
    let all = merge_small(version).into_iter().chain(tombstones).chain(newest).chain(checkpoints).chain(pieces);
    all.map(Compaction::into_files).find(|compaction| accepts(compaction))
}

fn has_many(branch: &Branch) -> bool {
    let meta = branch.meta();
    meta.tombstones > meta.entries / ENTRIES_PER_TOMBSTONE || meta.range_tombstones > 0
}

/// See `choose`, 5.
fn pieces(version: &LevelsVersion) -> Vec<Compaction> {
    let levels = version.levels();
    if version.tuning().is_leveled() {
        let has_tombstones = levels.first().is_some_and(|level| level.branches().any(|branch| has_many(branch)));
        return if has_tombstones { candidates::of_oldest_run(version) } else { Vec::new() };
    }
    let pair = |(at, level): (usize, &Level)| {
        let [newer, older] = level.runs.last_chunk()?;
        let is_due = [newer, older].iter().any(|run| run.run.parts().iter().any(|part| has_many(part)));
        let inputs = vec![Input::whole(at, newer), Input::whole(at, older)];
        let output = Output::Into { level: at, run: newer.id };
        is_due.then(|| Compaction::new(version, inputs, output)).flatten()
    };
    levels.iter().enumerate().rev().filter_map(pair).collect()
}

/// See `choose`, 3.
fn merges_of_newest(version: &LevelsVersion) -> Vec<Compaction> {
    let Some(level) = version.levels().first() else { return Vec::new() };
    let merge = |count: usize| {
        let newest = &level.runs[..count];
        let has_tombstones = newest.iter().any(|run| run.run.parts().iter().any(|part| has_many(part)));
        let inputs = newest.iter().map(|run| Input::whole(0, run)).collect();
        let output = Output::Into { level: 0, run: newest[0].id };
        has_tombstones.then(|| Compaction::new(version, inputs, output)).flatten()
    };
    let counts = std::iter::successors(Some(level.runs.len()), |count| Some(count / 2));
    counts.take_while(|count| *count >= 2).filter_map(merge).collect()
}

/// Tombstones per entry, in 1/65536.
fn density(compaction: &Compaction) -> u64 {
    let load = compaction.load();
    ((load.tombstones + load.range_tombstones) << 16) / load.entries.max(1)
}

/// The merge of the newest runs of level 0, if several of them are small.
fn merge_small(version: &LevelsVersion) -> Option<Compaction> {
    let runs = &version.levels().first()?.runs;
    let bytes_max = (2 * version.tuning().small_file_bytes()).clamp(SMALLEST_RUN_BYTES, SMALL_RUN_BYTES);
    let small = runs.iter().take_while(|run| run.load.bytes <= bytes_max).count();
    if small < SMALL_RUNS {
        return None;
    }
    let inputs = runs[..small].iter().map(|run| Input::whole(0, run)).collect();
    Compaction::new(version, inputs, Output::Into { level: 0, run: runs[0].id })
}
