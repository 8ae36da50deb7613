//! Range conflicts: the key ranges of committing transactions in which no other thread may write between the validation
//! and the transaction's number (`docs/concurrency.md`, P2), and those of a range delete, whose keys no other thread may
//! write until it is placed (D).
//!
//! Ranges of transactions do not block writers: a writer marks the registered ranges over its keys, and the transaction
//! then gives up. Ranges of a range delete do (`engine/state/range_deletes.rs`). Any thread.
//!
//! Invariants:
//! 1. Ranges are registered before the transaction waits for all announced writers (`Sequencer::wait_for_announced`).
//!    So either a writer has left its slot by the end of that wait, and the validation that follows finds what it
//!    wrote; or it announced later and sees the registered ranges, because both sides have a fence between their store
//!    and their load.
//! 2. A writer marks the registered ranges over its keys after it has announced and before it takes its number. The
//!    transaction closes its ranges, which fails if they are marked, then takes its number and places its entries; a
//!    writer that finds ranges closed waits for that. So a writer of a registered key that did not make the transaction
//!    give up has a greater number, and its entries become visible later.
//! 3. A transaction closes its own ranges only after it has marked those of others. So the thread that a writer waits
//!    for does not wait for another.

use crate::engine::state::range_deletes::{AnnouncedRanges, RangeDeletes};
use crate::engine::types::bounds::EncodedRange;
use crate::engine::types::user_key::UserKey;
use crate::util::planted::planted;
use crate::util::sequencer::Sequencer;
use crate::util::sync::{Arc, AtomicU32, AtomicUsize, Backoff, Ordering};
use arc_swap::{ArcSwap, ArcSwapOption};

/// The transaction validates; writers may mark.
const OPEN: u32 = 0;
/// A writer has written into the ranges: the transaction gives up.
const MARKED: u32 = 1;
/// The transaction commits; writers wait.
const CLOSED: u32 = 2;
/// The transaction's entries are placed, or it has given up.
const FINISHED: u32 = 3;

/// The ranges of one transaction.
#[derive(Debug)]
pub(crate) struct RegisteredRanges {
    /// Ascending and disjoint.
    ranges: Vec<EncodedRange>,
    state: AtomicU32,
    /// An encoded key of a writer that marked the ranges.
    marked_by: ArcSwapOption<Vec<u8>>,
}

/// All registered ranges of a store.
#[derive(Debug)]
pub(crate) struct RangeConflicts {
    /// The number of transactions in `all`, and one more while a range delete is announced. Mostly 0, and the only field
    /// that most writers read.
    count: AtomicUsize,
    all: ArcSwap<Vec<Arc<RegisteredRanges>>>,
    deletes: Arc<RangeDeletes>,
}

/// The keys that a writer is about to write, and what else concerns it.
pub(crate) struct Touched<K, R> {
    /// The keys that it writes.
    pub(crate) keys: K,
    /// The keys that it has read and that must be unchanged.
    pub(crate) reads: R,
    /// The ranges that it deletes; announced if there are any.
    pub(crate) deleted: Vec<EncodedRange>,
}

/// Keeps the ranges of a range delete announced until it is dropped.
#[derive(Debug)]
pub(crate) struct DeleteGuard<'a> {
    count: &'a AtomicUsize,
    announced: Option<AnnouncedRanges<'a>>,
}

/// Keeps the ranges of a transaction registered until it is dropped.
#[derive(Debug)]
pub(crate) struct RangeGuard<'a> {
    range_conflicts: &'a RangeConflicts,
    registered: Arc<RegisteredRanges>,
}

impl RangeConflicts {
    pub(crate) fn new(deletes: &Arc<RangeDeletes>) -> Self {
        Self { count: AtomicUsize::new(0), all: ArcSwap::default(), deletes: Arc::clone(deletes) }
    }

