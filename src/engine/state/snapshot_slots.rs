//! A fixed table of the numbers that snapshots pin, and one word that bounds them for writers (`docs/concurrency.md`, S1,
//! S5 and S8). Any thread may call any method; none takes a lock or allocates.
//!
//! A snapshot calls `begin`, claims a slot, reads its number, pins it in the slot, and calls `finish` once it may be read.
//! Any thread may free the slot.
//!
//! The word has the number of snapshots that are being taken, a flag, and a number. Invariants:
//! 1. While no snapshot is being taken, the number is at least that of every pin. After a pin was released it may be too
//!    great, which makes writers retain more versions than they must, until a writer has lowered it. What they retained
//!    meanwhile is version cleanup's: each lowering counts as a change (`changes`).
//! 2. To lower the number, a thread sets the flag while no snapshot is being taken, looks at all slots, and exchanges the
//!    word only if it still has the flag. `begin` clears the flag, and only one thread lowers at a time. So no snapshot began
//!    between the flag and the exchange. *Otherwise:* a snapshot begins and finishes meanwhile with a number that the word
//!    has anyway, the exchange cannot tell, and writers no longer see the pin.
//! 3. All changes of the word are read-modify-writes, so the thread that sets the flag sees everything that finished
//!    snapshots wrote before, including their slots. All changes of `released` are read-modify-writes, too, so a thread
//!    that reads it sees all releases that it counts.

use crate::util::SequenceNumber;
use crate::util::planted::planted;
use crate::util::sync::{AtomicBool, AtomicU64, AtomicUsize, Backoff, Ordering};

/// A slot without a pin.
const FREE: u64 = u64::MAX;
/// A slot of a snapshot that does not know its number yet.
const CLAIMED: u64 = u64::MAX - 1;

/// One snapshot that is being taken, in the word.
const TAKING: u64 = 1 << 57;
/// The flag.
const LOWERING: u64 = 1 << 56;
/// The number.
const NUMBER: u64 = LOWERING - 1;

/// A pin, on a cache line of its own: threads use different slots.
#[repr(align(64))]
#[derive(Debug)]
struct Slot {
    number: AtomicU64,
    /// See `Pinned::taken`.
    taken: AtomicU64,
}

/// See the module.
#[derive(Debug)]
pub struct SnapshotSlots {
    slots: Box<[Slot]>,
    /// Slots from here on were never claimed.
    used: AtomicUsize,
    /// The greatest number that is pinned outside of the slots.
    listed: AtomicU64,
    bound: Bound,
}

/// The word, and who may lower it.
#[repr(align(64))]
#[derive(Debug)]
struct Bound {
    word: AtomicU64,
    /// Counts the pins that were released. Increases after the release.
    released: AtomicU64,
    /// The releases that the last lowering saw. If there were more, the number of the word may be too great. Only the
    /// thread that lowers changes it, and `lowered`.
    seen: AtomicU64,
    /// Counts how often the number of the word fell.
    lowered: AtomicU64,
    is_lowering: AtomicBool,
}

/// A pin in a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pinned {
    /// The snapshot's number.
    pub number: SequenceNumber,
    /// When it was taken, in nanoseconds on the caller's clock.
    pub taken: u64,
}

impl SnapshotSlots {
    /// This many slots, all free. Snapshots beyond are the caller's, who reports their greatest number to `set_listed`.
    pub fn new(count: usize) -> Self {
        let free = |_| Slot { number: AtomicU64::new(FREE), taken: AtomicU64::new(0) };
        let count_from_zero = || AtomicU64::new(0);
        let bound = Bound {
            word: count_from_zero(),
            released: count_from_zero(),
            seen: count_from_zero(),
            lowered: count_from_zero(),
            is_lowering: AtomicBool::new(false),
        };
        let (used, listed) = (AtomicUsize::new(0), AtomicU64::new(0));
        Self { slots: (0..count).map(free).collect(), used, listed, bound }
    }

