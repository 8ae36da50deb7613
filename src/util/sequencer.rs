//! The counter of sequence numbers, and the slots in which writers announce that they are about to take or place one
//! (`docs/concurrency.md`, N; cLSM §3.2.1, the *Active* set).
//!
//! Any thread may call any method. A slot is used by one thread at a time. The slots are a list that only grows, from
//! the oldest slot to the newest: who looks through it takes no lock and writes to no shared line.
//!
//! Invariants:
//! 1. Numbers are dense: `take` returns every number after the first exactly once.
//! 2. A slot that is not idle contains a lower bound of the number that its thread holds or is about to take.
//! 3. When `wait_through(n)` returns and `n <= last()` was read before, no thread holds a number `<= n` that it has not
//!    placed.
//! 4. When `wait_for_announced` returns, every announcement made before the call, whatever number it led to, has been
//!    withdrawn. An announcement made after the call's fence sees everything that was published before the call.
//!
//! Why 3 holds: `take` and `last` are both read-modify-writes on the counter. If a writer's `take` comes before a
//! waiter's `last` in the counter's order, everything before that `take`, including the announcement, happens before
//! the waiter's scan. The scan then sees the slot busy with a bound `<= n`, or already left. If it comes after, its
//! number is greater than `n`. The same argument shows that a thread whose number is greater than a number read by
//! `last` sees everything that was published before that `last` (used by generation switches and snapshot pins).
//! A slot that its thread has announced is in the list before the announcement, so the scan meets it too.
//!
//! On x86 a compiler makes a full fence and a load of the addition of zero in `last`. That keeps what the argument needs:
//! what was stored before is visible before the load, and a `take` that the load did not see comes after it.
//!
//! Why `wait_through(last())` is not enough for 4: a writer announces and checks something, then the waiter publishes a
//! change of it and reads the counter, then the writer takes a number greater than that. Every store to a slot is a
//! release, so a thread that sees a slot moved on also sees what its thread did before.

use super::SequenceNumber;
use super::planted::planted;
use super::sync::{Arc, AtomicU64, Backoff, OnceLock, Ordering, fence};
use crossbeam_utils::CachePadded;

const IDLE: u64 = u64::MAX;

/// One thread's announcement.
#[derive(Debug)]
pub struct Slot {
    bound: CachePadded<AtomicU64>,
    /// The next younger slot. In another line than `bound`, so that looking through idle slots reads what seldom changes.
    next: OnceLock<Arc<Slot>>,
}

/// The counter and all slots.
#[derive(Debug)]
pub struct Sequencer {
    counter: CachePadded<AtomicU64>,
    oldest: OnceLock<Arc<Slot>>,
}

impl Sequencer {
    /// A sequencer whose first number follows `last`.
    pub fn new(last: SequenceNumber) -> Self {
        Self { counter: CachePadded::new(AtomicU64::new(last.0)), oldest: OnceLock::new() }
    }

    /// A new idle slot. Slots live as long as the sequencer; callers reuse them. O(slots).
    pub fn register(&self) -> Arc<Slot> {
        let slot = Arc::new(Slot { bound: CachePadded::new(AtomicU64::new(IDLE)), next: OnceLock::new() });
        let mut place = &self.oldest;
        while place.set(Arc::clone(&slot)).is_err() {
            if let Some(older) = place.get() {
                place = &older.next;
            }
        }
        slot
    }

    /// All slots, from the oldest on; some that are being added may be missing.
    fn slots(&self) -> impl Iterator<Item = &Slot> {
        std::iter::successors(self.oldest.get(), |slot| slot.next.get()).map(|slot| &**slot)
    }

    /// Announces that the slot's thread is about to take a number. After it returns, the thread's loads are at least as
    /// new as whatever a waiter published before a scan that found the slot idle (store, fence, load on both sides).
    pub fn announce(&self, slot: &Slot) {
        debug_assert_eq!(slot.bound.load(Ordering::Relaxed), IDLE);
        slot.bound.store(self.counter.load(Ordering::Relaxed) + 1, Ordering::Release);
        planted!(fence(Ordering::SeqCst), Bug::AnnounceWithoutFence => ());
    }

    /// Takes the next number. `slot` must have been announced.
    pub fn take(&self, slot: &Slot) -> SequenceNumber {
        debug_assert_ne!(slot.bound.load(Ordering::Relaxed), IDLE);
        let number = self.counter.fetch_add(1, Ordering::AcqRel) + 1;
        slot.bound.store(number, Ordering::Release);
        SequenceNumber(number)
    }

    /// Withdraws the announcement: the number, if one was taken, is placed.
    pub fn leave(&self, slot: &Slot) {
        slot.bound.store(IDLE, Ordering::Release);
    }

    /// The newest number that was taken. A read-modify-write (see the invariants).
    pub fn last(&self) -> SequenceNumber {
        SequenceNumber(self.counter.fetch_add(0, Ordering::AcqRel))
    }

    /// The newest number, for statistics: no ordering at all.
    pub fn last_relaxed(&self) -> SequenceNumber {
        SequenceNumber(self.counter.load(Ordering::Relaxed))
    }

