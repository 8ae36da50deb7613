//! Range tombstones: for each key, the numbers of the range deletions that cover it.
//!
//! A range tombstone [start, end) with number n hides, from readers at n or later, every version of the keys in the
//! range whose number is below n. A version with the same number n comes from the same batch. The batch keeps, of a
//! range delete and a write of one key, only the later one (`docs/concurrency.md`, B1), so such a version stays, and no
//! merge operand has the number of a tombstone that covers its key.
//!
//! Range tombstones are few, are looked up for keys far past their start, and cover keys that were never written. So
//! they are not stored among the entries, where each would cost every search a comparison and would be found only by
//! reading from its start. Each component that stores entries keeps its range tombstones next to them, in memory, in
//! this form. Plain data; shared values never change.
//!
//! Invariants:
//! 1. Fragments ascend, are not empty and do not overlap. Adjacent fragments differ in their numbers.
//! 2. The numbers of a fragment descend. There is at least one.
//! 3. So two values are equal if and only if they are equivalent for every key.

use super::retention::Retention;
use crate::util::{KeyspaceId, SequenceNumber, key};
use std::collections::{BTreeMap, BTreeSet};

/// One deletion of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// First deleted encoded key.
    pub start: Vec<u8>,
    /// First encoded key after the range.
    pub end: Vec<u8>,
    /// Its number.
    pub number: SequenceNumber,
}

impl RangeTombstone {
    /// The deletion of a range of a keyspace; an `end` of `None` is the end of the keyspace.
    pub fn of_user_keys(keyspace: KeyspaceId, start: &[u8], end: Option<&[u8]>, number: SequenceNumber) -> Self {
        let (start, end) = key::encoded_range(keyspace, start, end);
        Self { start, end, number }
    }
}

/// A range of keys with the same deletions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its first encoded key.
    pub start: Vec<u8>,
    /// First encoded key after it.
    pub end: Vec<u8>,
    /// Numbers of the deletions, newest first.
    pub numbers: Vec<SequenceNumber>,
}

/// See the module documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTombstones {
    fragments: Vec<Fragment>,
}

/// An empty set with a static lifetime.
pub static NO_RANGE_TOMBSTONES: RangeTombstones = RangeTombstones { fragments: Vec::new() };

impl RangeTombstones {
    /// The range tombstones of deletions in any order. Empty ranges are ignored.
    pub fn new(deletions: impl IntoIterator<Item = RangeTombstone>) -> Self {
        // For each bound, the numbers whose ranges begin there and those whose ranges end there.
        let mut bounds: BTreeMap<Vec<u8>, (Vec<SequenceNumber>, Vec<SequenceNumber>)> = BTreeMap::new();
        for RangeTombstone { start, end, number } in deletions {
            if start < end {
                bounds.entry(start).or_default().0.push(number);
                bounds.entry(end).or_default().1.push(number);
            }
        }
        // How often each number is open: pieces of one deletion may come from several files.
        let mut open: BTreeMap<SequenceNumber, usize> = BTreeMap::new();
        let mut tombstones = Self::default();
        let mut last: Option<Vec<u8>> = None;
        for (bound, (begin, end)) in bounds {
            if let Some(start) = last.take() {
                tombstones.push(start, &bound, open.keys().rev().copied().collect());
            }
            begin.into_iter().for_each(|number| *open.entry(number).or_default() += 1);
            for number in end {
                if let Some(count) = open.get_mut(&number) {
                    *count -= 1;
                    if *count == 0 {
                        open.remove(&number);
                    }
                }
            }
            last = Some(bound);
        }
        tombstones
    }

