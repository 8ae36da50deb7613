//! Each model runs in every order that the memory model allows, up to a number of preemptions.

use alluvium_loom_models::protocols::{Batches, Block, Flaw, InsertQueue, read};
use alluvium_loom_models::snapshot_slots::{Pinned, SnapshotSlots};
use alluvium_loom_models::util::SequenceNumber;
use alluvium_loom_models::util::sequencer::{Sequencer, Slot};
use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::Arc;

fn check(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Runs threads concurrently; `last` runs on the model's own thread.
fn run_concurrently<T: Send + Sync + 'static>(shared: T, threads: Vec<fn(&T)>, last: fn(&T)) -> Arc<T> {
    let shared = Arc::new(shared);
    let start = |thread: fn(&T)| {
        let shared = Arc::clone(&shared);
        loom::thread::spawn(move || thread(&shared))
    };
    let started: Vec<_> = threads.into_iter().map(start).collect();
    last(&shared);
    started.into_iter().for_each(|thread| thread.join().unwrap());
    shared
}

/// A sequencer, one writer's slot, and words for what writers and waiters exchange.
struct Numbers {
    sequencer: Sequencer,
    slot: Arc<Slot>,
    word: AtomicU64,
    other: AtomicU64,
    third: AtomicU64,
}

impl Numbers {
    fn new() -> Self {
        Self::after(SequenceNumber::ZERO)
    }

    fn after(last: SequenceNumber) -> Self {
        let sequencer = Sequencer::new(last);
        // Before the threads start, as most writers have theirs; `a_writer_that_registers_is_waited_for` is the other case.
        let slot = sequencer.register();
        let word = || AtomicU64::new(0);
        Self { sequencer, slot, word: word(), other: word(), third: word() }
    }
}

/// Rule N3.
#[test]
fn what_has_a_number_is_placed_when_the_wait_ends() {
    check(|| {
        let write = |numbers: &Numbers| {
            numbers.sequencer.announce(&numbers.slot);
            numbers.sequencer.take(&numbers.slot);
            numbers.word.store(1, Ordering::Relaxed);
            numbers.sequencer.leave(&numbers.slot);
        };
        run_concurrently(Numbers::new(), vec![write], |numbers| {
            let last = numbers.sequencer.last();
            numbers.sequencer.wait_through(last);
            assert!(last.0 == 0 || numbers.word.load(Ordering::Relaxed) == 1, "a number is not placed");
        });
    });
}

/// Rules N3 and L2 for a writer whose slot is added beside the waits.
#[test]
fn a_writer_that_registers_is_waited_for() {
    check(|| {
        let write = |numbers: &Numbers| {
            let slot = numbers.sequencer.register();
            numbers.sequencer.announce(&slot);
            if numbers.other.load(Ordering::Relaxed) == 0 {
                numbers.third.store(1, Ordering::Relaxed);
            }
            numbers.sequencer.take(&slot);
            numbers.word.store(1, Ordering::Relaxed);
            numbers.sequencer.leave(&slot);
        };
        let numbers = run_concurrently(Numbers::new(), vec![write], |numbers| {
            let last = numbers.sequencer.last();
            numbers.sequencer.wait_through(last);
            assert!(last.0 == 0 || numbers.word.load(Ordering::Relaxed) == 1, "a number is not placed");
            numbers.other.store(1, Ordering::Relaxed);
            numbers.sequencer.wait_for_announced();
            numbers.other.store(2 + numbers.third.load(Ordering::Relaxed), Ordering::Relaxed);
        });
        let (sealed, now) = (numbers.other.load(Ordering::Relaxed) - 2, numbers.third.load(Ordering::Relaxed));
        assert_eq!(sealed, now, "a retired segment changed");
    });
}

/// Slots that are added side by side are all in the list.
#[test]
fn writers_that_register_side_by_side_are_waited_for() {
    check(|| {
        let write = |numbers: &Numbers| {
            let slot = numbers.sequencer.register();
            numbers.sequencer.announce(&slot);
            numbers.sequencer.take(&slot);
            numbers.word.fetch_add(1, Ordering::Relaxed);
            numbers.sequencer.leave(&slot);
        };
        run_concurrently(Numbers::new(), vec![write, write], |numbers| {
            let last = numbers.sequencer.last();
            numbers.sequencer.wait_through(last);
            assert!(numbers.word.load(Ordering::Relaxed) >= last.0, "a number is not placed");
        });
    });
}

