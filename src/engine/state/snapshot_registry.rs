//! The snapshot registry: the pins of all live snapshots, with an optional age limit (`docs/concurrency.md`, S1, S2, S7
//! and S8; cLSM §3.2.1).
//!
//! A pin is in a slot (`snapshot_slots.rs`), which takes no lock. If all slots are in use, or if pins expire, it is in a
//! list under a mutex.

use super::snapshot_slots::{Pinned, SnapshotSlots};
use crate::engine::filtering::filter_gate::{ClosedGate, FilterGate};
use crate::io::Clock;
use crate::util::planted::planted;
use crate::util::sequencer::Sequencer;
use crate::util::sync::{Arc, Mutex, RwLock, RwLockReadGuard, thread_number};
use crate::util::{Error, Result, SequenceNumber, fork};
use std::collections::BTreeMap;
use std::time::Duration;

/// A snapshot needs one for its life; each is a cache line.
const SLOTS: usize = 64;

/// See the module. Any thread.
pub(crate) struct SnapshotRegistry {
    clock: Arc<dyn Clock>,
    age_limit: Option<Duration>,
    slots: SnapshotSlots,
    listed: Mutex<Listed>,
    /// Closed while a job that has filtered pairs is published.
    pub(crate) filter_gate: FilterGate,
}

/// The pins that are not in slots.
#[derive(Debug, Default)]
struct Listed {
    /// The number of pins of each sequence number.
    numbers: BTreeMap<SequenceNumber, usize>,
    /// By age, oldest first.
    by_age: BTreeMap<PinAge, Arc<ListedPin>>,
    /// The number of pins listed so far.
    count: u64,
}

/// When a pin was taken, and its place in the order of all listed pins.
type PinAge = (Duration, u64);

/// The part of a listed pin that the registry shares.
#[derive(Debug)]
struct ListedPin {
    number: SequenceNumber,
    age: PinAge,
    /// Set once the pin has reached the age limit. Reads through the pin hold the lock shared, so the pin does not
    /// expire during a read.
    expired: RwLock<bool>,
}

/// A pinned number; released on drop.
pub(crate) struct SnapshotPin {
    registry: Arc<SnapshotRegistry>,
    number: SequenceNumber,
    place: Place,
    process: fork::ForkCount,
}

/// Where the registry has a pin.
enum Place {
    Slot(usize),
    List(Arc<ListedPin>),
    /// It retains nothing: the store can no longer be read.
    Nowhere,
}

impl SnapshotRegistry {
    /// A registry without pins. `expire` releases pins that are older than the limit, if there is one.
    pub(crate) fn new(clock: Arc<dyn Clock>, age_limit: Option<Duration>) -> Arc<Self> {
        let (slots, listed) = (SnapshotSlots::new(SLOTS), Mutex::default());
        Arc::new(Self { clock, age_limit, slots, listed, filter_gate: FilterGate::default() })
    }

    /// Takes a snapshot (rule S1). Neither locks nor allocates here if there is no age limit and a slot is free.
    pub(crate) fn take(self: &Arc<Self>, sequencer: &Sequencer) -> SnapshotPin {
        loop {
            let pin = self.pin_last(sequencer);
            // Rules F4 and I3: only now, when the pin can be seen. *Otherwise,* if it kept its number: a write comes after it and
            // is seen beside the old tree, then the snapshot has the new tree without that write.
            if !planted!(self.filter_gate.is_closed(), Bug::GateUnseen => false) {
                return pin;
            }
            drop(pin);
            self.filter_gate.wait();
        }
    }

    fn pin_last(self: &Arc<Self>, sequencer: &Sequencer) -> SnapshotPin {
        let now = self.clock.now();
        self.slots.begin();
        let slot = if self.age_limit.is_none() { self.slots.claim(thread_number()) } else { None };
        let number = sequencer.last();
        // From here on the pin itself retains its versions. The snapshot counts as being taken until `wait_through` has
        // returned.
        let place = if let Some(at) = slot {
            self.slots.pin(at, Pinned { number, taken: now.as_nanos() as u64 });
            Place::Slot(at)
        } else {
            Place::List(self.list(number, now))
        };
        planted!(sequencer.wait_through(number), Bug::SnapshotDoesNotWait => ());
        self.slots.finish(number);
        SnapshotPin { registry: Arc::clone(self), number, place, process: fork::ForkCount::current() }
    }

