//! The number of entries that a scan passes, on average over the last scans: it sizes what a scan reads at once. Any
//! thread. It is only an estimate, so all accesses are relaxed, and one of two scans that end at once may be lost.

use crate::util::sync::{AtomicU64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct ScanLength(AtomicU64);

/// A scan changes the average by the difference divided by this.
const SCANS_AVERAGED: u64 = 8;
/// The average is stored in this fraction of an entry.
const PART: u64 = 256;
/// See `ahead`.
const STEPS_PER_ENTRY_AHEAD: u64 = 8;
/// Longer scans count as this long. Their reads from the disk are sized in `branch/scan/extent_reader.rs`.
const LENGTH_MAX: u64 = 1 << 16;

impl ScanLength {
    /// A scan ended after this many entries.
    pub fn ended(&self, steps: u64) {
        let (mean, steps) = (self.0.load(Ordering::Relaxed), steps.min(LENGTH_MAX) * PART);
        let next = mean - mean / SCANS_AVERAGED + steps / SCANS_AVERAGED;
        // Scans of one length on several cores do not take the cache line from each other.
        if next != mean {
            self.0.store(next, Ordering::Relaxed);
        }
    }

    /// How many further entries a scan that has passed this many may read at once: the rest of the average, or an eighth
    /// of a longer scan, so that of those at most an eighth is read in vain.
    #[inline]
    pub fn ahead(&self, steps: u64) -> u64 {
        let mean = (self.0.load(Ordering::Relaxed) + PART / 2) / PART;
        if steps < mean { mean - steps } else { Self::ahead_of_long(steps) }
    }

    /// The same for steps of which it is not known whether they are a scan.
    #[inline]
    pub fn ahead_of_long(steps: u64) -> u64 {
        steps / STEPS_PER_ENTRY_AHEAD
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
        assert_eq!([0, 1, 49, 50, 80].map(|steps| length.ahead(steps)), [50, 49, 1, 6, 10]);
        scan(u64::MAX);
        assert!(length.expected(0) > LENGTH_MAX * 9 / 10 && length.expected(0) <= LENGTH_MAX);
        scan(0);
        assert!(length.expected(0) < LENGTH_MAX / 100);
    }
}
