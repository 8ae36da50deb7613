//! The numbers that live snapshots hold (`docs/concurrency.md`, S1 and S2; cLSM §3.2.1, with its limit on their age).

use crate::io::Clock;
use crate::util::planted::planted;
use crate::util::sequencer::Sequencer;
use crate::util::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering, RwLock, RwLockReadGuard};
use crate::util::{Error, Result, SequenceNumber, fork};
use std::collections::BTreeMap;
use std::time::Duration;

/// All pins of a store. Any thread.
pub(crate) struct SnapshotRegistry {
    clock: Arc<dyn Clock>,
    age_limit: Option<Duration>,
    state: Mutex<State>,
    /// How many are being taken: `State::taking`, for readers without the lock.
    taking: AtomicUsize,
    /// What `newest` gives.
    newest: AtomicU64,
    /// How many pins went.
    dropped: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// How many hold each number. Nothing needs versions up to `ZERO`, so a snapshot of an empty store is not among them.
    numbers: BTreeMap<SequenceNumber, usize>,
    /// Snapshots of an empty store.
    of_nothing: usize,
    /// Snapshots whose number is not known yet.
    taking: usize,
    /// All pins, by when they were taken and in what order.
    ages: BTreeMap<(Duration, u64), Arc<Gate>>,
    taken: u64,
}

/// What stands between a pin and its end by age. Who reads by the pin is inside the gate meanwhile.
#[derive(Debug)]
struct Gate {
    number: SequenceNumber,
    expired: RwLock<bool>,
}

/// Keeps one number pinned until dropped.
pub(crate) struct SnapshotPin {
    snapshots: Arc<SnapshotRegistry>,
    gate: Arc<Gate>,
    age: (Duration, u64),
    process: fork::ForkCount,
}

impl SnapshotRegistry {
    /// No pins. Pins older than the limit, where there is one, end with `expire`.
    pub(crate) fn new(clock: Arc<dyn Clock>, age_limit: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            age_limit,
            state: Mutex::default(),
            taking: AtomicUsize::new(0),
            newest: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        })
    }

    /// Takes a snapshot: rule S1, step by step.
    pub(crate) fn take(self: &Arc<Self>, sequencer: &Sequencer) -> SnapshotPin {
        let now = self.clock.now();
        self.change(|state| state.taking += 1);
        let number = sequencer.last();
        // From here on the pin itself keeps its versions; being taken lasts until its reads are what they will always be.
        self.change(|state| *state.holders(number) += 1);
        planted!(sequencer.wait_through(number), Bug::SnapshotDoesNotWait => ());
        let gate = Arc::new(Gate { number, expired: RwLock::new(false) });
        let mut age = (now, 0);
        self.change(|state| {
            state.taking -= 1;
            state.taken += 1;
            age.1 = state.taken;
            state.ages.insert(age, Arc::clone(&gate));
        });
        SnapshotPin { snapshots: Arc::clone(self), gate, age, process: fork::ForkCount::current() }
    }

    /// The clock of the store.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The store's time.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// How long ago the oldest snapshot that lives was taken.
    pub(crate) fn oldest_age(&self) -> Option<Duration> {
        let oldest = self.state.lock().ages.first_key_value().map(|((taken, _), _)| *taken);
        oldest.map(|taken| self.clock.now().saturating_sub(taken))
    }

    /// Ends the pins that are older than the limit, up to one by which somebody reads just now.
    pub(crate) fn expire(&self) {
        let Some(limit) = self.age_limit else { return };
        let Some(end) = self.clock.now().checked_sub(limit) else { return };
        loop {
            let oldest = self.state.lock().ages.first_key_value().map(|(age, gate)| (*age, Arc::clone(gate)));
            let Some((age, gate)) = oldest.filter(|((taken, _), _)| *taken < end) else { return };
            let Some(mut expired) = gate.expired.try_write() else { return };
            *expired = true;
            drop(expired);
            self.release(age);
        }
    }

    /// Lets go of a pin, unless that was done.
    fn release(&self, age: (Duration, u64)) {
        self.change(|state| {
            if let Some(gate) = state.ages.remove(&age) {
                state.release(gate.number);
            }
        });
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a snapshot is being taken right now (rule S3).
    pub(crate) fn being_taken(&self) -> bool {
        self.taking.load(Ordering::SeqCst) > 0
    }

    /// Every pinned number, ascending; `ZERO` among them while a snapshot is being taken.
    pub(crate) fn numbers(&self) -> Vec<SequenceNumber> {
        planted!(Bug::SnapshotsIgnored => { return Vec::new() });
        let state = self.state.lock();
        let unknown = (state.taking > 0).then_some(SequenceNumber::ZERO);
        unknown.into_iter().chain(state.numbers.keys().copied()).collect()
    }

    /// How many snapshots live.
    pub(crate) fn count(&self) -> usize {
        let state = self.state.lock();
        state.numbers.values().sum::<usize>() + state.of_nothing
    }

    /// At least the number of every snapshot that lives: `MAX` while one is being taken, `ZERO` where there is none. A writer asks
    /// after it took its number (rule S5), so no lock.
    pub(crate) fn newest(&self) -> SequenceNumber {
        planted!(Bug::SnapshotsIgnored => { return SequenceNumber::ZERO });
        SequenceNumber(self.newest.load(Ordering::Acquire))
    }

    /// How many pins have gone so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Changes the state and tells writers and readers of it. What is stored here comes before the counter's read-modify-write in
    /// `take`, so whoever takes a greater number sees it (rule N4).
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let newest = match state.numbers.last_key_value() {
            _ if state.taking > 0 => SequenceNumber::MAX,
            Some((number, _)) => *number,
            None => SequenceNumber::ZERO,
        };
        self.taking.store(state.taking, Ordering::SeqCst);
        self.newest.store(newest.0, Ordering::SeqCst);
    }
}

