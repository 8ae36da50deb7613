//! What scans pay for the runs that they meet, leaf by leaf: the sum decides when it is worth merging a leaf's path for their sake. Any
//! thread; a count and nothing else, so all accesses are relaxed, and of two at once one may be lost.
//!
//! The rule is that of renting or buying skis: once scans have paid as much for runs as a merge costs, the path is merged. So
//! whatever comes, merges for scans cost no more than the scans themselves had cost, and a path that is scanned for long pays for its
//! runs once. Each merge begins a new count.

use crate::base::sync::{AtomicU64, Ordering};

/// Half a microsecond of processor time, or thereabouts: what a search pays for one more run whose pages are in memory.
/// Merging takes about so long for this many bytes.
const BYTES_PER_UNIT: u64 = 250;
/// A page that a search had to read from the disk.
const UNITS_PER_READ: u64 = 16;

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

    /// Whether merging `bytes` would have cost less.
    pub fn exceeds(&self, bytes: u64) -> bool {
        self.units().saturating_mul(BYTES_PER_UNIT) > bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_costs_nothing_and_more_are_charged_with_their_reads() {
        let cost = ScanCost::default();
        cost.charge(1, 2);
        cost.charge(0, 0);
        assert_eq!(cost.units(), 0);
        cost.charge(5, 0);
        assert_eq!(cost.units(), 4);
        cost.charge(4, 8);
        assert_eq!(cost.units(), 4 + 3 + 96);
        assert!(cost.exceeds(103 * BYTES_PER_UNIT - 1) && !cost.exceeds(103 * BYTES_PER_UNIT));
    }
}
