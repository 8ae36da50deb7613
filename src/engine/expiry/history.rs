//! Which versions have expired for the readers at each number. Any thread; readers never wait.
//!
//! Invariants (`docs/concurrency.md`, E):
//! 1. A moment has the number of the write that records it, and gets it between that write's number and the end of its slot. So
//!    a snapshot at or above the number, which waits for the slot, finds the moment, and a snapshot below never does.
//! 2. Of each keyspace, moments of greater numbers have expired as much or more.
//! 3. A moment is dropped only if it is not the newest one of any reader.

use crate::merge::Expired;
use crate::util::planted::planted;
use crate::util::sync::{Arc, AtomicU64, Ordering};
use crate::util::{KeyspaceId, SequenceNumber};
use arc_swap::ArcSwap;

/// Keyspaces whose ids have the same remainder share a cell.
const CELLS: usize = 64;
/// The owner of a cell that no keyspace has, and of one that several have; otherwise it is the keyspace's id plus 1.
const UNOWNED: u64 = 0;
const SEVERAL: u64 = u64::MAX;
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

    /// Whether it has its number.
    pub(crate) fn has_begun(&self) -> bool {
        self.since.load(Ordering::Acquire) != PENDING
    }

    fn is_for(&self, at: SequenceNumber) -> bool {
        let since = self.since.load(Ordering::Acquire);
        since != PENDING && since <= at.0
    }
}

/// What readers of the newest versions need of a keyspace, without a look at the moments.
#[derive(Debug, Default)]
struct Cell {
    owner: AtomicU64,
    /// The last number of the owner that has expired at the newest moment.
    through: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub(super) struct History {
    cells: [Cell; CELLS],
    /// Oldest first. At the end there may be one without a number.
    moments: ArcSwap<Vec<Arc<Moment>>>,
}

impl History {
    pub(super) fn new() -> Self {
        let cells = std::array::from_fn(|_| Cell::default());
        Self { cells, moments: ArcSwap::from_pointee(vec![Moment::new(0, Arc::default())]) }
    }

    /// The last number of a keyspace that has expired for readers at `at`.
    #[inline]
    pub(super) fn through(&self, keyspace: KeyspaceId, at: SequenceNumber) -> SequenceNumber {
        let cell = self.cell(keyspace);
        match cell.owner.load(Ordering::Acquire) {
            UNOWNED => SequenceNumber::ZERO,
            owner if owner == owner_of(keyspace) && at == SequenceNumber::MAX => {
                SequenceNumber(cell.through.load(Ordering::Acquire))
            }
            owner if owner == owner_of(keyspace) || owner == SEVERAL => self.through_at(keyspace, at),
            _ => SequenceNumber::ZERO,
        }
    }

    #[cold]
    fn through_at(&self, keyspace: KeyspaceId, at: SequenceNumber) -> SequenceNumber {
        let moments = self.moments.load();
        let after = moments.partition_point(|moment| moment.is_for(at));
        moments[..after].last().map_or(SequenceNumber::ZERO, |moment| moment.expired.through(keyspace))
    }

    /// Adds a moment that gets its number later. One thread at a time.
    pub(super) fn prepare(&self, expired: Arc<Expired>) -> Arc<Moment> {
        for (keyspace, _) in expired.through_all() {
            let owner = &self.cell(*keyspace).owner;
            match owner.load(Ordering::Relaxed) {
                UNOWNED => owner.store(owner_of(*keyspace), Ordering::Release),
                other if other == owner_of(*keyspace) => {}
                _ => owner.store(SEVERAL, Ordering::Release),
            }
        }
        let moment = Moment::new(planted!(PENDING, Bug::MomentForAll => 0), expired);
        let mut moments = Vec::clone(&self.moments.load());
        moments.push(Arc::clone(&moment));
        self.moments.store(Arc::new(moments));
        moment
    }