    /// Waits until no slot can hold a number `<= number`. The wait is bounded, because only sealing and placing happen
    /// between `take` and `leave`.
    pub fn wait_through(&self, number: SequenceNumber) {
        fence(Ordering::SeqCst);
        for slot in self.slots() {
            let mut backoff = Backoff::new();
            while slot.bound.load(Ordering::Acquire) <= number.0 {
                backoff.wait();
            }
        }
    }

    /// Waits until every announcement made before the call has been withdrawn.
    pub fn wait_for_announced(&self) {
        fence(Ordering::SeqCst);
        for slot in self.slots() {
            let mut seen = slot.bound.load(Ordering::Acquire);
            // One announcement shows at most two values, its bound and its number; a third belongs to a later one.
            let mut changes = 0;
            let mut backoff = Backoff::new();
            while seen != IDLE && changes < 2 {
                backoff.wait();
                let now = slot.bound.load(Ordering::Acquire);
                changes += u32::from(now != seen);
                seen = now;
            }
        }
    }
}

impl Drop for Slot {
    /// One slot after the other: if each dropped the next one in turn, a long list would need a deep stack.
    fn drop(&mut self) {
        let mut next = self.next.take();
        while let Some(slot) = next {
            next = Arc::into_inner(slot).and_then(|mut slot| slot.next.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn numbers_are_dense_over_threads() {
        let sequencer = Arc::new(Sequencer::new(SequenceNumber(10)));
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let sequencer = Arc::clone(&sequencer);
                std::thread::spawn(move || {
                    let slot = sequencer.register();
                    let mut taken = Vec::new();
                    for _ in 0..1000 {
                        sequencer.announce(&slot);
                        taken.push(sequencer.take(&slot).0);
                        sequencer.leave(&slot);
                    }
                    taken
                })
            })
            .collect();
        let mut all: Vec<u64> = threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect();
        all.sort_unstable();
        assert_eq!(all, (11..=4010).collect::<Vec<_>>());
    }

    #[test]
    fn slots_that_are_added_side_by_side_are_all_waited_for() {
        const THREADS: usize = 4;
        const EACH: usize = 100;
        let sequencer = Sequencer::new(SequenceNumber::ZERO);
        let slots: Vec<Arc<Slot>> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| scope.spawn(|| (0..EACH).map(|_| sequencer.register()).collect::<Vec<_>>()))
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(sequencer.slots().count(), THREADS * EACH);
        let is_listed = |slot: &Arc<Slot>| sequencer.slots().any(|listed| std::ptr::eq(listed, &**slot));
        assert!(slots.iter().all(is_listed));
    }

    /// Each slot owns the next one. *Otherwise* the drop of the first would drop all the others within each other.
    #[test]
    fn a_long_list_of_slots_needs_little_stack_when_it_is_dropped() {
        let drop_many = || {
            let sequencer = Sequencer::new(SequenceNumber::ZERO);
            let oldest = sequencer.register();
            (0..5000).for_each(|_| drop(sequencer.register()));
            drop(sequencer);
            // It keeps the younger ones.
            drop(oldest);
        };
        std::thread::Builder::new().stack_size(64 << 10).spawn(drop_many).unwrap().join().unwrap();
    }

    #[test]
    fn waiting_ends_only_when_the_number_is_placed() {
        let sequencer = Arc::new(Sequencer::new(SequenceNumber::ZERO));
        let slot = sequencer.register();
        sequencer.announce(&slot);
        let number = sequencer.take(&slot);
        let waited = Arc::new(AtomicBool::new(false));
        let waiter = {
            let (sequencer, waited) = (Arc::clone(&sequencer), Arc::clone(&waited));
            std::thread::spawn(move || {
                sequencer.wait_through(sequencer.last());
                waited.store(true, Ordering::SeqCst);
            })
        };
        std::thread::sleep(std::time::Duration::from_millis(20));
        assert!(!waited.load(Ordering::SeqCst));
        sequencer.wait_through(SequenceNumber(number.0 - 1));
        sequencer.leave(&slot);
        waiter.join().unwrap();
    }

    #[test]
    fn earlier_announcements_are_waited_for_whatever_their_number() {
        let sequencer = Arc::new(Sequencer::new(SequenceNumber::ZERO));
        let (slot, other) = (sequencer.register(), sequencer.register());
        sequencer.announce(&slot);
        let done = Arc::new(AtomicBool::new(false));
        let waiter = {
            let (sequencer, done) = (Arc::clone(&sequencer), Arc::clone(&done));
            std::thread::spawn(move || {
                sequencer.wait_for_announced();
                done.store(true, Ordering::SeqCst);
            })
        };
        std::thread::sleep(std::time::Duration::from_millis(10));
        for _ in 0..5 {
            sequencer.announce(&other);
            sequencer.take(&other);
            sequencer.leave(&other);
        }
        assert_eq!(sequencer.take(&slot), SequenceNumber(6));
        std::thread::sleep(std::time::Duration::from_millis(10));
        assert!(!done.load(Ordering::SeqCst));
        sequencer.leave(&slot);
        waiter.join().unwrap();
    }
}
