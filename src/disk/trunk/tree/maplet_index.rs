//! The maplet index of a slot: which maplets answer for which of its runs, so that a get probes one maplet instead of
//! one filter for each run ("SplinterDB and Maplets", SIGMOD 2023). Immutable; any thread.
//!
//! Invariants:
//! 1. A maplet serves any slot whose range lies inside its own. So after a split both halves continue to use the old
//!    maplet, and flushed branches keep the maplets of their slot.
//! 2. A run is covered if each of its branches is in a column of one of the maplets. The other runs are in flight, and
//!    their own filters are probed.
//! 3. A run with range tombstones is never covered: they hide keys that have no fingerprint there.
//! 4. The maplets that a slot uses depend only on its runs and on the maplets that it is offered: the newest first, and
//!    each that covers a branch that no newer one covers. So the manifest names no slots.

use crate::branch::{Branch, Maplet};
use crate::disk::runs::run::Run;
use crate::filter::maplet::Columns;
use crate::util::sync::Arc;
use crossbeam_epoch::Guard;

/// The most runs that maplets can cover, the newest ones: a set of runs has a bit for each.
pub const RUNS_MAX: usize = 64;

/// A maplet in use and, for each of its columns, the set of runs that the column represents.
#[derive(Debug)]
struct Served {
    maplet: Arc<Maplet>,
    runs: Box<[u64]>,
}

/// See the module.
#[derive(Debug)]
pub struct MapletIndex {
    maplets: Vec<Served>,
    uncovered: u64,
    /// Runs that a maplet could cover.
    coverable: u64,
}

impl Default for MapletIndex {
    fn default() -> Self {
        Self { maplets: Vec::new(), uncovered: u64::MAX, coverable: 0 }
    }
}

/// The runs that may have a key: bit *i* is the *i*th newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MayHave {
    /// The runs for which a maplet has the key, which is as good as a filter.
    pub by_maplet: u64,
    /// The runs for which no maplet answers.
    pub unknown: u64,
}

impl MapletIndex {
    /// The index of these runs, newest first, in the range [lower, upper), with those of the `offered` maplets that
    /// serve it.
    pub fn new(runs: &[Arc<Run>], lower: &[u8], upper: Option<&[u8]>, offered: &[Arc<Maplet>]) -> Self {
        let mut index = Self::default();
        for (at, run) in runs.iter().enumerate().take(RUNS_MAX) {
            index.coverable |= u64::from(run.parts().iter().all(|part| can_cover(part))) << at;
        }
        // For a single run its filter is as cheap.
        if runs.len() <= 1 || offered.is_empty() {
            return index;
        }
        let contains = |maplet: &&Arc<Maplet>| {
            let meta = maplet.meta();
            let above = match (&meta.upper, upper) {
                (Some(own), Some(upper)) => *upper <= own[..],
                (own, _) => own.is_none(),
            };
            meta.lower[..] <= *lower && above
        };
        let mut offered: Vec<&Arc<Maplet>> = offered.iter().filter(contains).collect();
        offered.sort_by_key(|maplet| std::cmp::Reverse(maplet.meta().file));
        offered.dedup_by_key(|maplet| maplet.meta().file);
        let mut left: Vec<usize> = runs.iter().map(|run| run.parts().len()).collect();
        let mut taken: Vec<Vec<bool>> = left.iter().map(|parts| vec![false; *parts]).collect();
        for maplet in offered {
            let mut sets = vec![0; maplet.meta().columns.len()].into_boxed_slice();
            let mut serves = false;
            for (at, run) in runs.iter().enumerate().take(RUNS_MAX) {
                for (part, taken) in run.parts().iter().zip(&mut taken[at]).filter(|(_, taken)| !**taken) {
                    if !can_cover(part) {
                        continue;
                    }
                    let Some(column) = maplet.column_of(part.meta().file) else { continue };
                    sets[column] |= 1 << at;
                    *taken = true;
                    left[at] -= 1;
                    serves = true;
                }
            }
            if serves {
                index.maplets.push(Served { maplet: Arc::clone(maplet), runs: sets });
            }
        }
        for (at, _) in left.iter().enumerate().take(RUNS_MAX).filter(|(_, left)| **left == 0) {
            index.uncovered &= !(1 << at);
        }
        index
    }

    /// The maplets in use.
    pub fn maplets(&self) -> impl Iterator<Item = &Arc<Maplet>> {
        self.maplets.iter().map(|served| &served.maplet)
    }

    /// Whether one of the maplets is missing or damaged.
    pub fn is_broken(&self) -> bool {
        self.maplets().any(|maplet| maplet.is_broken())
    }

    /// Lookups in maplets and filters that a get makes here for this many runs.
    pub fn probes(&self, runs: usize) -> usize {
        if self.is_broken() {
            return self.maplets.len() + runs;
        }
        let covered = runs.min(RUNS_MAX) - (self.uncovered & low_bits(runs)).count_ones() as usize;
        self.maplets.len() + runs - covered
    }

    /// The number of these lookups that one maplet could replace.
    pub fn replaceable_probes(&self, runs: usize) -> usize {
        self.maplets.len() + (self.uncovered & self.coverable & low_bits(runs)).count_ones() as usize
    }

    /// Prefetches into the processor cache what `may_have` will read.
    #[inline]
    pub fn prefetch(&self, fingerprint: u32, guard: &Guard) {
        self.maplets.iter().for_each(|served| served.maplet.prefetch(fingerprint, guard));
    }

    /// Which of the newest `runs` runs may have a key with this fingerprint.
    #[inline]
    pub fn may_have(&self, fingerprint: u32, runs: usize, guard: &Guard) -> MayHave {
        let mut may = MayHave { by_maplet: 0, unknown: self.uncovered & low_bits(runs) };
        for served in &self.maplets {
            let columns = served.maplet.columns(fingerprint, guard);
            if columns == Columns::ALL {
                // The maplet knows nothing here: the filters answer.
                may.unknown |= served.runs.iter().fold(0, |all, runs| all | runs);
                continue;
            }
            let mut left = columns.0;
            while left != 0 {
                may.by_maplet |= served.runs.get(left.trailing_zeros() as usize).copied().unwrap_or_default();
                left &= left - 1;
            }
        }
        may
    }
}

/// Whether a maplet may answer for a branch.
pub fn can_cover(branch: &Branch) -> bool {
    branch.meta().range_tombstones == 0
}

/// The bits of this many runs.
#[inline]
fn low_bits(runs: usize) -> u64 {
    if runs >= RUNS_MAX { u64::MAX } else { (1 << runs) - 1 }
}
