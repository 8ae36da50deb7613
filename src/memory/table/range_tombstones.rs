//! The range tombstones of a Memtable, stored apart from its entries. Any thread, without waiting.
//!
//! There are few, so adding one rebuilds the whole set. A Memtable without any costs a get one load.
//!
//! Invariant: `any` is set before the call that adds the first one returns. So a reader whose snapshot includes the
//! number of a range tombstone finds it, just as it finds an entry (`docs/concurrency.md`, S1).

#[cfg(test)]
use crate::merge::RangeTombstone;
use crate::merge::RangeTombstones;
use crate::util::SequenceNumber;
use crate::util::sync::{Arc, AtomicBool, Ordering};
use arc_swap::ArcSwapOption;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct TombstoneSet {
    any: AtomicBool,
    /// `None` while there are none, so that a switch of generations allocates as little as possible.
    all: ArcSwapOption<RangeTombstones>,
}

impl TombstoneSet {
    /// Adds a range tombstone. Its number is greater than that of every entry that it hides.
    #[cfg(test)]
    pub(crate) fn add(&self, tombstone: &RangeTombstone) {
        let one = RangeTombstones::new([tombstone.clone()]);
        self.all.rcu(|all| {
            let before = all.iter().map(|all| &**all);
            Some(Arc::new(RangeTombstones::union(before.chain([&one]))))
        });
        // Release: a reader that sees the flag sees the tombstones.
        self.any.store(true, Ordering::Release);
    }

    /// Whether there are any.
    #[inline]
    pub(crate) fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// All of them.
    pub(crate) fn all(&self) -> Arc<RangeTombstones> {
        self.all.load_full().unwrap_or_default()
    }

    /// The newest number `<= at` of a tombstone over an encoded key; `ZERO` if there is none.
    #[inline]
    pub(crate) fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        if !self.is_any() {
            return SequenceNumber::ZERO;
        }
        self.all.load().as_ref().map_or(SequenceNumber::ZERO, |all| all.covering(key, at))
    }
}