    /// Counts a snapshot as being taken. Must come before its number is read, and `finish` afterwards.
    pub fn begin(&self) {
        let (mut word, mut backoff) = (self.bound.word.load(Ordering::Relaxed), Backoff::new());
        loop {
            let Some(begun) = (word & planted!(!LOWERING, Bug::SnapshotsBeganUnseen => u64::MAX)).checked_add(TAKING)
            else {
                // More than a hundred threads are taking snapshots. The first will finish in a moment.
                backoff.wait();
                word = self.bound.word.load(Ordering::Relaxed);
                continue;
            };
            match self.bound.word.compare_exchange(word, begun, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Claims a slot, if one is free. The search begins at `from`, which should differ from thread to thread.
    pub fn claim(&self, from: usize) -> Option<usize> {
        let at = (0..self.slots.len()).map(|step| (from + step) % self.slots.len()).find(|at| {
            let number = &self.slots[*at].number;
            number.load(Ordering::Relaxed) == FREE
                && number.compare_exchange(FREE, CLAIMED, Ordering::Acquire, Ordering::Relaxed).is_ok()
        })?;
        if self.used.load(Ordering::Relaxed) <= at {
            self.used.fetch_max(at + 1, Ordering::Relaxed);
        }
        Some(at)
    }

    /// Pins a number in a slot that the caller has claimed.
    pub fn pin(&self, at: usize, pinned: Pinned) {
        let slot = &self.slots[at];
        slot.taken.store(pinned.taken, Ordering::Relaxed);
        slot.number.store(pinned.number.0, Ordering::Release);
    }

    /// Counts a snapshot of this number as taken.
    pub fn finish(&self, number: SequenceNumber) {
        let mut word = self.bound.word.load(Ordering::Relaxed);
        loop {
            let greatest = (word & NUMBER).max(number.0 & NUMBER);
            let finished = (word & !NUMBER) - TAKING + greatest;
            match self.bound.word.compare_exchange(word, finished, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return,
                Err(now) => word = now,
            }
        }
    }

    /// Orders the caller against every `finish`: one that came before is seen with its pin, and one that comes later sees what the
    /// caller has stored.
    pub fn meet(&self) {
        // Read-modify-writes of one word are in one order, and each synchronizes with those before it.
        self.bound.word.fetch_add(0, Ordering::AcqRel);
    }

    /// Frees a slot with a pin.
    pub fn free(&self, at: usize) {
        self.slots[at].number.store(FREE, Ordering::Release);
        self.bound.released.fetch_add(1, Ordering::Release);
    }

    /// Reports a pin outside of the slots, between its `begin` and its `finish`: `greatest` is the greatest number pinned
    /// there. Calls of this and of `unlist` must not overlap.
    pub fn list(&self, greatest: SequenceNumber) {
        self.listed.store(greatest.0, Ordering::Release);
    }

    /// Reports that a pin outside of the slots was released: `greatest` is the greatest number that still is pinned
    /// there, `ZERO` if none is.
    pub fn unlist(&self, greatest: SequenceNumber) {
        self.listed.store(greatest.0, Ordering::Release);
        self.bound.released.fetch_add(1, Ordering::Release);
    }

    /// Whether a snapshot is being taken.
    pub fn being_taken(&self) -> bool {
        self.bound.word.load(Ordering::SeqCst) >= TAKING
    }

    /// `MAX` while a snapshot is being taken; otherwise at least the greatest pinned number. It is exactly that, and
    /// `ZERO` without pins, unless another thread takes, releases or looks at the same time.
    pub fn newest(&self) -> SequenceNumber {
        let bound = &self.bound;
        let word = bound.word.load(Ordering::Acquire);
        if word == 0 || word >= TAKING || bound.released.load(Ordering::Relaxed) == bound.seen.load(Ordering::Relaxed) {
            return bound_of(word);
        }
        self.lower();
        bound_of(bound.word.load(Ordering::Acquire))
    }

    /// Lowers the number of the word to the greatest pin, unless a snapshot begins or another thread is doing so.
    fn lower(&self) {
        let bound = &self.bound;
        if bound.is_lowering.swap(true, Ordering::Acquire) {
            return;
        }
        let released = bound.released.load(Ordering::Acquire);
        if let Some(is_less) = self.try_lower() {
            bound.seen.store(released, Ordering::Relaxed);
            let lowered = bound.lowered.load(Ordering::Relaxed) + u64::from(is_less);
            bound.lowered.store(lowered, Ordering::Release);
        }
        bound.is_lowering.store(false, Ordering::Release);
    }

    /// Whether the number fell; `None` if a snapshot was being taken.
    fn try_lower(&self) -> Option<bool> {
        let word = &self.bound.word;
        let before = word.load(Ordering::Relaxed);
        if before >= TAKING {
            return None;
        }
        let flagged = before | LOWERING;
        word.compare_exchange(before, flagged, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        let greatest = self.pinned().map(|pinned| pinned.number.0).max().unwrap_or(0);
        let greatest = greatest.max(self.listed.load(Ordering::Acquire)) & NUMBER;
        word.compare_exchange(flagged, greatest, Ordering::AcqRel, Ordering::Relaxed).ok()?;
        Some(greatest < before)
    }

    /// The pins in slots, in no order. Contains every pin whose `finish` the caller knows of, unless it was freed. Beside
    /// other threads not a state of one moment; `taken` may then be that of the slot's next pin.
    pub fn pinned(&self) -> impl Iterator<Item = Pinned> {
        self.slots[..self.used.load(Ordering::Relaxed)].iter().filter_map(|slot| {
            let number = slot.number.load(Ordering::Acquire);
            let taken = slot.taken.load(Ordering::Relaxed);
            (number < CLAIMED).then_some(Pinned { number: SequenceNumber(number), taken })
        })
    }

    /// A counter that has increased whenever fewer versions are needed than before: after a pin was released, and after
    /// the bound that `newest` returns fell.
    pub fn changes(&self) -> u64 {
        self.bound.released.load(Ordering::Acquire) + self.bound.lowered.load(Ordering::Acquire)
    }
}

fn bound_of(word: u64) -> SequenceNumber {
    if word >= TAKING { SequenceNumber::MAX } else { SequenceNumber(word & NUMBER) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SLOTS: usize = 8;

    fn take(slots: &SnapshotSlots, number: u64) -> usize {
        slots.begin();
        let at = slots.claim(3).unwrap();
        slots.pin(at, Pinned { number: SequenceNumber(number), taken: number * 10 });
        slots.finish(SequenceNumber(number));
        at
    }

    #[test]
    fn the_bound_follows_the_pins() {
        let slots = SnapshotSlots::new(SLOTS);
        assert_eq!(slots.newest(), SequenceNumber::ZERO);
        let (first, second) = (take(&slots, 7), take(&slots, 9));
        assert_eq!((first, second), (3, 4));
        assert_eq!(slots.newest(), SequenceNumber(9));
        slots.begin();
        assert_eq!((slots.newest(), slots.being_taken()), (SequenceNumber::MAX, true));
        slots.free(second);
        slots.finish(SequenceNumber::ZERO);
        assert_eq!((slots.newest(), slots.being_taken()), (SequenceNumber(7), false));
        slots.free(first);
        slots.list(SequenceNumber(5));
        assert_eq!(slots.newest(), SequenceNumber(5));
        slots.unlist(SequenceNumber::ZERO);
        assert_eq!(slots.newest(), SequenceNumber::ZERO);
        // Three releases, and the bound fell as often.
        assert_eq!(slots.changes(), 6);
    }

    #[test]
    fn a_snapshot_that_begins_keeps_the_bound() {
        let slots = SnapshotSlots::new(SLOTS);
        let first = take(&slots, 7);
        let before = slots.bound.word.fetch_or(LOWERING, Ordering::Relaxed);
        // Begins and finishes with the same number: the word is what it was, but for the flag.
        let second = take(&slots, 7);
        assert_eq!(slots.bound.word.load(Ordering::Relaxed), before);
        slots.free(first);
        assert_eq!(slots.newest(), SequenceNumber(7));
        slots.free(second);
        assert_eq!(slots.newest(), SequenceNumber::ZERO);
    }

    #[test]
    fn only_one_thread_lowers() {
        let slots = SnapshotSlots::new(SLOTS);
        let first = take(&slots, 7);
        slots.free(first);
        slots.bound.is_lowering.store(true, Ordering::Relaxed);
        assert_eq!((slots.newest(), slots.changes()), (SequenceNumber(7), 1));
        assert_eq!(slots.bound.word.load(Ordering::Relaxed), 7, "neither number nor flag changed");
        slots.bound.is_lowering.store(false, Ordering::Relaxed);
        // Versions that were retained for the old bound can go: a change although no pin was released since.
        assert_eq!((slots.newest(), slots.changes()), (SequenceNumber::ZERO, 2));
    }

    #[test]
    fn every_slot_can_be_claimed_once() {
        let slots = SnapshotSlots::new(SLOTS);
        let mut claimed: Vec<_> = (0..SLOTS).map(|number| take(&slots, number as u64)).collect();
        slots.begin();
        assert_eq!(slots.claim(3), None);
        slots.finish(SequenceNumber::ZERO);
        claimed.sort_unstable();
        assert_eq!(claimed, Vec::from_iter(0..SLOTS));
        let mut pinned: Vec<_> = slots.pinned().collect();
        pinned.sort_by_key(|pinned| pinned.number);
        assert_eq!(pinned[5], Pinned { number: SequenceNumber(5), taken: 50 });
        assert_eq!((pinned.len(), slots.newest()), (SLOTS, SequenceNumber(SLOTS as u64 - 1)));
    }
}
