//! What scans pay for the runs and the tombstones that they meet, leaf by leaf. The sum decides when it is worth
//! merging the path to a leaf for scans. Any thread. It is only a count, so all accesses are relaxed, and one of two
//! concurrent updates may be lost.
//!
//! The rule is that of the ski rental problem: once scans have paid as much for runs as a merge costs, the path is
//! merged. So merges for scans never cost more than the scans themselves have, and a path that is scanned for long pays
//! for its runs once. A merge of a whole leaf starts a new count. A merge of some of its runs takes what it cost from the
//! count, and the parts of a split leaf share it. *Otherwise,* when each of these began a new count: scans beside writes
//! paid for the same leaf again and again, and it was never merged.

use crate::util::sync::{AtomicU64, Ordering};

/// Bytes that a merge processes in one unit. A unit is about half a microsecond of processor time: what a search pays
/// for one more run whose pages are in memory.
const BYTES_PER_UNIT: u64 = 250;
/// Units of a disk read for which a search waits.
const UNITS_PER_READ: u64 = 32;

/// Tombstones, each with what it hides, that a scan steps over in one unit.
const TOMBSTONES_PER_UNIT: u64 = 2;

/// See the module.
#[derive(Debug, Default)]
pub struct ScanCost(AtomicU64);

impl ScanCost {
    /// A count that continues.
    pub fn with_units(units: u64) -> Self {
        Self(AtomicU64::new(units))
    }

    /// The count.
    pub fn units(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Charges a search in `runs` runs that read `reads` pages from the disk with what it would have saved in one run.
    pub fn charge(&self, runs: usize, reads: usize) {
        let more = runs.saturating_sub(1) as u64;
        if more > 0 {
            let units = more + reads as u64 * UNITS_PER_READ * more / runs as u64;
            // Not an atomic addition: other cores may have the cache line, and a lost search changes little.
            self.0.store(self.units() + units, Ordering::Relaxed);
        }
    }

    /// Charges a scan that stepped over this many tombstones and the entries that they hide.
    pub fn charge_tombstones(&self, tombstones: u64) {
        let units = tombstones / TOMBSTONES_PER_UNIT;
        if units > 0 {
            self.0.store(self.units() + units, Ordering::Relaxed);
        }
    }

    /// Whether merging `bytes` would have cost less.
    pub fn exceeds(&self, bytes: u64) -> bool {
        self.units().saturating_mul(BYTES_PER_UNIT) > bytes
    }

    /// Forgets what scans have paid.
    #[cfg(test)]
    pub fn clear(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// The units that remain of `units` after a merge of `bytes`.
    pub fn after_merge(units: u64, bytes: u64) -> u64 {
        units.saturating_sub(bytes.div_ceil(BYTES_PER_UNIT))
    }
}

/// The number of entries that a scan passes, on average over the last scans. It sizes the first read of a scan. Any
/// thread; one of two scans that end at once may be lost.
#[derive(Debug, Default)]
pub struct ScanLength(AtomicU64);

/// A scan changes the average by the difference divided by this.
const SCANS_AVERAGED: u64 = 8;
/// The average is stored in this fraction of an entry.
const PART: u64 = 256;
/// Longer scans count as this long. Their read-ahead is sized in `branch/scan/extent_reader.rs`.
const LENGTH_MAX: u64 = 1 << 16;

impl ScanLength {
    /// A scan ended after this many entries.
    pub fn ended(&self, steps: u64) {
        let (mean, steps) = (self.0.load(Ordering::Relaxed), steps.min(LENGTH_MAX) * PART);
        self.0.store(mean - mean / SCANS_AVERAGED + steps / SCANS_AVERAGED, Ordering::Relaxed);
    }

    /// The expected number of further entries of a scan that has passed this many: the rest of the average. A longer
    /// scan is assumed to be half done.
    pub fn expected(&self, steps: u64) -> u64 {
        let mean = self.0.load(Ordering::Relaxed) / PART;
        if steps < mean { mean - steps } else { steps }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_is_free_and_more_runs_reads_and_tombstones_are_charged() {
        let cost = ScanCost::default();
        cost.charge(1, 2);
        cost.charge(0, 0);
        assert_eq!(cost.units(), 0);
        cost.charge(5, 0);
        assert_eq!(cost.units(), 4);
        cost.charge(4, 8);
        assert_eq!(cost.units(), 4 + 3 + 192);
        assert!(cost.exceeds(199 * BYTES_PER_UNIT - 1) && !cost.exceeds(199 * BYTES_PER_UNIT));
        cost.charge_tombstones(1);
        cost.charge_tombstones(2000);
        assert_eq!(cost.units(), 199 + 1000);
        assert_eq!(ScanCost::after_merge(1199, 1100 * BYTES_PER_UNIT), 99);
        assert_eq!(ScanCost::after_merge(1199, 1200 * BYTES_PER_UNIT), 0);
    }

    #[test]
    fn the_mean_scan_length_follows_the_last_scans() {
        let length = ScanLength::default();
        assert_eq!(
            (length.expected(0), length.expected(70)),
            (0, 70),
            "a scan past the average is assumed to be half done"
        );
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
