//! Deleted ranges whose space is to be freed: those of keyspaces that were dropped or emptied. Any thread.
//!
//! The tombstone of a range hides its data at once; the data itself would go only with the merges that later writes cause.
//! So workers compact such ranges, once no snapshot needs them. What is small beside the leaf that it shares with other
//! data stays until it has grown, or until other merges remove it.

use crate::disk::RequestedRange;
use crate::util::SequenceNumber;
use crate::util::sync::{AtomicBool, Mutex, Ordering};

/// A range is compacted if it has this part of all bytes, or as much as a unit of the disk component.
const PART_OF_ALL: u64 = 10;

/// Ranges to free: ascending and disjoint.
#[derive(Debug, Default)]
pub(crate) struct Freeing {
    ranges: Mutex<Vec<FreedRange>>,
    is_any: AtomicBool,
}

/// A range of encoded keys that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FreedRange {
    pub(crate) lower: Vec<u8>,
    /// Exclusive.
    pub(crate) upper: Vec<u8>,
    /// The number of the newest range delete in it.
    pub(crate) number: SequenceNumber,
    /// About what it had.
    pub(crate) bytes: u64,
    /// Whether it is worth a compaction.
    pub(crate) is_worthwhile: bool,
}

impl FreedRange {
    /// The compaction that frees it.
    pub(crate) fn request(&self) -> RequestedRange {
        RequestedRange {
            lower: self.lower.clone(),
            upper: Some(self.upper.clone()),
            through: self.number,
            clean: true,
            buffered_below: None,
        }
    }
}

impl Freeing {
    /// Adds a range, in a store of `all` bytes whose disk component has units of `unit` bytes. One that meets others is
    /// joined with them. Returns whether it is worth a compaction.
    pub(crate) fn add(&self, mut range: FreedRange, all: u64, unit: u64) -> bool {
        let mut ranges = self.ranges.lock();
        let first = ranges.partition_point(|other| other.upper < range.lower);
        let met = ranges[first..].iter().take_while(|other| other.lower <= range.upper).count();
        for other in ranges.drain(first..first + met) {
            range.lower = range.lower.min(other.lower);
            range.upper = range.upper.max(other.upper);
            range.number = range.number.max(other.number);
            range.bytes += other.bytes;
        }
        let is_worthwhile = range.bytes >= unit || range.bytes >= (all / PART_OF_ALL).max(1);
        ranges.insert(first, FreedRange { is_worthwhile, ..range });
        self.is_any.store(true, Ordering::Release);
        is_worthwhile
    }

    /// Whether there are ranges.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// The ranges that are worth a compaction and whose number is not above this one.
    pub(crate) fn worthwhile(&self, through: SequenceNumber) -> Vec<FreedRange> {
        let ranges = self.ranges.lock();
        ranges.iter().filter(|range| range.is_worthwhile && range.number <= through).cloned().collect()
    }

    /// Whether it has a key.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        let ranges = self.ranges.lock();
        let after = ranges.partition_point(|range| *range.lower <= *key);
        after > 0 && *key < *ranges[after - 1].upper
    }

    /// Removes a range that was freed, unless it has changed since.
    pub(crate) fn remove(&self, freed: &FreedRange) {
        let mut ranges = self.ranges.lock();
        ranges.retain(|range| range != freed);
        self.is_any.store(!ranges.is_empty(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(lower: u8, upper: u8, number: u64, bytes: u64, is_worthwhile: bool) -> FreedRange {
        FreedRange { lower: vec![lower], upper: vec![upper], number: SequenceNumber(number), bytes, is_worthwhile }
    }

    #[test]
    fn neighbours_are_joined() {
        let freeing = Freeing::default();
        let all = || freeing.ranges.lock().clone();
        let add = |lower, upper, number, bytes| freeing.add(range(lower, upper, number, bytes, false), 1000, 30);
        assert!(!freeing.is_any());
        for (lower, number) in [(7, 1), (1, 2), (4, 3), (6, 4), (3, 5)] {
            assert!(!add(lower, lower + 1, number, 10));
        }
        let last = range(6, 8, 4, 20, false);
        assert_eq!(all(), [range(1, 2, 2, 10, false), range(3, 5, 5, 20, false), last.clone()]);
        assert_eq!(
            [0, 1, 2, 3, 4, 5, 8].map(|key| freeing.covers(&[key])),
            [false, true, false, true, true, false, false]
        );
        assert!(add(2, 4, 6, 1));
        let first = range(1, 5, 6, 31, true);
        assert_eq!(all(), [first.clone(), last.clone()]);
        assert_eq!(
            (freeing.worthwhile(SequenceNumber(5)), freeing.worthwhile(SequenceNumber(6))),
            (vec![], vec![first.clone()])
        );
        freeing.remove(&range(1, 5, 5, 31, true));
        freeing.remove(&last);
        assert_eq!(all(), [first.clone()]);
        freeing.remove(&first);
        assert!(!freeing.is_any() && all().is_empty());
    }

    #[test]
    fn small_ranges_are_not_worth_a_compaction() {
        let worth = |bytes, all, unit| Freeing::default().add(range(1, 2, 1, bytes, false), all, unit);
        assert!(worth(100, 10_000, 100) && worth(100, 1000, 1000));
        assert!(!worth(99, 1000, 1000) && !worth(0, 0, 1000));
    }
}