    /// A pin in a store that can no longer be read. Takes no lock and waits for no writer: in a forked child the holder of
    /// either does not exist.
    pub(crate) fn unreadable(self: &Arc<Self>, sequencer: &Sequencer) -> SnapshotPin {
        let (number, process) = (sequencer.last_relaxed(), fork::ForkCount::current());
        SnapshotPin { registry: Arc::clone(self), number, place: Place::Nowhere, process }
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
        let in_slots = self.slots.pinned().map(|pinned| Duration::from_nanos(pinned.taken));
        let listed = self.listed.lock().by_age.first_key_value().map(|((taken, _), _)| *taken);
        in_slots.chain(listed).min().map(|taken| self.clock.now().saturating_sub(taken))
    }

    /// Releases the pins that are older than the limit, oldest first. Stops at a pin that is being read through.
    pub(crate) fn expire(&self) {
        let Some(limit) = self.age_limit else { return };
        let Some(end) = self.clock.now().checked_sub(limit) else { return };
        loop {
            let oldest = self.listed.lock().by_age.first_key_value().map(|(_, pin)| Arc::clone(pin));
            let Some(pin) = oldest.filter(|pin| pin.age.0 < end) else { return };
            let Some(mut expired) = pin.expired.try_write() else { return };
            *expired = true;
            drop(expired);
            self.unlist(&pin);
        }
    }

    /// Lists a pin.
    fn list(&self, number: SequenceNumber, now: Duration) -> Arc<ListedPin> {
        let mut listed = self.listed.lock();
        listed.count += 1;
        let age = (now, listed.count);
        let pin = Arc::new(ListedPin { number, age, expired: RwLock::new(false) });
        *listed.numbers.entry(number).or_default() += 1;
        listed.by_age.insert(age, Arc::clone(&pin));
        self.slots.list(listed.greatest());
        pin
    }

    /// Removes a pin from the list, unless it has expired.
    fn unlist(&self, pin: &ListedPin) {
        let mut listed = self.listed.lock();
        if listed.by_age.remove(&pin.age).is_some() {
            listed.release(pin.number);
            self.slots.unlist(listed.greatest());
        }
    }

    /// Whether a snapshot is being taken (rule S3).
    pub(crate) fn being_taken(&self) -> bool {
        self.slots.being_taken()
    }

    /// All pinned numbers, ascending. While a snapshot is being taken, `ZERO` is pinned, too; otherwise `ZERO` is left
    /// out, because snapshots of an empty store need no versions.
    pub(crate) fn numbers(&self) -> Vec<SequenceNumber> {
        planted!(Bug::SnapshotsIgnored => { return Vec::new() });
        // Read first: a snapshot that is no longer being taken is in its place by then (rule S2).
        let unknown = self.being_taken().then_some(SequenceNumber::ZERO);
        let known = self.slots.pinned().map(|pinned| pinned.number).filter(|number| *number > SequenceNumber::ZERO);
        let mut numbers: Vec<_> = unknown.into_iter().chain(known).collect();
        numbers.extend(self.listed.lock().numbers.keys().filter(|number| **number > SequenceNumber::ZERO));
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Closes the gate at which new snapshots wait. Afterwards the caller sees all that did not (rule F4).
    pub(crate) fn close_filter_gate(&self) -> ClosedGate<'_> {
        let closed = self.filter_gate.close();
        self.slots.meet();
        closed
    }

