//! How full a level is. Pure functions; any thread.

use super::skipped;
use crate::disk::levels::state::version::LevelsVersion;

/// The score of a level that is just full.
pub const FULL: u128 = 1 << 16;

/// In a leveled store, level 0 waits while a deeper level is full, until it has this many times the runs of a full one.
/// *Otherwise,* while users write faster than merges follow, level 0 is merged in small pieces, each of which rewrites much
/// of the base level. (RocksDB begins to slow its users at five times the runs from which it merges.)
const PATIENCE: u128 = 4;

/// The score of a level: its size as a share of that of a full level, in 1/65536. In a leveled store the deeper levels
/// are measured in bytes, and by the runs of keys that skipped levels; in a tiered store in runs; level 0 by whichever is more.
pub fn score(version: &LevelsVersion, level: usize) -> u128 {
    let (tuning, found) = (version.tuning(), &version.levels()[level]);
    let share = |part: u64, full: u64| u128::from(part) * FULL / u128::from(full.max(1));
    let by_runs = || share(found.runs.len() as u64, tuning.level_runs(level) as u64);
    let by_bytes = || share(found.load().bytes, version.targets().bytes(level));
    let by_waiting = || share(skipped::waiting(version, level).len() as u64, tuning.shape.skip_runs.into());
    match (tuning.is_leveled(), level) {
        (true, 0) => by_runs().max(by_bytes()),
        (true, _) if tuning.skips() => by_waiting().max(by_bytes()),
        (true, _) => by_bytes(),
        (false, _) => by_runs(),
    }
}

/// In a leveled store: whether a level below level 0 has more bytes than it may have.
pub fn is_full_by_bytes(version: &LevelsVersion, level: usize) -> bool {
    version.levels()[level].load().bytes > version.targets().bytes(level)
}

/// The levels that are full, the highest score first.
pub fn full_levels(version: &LevelsVersion) -> Vec<usize> {
    let scored = (0..version.levels().len()).map(|level| (score(version, level), level));
    // A level of a leveled store has what it may have at exactly its size; as many runs as it may have are too many.
    let is_full = |score: u128, level: usize| if level == 0 { score >= FULL } else { is_past(version, score) };
    let mut full: Vec<_> = scored.filter(|(score, level)| is_full(*score, *level)).collect();
    let is_behind = full.iter().any(|(_, level)| *level > 0);
    if is_behind && version.tuning().is_leveled() {
        full.iter_mut().filter(|(_, level)| *level == 0).for_each(|(score, _)| *score /= PATIENCE);
        full.retain(|(score, level)| *level > 0 || *score >= FULL);
    }
    full.sort_by_key(|(score, level)| (std::cmp::Reverse(*score), *level));
    full.into_iter().map(|(_, level)| level).collect()
}

fn is_past(version: &LevelsVersion, score: u128) -> bool {
    if version.tuning().is_leveled() { score > FULL } else { score >= FULL }
}
