//! What to do on a full disk. Pure functions of versions; any thread.

use super::compaction::{Compaction, Input, Output};
use super::policy;
use crate::branch::Branch;
use crate::disk::levels::state::version::LevelsVersion;

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
pub fn choose(
    version: &LevelsVersion,
    may_drop: &dyn Fn(&Branch) -> bool,
    mut accepts: impl FnMut(&Compaction) -> bool,
) -> Option<Compaction> {
    let mut tombstones: Vec<_> = policy::of_tombstones(version, &has_many, may_drop).collect();
    tombstones.sort_by_key(|compaction| (std::cmp::Reverse(density(compaction)), compaction.load().bytes));
    merge_small(version).into_iter().chain(tombstones).find(|compaction| accepts(compaction))
}

fn has_many(branch: &Branch) -> bool {
    let meta = branch.meta();
    meta.tombstones > meta.entries / ENTRIES_PER_TOMBSTONE || meta.range_tombstones > 0
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
