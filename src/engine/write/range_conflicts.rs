//! Key ranges in which nobody may have written between a transaction's validation and its number (`docs/concurrency.md`, P2).
//!
//! Whoever watches stops nobody: a writer that meets a watch over one of its keys marks it, and the watcher then gives up. Any thread.
//!
//! Invariants:
//! 1. A watch is published before the grace period that its watcher waits for (`Sequencer::wait_for_announced`). So every writer has
//!    either left its slot by the end of that, and what it wrote is found by the validation behind it; or announced later and sees the
//!    watch, since both sides have a fence between their store and their load.
//! 2. A writer marks the watches over its keys after it has announced and before it takes its number. The watcher closes its watch,
//!    which fails where that was marked, then takes its own number and places its entries; whoever finds the watch closed waits for that.
//!    So a writer of a watched key that did not make the watcher give up has a greater number, and is seen by nobody before the watcher is.
//! 3. Nobody closes a watch before it has passed all others, so who waits for a closed one waits for a thread that waits for none.

use crate::util::planted::planted;
use crate::util::sequencer::Sequencer;
use crate::util::sync::{Arc, AtomicU32, AtomicUsize, Backoff, Ordering};
use crate::util::{KeyspaceId, key};
use arc_swap::{ArcSwap, ArcSwapOption};

const OPEN: u32 = 0;
const MARKED: u32 = 1;
const CLOSED: u32 = 2;
const OVER: u32 = 3;

/// A range of encoded keys: the first, and the first behind; `None` at the end of the last keyspace.
pub(crate) type EncodedRange = (Vec<u8>, Option<Vec<u8>>);

/// One watcher's ranges.
#[derive(Debug)]
pub(crate) struct RegisteredRanges {
    /// Ascending, apart from each other.
    ranges: Vec<EncodedRange>,
    state: AtomicU32,
    /// An encoded key of whoever marked it.
    by: ArcSwapOption<Vec<u8>>,
}

/// All watches of a store.
#[derive(Debug)]
pub(crate) struct RangeConflicts {
    /// How many there are, for writers: mostly none.
    count: AtomicUsize,
    all: ArcSwap<Vec<Arc<RegisteredRanges>>>,
}

/// A watch that ends when this is dropped.
#[derive(Debug)]
pub(crate) struct RangeRegistration<'a> {
    range_conflicts: &'a RangeConflicts,
    registered: Arc<RegisteredRanges>,
}

impl RangeConflicts {
    pub(crate) fn new() -> Self {
        Self { count: AtomicUsize::new(0), all: ArcSwap::default() }
    }

    /// Begins to watch ranges, which ascend and are apart from each other. When it returns, whoever may write there without marking the
    /// watch has written (invariant 1).
    pub(crate) fn begin(&self, ranges: Vec<EncodedRange>, sequencer: &Sequencer) -> RangeRegistration<'_> {
        debug_assert!(ranges.is_sorted_by(|one, next| one.1.as_ref().is_some_and(|end| *end <= next.0)));
        let registered = Arc::new(RegisteredRanges { ranges, state: AtomicU32::new(OPEN), by: ArcSwapOption::empty() });
        self.all.rcu(|all| all.iter().cloned().chain([Arc::clone(&registered)]).collect::<Vec<_>>());
        self.count.fetch_add(1, Ordering::SeqCst);
        planted!(sequencer.wait_for_announced(), Bug::RangesWithoutGrace => ());
        RangeRegistration { range_conflicts: self, registered }
    }

    /// A writer's way past the watches of others: marks those over its keys. Then closes its own, and says whether it could. Between the
    /// announcement and the number.
    #[inline]
    pub(crate) fn pass<'k, K: Iterator<Item = (KeyspaceId, &'k [u8])>>(
        &self,
        keys: impl Fn() -> K,
        own: Option<&RegisteredRanges>,
    ) -> bool {
        if self.count.load(Ordering::Acquire) > 0 {
            self.mark(keys(), own);
        }
        own.is_none_or(RegisteredRanges::close)
    }

    #[cold]
    fn mark<'k>(&self, keys: impl Iterator<Item = (KeyspaceId, &'k [u8])>, own: Option<&RegisteredRanges>) {
        let all = self.all.load();
        for (keyspace, user_key) in keys {
            let encoded = key::encoded(keyspace, user_key);
            let others = all.iter().filter(|registered| own.is_none_or(|own| !std::ptr::eq(own, &***registered)));
            others.filter(|registered| registered.covers(&encoded)).for_each(|registered| registered.mark(&encoded));
        }
    }
}

impl RegisteredRanges {
    fn covers(&self, key: &[u8]) -> bool {
        let behind = self.ranges.partition_point(|(start, _)| &start[..] <= key);
        behind > 0 && self.ranges[behind - 1].1.as_deref().is_none_or(|end| key < end)
    }

    fn mark(&self, key: &[u8]) {
        // Before the mark, so that who finds that finds a key.
        self.by.store(Some(Arc::new(key.to_vec())));
        let mut backoff = Backoff::new();
        loop {
            match self.state.compare_exchange(OPEN, MARKED, Ordering::AcqRel, Ordering::Acquire) {
                Err(CLOSED) => backoff.wait(),
                _ => return,
            }
        }
    }

    fn close(&self) -> bool {
        let closed = self.state.compare_exchange(OPEN, CLOSED, Ordering::AcqRel, Ordering::Acquire).is_ok();
        planted!(closed, Bug::RangesUnchecked => true)
    }

    /// The watcher's entries are placed.
    pub(crate) fn is_over(&self) {
        self.state.store(OVER, Ordering::Release);
    }
}

impl RangeRegistration<'_> {
    pub(crate) fn registered(&self) -> &RegisteredRanges {
        &self.registered
    }

    /// The user's key of one of those who made the watcher give up.
    pub(crate) fn marked_by(&self) -> Vec<u8> {
        let encoded = self.registered.by.load_full().unwrap_or_default();
        key::split(&encoded).map_or_else(Vec::new, |(_, user_key)| user_key.to_vec())
    }
}

impl Drop for RangeRegistration<'_> {
    fn drop(&mut self) {
        self.registered.is_over();
        let others = |all: &Arc<Vec<Arc<RegisteredRanges>>>| -> Vec<Arc<RegisteredRanges>> {
            all.iter().filter(|registered| !Arc::ptr_eq(registered, &self.registered)).cloned().collect()
        };
        self.range_conflicts.all.rcu(others);
        self.range_conflicts.count.fetch_sub(1, Ordering::Release);
    }
}
