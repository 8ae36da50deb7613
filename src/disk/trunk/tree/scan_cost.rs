//! What scans pay for the runs and the tombstones that they meet, leaf by leaf. The sum decides when it is worth
//! merging the path to a leaf for scans. Any thread. It is only a count, so all accesses are relaxed, and one of two
//! concurrent updates may be lost.
//!
//! The rule is that of the ski rental problem: once scans have paid half as much for runs as a merge costs, the path is
//! merged. Half, because scans wait for what they pay, and the merge runs beside them. So merges for scans never cost
//! more than twice what the scans themselves have, and a path that is scanned for long pays for its runs once. A merge
//! of a whole leaf starts a new count. A merge of some of its runs takes what it cost from the count, and the parts of
//! a split leaf share it. *Otherwise,* when each of these began a new count: scans beside writes paid for the same leaf
//! again and again, and it was never merged.

use crate::util::sync::{AtomicU64, Ordering};

/// Bytes that a merge may process for one unit, in two to three microseconds of processor time. A search in one more
/// run whose pages are in memory costs about half as much (`docs/performance.md`, Scans).
pub const BYTES_PER_UNIT: u64 = 500;
/// Units of a disk read for which a search waits.
const UNITS_PER_READ: u64 = 32;
/// Steps of a scan from one run to another that cost one unit more than steps within a run do (`docs/performance.md`,
/// Scans).
const TURNS_PER_UNIT: u64 = 10;

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

    /// Charges a scan that stepped so often from one run to another.
    pub fn charge_turns(&self, turns: u64) {
        let units = turns / TURNS_PER_UNIT;
        if units > 0 {
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

    /// Whether that pays for merging `bytes`.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_is_free_and_more_runs_turns_reads_and_tombstones_are_charged() {
        let cost = ScanCost::default();
        cost.charge(1, 2);
        cost.charge(0, 0);
        cost.charge_turns(9);
        assert_eq!(cost.units(), 0);
        cost.charge(5, 0);
        assert_eq!(cost.units(), 4);
        cost.charge(4, 8);
        assert_eq!(cost.units(), 4 + 3 + 192);
        assert!(cost.exceeds(199 * BYTES_PER_UNIT - 1) && !cost.exceeds(199 * BYTES_PER_UNIT));
        cost.charge_tombstones(1);
        cost.charge_tombstones(2000);
        assert_eq!(cost.units(), 199 + 1000);
        cost.charge_turns(109);
        assert_eq!(cost.units(), 1199 + 10);
        assert_eq!(ScanCost::after_merge(1199, 1100 * BYTES_PER_UNIT), 99);
        assert_eq!(ScanCost::after_merge(1199, 1200 * BYTES_PER_UNIT), 0);
    }
}