    /// Whether a snapshot has a pin at or above this number, or is being taken (rule F4).
    pub(crate) fn is_any_from(&self, number: SequenceNumber) -> bool {
        let numbers = self.numbers();
        numbers.first() == Some(&SequenceNumber::ZERO) || numbers.last().is_some_and(|newest| *newest >= number)
    }

    /// The number of live snapshots; about, while other threads take or drop some.
    pub(crate) fn count(&self) -> usize {
        self.slots.pinned().count() + self.listed.lock().by_age.len()
    }

    /// A bound of the pinned numbers (`SnapshotSlots::newest`): `MAX` while a snapshot is being taken. Takes no lock, because
    /// writers call it after they took their number (rule S5).
    pub(crate) fn newest(&self) -> SequenceNumber {
        planted!(Bug::SnapshotsIgnored => { return SequenceNumber::ZERO });
        self.slots.newest()
    }

    /// A counter that has increased whenever fewer versions are needed than before (`SnapshotSlots::changes`).
    pub(crate) fn changes(&self) -> u64 {
        self.slots.changes()
    }
}

impl Listed {
    /// The greatest pinned number, `ZERO` if there is none.
    fn greatest(&self) -> SequenceNumber {
        self.numbers.last_key_value().map_or(SequenceNumber::ZERO, |(number, _)| *number)
    }

    fn release(&mut self, number: SequenceNumber) {
        let pins = self.numbers.entry(number).or_default();
        *pins = pins.saturating_sub(1);
        if *pins == 0 {
            self.numbers.remove(&number);
        }
    }
}

impl SnapshotPin {
    /// The snapshot's number: it sees all writes up to this number and no later ones.
    pub(crate) fn number(&self) -> SequenceNumber {
        self.number
    }

    /// Begins a read through the pin, which does not expire until the guard is dropped. An error if it has expired.
    #[inline]
    pub(crate) fn begin_read(&self) -> Result<Option<RwLockReadGuard<'_, bool>>> {
        let Place::List(pin) = &self.place else { return Ok(None) };
        let Some(limit) = self.registry.age_limit else { return Ok(None) };
        let expired = pin.expired.read();
        if *expired { Err(Error::SnapshotExpired { limit }) } else { Ok(Some(expired)) }
    }
}

impl Drop for SnapshotPin {
    fn drop(&mut self) {
        // In a forked child the mutex may be held by a thread that does not exist.
        if self.process.is_current() {
            match &self.place {
                Place::Slot(at) => self.registry.slots.free(*at),
                Place::List(pin) => self.registry.unlist(pin),
                Place::Nowhere => {}
            }
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
        assert_eq!((snapshots.newest(), snapshots.changes()), (SequenceNumber::ZERO, 3));
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

    #[test]
    fn more_snapshots_than_slots_are_listed() {
        let disk = SimulatedStorage::new(1);
        let registry = snapshots(&disk, None);
        let sequencers: Vec<_> = (1..=SLOTS as u64 + 3).map(|last| Sequencer::new(SequenceNumber(last))).collect();
        let mut pins: Vec<_> = sequencers.iter().map(|sequencer| registry.take(sequencer)).collect();
        disk.advance(Duration::from_secs(1));
        assert_eq!((pins.len(), registry.count()), (SLOTS + 3, SLOTS + 3));
        assert_eq!(registry.numbers(), Vec::from_iter((1..=SLOTS as u64 + 3).map(SequenceNumber)));
        assert!(pins.iter().all(|pin| pin.begin_read().is_ok()));
        while let Some(pin) = pins.pop() {
            assert_eq!(registry.newest(), pin.number());
        }
        assert_eq!((registry.newest(), registry.numbers()), (SequenceNumber::ZERO, Vec::new()));
        // The list has the oldest one now.
        let all: Vec<_> = (0..SLOTS).map(|_| registry.take(&sequencers[5])).collect();
        let listed = registry.take(&sequencers[1]);
        drop(all);
        disk.advance(Duration::from_secs(1));
        assert_eq!((registry.oldest_age(), registry.newest()), (Some(Duration::from_secs(1)), listed.number()));
    }
}
