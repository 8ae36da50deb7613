//! Range tombstones: of every key the numbers at which a range that holds it was deleted.
//!
//! A range tombstone [start, end) with number n takes away, for whoever reads at n or later, every version of the keys from
//! `start` to below `end` whose number is below n. (A version with the number n itself stays: it is of the same batch, and the
//! batch's commit has already settled which of the two came last. So no operand has the number of a tombstone over its key.)
//!
//! They are few, are looked up for keys far behind their start, and cover keys that were never written. So they do not stand
//! among the entries, where each would cost every search a comparison and would be found only by reading from its start on:
//! whoever keeps entries keeps its range tombstones beside them, in memory, in this form. Immutable; any thread.
//!
//! Invariants:
//! 1. Fragments ascend, are not empty and do not overlap; those that touch differ in their numbers.
//! 2. A fragment's numbers descend; there is at least one.
//! 3. So two of them are equal if and only if they say the same of every key.

use super::retention::Retention;
use crate::util::SequenceNumber;
use std::collections::{BTreeMap, BTreeSet};

/// One deletion of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RangeTombstone {
    /// First encoded key that is gone.
    pub start: Vec<u8>,
    /// First encoded key behind those that are gone.
    pub end: Vec<u8>,
    /// Its number.
    pub number: SequenceNumber,
}

/// A stretch of keys that were deleted together at each of some numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Its first encoded key.
    pub start: Vec<u8>,
    /// The first encoded key behind it.
    pub end: Vec<u8>,
    /// The deletions, newest first.
    pub numbers: Vec<SequenceNumber>,
}

/// See the module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeTombstones {
    fragments: Vec<Fragment>,
}

/// None at all, to refer to.
pub static NO_RANGE_TOMBSTONES: RangeTombstones = RangeTombstones { fragments: Vec::new() };

impl RangeTombstones {
    /// Those of deletions in any order. Empty ranges say nothing.
    pub fn new(deletions: impl IntoIterator<Item = RangeTombstone>) -> Self {
        // At each bound, the numbers that begin there and those that end there.
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

    /// All of several.
    pub fn union<'a>(several: impl IntoIterator<Item = &'a Self>) -> Self {
        let mut several: Vec<&Self> = several.into_iter().filter(|tombstones| !tombstones.is_empty()).collect();
        match (several.pop(), several.is_empty()) {
            (None, _) => Self::default(),
            (Some(only), true) => only.clone(),
            (Some(last), false) => Self::new(several.into_iter().chain([last]).flat_map(Self::deletions)),
        }
    }

    /// Adds a fragment behind all others, where it has any numbers, joined to the one before where the two say the same.
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

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.fragments.is_empty()
    }

    /// In key order.
    pub fn fragments(&self) -> &[Fragment] {
        &self.fragments
    }

    /// The deletions, ascending by start, those of one start newest first: one for each number of each fragment.
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

    /// The numbers of those over `key`, newest first.
    pub fn over(&self, key: &[u8]) -> &[SequenceNumber] {
        let at = self.fragments.partition_point(|fragment| fragment.end[..] <= *key);
        match self.fragments.get(at) {
            Some(fragment) if fragment.start[..] <= *key => &fragment.numbers,
            _ => &[],
        }
    }

    /// The newest number `<= at` of one over `key`, `ZERO` where there is none: what a reader at `at` sees of the key is not
    /// older.
    pub fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        self.over(key).iter().copied().find(|number| *number <= at).unwrap_or(SequenceNumber::ZERO)
    }

    /// What of them lies in [lower, upper).
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

    /// Takes away what lies before `bound` and gives it back.
    pub fn split_off_front(&mut self, bound: &[u8]) -> Self {
        let at = self.fragments.partition_point(|fragment| fragment.end[..] <= *bound);
        let behind = self.fragments.split_off(at);
        let mut front = std::mem::replace(self, Self { fragments: behind });
        if let Some(first) = self.fragments.first_mut().filter(|first| first.start[..] < *bound) {
            let start = std::mem::replace(&mut first.start, bound.to_vec());
            front.fragments.push(Fragment { start, end: bound.to_vec(), numbers: first.numbers.clone() });
        }
        front
    }

    /// What a pass over the versions that these stand beside keeps of them (`retention.rs`): each fragment's numbers are
    /// like the tombstones of one key.
    pub fn retained(&self, retention: &Retention, bottom: bool) -> Self {
        let mut kept = Self::default();
        for fragment in &self.fragments {
            let mut newer = None;
            let keep = |number: &SequenceNumber| {
                let newer = newer.replace(*number);
                retention.keeps_tombstone(*number, newer, bottom)
            };
            let numbers = fragment.numbers.iter().copied().filter(keep).collect();
            kept.push(fragment.start.clone(), &fragment.end, numbers);
        }
        kept
    }

    /// Puts `behind`, which lies wholly behind these, behind them.
    pub fn append(&mut self, behind: Self) {
        for Fragment { start, end, numbers } in behind.fragments {
            self.push(start, &end, numbers);
        }
    }

    /// How many numbers there are in all fragments.
    pub fn count(&self) -> u64 {
        self.fragments.iter().map(|fragment| fragment.numbers.len() as u64).sum()
    }

    /// All numbers.
    pub fn numbers(&self) -> BTreeSet<SequenceNumber> {
        self.fragments.iter().flat_map(|fragment| &fragment.numbers).copied().collect()
    }
}