    /// From now on readers at this number or above see the moment. Neither waits nor allocates (rule W1).
    pub(super) fn begin(&self, moment: &Moment, number: SequenceNumber) {
        moment.since.store(number.0, Ordering::Release);
        for (keyspace, through) in moment.expired.through_all() {
            let cell = self.cell(*keyspace);
            if cell.owner.load(Ordering::Relaxed) == owner_of(*keyspace) {
                cell.through.store(through.0, Ordering::Release);
            }
        }
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
        let begun = moments.partition_point(|moment| moment.is_for(SequenceNumber::MAX));
        let numbers = numbers();
        let oldest = numbers.first().copied().unwrap_or(SequenceNumber::MAX);
        let mut known = moments[..begun].iter().rev();
        let moment = known.find(|moment| planted!(moment.is_for(oldest), Bug::ExpiredUnderSnapshots => true));
        (numbers, moment.map_or_else(Arc::default, |moment| Arc::clone(&moment.expired)))
    }

    /// Drops the moments that no reader has. `numbers` as in `for_all`. No moment is without a number.
    pub(super) fn prune(&self, numbers: impl FnOnce() -> Vec<SequenceNumber>) {
        let moments = self.moments.load_full();
        let numbers = numbers();
        if numbers.first() == Some(&SequenceNumber::ZERO) {
            // A snapshot is being taken.
            return;
        }
        let newest_of = |at| moments.partition_point(|moment| moment.is_for(at)).saturating_sub(1);
        let mut kept: Vec<usize> = numbers.into_iter().chain([SequenceNumber::MAX]).map(newest_of).collect();
        kept.dedup();
        if kept.len() < moments.len() {
            self.moments.store(Arc::new(kept.into_iter().map(|at| Arc::clone(&moments[at])).collect()));
        }
    }

    fn cell(&self, keyspace: KeyspaceId) -> &Cell {
        &self.cells[keyspace.0 as usize % CELLS]
    }
}

fn owner_of(keyspace: KeyspaceId) -> u64 {
    u64::from(keyspace.0) + 1
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
        history.begin(&first, SequenceNumber(40));
        let second = history.prepare(expired(20));
        assert_eq!((through(39), through(40), through(u64::MAX), all(&[])), (0, 10, 10, 10));
        history.begin(&second, SequenceNumber(60));
        assert_eq!((through(59), through(60), all(&[]), all(&[45, 70]), all(&[0])), (10, 20, 20, 10, 0));
        // Others of the same cell.
        let other = KeyspaceId(USERS.0 + 64);
        assert_eq!(history.through(other, SequenceNumber::MAX), SequenceNumber::ZERO);
        history.prune(|| vec![SequenceNumber(45)]);
        assert_eq!((through(45), through(60)), (10, 20));
        history.prune(Vec::new);
        assert_eq!((history.moments.load().len(), through(60)), (1, 20));
        let third = history.prepare(expired(30));
        history.withdraw(&third);
        assert_eq!(through(u64::MAX), 20);
        let both = Expired::new([(USERS, SequenceNumber(40)), (other, SequenceNumber(50))]);
        let fourth = history.prepare(Arc::new(both));
        history.begin(&fourth, SequenceNumber(80));
        let of_other = |at| history.through(other, SequenceNumber(at)).0;
        assert_eq!((through(79), through(80), through(u64::MAX)), (20, 40, 40));
        assert_eq!((of_other(79), of_other(80), of_other(u64::MAX)), (0, 50, 50));
    }

    #[test]
    fn each_reader_keeps_one_moment() {
        let history = History::new();
        for at in 1..1000 {
            let moment = history.prepare(expired(at));
            history.begin(&moment, SequenceNumber(at * 2));
            history.prune(|| vec![SequenceNumber(100), SequenceNumber(151)]);
        }
        assert_eq!(history.moments.load().len(), 3);
        let through = |at| history.through(USERS, SequenceNumber(at)).0;
        assert_eq!((through(100), through(151), through(u64::MAX)), (50, 75, 999));
        history.prune(|| vec![SequenceNumber::ZERO, SequenceNumber(151)]);
        assert_eq!(history.moments.load().len(), 3);
    }

    #[test]
    fn a_merge_does_not_use_a_moment_that_began_after_it_asked_for_snapshots() {
        let history = History::new();
        let moment = history.prepare(expired(10));
        let (_, found) = history.for_all(|| {
            history.begin(&moment, SequenceNumber(40));
            Vec::new()
        });
        assert!(found.is_empty());
        let (_, found) = history.for_all(Vec::new);
        assert_eq!(found.through(USERS), SequenceNumber(10));
    }
}
