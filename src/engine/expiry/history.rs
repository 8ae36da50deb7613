//! Which versions have expired for the readers at each number. Any thread; readers never wait.
//!
//! Invariants (`docs/concurrency.md`, E):
//! 1. A moment has the number of the write that records it, and gets it between that write's number and the end of its slot. So
//!    a snapshot at or above the number, which waits for the slot, finds the moment, and a snapshot below never does.
//! 2. Of each keyspace, moments of greater numbers have expired as much or more.
//! 3. Moments are dropped only below the newest one that the oldest reader sees.

use crate::merge::Expired;
use crate::util::sync::{Arc, AtomicU64, Ordering};
use crate::util::{KeyspaceId, SequenceNumber};
use arc_swap::ArcSwap;

/// Keyspaces whose ids have the same remainder share a bound.
const BOUNDS: usize = 64;
/// The number of a moment that has none yet.
const PENDING: u64 = u64::MAX;

/// What has expired for readers at a number or above.
#[derive(Debug)]
pub(crate) struct Moment {
    since: AtomicU64,
    expired: Arc<Expired>,
}

impl Moment {
    fn new(since: u64, expired: Arc<Expired>) -> Arc<Self> {
        Arc::new(Self { since: AtomicU64::new(since), expired })
    }

    /// From now on readers at this number or above see it.
    pub(crate) fn begin(&self, number: SequenceNumber) {
        self.since.store(number.0, Ordering::Release);
    }

