//! The range tombstones of a Memtable, beside its entries. Any thread, without wait.
//!
//! They are few: each that comes makes the whole of them anew. A Memtable without any costs a get one load.
//!
//! Invariant: `any` is set before whoever added the first one returns, so a reader whose snapshot has a range tombstone's
//! number finds it, as it finds an entry (`docs/concurrency.md`, S1).

use super::memtable::Memtable;
#[cfg(test)]
use crate::merge::RangeTombstone;
use crate::merge::RangeTombstones;
use crate::util::SequenceNumber;
use crate::util::sync::{Arc, AtomicBool, Ordering};
use arc_swap::ArcSwapOption;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Beside {
    any: AtomicBool,
    /// Nothing as long as there are none: a switch of generations allocates no more than it must.
    all: ArcSwapOption<RangeTombstones>,
}

impl Memtable {
    /// Adds a range tombstone, whose number is greater than that of every entry that it is to hide.
    #[cfg(test)]
    pub fn add_range_tombstone(&self, tombstone: &RangeTombstone) {
        let one = RangeTombstones::new([tombstone.clone()]);
        self.beside.all.rcu(|all| {
            let before = all.iter().map(|all| &**all);
            Some(Arc::new(RangeTombstones::union(before.chain([&one]))))
        });
        // Release: who sees the flag sees them.
        self.beside.any.store(true, Ordering::Release);
    }

    /// Whether there are any.
    #[inline]
    pub fn has_range_tombstones(&self) -> bool {
        self.beside.any.load(Ordering::Acquire)
    }

    /// All of them; those of a sealed Memtable never change.
    pub fn range_tombstones(&self) -> Arc<RangeTombstones> {
        self.beside.all.load_full().unwrap_or_default()
    }

    /// The newest number `<= at` of one over an encoded key; `ZERO` where there is none.
    #[inline]
    pub fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        if !self.has_range_tombstones() {
            return SequenceNumber::ZERO;
        }
        self.beside.all.load().as_ref().map_or(SequenceNumber::ZERO, |all| all.covering(key, at))
    }
}
