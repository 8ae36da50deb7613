//! The range tombstones of a Memtable, stored apart from its entries. Any thread reads, without waiting; one thread at a
//! time adds (`docs/concurrency.md`, D1).
//!
//! There are few, mostly. A Memtable without any costs a get one load.
//!
//! Invariants:
//! 1. `any` is set before the call that adds the first one returns. So a reader whose snapshot includes the number of a
//!    range tombstone finds it, just as it finds an entry (`docs/concurrency.md`, S1).
//! 2. All range tombstones of one call become visible at one instant: the store of `now` (of `any`, if they are the
//!    first); or, if they belong to a batch, the store by which the batch's entries do.
//! 3. Of the sets that are placed, each has at most half as many range tombstones as the one before, but for the last one
//!    before `tidy`. So there are few, and adding n of them one by one takes O(n log n).
//! 4. `tidy` drops deletions that a newer one covers and that no snapshot needs (`RangeTombstones::prune`). So n of them
//!    that overlap take O(n) memory, unless there are snapshots between them.

use crate::merge::{RangeTombstone, RangeTombstones};
use crate::util::SequenceNumber;
use crate::util::arena::Offset;
use crate::util::sync::{Arc, AtomicBool, AtomicUsize, Ordering};
use arc_swap::ArcSwapOption;

/// About what a range tombstone takes in memory besides its bounds.
const TOMBSTONE_BYTES: usize = 128;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TombstoneSet {
    any: AtomicBool,
    bytes: AtomicUsize,
    /// `None` while there are none, so that a switch of generations allocates as little as possible.
    now: ArcSwapOption<Sets>,
}

#[derive(Clone, Debug, Default)]
struct Sets {
    placed: Vec<Arc<RangeTombstones>>,
    /// Those of a batch, and the place of its state word. It is used by this batch alone, so that slow readers may load it
    /// at any time.
    pending: Option<(Arc<RangeTombstones>, Offset)>,
}

impl Sets {
    /// All of them, newest last, where `is_committed` says which batches are.
    fn visible(&self, is_committed: impl Fn(Offset) -> bool) -> impl Iterator<Item = &Arc<RangeTombstones>> {
        let pending = self.pending.iter().filter(move |(_, batch)| is_committed(*batch)).map(|(pending, _)| pending);
        self.placed.iter().chain(pending)
    }

    /// Restores invariant 3. Readers see the same before and after.
    fn tidy(&mut self, newest_snapshot: SequenceNumber) {
        let Some(mut added) = self.placed.pop() else { return };
        while let Some(last) = self.placed.pop_if(|last| last.count() < 2 * added.count()) {
            let mut union = RangeTombstones::union([&*last, &*added]);
            union.prune(newest_snapshot);
            added = Arc::new(union);
        }
        self.placed.push(added);
    }
}

impl TombstoneSet {
    /// Adds range tombstones. Their numbers are greater than that of every entry that they hide. With the place of a
    /// batch's state, they become visible when the batch is committed. `tidy` must follow, after the commit.
    pub(crate) fn add(&self, added: RangeTombstones, batch: Option<Offset>) {
        let bytes = |tombstone: RangeTombstone| TOMBSTONE_BYTES + tombstone.start.len() + tombstone.end.len();
        self.bytes.fetch_add(added.deletions().map(bytes).sum(), Ordering::Relaxed);
        self.change(|sets| match batch {
            Some(batch) => {
                assert!(sets.pending.is_none(), "one range delete at a time");
                sets.pending = Some((Arc::new(added), batch));
            }
            None => sets.placed.push(Arc::new(added)),
        });
        // Release: a reader that sees the flag sees the tombstones.
        self.any.store(true, Ordering::Release);
    }

