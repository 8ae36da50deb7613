//! The snapshot registry: the pins of all live snapshots, with an optional age limit (`docs/concurrency.md`, S1, S2 and
//! S7; cLSM §3.2.1).

use crate::io::Clock;
use crate::util::planted::planted;
use crate::util::sequencer::Sequencer;
use crate::util::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering, RwLock, RwLockReadGuard};
use crate::util::{Error, Result, SequenceNumber, fork};
use std::collections::BTreeMap;
use std::time::Duration;

/// See the module. Any thread.
pub(crate) struct SnapshotRegistry {
    clock: Arc<dyn Clock>,
    age_limit: Option<Duration>,
    state: Mutex<State>,
    /// A copy of `State::being_taken` for readers without the lock.
    being_taken: AtomicUsize,
    /// The result of `newest`.
    newest: AtomicU64,
    /// Increases whenever a pin is released.
    released: AtomicU64,
}

#[derive(Debug, Default)]
struct State {
    /// The number of pins of each sequence number. Snapshots of an empty store are not counted here, because they need
    /// no versions.
    numbers: BTreeMap<SequenceNumber, usize>,
    /// The number of pins of an empty store, whose number is `ZERO`.
    empty_store_pins: usize,
    /// The number of snapshots that are being taken.
    being_taken: usize,
    /// All pins by age, oldest first.
    by_age: BTreeMap<PinAge, Arc<PinState>>,
    /// The number of pins taken so far.
    taken: u64,
}

/// When a pin was taken, and its place in the order of all pins.
type PinAge = (Duration, u64);

/// The part of a pin that the registry shares.
#[derive(Debug)]
struct PinState {
    number: SequenceNumber,
    /// Set once the pin has reached the age limit. Reads through the pin hold the lock shared, so the pin does not
    /// expire during a read.
    expired: RwLock<bool>,
}

/// A pinned number; released on drop.
pub(crate) struct SnapshotPin {
    registry: Arc<SnapshotRegistry>,
    state: Arc<PinState>,
    age: PinAge,
    process: fork::ForkCount,
}

impl SnapshotRegistry {
    /// A registry without pins. `expire` releases pins that are older than the limit, if there is one.
    pub(crate) fn new(clock: Arc<dyn Clock>, age_limit: Option<Duration>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            age_limit,
            state: Mutex::default(),
            being_taken: AtomicUsize::new(0),
            newest: AtomicU64::new(0),
            released: AtomicU64::new(0),
        })
    }

    /// Takes a snapshot (rule S1).
    pub(crate) fn take(self: &Arc<Self>, sequencer: &Sequencer) -> SnapshotPin {
        let now = self.clock.now();
        self.change(|state| state.being_taken += 1);
        let number = sequencer.last();
        // From here on the pin itself retains its versions. The snapshot counts as being taken until `wait_through` has
        // returned.
        self.change(|state| *state.pins_of(number) += 1);
        planted!(sequencer.wait_through(number), Bug::SnapshotDoesNotWait => ());
        let pin = Arc::new(PinState { number, expired: RwLock::new(false) });
        let mut age = (now, 0);
        self.change(|state| {
            state.being_taken -= 1;
            state.taken += 1;
            age.1 = state.taken;
            state.by_age.insert(age, Arc::clone(&pin));
        });
        SnapshotPin { registry: Arc::clone(self), state: pin, age, process: fork::ForkCount::current() }
    }

    /// The clock of the store.
    pub(crate) fn clock(&self) -> &Arc<dyn Clock> {
        &self.clock
    }

    /// The time on the clock of the store.
    pub(crate) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// The age of the oldest live snapshot.
    pub(crate) fn oldest_age(&self) -> Option<Duration> {
        let oldest = self.state.lock().by_age.first_key_value().map(|((taken, _), _)| *taken);
        oldest.map(|taken| self.clock.now().saturating_sub(taken))
    }

    /// Releases the pins that are older than the limit, oldest first. Stops at a pin that is being read through.
    pub(crate) fn expire(&self) {
        let Some(limit) = self.age_limit else { return };
        let Some(end) = self.clock.now().checked_sub(limit) else { return };
        loop {
            let oldest = self.state.lock().by_age.first_key_value().map(|(age, pin)| (*age, Arc::clone(pin)));
            let Some((age, pin)) = oldest.filter(|((taken, _), _)| *taken < end) else { return };
            let Some(mut expired) = pin.expired.try_write() else { return };
            *expired = true;
            drop(expired);
            self.release(age);
        }
    }

    /// Releases a pin, unless it has expired.
    fn release(&self, age: PinAge) {
        self.change(|state| {
            if let Some(pin) = state.by_age.remove(&age) {
                state.release(pin.number);
            }
        });
        self.released.fetch_add(1, Ordering::Relaxed);
    }

    /// Whether a snapshot is being taken (rule S3).
    pub(crate) fn being_taken(&self) -> bool {
        self.being_taken.load(Ordering::SeqCst) > 0
    }

    /// All pinned numbers, ascending. While a snapshot is being taken, `ZERO` is pinned, too.
    pub(crate) fn numbers(&self) -> Vec<SequenceNumber> {
        planted!(Bug::SnapshotsIgnored => { return Vec::new() });
        let state = self.state.lock();
        let unknown = (state.being_taken > 0).then_some(SequenceNumber::ZERO);
        unknown.into_iter().chain(state.numbers.keys().copied()).collect()
    }

    /// The number of live snapshots.
    pub(crate) fn count(&self) -> usize {
        let state = self.state.lock();
        state.numbers.values().sum::<usize>() + state.empty_store_pins
    }

    /// The greatest pinned number: `MAX` while a snapshot is being taken, `ZERO` if there is none. Takes no lock,
    /// because writers call it after they took their number (rule S5).
    pub(crate) fn newest(&self) -> SequenceNumber {
        planted!(Bug::SnapshotsIgnored => { return SequenceNumber::ZERO });
        SequenceNumber(self.newest.load(Ordering::Acquire))
    }

    /// A counter that increases whenever a pin is released.
    pub(crate) fn released(&self) -> u64 {
        self.released.load(Ordering::Relaxed)
    }

    /// Changes the state and publishes it to readers without the lock. In `take` these stores come before the
    /// read-modify-write of the counter, so a writer that takes a greater number sees them (rule N4).
    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.state.lock();
        change(&mut state);
        let newest = match state.numbers.last_key_value() {
            _ if state.being_taken > 0 => SequenceNumber::MAX,
            Some((number, _)) => *number,
            None => SequenceNumber::ZERO,
        };
        self.being_taken.store(state.being_taken, Ordering::SeqCst);
        self.newest.store(newest.0, Ordering::SeqCst);
    }
}

