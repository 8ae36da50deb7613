//! The numbers that live snapshots hold (`docs/concurrency.md`, S1 and S2; cLSM §3.2.1).

use crate::base::planted::{self, Bug};
use crate::base::sequencer::Sequencer;
use crate::base::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::base::{SequenceNumber, fork};
use std::collections::BTreeMap;

/// All pins of a store. Any thread.
#[derive(Debug, Default)]
pub(super) struct Pins {
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
}

/// Keeps one number pinned until dropped.
#[derive(Debug)]
pub(super) struct Pin {
    pins: Arc<Pins>,
    number: SequenceNumber,
    process: fork::Generation,
}

impl Pins {
    /// Takes a snapshot: rule S1, step by step.
    pub(super) fn take(self: &Arc<Self>, sequencer: &Sequencer) -> Pin {
        self.change(|state| state.taking += 1);
        let number = sequencer.last();
        // From here on the pin itself keeps its versions; being taken lasts until its reads are what they will always be.
        self.change(|state| *state.holders(number) += 1);
        if !planted::is(Bug::SnapshotDoesNotWait) {
            sequencer.wait_through(number);
        }
        self.change(|state| state.taking -= 1);
        Pin { pins: Arc::clone(self), number, process: fork::Generation::current() }
    }

    /// Whether a snapshot is being taken right now (rule S3).
    pub(super) fn being_taken(&self) -> bool {
        self.taking.load(Ordering::SeqCst) > 0
    }

    /// Every pinned number, ascending; `ZERO` among them while a snapshot is being taken.
    pub(super) fn numbers(&self) -> Vec<SequenceNumber> {
        if planted::is(Bug::PinsForgotten) {
            return Vec::new();
        }
        let state = self.state.lock();
        let unknown = (state.taking > 0).then_some(SequenceNumber::ZERO);
        unknown.into_iter().chain(state.numbers.keys().copied()).collect()
    }

    /// How many snapshots live.
    pub(super) fn count(&self) -> usize {
        let state = self.state.lock();
        state.numbers.values().sum::<usize>() + state.of_nothing
    }

    /// At least the number of every snapshot that lives: `MAX` while one is being taken, `ZERO` where there is none. A writer asks
    /// after it took its number (rule S5), so no lock.
    pub(super) fn newest(&self) -> SequenceNumber {
        if planted::is(Bug::PinsForgotten) {
            return SequenceNumber::ZERO;
        }
        SequenceNumber(self.newest.load(Ordering::Acquire))
    }

    /// How many pins have gone so far.
    pub(super) fn dropped(&self) -> u64 {
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

impl Pin {
    /// The snapshot's number: it sees every write up to it and none after.
    pub(super) fn number(&self) -> SequenceNumber {
        self.number
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        if !self.process.is_current() {
            // In a forked child the mutex may be held by a thread that does not exist.
            return;
        }
        self.pins.change(|state| state.release(self.number));
        self.pins.dropped.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pins_come_and_go() {
        let (pins, sequencer) = (Arc::new(Pins::default()), Sequencer::new(SequenceNumber(7)));
        let first = pins.take(&sequencer);
        let second = pins.take(&sequencer);
        assert_eq!((first.number(), pins.count(), pins.being_taken()), (SequenceNumber(7), 2, false));
        drop(first);
        assert_eq!(pins.numbers(), vec![SequenceNumber(7)]);
        drop(second);
        assert!(pins.numbers().is_empty());
    }
}