    /// Joins what was added with the rest; a batch that it belongs to was committed. `newest_snapshot` is at least the
    /// number of every snapshot that was published before the newest deletion got its number.
    pub(crate) fn tidy(&self, newest_snapshot: SequenceNumber) {
        self.change(|sets| {
            sets.placed.extend(sets.pending.take().map(|(pending, _)| pending));
            sets.tidy(newest_snapshot);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Sets)) {
        let mut sets = self.now.load().as_deref().cloned().unwrap_or_default();
        change(&mut sets);
        self.now.store(Some(Arc::new(sets)));
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Bytes of memory that they take.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// All of them.
    pub(crate) fn all(&self, is_committed: impl Fn(Offset) -> bool) -> Arc<RangeTombstones> {
        let Some(sets) = self.now.load_full() else { return Arc::default() };
        let mut visible = sets.visible(is_committed);
        match (visible.next(), visible.next()) {
            (None, _) => Arc::default(),
            (Some(only), None) => Arc::clone(only),
            (Some(first), Some(second)) => {
                Arc::new(RangeTombstones::union([first, second].into_iter().chain(visible).map(|set| &**set)))
            }
        }
    }

    /// See `Memtable::covered_until`.
    pub(crate) fn covered_until(
        &self,
        key: &[u8],
        at: SequenceNumber,
        is_committed: impl Fn(Offset) -> bool,
    ) -> Option<Vec<u8>> {
        let sets = self.now.load();
        let visible = sets.iter().flat_map(|sets| sets.visible(&is_committed));
        visible.filter_map(|set| set.covered_until(key, at)).max().map(<[u8]>::to_vec)
    }

    /// See `Memtable::next_covered`.
    pub(crate) fn next_covered(&self, key: &[u8]) -> Option<Vec<u8>> {
        let sets = self.now.load();
        let all = sets.iter().flat_map(|sets| sets.visible(|_| true));
        all.filter_map(|set| set.next_covered(key)).min().map(<[u8]>::to_vec)
    }

    /// The newest number `<= at` of a tombstone over an encoded key; `ZERO` if there is none.
    #[inline]
    pub(crate) fn covering(
        &self,
        key: &[u8],
        at: SequenceNumber,
        is_committed: impl Fn(Offset) -> bool,
    ) -> SequenceNumber {
        if !self.is_any() {
            return SequenceNumber::ZERO;
        }
        let sets = self.now.load();
        let visible = sets.iter().flat_map(|sets| sets.visible(&is_committed));
        visible.map(|set| set.covering(key, at)).max().unwrap_or(SequenceNumber::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tombstones(start: u32, number: u64) -> RangeTombstones {
        let key = |at: u32| at.to_be_bytes().to_vec();
        let number = SequenceNumber(number);
        RangeTombstones::new([RangeTombstone { start: key(start), end: key(start + 1), number }])
    }

    #[test]
    fn many_range_tombstones_are_in_few_sets() {
        let set = TombstoneSet::default();
        assert!(!set.is_any() && set.all(|_| true).is_empty() && set.bytes() == 0);
        for at in 0..1000 {
            set.add(tombstones(at * 2, u64::from(at) + 1), None);
            set.tidy(SequenceNumber::ZERO);
        }
        let (sets, all) = (set.now.load_full().unwrap(), set.all(|_| false));
        assert!(sets.placed.len() <= 10, "{} sets", sets.placed.len());
        assert_eq!(all.count(), 1000);
        assert!(set.bytes() >= 1000 * TOMBSTONE_BYTES);
        for at in [0u32, 1, 2, 3, 998, 999, 1998, 1999] {
            let number = if at % 2 == 0 { u64::from(at) / 2 + 1 } else { 0 };
            assert_eq!(set.covering(&at.to_be_bytes(), SequenceNumber::MAX, |_| false), SequenceNumber(number));
        }
    }

    #[test]
    fn those_of_a_batch_are_invisible_until_it_is_committed() {
        let (set, key) = (TombstoneSet::default(), 6u32.to_be_bytes());
        set.add(tombstones(6, 1), None);
        set.tidy(SequenceNumber::ZERO);
        set.add(tombstones(6, 5), Some(Offset(64)));
        let covering = |is_committed| set.covering(&key, SequenceNumber::MAX, |_| is_committed).0;
        assert_eq!((covering(false), covering(true)), (1, 5));
        assert_eq!((set.all(|_| false).count(), set.all(|_| true).count()), (1, 2));
        // A snapshot at 1 needs the older one.
        set.tidy(SequenceNumber(1));
        assert_eq!((covering(false), set.all(|_| false).count()), (5, 2));
    }

    #[test]
    fn deletions_below_newer_ones_are_dropped_unless_a_snapshot_needs_them() {
        let (set, key) = (TombstoneSet::default(), |at: u32| at.to_be_bytes().to_vec());
        for at in 1..=3000u32 {
            let number = SequenceNumber(u64::from(at));
            set.add(RangeTombstones::new([RangeTombstone { start: key(0), end: key(at), number }]), None);
            // There is a snapshot at 1000 from then on.
            set.tidy(SequenceNumber(if at < 1000 { 0 } else { 1000 }));
        }
        let all = set.all(|_| true);
        assert!(all.count() < 10_000, "{} numbers of 3000 deletions", all.count());
        for (number, at, expected) in
            [(3000, 0, 3000), (3000, 2999, 3000), (1000, 0, 1000), (1000, 999, 1000), (1000, 1000, 0)]
        {
            assert_eq!(
                set.covering(&key(at), SequenceNumber(number), |_| true),
                SequenceNumber(expected),
                "{at} at {number}"
            );
        }
    }
}