    /// Announces the ranges of the thread that has the turn of range deletes. When it returns, all writers that may have
    /// missed them have placed their entries.
    pub(crate) fn announce_delete(&self, ranges: Vec<EncodedRange>, sequencer: &Sequencer) -> DeleteGuard<'_> {
        let announced = Some(self.deletes.announce(ranges));
        self.count.fetch_add(1, Ordering::SeqCst);
        planted!(sequencer.wait_for_announced(), Bug::RangeDeleteWithoutGrace => ());
        DeleteGuard { count: &self.count, announced }
    }

    /// Registers ranges, which must be ascending and disjoint. When it returns, all writers that may have missed them
    /// have placed their entries (invariant 1).
    pub(crate) fn register(&self, ranges: Vec<EncodedRange>, sequencer: &Sequencer) -> RangeGuard<'_> {
        debug_assert!(ranges.is_sorted_by(|one, next| one.1.as_ref().is_some_and(|end| *end <= next.0)));
        let registered =
            Arc::new(RegisteredRanges { ranges, state: AtomicU32::new(OPEN), marked_by: ArcSwapOption::empty() });
        self.all.rcu(|all| all.iter().cloned().chain([Arc::clone(&registered)]).collect::<Vec<_>>());
        self.count.fetch_add(1, Ordering::SeqCst);
        planted!(sequencer.wait_for_announced(), Bug::RangesWithoutGrace => ());
        RangeGuard { range_conflicts: self, registered }
    }

    /// Looks for a range delete of the keys, and marks the registered ranges of others over them. The writer calls this after
    /// it has announced and before it takes its number. False if a range delete covers one of the keys.
    ///
    /// A writer with ranges of its own closes them afterwards (`RegisteredRanges::close`), once nothing else can make it give
    /// up its place. *Otherwise:* it waits with closed ranges, for a range delete or for memory, and what it waits for may
    /// wait for a writer that has announced and waits for the ranges.
    #[inline]
    pub(crate) fn pass<'k, K, R>(&self, touched: impl Fn() -> Touched<K, R>, own: Option<&RegisteredRanges>) -> bool
    where
        K: Iterator<Item = UserKey<&'k [u8]>> + Clone,
        R: Iterator<Item = UserKey<&'k [u8]>>,
    {
        self.count.load(Ordering::Acquire) == 0 || self.pass_others(touched(), own)
    }

    /// False if a range delete covers one of the keys.
    #[cold]
    fn pass_others<'k, K, R>(&self, touched: Touched<K, R>, own: Option<&RegisteredRanges>) -> bool
    where
        K: Iterator<Item = UserKey<&'k [u8]>> + Clone,
        R: Iterator<Item = UserKey<&'k [u8]>>,
    {
        let Touched { keys, mut reads, deleted } = touched;
        let is_covered = |key| self.deletes.cover(key);
        // A range delete has the turn, so the announced ranges are its own.
        if deleted.is_empty()
            && planted!(keys.clone().any(is_covered) || reads.any(is_covered), Bug::RangeDeleteUnseen => false)
        {
            return false;
        }
        let all = self.all.load();
        let others = || all.iter().filter(|registered| own.is_none_or(|own| !std::ptr::eq(own, &***registered)));
        for key in keys {
            let encoded = key.encoded();
            others().filter(|registered| registered.covers(&encoded)).for_each(|registered| registered.mark(&encoded));
        }
        for range in &deleted {
            others().filter(|registered| registered.meets(range)).for_each(|registered| registered.mark(&range.0));
        }
        true
    }
}

impl RegisteredRanges {
    fn covers(&self, key: &[u8]) -> bool {
        let after = self.ranges.partition_point(|(start, _)| &start[..] <= key);
        after > 0 && self.ranges[after - 1].1.as_deref().is_none_or(|end| key < end)
    }

    fn meets(&self, (start, end): &EncodedRange) -> bool {
        // The first of the ranges that does not lie before `start`.
        let at = self.ranges.partition_point(|(_, own_end)| own_end.as_ref().is_some_and(|own_end| own_end <= start));
        self.ranges.get(at).is_some_and(|(own_start, _)| end.as_ref().is_none_or(|end| own_start < end))
    }

    fn mark(&self, key: &[u8]) {
        // Before the mark, so that a thread that sees the mark finds a key.
        self.marked_by.store(Some(Arc::new(key.to_vec())));
        let mut backoff = Backoff::new();
        loop {
            match self.state.compare_exchange(OPEN, MARKED, Ordering::AcqRel, Ordering::Acquire) {
                Err(CLOSED) => backoff.wait(),
                _ => return,
            }
        }
    }

    /// Closes the ranges: from now on a writer of a key in them waits until `finish`. False if one has marked them.
    pub(crate) fn close(&self) -> bool {
        let closed = self.state.compare_exchange(OPEN, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok();
        planted!(closed, Bug::RangesUnchecked => true)
    }

    /// The transaction's entries are placed, or it has given up.
    pub(crate) fn finish(&self) {
        self.state.store(FINISHED, Ordering::Release);
    }
}

impl Drop for DeleteGuard<'_> {
    fn drop(&mut self) {
        self.announced = None;
        self.count.fetch_sub(1, Ordering::Release);
    }
}

impl RangeGuard<'_> {
    pub(crate) fn registered(&self) -> &RegisteredRanges {
        &self.registered
    }

    /// An encoded key of a writer that marked the ranges.
    pub(crate) fn marked_by(&self) -> Arc<Vec<u8>> {
        self.registered.marked_by.load_full().unwrap_or_default()
    }
}

impl Drop for RangeGuard<'_> {
    fn drop(&mut self) {
        self.registered.finish();
        let others = |all: &Arc<Vec<Arc<RegisteredRanges>>>| -> Vec<Arc<RegisteredRanges>> {
            all.iter().filter(|registered| !Arc::ptr_eq(registered, &self.registered)).cloned().collect()
        };
        self.range_conflicts.all.rcu(others);
        self.range_conflicts.count.fetch_sub(1, Ordering::Release);
    }
}
