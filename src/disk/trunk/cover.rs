//! Which maplets answer for the runs of a slot, so that a get asks one of them in the place of a filter for each run
//! (design.md, Filters). Immutable; any thread.
//!
//! Invariants:
//! 1. A maplet serves any slot whose range lies inside its own: after a split both halves go on with the old one, and what is
//!    flushed takes the one of its slot along.
//! 2. A run is closed if each of its branches is in a column of one of the maplets; the others are open: in flight, and asked by
//!    their own filters.
//! 3. A run with range tombstones is never closed: they hide keys that have no fingerprint there.
//! 4. Which maplets a slot keeps follows from its runs and those that it is offered alone: the newest first, each that covers
//!    what no newer one does. So the manifest names no slots.

use super::run::Run;
use crate::branch::{Branch, Maplet};
use crate::filter::maplet::Columns;
use crate::util::sync::Arc;
use crossbeam_epoch::Guard;

/// Runs that a maplet can cover, the newest ones: what a set of runs has bits for.
pub const RUNS_MAX: usize = 64;

/// A maplet and, for each of its columns, a set of runs.
#[derive(Debug)]
struct Served {
    maplet: Arc<Maplet>,
    runs: Box<[u64]>,
}

/// See the module.
#[derive(Debug)]
pub struct Cover {
    maplets: Vec<Served>,
    open: u64,
    /// Runs that could be closed.
    closable: u64,
}

impl Default for Cover {
    fn default() -> Self {
        Self { maplets: Vec::new(), open: u64::MAX, closable: 0 }
    }
}

/// The runs that may have a key: bit *i* is the *i*th newest.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MayHave {
    /// By what a maplet says, which is as good as a filter.
    pub told: u64,
    /// Nobody was asked.
    pub open: u64,
}

impl Cover {
    /// Of these runs, newest first, in the range [lower, upper), as far as `offered` maplets do it.
    pub fn new(runs: &[Arc<Run>], lower: &[u8], upper: Option<&[u8]>, offered: &[Arc<Maplet>]) -> Self {
        let mut cover = Self::default();
        for (at, run) in runs.iter().enumerate().take(RUNS_MAX) {
            cover.closable |= u64::from(run.parts().iter().all(|part| can_cover(part))) << at;
        }
        // One run is asked by its filter as cheaply.
        if runs.len() <= 1 || offered.is_empty() {
            return cover;
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
                cover.maplets.push(Served { maplet: Arc::clone(maplet), runs: sets });
            }
        }
        for (at, _) in left.iter().enumerate().take(RUNS_MAX).filter(|(_, left)| **left == 0) {
            cover.open &= !(1 << at);
        }
        cover
    }

    /// The maplets.
    pub fn maplets(&self) -> impl Iterator<Item = &Arc<Maplet>> {
        self.maplets.iter().map(|served| &served.maplet)
    }

    /// Whether one of the maplets is missing or damaged.
    pub fn is_broken(&self) -> bool {
        self.maplets().any(|maplet| maplet.is_broken())
    }

    /// Look-ups that a get makes here for so many runs: maplets and filters.
    pub fn probes(&self, runs: usize) -> usize {
        if self.is_broken() {
            return self.maplets.len() + runs;
        }
        let closed = runs.min(RUNS_MAX) - (self.open & low_bits(runs)).count_ones() as usize;
        self.maplets.len() + runs - closed
    }

    /// The look-ups for so many runs in the place of which one maplet could stand.
    pub fn spared(&self, runs: usize) -> usize {
        self.maplets.len() + (self.open & self.closable & low_bits(runs)).count_ones() as usize
    }

    /// Asks the processor for what `may_have` will read.
    #[inline]
    pub fn look_ahead(&self, fingerprint: u32, guard: &Guard) {
        self.maplets.iter().for_each(|served| served.maplet.prefetch(fingerprint, guard));
    }

    /// Which of the newest `runs` runs may have a key with this fingerprint.
    #[inline]
    pub fn may_have(&self, fingerprint: u32, runs: usize, guard: &Guard) -> MayHave {
        let mut may = MayHave { told: 0, open: self.open & low_bits(runs) };
        for served in &self.maplets {
            let columns = served.maplet.columns(fingerprint, guard);
            if columns == Columns::ALL {
                // It knows nothing: the filters do.
                may.open |= served.runs.iter().fold(0, |all, runs| all | runs);
                continue;
            }
            let mut left = columns.0;
            while left != 0 {
                may.told |= served.runs.get(left.trailing_zeros() as usize).copied().unwrap_or_default();
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

/// The bits of as many runs.
#[inline]
fn low_bits(runs: usize) -> u64 {
    if runs >= RUNS_MAX { u64::MAX } else { (1 << runs) - 1 }
}
