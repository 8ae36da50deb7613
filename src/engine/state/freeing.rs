//! Deleted ranges whose space is to be freed: those of keyspaces that were dropped or emptied, large ones of range deletes, those of
//! which half or more has expired, and those with large values that newer data hides. Any thread.
//!
//! The tombstone of a range hides its data at once; the data itself would go only with the merges that later writes cause.
//! So workers compact such ranges, once no snapshot needs them. What is small beside the leaf that it shares with other
//! data stays until it has grown, or until other merges remove it.

use crate::disk::RequestedRange;
use crate::util::SequenceNumber;
use crate::util::sync::{AtomicBool, Mutex, Ordering};

/// A range is compacted if it has this part of all bytes, or as much as a unit of the disk component.
const PART_OF_ALL: u64 = 10;
/// Small ranges are compacted once all of them have this part of all bytes: with a leaf, all small ranges in it go.
const SMALL_PART_OF_ALL: u64 = 4;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Freeing {
    ranges: Mutex<Ranges>,
    /// Whether `Ranges::due` has any.
    is_any: AtomicBool,
}

#[derive(Debug, Default)]
struct Ranges {
    /// Those that are not worth a compaction yet: ascending and disjoint.
    small: Vec<FreedRange>,
    /// What they have together.
    small_bytes: u64,
    /// Those that are. They are not joined any more, so that new deletes, which newer snapshots need, do not delay older ones.
    due: Vec<FreedRange>,
}

/// A range of encoded keys that was deleted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FreedRange {
    pub(crate) lower: Vec<u8>,
    /// Exclusive.
    pub(crate) upper: Vec<u8>,
    /// The number of the newest range delete in it, or the last one that has expired.
    pub(crate) number: SequenceNumber,
    /// About what it has on the disk.
    pub(crate) bytes: u64,
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
            filters: None,
        }
    }

    fn covers(&self, key: &[u8]) -> bool {
        *self.lower <= *key && *key < *self.upper
    }
}

impl Freeing {
    /// Adds a range, in a store of `all` bytes whose disk component has units of `unit` bytes. Small neighbours are joined.
    /// Returns whether there is more to compact now.
    pub(crate) fn add(&self, mut range: FreedRange, all: u64, unit: u64) -> bool {
        let Ranges { small, small_bytes, due } = &mut *self.ranges.lock();
        let first = small.partition_point(|other| other.upper < range.lower);
        let met = small[first..].iter().take_while(|other| other.lower <= range.upper).count();
        for other in small.drain(first..first + met) {
            range.lower = range.lower.min(other.lower);
            range.upper = range.upper.max(other.upper);
            range.number = range.number.max(other.number);
            range.bytes += other.bytes;
            *small_bytes -= other.bytes;
        }
        if range.bytes >= unit || range.bytes >= (all / PART_OF_ALL).max(1) {
            due.push(range);
        } else {
            *small_bytes += range.bytes;
            small.insert(first, range);
            if *small_bytes < (all / SMALL_PART_OF_ALL).max(1) {
                return false;
            }
            *small_bytes = 0;
            due.append(small);
        }
        self.is_any.store(true, Ordering::Release);
        true
    }

    /// Adds a range that is worth a compaction. Returns whether it was not there yet.
    pub(crate) fn add_due(&self, range: FreedRange) -> bool {
        let due = &mut self.ranges.lock().due;
        let is_new = !due.iter().any(|other| other.lower == range.lower && other.upper == range.upper);
        if is_new {
            due.push(range);
            self.is_any.store(true, Ordering::Release);
        }
        is_new
    }

    /// Whether there is anything to compact.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.is_any.load(Ordering::Acquire)
    }

    /// At most `count` of the ranges to compact whose number is not above this one.
    pub(crate) fn due(&self, through: SequenceNumber, count: usize) -> Vec<FreedRange> {
        self.ranges.lock().due.iter().filter(|range| range.number <= through).take(count).cloned().collect()
    }

    /// The number of the newest range to compact.
    pub(crate) fn newest_due(&self) -> Option<SequenceNumber> {
        self.ranges.lock().due.iter().map(|range| range.number).max()
    }

    /// Whether a range that was not freed yet has a key.
    pub(crate) fn covers(&self, key: &[u8]) -> bool {
        let ranges = self.ranges.lock();
        let after = ranges.small.partition_point(|range| *range.lower <= *key);
        (after > 0 && ranges.small[after - 1].covers(key)) || ranges.due.iter().any(|range| range.covers(key))
    }

    /// Removes a range that was freed.
    pub(crate) fn remove(&self, freed: &FreedRange) {
        let due = &mut self.ranges.lock().due;
        due.retain(|range| range != freed);
        self.is_any.store(!due.is_empty(), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(lower: u8, upper: u8, number: u64, bytes: u64) -> FreedRange {
        FreedRange { lower: vec![lower], upper: vec![upper], number: SequenceNumber(number), bytes }
    }

    #[test]
    fn small_neighbours_are_joined_until_they_are_worth_a_compaction() {
        let freeing = Freeing::default();
        let small = || freeing.ranges.lock().small.clone();
        let add = |lower, upper, number, bytes| freeing.add(range(lower, upper, number, bytes), 1000, 30);
        for (lower, number) in [(7, 1), (1, 2), (4, 3), (6, 4), (3, 5)] {
            assert!(!add(lower, lower + 1, number, 10));
        }
        let last = range(6, 8, 4, 20);
        assert_eq!(small(), [range(1, 2, 2, 10), range(3, 5, 5, 20), last.clone()]);
        let covered = |key| freeing.covers(&[key]);
        assert_eq!([0, 1, 2, 3, 4, 5, 8].map(covered), [false, true, false, true, true, false, false]);
        assert!(!freeing.is_any());
        assert!(add(2, 4, 6, 1));
        let first = [range(1, 5, 6, 31)];
        assert_eq!((small(), freeing.newest_due()), (vec![last.clone()], Some(SequenceNumber(6))));
        // What comes later is not joined with it.
        assert!(!add(5, 6, 7, 5));
        assert!(add(1, 2, 8, 100));
        assert_eq!(small(), [range(5, 8, 7, 25)]);
        assert_eq!(freeing.due(SequenceNumber(5), 9), []);
        assert_eq!(freeing.due(SequenceNumber(7), 9), first);
        assert_eq!(freeing.due(SequenceNumber(8), 1), first);
        assert!(covered(4) && covered(7));
        freeing.remove(&first[0]);
        assert!(freeing.is_any() && covered(1) && !covered(4));
        freeing.remove(&range(1, 2, 8, 100));
        assert!(!freeing.is_any());
    }

    #[test]
    fn small_ranges_are_not_worth_a_compaction() {
        let worth = |bytes, all, unit| Freeing::default().add(range(1, 2, 1, bytes), all, unit);
        assert!(worth(100, 10_000, 100) && worth(100, 1000, 1000));
        assert!(!worth(99, 1000, 1000) && !worth(0, 0, 1000));
        // Together they are.
        let freeing = Freeing::default();
        let add = |at: u8| freeing.add(range(2 * at, 2 * at + 1, 1, 50), 1000, 1000);
        assert_eq!([1, 2, 3, 4, 5, 6].map(add), [false, false, false, false, true, false]);
        assert_eq!(freeing.due(SequenceNumber(1), 9).len(), 5);
    }
}