impl State {
    /// How many hold a number.
    fn holders(&mut self, number: SequenceNumber) -> &mut usize {
        if number == SequenceNumber::ZERO { &mut self.of_nothing } else { self.numbers.entry(number).or_default() }
    }

    fn release(&mut self, number: SequenceNumber) {
        let holders = self.holders(number);
        *holders -= 1;
        if *holders == 0 {
            self.numbers.remove(&number);
        }
    }
}

impl SnapshotPin {
    /// The snapshot's number: it sees every write up to it and none after.
    pub(crate) fn number(&self) -> SequenceNumber {
        self.gate.number
    }

    /// Whoever reads by the pin holds this meanwhile; an error where it has expired.
    pub(crate) fn enter(&self) -> Result<Option<RwLockReadGuard<'_, bool>>> {
        let Some(limit) = self.snapshots.age_limit else { return Ok(None) };
        let expired = self.gate.expired.read();
        if *expired { Err(Error::SnapshotExpired { limit }) } else { Ok(Some(expired)) }
    }
}

impl Drop for SnapshotPin {
    fn drop(&mut self) {
        // In a forked child the mutex may be held by a thread that does not exist.
        if self.process.is_current() {
            self.snapshots.release(self.age);
        }
    }
}

impl std::fmt::Debug for SnapshotPin {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pin").field("number", &self.number()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Storage;
    use crate::io::simulated::SimulatedStorage;

    fn snapshots(disk: &SimulatedStorage, limit: Option<Duration>) -> Arc<SnapshotRegistry> {
        SnapshotRegistry::new(disk.deterministic_clock(), limit)
    }

    #[test]
    fn pins_come_and_go() {
        let (disk, sequencer) = (SimulatedStorage::new(1), Sequencer::new(SequenceNumber(7)));
        let snapshots = snapshots(&disk, None);
        assert_eq!((snapshots.newest(), snapshots.oldest_age()), (SequenceNumber::ZERO, None));
        let first = snapshots.take(&sequencer);
        let second = snapshots.take(&sequencer);
        assert_eq!((first.number(), snapshots.count(), snapshots.being_taken()), (SequenceNumber(7), 2, false));
        drop(first);
        assert_eq!((snapshots.numbers(), snapshots.newest()), (vec![SequenceNumber(7)], SequenceNumber(7)));
        drop(second);
        assert!(snapshots.numbers().is_empty());
        assert_eq!((snapshots.newest(), snapshots.dropped()), (SequenceNumber::ZERO, 2));
    }

    #[test]
    fn a_snapshot_of_an_empty_store_keeps_nothing() {
        let (disk, sequencer) = (SimulatedStorage::new(1), Sequencer::new(SequenceNumber::ZERO));
        let snapshots = snapshots(&disk, None);
        let pin = snapshots.take(&sequencer);
        assert_eq!(
            (pin.number(), snapshots.count(), snapshots.newest()),
            (SequenceNumber::ZERO, 1, SequenceNumber::ZERO)
        );
        assert!(snapshots.numbers().is_empty());
        drop(pin);
        assert_eq!(snapshots.count(), 0);
    }

    #[test]
    fn old_pins_end_where_there_is_a_limit() {
        let (disk, sequencer) = (SimulatedStorage::new(1), Sequencer::new(SequenceNumber(7)));
        let limit = Duration::from_secs(60);
        let snapshots = snapshots(&disk, Some(limit));
        let old = snapshots.take(&sequencer);
        disk.advance(Duration::from_secs(59));
        let young = snapshots.take(&sequencer);
        snapshots.expire();
        assert!(old.enter().is_ok());
        disk.advance(Duration::from_secs(2));
        assert_eq!(snapshots.oldest_age(), Some(Duration::from_secs(61)));
        snapshots.expire();
        assert!(matches!(old.enter(), Err(Error::SnapshotExpired { limit: found }) if found == limit));
        assert!(young.enter().is_ok());
        assert_eq!((snapshots.count(), snapshots.oldest_age()), (1, Some(Duration::from_secs(2))));
        drop(old);
        assert_eq!(snapshots.count(), 1);
    }
}