    /// The union of several.
    pub fn union<'a>(several: impl IntoIterator<Item = &'a Self>) -> Self {
        let several: Vec<&Self> = several.into_iter().filter(|tombstones| !tombstones.is_empty()).collect();
        match several[..] {
            [] => Self::default(),
            [only] => only.clone(),
            _ => Self::new(several.into_iter().flat_map(Self::deletions)),
        }
    }

    /// Drops, of each fragment, the numbers that no reader needs: all but the newest one of those above `newest_snapshot`, if
    /// all snapshots up to the newest number here have that number or less.
    pub fn prune(&mut self, newest_snapshot: SequenceNumber) {
        if self.fragments.iter().all(|fragment| fragment.numbers.len() == 1) {
            return;
        }
        let mut pruned = Self::default();
        for Fragment { start, end, mut numbers } in std::mem::take(&mut self.fragments) {
            let mut is_newest = true;
            numbers.retain(|number| std::mem::take(&mut is_newest) || *number <= newest_snapshot);
            pruned.push(start, &end, numbers);
        }
        *self = pruned;
    }

    /// Gives the one number of all deletions, which were made without one.
    pub fn set_number(&mut self, number: SequenceNumber) {
        for fragment in &mut self.fragments {
            debug_assert_eq!(fragment.numbers, [SequenceNumber::ZERO]);
            fragment.numbers[0] = number;
        }
    }

    /// Appends a fragment, if it has any numbers. Joins it with the last one if they are adjacent and have the same
    /// numbers.
    pub fn push(&mut self, start: Vec<u8>, end: &[u8], numbers: Vec<SequenceNumber>) {
        debug_assert!(start[..] < *end && numbers.is_sorted_by(|newer, older| newer > older));
        debug_assert!(self.fragments.last().is_none_or(|last| last.end <= start));
        if numbers.is_empty() {
            return;
        }
        match self.fragments.last_mut() {
            Some(last) if last.end == start && last.numbers == numbers => {
                last.end.clear();
                last.end.extend_from_slice(end);
            }
            _ => self.fragments.push(Fragment { start, end: end.to_vec(), numbers }),
        }
    }

    /// Whether there are no range tombstones.
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// The fragments, in key order.
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The deletions, one for each number of each fragment: ascending by start, and newest first for one start.
    pub fn deletions(&self) -> impl Iterator<Item = RangeTombstone> + '_ {
        self.fragments.iter().flat_map(|fragment| {
            let deletion = |number: &SequenceNumber| RangeTombstone {
                start: fragment.start.clone(),
                end: fragment.end.clone(),
                number: *number,
            };
            fragment.numbers.iter().map(deletion)
        })
    }

    /// The numbers of the range tombstones over `key`, newest first.
    pub fn over(&self, key: &[u8]) -> &[SequenceNumber] {
        let at = self.fragments.partition_point(|fragment| fragment.end[..] <= *key);
        match self.fragments.get(at) {
            Some(fragment) if fragment.start[..] <= *key => &fragment.numbers,
            _ => &[],
        }
    }

    /// The newest number `<= at` of a range tombstone over `key`; `ZERO` if there is none. A reader at `at` sees no
    /// older version of the key.
    pub fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        self.over(key).iter().copied().find(|number| *number <= at).unwrap_or(SequenceNumber::ZERO)
    }

    /// The end, exclusive, of the keys from `key` on that range tombstones with numbers `<= at` cover without a gap; `None`
    /// if none covers `key`.
    pub fn covered_until(&self, key: &[u8], at: SequenceNumber) -> Option<&[u8]> {
        let from = self.fragments.partition_point(|fragment| fragment.end[..] <= *key);
        let mut end = None;
        for fragment in &self.fragments[from..] {
            let is_adjacent = fragment.start[..] <= *end.unwrap_or(key);
            if !is_adjacent || fragment.numbers.last().is_none_or(|oldest| *oldest > at) {
                break;
            }
            end = Some(&fragment.end[..]);
        }
        end
    }

    /// The first key at or after `key` that is covered, by whatever number.
    pub fn next_covered<'a>(&'a self, key: &'a [u8]) -> Option<&'a [u8]> {
        let at = self.fragments.partition_point(|fragment| fragment.end[..] <= *key);
        self.fragments.get(at).map(|fragment| key.max(&fragment.start))
    }

    /// The parts that lie in [lower, upper).
    pub fn clip(&self, lower: &[u8], upper: Option<&[u8]>) -> Self {
        let from = self.fragments.partition_point(|fragment| fragment.end[..] <= *lower);
        let inside = self.fragments[from..].iter();
        let inside = inside.take_while(|fragment| upper.is_none_or(|upper| fragment.start[..] < *upper));
        let mut clipped = Self::default();
        for fragment in inside {
            let start = lower.max(&fragment.start);
            let end = upper.map_or(&fragment.end[..], |upper| upper.min(&fragment.end));
            if start < end {
                clipped.push(start.to_vec(), end, fragment.numbers.clone());
            }
        }
        clipped
    }

    /// Removes the parts before `bound` and returns them.
    pub fn split_off_front(&mut self, bound: &[u8]) -> Self {
        let at = self.fragments.partition_point(|fragment| fragment.end[..] <= *bound);
        let rest = self.fragments.split_off(at);
        let mut front = std::mem::replace(self, Self { fragments: rest });
        if let Some(first) = self.fragments.first_mut().filter(|first| first.start[..] < *bound) {
            let start = std::mem::replace(&mut first.start, bound.to_vec());
            front.fragments.push(Fragment { start, end: bound.to_vec(), numbers: first.numbers.clone() });
        }
        front
    }

    /// The range tombstones that an incorporation or merge retains, together with the entries beside them
    /// (`retention.rs`). The numbers of each fragment are treated like the tombstones of one key. `bottom`: nothing
    /// older of this key range exists anywhere.
    pub fn retained(&self, retention: &Retention, bottom: bool) -> Self {
        let mut kept = Self::default();
        for fragment in &self.fragments {
            let mut newer = None;
            let keep = |number: &SequenceNumber| {
                let newer = newer.replace(*number);
                retention.retains_tombstone(*number, newer, bottom)
            };
            let numbers = fragment.numbers.iter().copied().filter(keep).collect();
            kept.push(fragment.start.clone(), &fragment.end, numbers);
        }
        kept
    }

    /// Appends `later`, which must lie completely after these.
    pub fn append(&mut self, later: Self) {
        for Fragment { start, end, numbers } in later.fragments {
            self.push(start, &end, numbers);
        }
    }

    /// The number of pairs of a fragment and one of its numbers.
    pub fn count(&self) -> u64 {
        self.fragments.iter().map(|fragment| fragment.numbers.len() as u64).sum()
    }

    /// The set of all numbers.
    pub fn numbers(&self) -> BTreeSet<SequenceNumber> {
        self.fragments.iter().flat_map(|fragment| &fragment.numbers).copied().collect()
    }
}