/// Rule N4: what was published before `last` is seen by every greater number.
#[test]
fn a_greater_number_sees_what_was_published_before() {
    check(|| {
        let write = |numbers: &Numbers| {
            numbers.sequencer.announce(&numbers.slot);
            numbers.sequencer.take(&numbers.slot);
            numbers.other.store(numbers.word.load(Ordering::Relaxed), Ordering::Relaxed);
            numbers.sequencer.leave(&numbers.slot);
        };
        let numbers = run_concurrently(Numbers::new(), vec![write], |numbers| {
            numbers.word.store(1, Ordering::Relaxed);
            numbers.third.store(numbers.sequencer.last().0, Ordering::Relaxed);
        });
        let (last, seen) = (numbers.third.load(Ordering::Relaxed), numbers.other.load(Ordering::Relaxed));
        assert!(last == 1 || seen == 1, "a number above `last` did not see what was published before it");
    });
}

/// Rule L2: a segment no longer changes once everyone who announced before has left.
#[test]
fn a_retired_segment_does_not_change() {
    check(|| {
        let write = |numbers: &Numbers| {
            numbers.sequencer.announce(&numbers.slot);
            if numbers.word.load(Ordering::Relaxed) == 0 {
                numbers.other.store(1, Ordering::Relaxed);
            }
            numbers.sequencer.leave(&numbers.slot);
        };
        let numbers = run_concurrently(Numbers::new(), vec![write], |numbers| {
            numbers.word.store(1, Ordering::Relaxed);
            numbers.sequencer.wait_for_announced();
            numbers.third.store(numbers.other.load(Ordering::Relaxed), Ordering::Relaxed);
        });
        let (sealed, now) = (numbers.third.load(Ordering::Relaxed), numbers.other.load(Ordering::Relaxed));
        assert_eq!(sealed, now, "a retired segment changed");
    });
}

/// The number of the newest write when a model of snapshots begins, and of a snapshot that exists then.
const BEFORE: SequenceNumber = SequenceNumber(5);

/// Takes a snapshot as the registry does.
fn take(numbers: &Numbers, slots: &SnapshotSlots) -> SequenceNumber {
    slots.begin();
    let at = slots.claim(2).expect("a slot is free");
    let number = numbers.sequencer.last();
    slots.pin(at, Pinned { number, taken: 0 });
    numbers.sequencer.wait_through(number);
    slots.finish(number);
    number
}

/// Two slots with pins of `BEFORE`, and a free one.
fn two_pins() -> SnapshotSlots {
    let slots = SnapshotSlots::new(3);
    for at in 0..2 {
        slots.begin();
        assert_eq!(slots.claim(at), Some(at));
        slots.pin(at, Pinned { number: BEFORE, taken: 0 });
        slots.finish(BEFORE);
    }
    slots
}

/// Rules S1, S5, S8: while a write drops the version before its own if no pin is above that, two snapshots are dropped and
/// another one with the same number is taken. `other` says whether the version is gone.
#[test]
fn a_snapshot_finds_its_version() {
    check(|| {
        let write = |(numbers, slots): &(Numbers, SnapshotSlots)| {
            numbers.sequencer.announce(&numbers.slot);
            numbers.sequencer.take(&numbers.slot);
            if slots.newest() < BEFORE {
                numbers.other.store(1, Ordering::Relaxed);
            }
            numbers.sequencer.leave(&numbers.slot);
        };
        let drop_both = |(_, slots): &(Numbers, SnapshotSlots)| {
            slots.free(0);
            slots.free(1);
            slots.newest();
        };
        let both = (Numbers::after(BEFORE), two_pins());
        let shared = run_concurrently(both, vec![write, drop_both], |(numbers, slots)| {
            numbers.third.store(take(numbers, slots).0, Ordering::Relaxed);
        });
        // If its number includes the write, the snapshot has it; otherwise it needs the previous version.
        let (numbers, slots) = &*shared;
        let (taken, gone) = (numbers.third.load(Ordering::Relaxed), numbers.other.load(Ordering::Relaxed));
        assert!(taken > BEFORE.0 || gone == 0, "a snapshot's version is gone");
        assert_eq!(slots.newest().0, taken, "the bound is not the only pin");
    });
}

/// Rule S8: however releases and writes meet, in the end the bound is that of the pins that are left, here none.
#[test]
fn the_bound_falls_when_all_pins_are_released() {
    check(|| {
        let drop_first = |slots: &SnapshotSlots| slots.free(0);
        let drop_second = |slots: &SnapshotSlots| slots.free(1);
        let slots = run_concurrently(two_pins(), vec![drop_first, drop_second], |slots| {
            slots.newest();
        });
        assert_eq!(slots.newest(), SequenceNumber::ZERO);
    });
}

