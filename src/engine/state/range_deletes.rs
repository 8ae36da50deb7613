//! The range delete that is about to take its number (`docs/concurrency.md`, D). Any thread.
//!
//! A range delete cannot hold the latches of all keys that it covers. Instead it announces its ranges, and writers of
//! keys in them wait. It takes turns with other range deletes, so that there is one at a time.
//!
//! Invariants:
//! 1. The ranges are announced before the range delete waits for the writers that have announced
//!    (`Sequencer::wait_for_announced`). So a writer either has placed its entries by the end of that wait, or it
//!    announced later and sees the ranges, because both sides have a fence between their store and their load.
//! 2. A writer looks for the ranges after it has announced and before it takes its number. If it finds its key in them
//!    it leaves its slot and its latches before it waits. So a thread that waits for a range delete is in no slot, and
//!    the wait of invariant 1 ends.
//! 3. The tombstones are placed, and then counted, before the announcement is withdrawn. So a writer that finds the
//!    ranges gone has a greater number than the range delete and finds its tombstones.

use crate::engine::types::bounds::EncodedRange;
use crate::engine::types::user_key::UserKey;
use crate::util::sync::{Arc, AtomicU64, Backoff, Mutex, MutexGuard, Ordering};
use arc_swap::ArcSwapOption;

/// Ascending and disjoint.
type Ranges = Vec<EncodedRange>;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct RangeDeletes {
    turn: Mutex<()>,
    announced: ArcSwapOption<Ranges>,
    placed: AtomicU64,
}

/// The ranges of the range delete that has the turn, until they are withdrawn by dropping this.
#[derive(Debug)]
pub(crate) struct AnnouncedRanges<'a>(&'a RangeDeletes);

impl RangeDeletes {
    /// Waits for the turn of a range delete. The caller holds no latch and has not announced.
    pub(crate) fn take_turn(&self) -> MutexGuard<'_, ()> {
        self.turn.lock()
    }

    /// Announces the ranges of the thread that has the turn. The caller then waits as invariant 1 says.
    pub(crate) fn announce(&self, ranges: Ranges) -> AnnouncedRanges<'_> {
        debug_assert!(self.announced.load().is_none(), "one range delete at a time");
        self.announced.store(Some(Arc::new(ranges)));
        AnnouncedRanges(self)
    }

    /// Whether announced ranges cover a key.
    pub(crate) fn cover(&self, key: UserKey<&[u8]>) -> bool {
        self.announced.load().as_ref().is_some_and(|ranges| covers(ranges, key))
    }

    /// If announced ranges cover the key, waits until they are withdrawn. The caller holds no latch and has not
    /// announced.
    pub(crate) fn wait_for(&self, key: UserKey<&[u8]>) {
        let first = self.announced.load_full();
        if first.as_ref().is_none_or(|ranges| !covers(ranges, key)) {
            return;
        }
        let mut backoff = Backoff::new();
        let is_there =
            |now: Option<&Arc<Ranges>>| now.zip(first.as_ref()).is_some_and(|(now, first)| Arc::ptr_eq(now, first));
        while is_there(self.announced.load().as_ref()) {
            backoff.wait();
        }
    }

    /// The number of range deletes that were placed, and of other changes after which a precondition is checked again.
    pub(crate) fn placed(&self) -> u64 {
        self.placed.load(Ordering::Acquire)
    }

    /// Counts a range delete whose tombstones were placed, or a tree with pairs that a compaction filter has changed.
    pub(crate) fn note_placed(&self) {
        self.placed.fetch_add(1, Ordering::Release);
    }
}

impl Drop for AnnouncedRanges<'_> {
    fn drop(&mut self) {
        self.0.announced.store(None);
    }
}

fn covers(ranges: &Ranges, key: UserKey<&[u8]>) -> bool {
    key.with_encoded(|key| {
        let after = ranges.partition_point(|(start, _)| &start[..] <= key);
        after > 0 && ranges[after - 1].1.as_deref().is_none_or(|end| key < end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::KeyspaceId;

    #[test]
    fn announced_ranges_cover_their_keys_until_they_are_withdrawn() {
        let deletes = RangeDeletes::default();
        let (id, other) = (KeyspaceId(3), KeyspaceId(4));
        let range = |start: &[u8], end: &[u8]| {
            let [start, end] = [start, end].map(|key| UserKey::new(id, key).encoded());
            (start, Some(end))
        };
        let turn = deletes.take_turn();
        let announced = deletes.announce(vec![range(b"b", b"d"), range(b"f", b"g")]);
        let covered = |key: &str| deletes.cover(UserKey::new(id, key));
        assert_eq!(["a", "b", "c", "d", "f", "g"].map(covered), [false, true, true, false, true, false]);
        // Not in the ranges.
        deletes.wait_for(UserKey::new(id, "d"));
        deletes.wait_for(UserKey::new(other, "b"));
        assert!(!deletes.cover(UserKey::new(other, "b")));
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| {
                deletes.wait_for(UserKey::new(id, "b"));
                deletes.placed()
            });
            std::thread::yield_now();
            deletes.note_placed();
            drop(announced);
            drop(turn);
            assert_eq!(waiting.join().unwrap(), 1);
        });
        assert!(!deletes.cover(UserKey::new(id, "b")));
    }
}