impl State {
    /// The number of pins of a sequence number.
    fn pins_of(&mut self, number: SequenceNumber) -> &mut usize {
        if number == SequenceNumber::ZERO {
            &mut self.empty_store_pins
        } else {
            self.numbers.entry(number).or_default()
        }
    }

    fn release(&mut self, number: SequenceNumber) {
        let pins = self.pins_of(number);
        *pins -= 1;
        if *pins == 0 {
            self.numbers.remove(&number);
        }
    }
}

impl SnapshotPin {
    /// The snapshot's number: it sees all writes up to this number and no later ones.
    pub(crate) fn number(&self) -> SequenceNumber {
        self.state.number
    }

    /// Begins a read through the pin, which does not expire until the guard is dropped. An error if it has expired.
    pub(crate) fn begin_read(&self) -> Result<Option<RwLockReadGuard<'_, bool>>> {
        let Some(limit) = self.registry.age_limit else { return Ok(None) };
        let expired = self.state.expired.read();
        if *expired { Err(Error::SnapshotExpired { limit }) } else { Ok(Some(expired)) }
    }
}

impl Drop for SnapshotPin {
    fn drop(&mut self) {
        // In a forked child the mutex may be held by a thread that does not exist.
        if self.process.is_current() {
            self.registry.release(self.age);
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
    fn dropped_pins_are_released() {
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
        assert_eq!((snapshots.newest(), snapshots.released()), (SequenceNumber::ZERO, 2));
    }

    #[test]
    fn a_snapshot_of_an_empty_store_retains_no_versions() {
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
    fn pins_older_than_the_limit_expire() {
        let (disk, sequencer) = (SimulatedStorage::new(1), Sequencer::new(SequenceNumber(7)));
        let limit = Duration::from_secs(60);
        let snapshots = snapshots(&disk, Some(limit));
        let old = snapshots.take(&sequencer);
        disk.advance(Duration::from_secs(59));
        let young = snapshots.take(&sequencer);
        snapshots.expire();
        assert!(old.begin_read().is_ok());
        disk.advance(Duration::from_secs(2));
        assert_eq!(snapshots.oldest_age(), Some(Duration::from_secs(61)));
        snapshots.expire();
        assert!(matches!(old.begin_read(), Err(Error::SnapshotExpired { limit: found }) if found == limit));
        assert!(young.begin_read().is_ok());
        assert_eq!((snapshots.count(), snapshots.oldest_age()), (1, Some(Duration::from_secs(2))));
        drop(old);
        assert_eq!(snapshots.count(), 1);
    }
}