/// Rule S2: who reads the pins after some data was numbered sees every snapshot below these numbers.
#[test]
fn a_snapshot_below_a_number_is_seen() {
    check(|| {
        let write = |(numbers, _): &(Numbers, SnapshotSlots)| {
            numbers.sequencer.announce(&numbers.slot);
            numbers.sequencer.take(&numbers.slot);
            numbers.sequencer.leave(&numbers.slot);
        };
        let snapshot = |(numbers, slots): &(Numbers, SnapshotSlots)| {
            numbers.third.store(take(numbers, slots).0, Ordering::Relaxed);
        };
        let both = (Numbers::after(BEFORE), SnapshotSlots::new(1));
        let shared = run_concurrently(both, vec![write, snapshot], |(numbers, slots)| {
            let last = numbers.sequencer.last().0;
            let is_seen = slots.being_taken() || slots.pinned().any(|pinned| pinned.number.0 < last);
            let is_unseen_below = if is_seen { 0 } else { last };
            numbers.other.store(is_unseen_below, Ordering::Relaxed);
        });
        let (numbers, _) = &*shared;
        let (taken, unseen_below) = (numbers.third.load(Ordering::Relaxed), numbers.other.load(Ordering::Relaxed));
        assert!(taken >= unseen_below, "a snapshot at {taken} was not seen from {unseen_below}");
    });
}

/// A node's version is overwritten twice, the second time in the first one's block.
fn blocks(flaw: Flaw) {
    check(move || {
        let shared = Arc::new((AtomicU32::new(0), [Block::new(1, 1), Block::new(0, 0)]));
        let writer = {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || {
                let (newest, blocks) = &*shared;
                blocks[1].write(2, flaw);
                blocks[1].set_number(2);
                newest.store(1, Ordering::Release);
                blocks[0].free();
                blocks[0].write(3, flaw);
                blocks[0].set_number(3);
                newest.store(0, Ordering::Release);
            })
        };
        if let Some((number, words)) = read(&shared.0, &shared.1, flaw) {
            assert_eq!(words, [number; 2], "the value is torn");
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_value_is_whole() {
    blocks(Flaw::None);
}

#[test]
#[should_panic(expected = "the value is torn")]
fn without_the_fence_of_filling_a_value_is_torn() {
    blocks(Flaw::FillFence);
}

#[test]
#[should_panic(expected = "the value is torn")]
fn without_the_fence_of_comparing_a_value_is_torn() {
    blocks(Flaw::HoldsFence);
}

/// The first block moves from one key to another (words of 1 belong to the first, of 2 to the second).
fn moved_block(flaw: Flaw) {
    check(move || {
        let shared = Arc::new((AtomicU32::new(0), [Block::new(1, 1), Block::new(2, 1)]));
        let writer = {
            let shared = Arc::clone(&shared);
            loom::thread::spawn(move || {
                let (newest, blocks) = &*shared;
                newest.store(1, Ordering::Release);
                blocks[0].free();
                blocks[0].write(2, flaw);
                blocks[0].set_number(3);
            })
        };
        if let Some((_, words)) = read(&shared.0, &shared.1, flaw) {
            assert_eq!(words, [1; 2], "the value is another key's");
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_value_is_the_keys_own() {
    moved_block(Flaw::None);
}

#[test]
#[should_panic(expected = "another key's")]
fn without_the_second_look_a_value_is_another_keys() {
    moved_block(Flaw::NewestAgain);
}

fn insert_queue(flaw: Flaw) {
    check(move || {
        let queue = Arc::new(InsertQueue::empty());
        let writer = {
            let queue = Arc::clone(&queue);
            loom::thread::spawn(move || queue.push(flaw))
        };
        assert!(matches!(queue.take(), None | Some((1, 7))), "a drain read a slot too early");
        writer.join().unwrap();
    });
}

#[test]
fn a_drain_sees_what_was_pushed() {
    insert_queue(Flaw::None);
}

#[test]
#[should_panic(expected = "too early")]
fn without_release_a_drain_reads_too_early() {
    insert_queue(Flaw::CountRelease);
}

fn batches(flaw: Flaw) {
    check(move || {
        let batches = Arc::new(Batches::new());
        let writer = {
            let batches = Arc::clone(&batches);
            loom::thread::spawn(move || (1..3).for_each(|version| batches.write(version, flaw)))
        };
        if let Some(first) = batches.read(0)
            && let Some(second) = batches.read(1)
        {
            assert!(second >= first, "half a batch");
        }
        writer.join().unwrap();
    });
}

#[test]
fn a_batch_is_seen_whole() {
    batches(Flaw::None);
}

#[test]
#[should_panic(expected = "half a batch")]
fn forgotten_before_the_commit_a_batch_is_seen_by_halves() {
    batches(Flaw::CommitFirst);
}
