//! What scans pay for the runs that they meet, and for what is dead there, leaf by leaf: the sum decides when it is worth merging a leaf's path for their sake. Any
//! thread; a count and nothing else, so all accesses are relaxed, and of two at once one may be lost.
//!
//! The rule is that of renting or buying skis: once scans have paid as much for runs as a merge costs, the path is merged. So
//! whatever comes, merges for scans cost no more than the scans themselves had cost, and a path that is scanned for long pays for its
//! runs once. Each merge begins a new count.

use crate::util::sync::{AtomicU64, Ordering};

/// Half a microsecond of processor time, or thereabouts: what a search pays for one more run whose pages are in memory.
/// Merging takes about so long for this many bytes.
const BYTES_PER_UNIT: u64 = 250;
/// A read of the disk that a search waited for: about as long as merging so many times as many bytes takes.
const UNITS_PER_READ: u64 = 32;

/// Stepping over so many tombstones, each with what it hides, takes as long as a unit.
const TOMBSTONES_PER_UNIT: u64 = 2;

/// See the module.
#[derive(Debug, Default)]
pub struct ScanCost(AtomicU64);

impl ScanCost {
    /// A count that goes on.
    pub fn of(units: u64) -> Self {
        Self(AtomicU64::new(units))
    }

    /// What was counted.
    pub fn units(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// A search in `runs` runs, for which `reads` pages came from the disk: what it would not have paid in one run.
    pub fn charge(&self, runs: usize, reads: usize) {
        let more = runs.saturating_sub(1) as u64;
        if more > 0 {
            let units = more + reads as u64 * UNITS_PER_READ * more / runs as u64;
            // Not one step: readers of other cores may have the line, and a lost search changes little.
            self.0.store(self.units() + units, Ordering::Relaxed);
        }
    }

    /// A scan stepped over so many tombstones, and over what they hide.
    pub fn charge_dead(&self, tombstones: u64) {
        let units = tombstones / TOMBSTONES_PER_UNIT;
        if units > 0 {
            self.0.store(self.units() + units, Ordering::Relaxed);
        }
    }

    /// Whether merging `bytes` would have cost less.
    pub fn exceeds(&self, bytes: u64) -> bool {
        self.units().saturating_mul(BYTES_PER_UNIT) > bytes
    }
}

/// How many entries of the tree scans come past, on average over the last few: what they read first is of that size. Any thread; as
/// with `ScanCost`, one of two scans that end at once may be lost.
#[derive(Debug, Default)]
pub struct ScanLength(AtomicU64);

/// A scan changes the average by this part of the difference.
const SCANS_AVERAGED: u64 = 8;
/// The average is kept in this part of an entry.
const PART: u64 = 256;
/// Longer scans count as this long: what is read ahead of them is another matter (`branch/extent.rs`).
const LENGTH_MAX: u64 = 1 << 16;

impl ScanLength {
    /// A scan came past so many entries.
    pub fn ended(&self, steps: u64) {
        let (mean, steps) = (self.0.load(Ordering::Relaxed), steps.min(LENGTH_MAX) * PART);
        self.0.store(mean - mean / SCANS_AVERAGED + steps / SCANS_AVERAGED, Ordering::Relaxed);
    }

    /// What is still before a scan that came past so many: what is left of the average; one that is longer is taken for half done.
    pub fn expected(&self, steps: u64) -> u64 {
        let mean = self.0.load(Ordering::Relaxed) / PART;
        if steps < mean { mean - steps } else { steps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_costs_nothing_and_more_are_charged_with_their_reads_and_what_is_dead() {
        let cost = ScanCost::default();
        cost.charge(1, 2);
        cost.charge(0, 0);
        assert_eq!(cost.units(), 0);
        cost.charge(5, 0);
        assert_eq!(cost.units(), 4);
        cost.charge(4, 8);
        assert_eq!(cost.units(), 4 + 3 + 192);
        assert!(cost.exceeds(199 * BYTES_PER_UNIT - 1) && !cost.exceeds(199 * BYTES_PER_UNIT));
        cost.charge_dead(1);
        cost.charge_dead(2000);
        assert_eq!(cost.units(), 199 + 1000);
    }

    #[test]
    fn the_length_of_scans_follows_what_they_are_and_forgets_what_they_were() {
        let length = ScanLength::default();
        assert_eq!((length.expected(0), length.expected(70)), (0, 70), "whoever goes on is taken for half done");
        let scan = |steps| (0..40).for_each(|_| length.ended(steps));
        scan(50);
        assert!((48..=50).contains(&length.expected(0)), "{}", length.expected(0));
        assert!((38..=40).contains(&length.expected(10)) && length.expected(60) == 60);
        scan(u64::MAX);
        assert!(length.expected(0) > LENGTH_MAX * 9 / 10 && length.expected(0) <= LENGTH_MAX);
        scan(0);
        assert!(length.expected(0) < LENGTH_MAX / 100);
    }
}