    fn is_for(&self, at: SequenceNumber) -> bool {
        let since = self.since.load(Ordering::Acquire);
        since != PENDING && since <= at.0
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct History {
    /// No version of these keyspaces with a greater number has expired for any reader. Most gets need nothing else.
    bounds: [AtomicU64; BOUNDS],
    /// Oldest first. At the end there may be one without a number.
    moments: ArcSwap<Vec<Arc<Moment>>>,
}

impl History {
    pub(super) fn new() -> Self {
        let bounds = std::array::from_fn(|_| AtomicU64::new(0));
        Self { bounds, moments: ArcSwap::from_pointee(vec![Moment::new(0, Arc::default())]) }
    }

    /// Whether a version has expired for readers at `at`.
    #[inline]
    pub(super) fn hides(&self, keyspace: KeyspaceId, number: SequenceNumber, at: SequenceNumber) -> bool {
        number.0 <= self.bound(keyspace).load(Ordering::Acquire) && self.has(keyspace, number, at)
    }

    #[cold]
    fn has(&self, keyspace: KeyspaceId, number: SequenceNumber, at: SequenceNumber) -> bool {
        number <= self.through(keyspace, at)
    }

    /// The last number of a keyspace that has expired for readers at `at`.
    pub(super) fn through(&self, keyspace: KeyspaceId, at: SequenceNumber) -> SequenceNumber {
        if self.bound(keyspace).load(Ordering::Acquire) == 0 {
            return SequenceNumber::ZERO;
        }
        let moments = self.moments.load();
        let moment = moments.iter().rev().find(|moment| moment.is_for(at));
        moment.map_or(SequenceNumber::ZERO, |moment| moment.expired.through(keyspace))
    }

    /// Adds a moment that gets its number later. One thread at a time.
    pub(super) fn prepare(&self, expired: Arc<Expired>) -> Arc<Moment> {
        for (keyspace, through) in expired.through_all() {
            self.bound(*keyspace).fetch_max(through.0, Ordering::Release);
        }
        let moment = Moment::new(PENDING, expired);
        let mut moments = Vec::clone(&self.moments.load());
        moments.push(Arc::clone(&moment));
        self.moments.store(Arc::new(moments));
        moment
    }

    /// Removes a moment that got no number.
    pub(super) fn withdraw(&self, moment: &Arc<Moment>) {
        let mut moments = Vec::clone(&self.moments.load());
        moments.retain(|other| !Arc::ptr_eq(other, moment));
        self.moments.store(Arc::new(moments));
    }

    /// The numbers of all readers, and what has expired for all of them. `numbers` is called in between: a snapshot that is
    /// taken after it has the newest moment from before it, or a later one. *Otherwise:* a merge drops what has expired at a
    /// moment that such a snapshot does not have.
    pub(super) fn for_all(&self, numbers: impl FnOnce() -> Vec<SequenceNumber>) -> (Vec<SequenceNumber>, Arc<Expired>) {
        let moments = self.moments.load_full();
        let begun = moments.iter().rposition(|moment| moment.is_for(SequenceNumber::MAX));
        let numbers = numbers();
        let oldest = numbers.first().copied().unwrap_or(SequenceNumber::MAX);
        let mut known = moments[..begun.map_or(0, |newest| newest + 1)].iter().rev();
        let moment = known.find(|moment| moment.is_for(oldest));
        (numbers, moment.map_or_else(Arc::default, |moment| Arc::clone(&moment.expired)))
    }

    /// Drops the moments that no reader has. `numbers` as in `for_all`. No moment is without a number.
    pub(super) fn prune(&self, numbers: impl FnOnce() -> Vec<SequenceNumber>) {
        let moments = self.moments.load_full();
        let oldest = numbers().first().copied().unwrap_or(SequenceNumber::MAX);
        let unused = moments.iter().rposition(|moment| moment.is_for(oldest)).unwrap_or(0);
        if unused > 0 {
            self.moments.store(Arc::new(moments[unused..].to_vec()));
        }
    }

    fn bound(&self, keyspace: KeyspaceId) -> &AtomicU64 {
        &self.bounds[keyspace.0 as usize % BOUNDS]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const USERS: KeyspaceId = KeyspaceId(3);

    fn expired(through: u64) -> Arc<Expired> {
        Arc::new(Expired::new([(USERS, SequenceNumber(through))]))
    }

    #[test]
    fn each_reader_sees_the_moment_of_its_number() {
        let history = History::new();
        let through = |at: u64| history.through(USERS, SequenceNumber(at)).0;
        let all = |pins: &[u64]| {
            let (_, expired) = history.for_all(|| pins.iter().copied().map(SequenceNumber).collect());
            expired.through(USERS).0
        };
        assert_eq!((through(5), through(u64::MAX), all(&[])), (0, 0, 0));
        let first = history.prepare(expired(10));
        assert_eq!((through(50), through(u64::MAX), all(&[])), (0, 0, 0));
        first.begin(SequenceNumber(40));
        let second = history.prepare(expired(20));
        assert_eq!((through(39), through(40), through(u64::MAX), all(&[])), (0, 10, 10, 10));
        second.begin(SequenceNumber(60));
        assert_eq!((through(59), through(60), all(&[]), all(&[45, 70]), all(&[0])), (10, 20, 20, 10, 0));
        let hides = |number, at| history.hides(USERS, SequenceNumber(number), SequenceNumber(at));
        assert!(hides(10, 40) && !hides(10, 39) && !hides(11, 59) && hides(20, 60) && !hides(21, u64::MAX));
        // Another keyspace of the same bound.
        assert!(!history.hides(KeyspaceId(USERS.0 + 64), SequenceNumber(5), SequenceNumber::MAX));
        history.prune(|| vec![SequenceNumber(45)]);
        assert_eq!((through(45), through(60)), (10, 20));
        history.prune(Vec::new);
        assert_eq!((history.moments.load().len(), through(60)), (1, 20));
        let third = history.prepare(expired(30));
        history.withdraw(&third);
        third.begin(SequenceNumber(70));
        assert_eq!(through(u64::MAX), 20);
    }

    #[test]
    fn a_merge_does_not_use_a_moment_that_began_after_it_asked_for_snapshots() {
        let history = History::new();
        let moment = history.prepare(expired(10));
        let (_, found) = history.for_all(|| {
            moment.begin(SequenceNumber(40));
            Vec::new()
        });
        assert!(found.is_empty());
        let (_, found) = history.for_all(Vec::new);
        assert_eq!(found.through(USERS), SequenceNumber(10));
    }
}
