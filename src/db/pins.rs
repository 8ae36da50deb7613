//! The numbers that live snapshots hold (`docs/concurrency.md`, S1 and S2; cLSM §3.2.1).

use crate::base::planted::{self, Bug};
use crate::base::sequencer::Sequencer;
use crate::base::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crate::base::{SequenceNumber, fork};
use std::collections::BTreeMap;

/// All pins of a store. Any thread.
#[derive(Debug, Default)]
pub(super) struct Pins {
    numbers: Mutex<BTreeMap<SequenceNumber, usize>>,
    taking: AtomicUsize,
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
        self.taking.fetch_add(1, Ordering::SeqCst);
        self.add(SequenceNumber::ZERO);
        let number = sequencer.last();
        {
            let mut numbers = self.numbers.lock();
            *numbers.entry(number).or_default() += 1;
            Self::subtract(&mut numbers, SequenceNumber::ZERO);
        }
        if !planted::is(Bug::SnapshotDoesNotWait) {
            sequencer.wait_through(number);
        }
        self.taking.fetch_sub(1, Ordering::SeqCst);
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
        self.numbers.lock().keys().copied().collect()
    }

    /// How many snapshots live.
    pub(super) fn count(&self) -> usize {
        self.numbers.lock().values().sum()
    }

    fn add(&self, number: SequenceNumber) {
        *self.numbers.lock().entry(number).or_default() += 1;
    }

    fn subtract(numbers: &mut BTreeMap<SequenceNumber, usize>, number: SequenceNumber) {
        if let Some(count) = numbers.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                numbers.remove(&number);
            }
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
        Pins::subtract(&mut self.pins.numbers.lock(), self.number);
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
