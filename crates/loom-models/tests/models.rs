//! Each model runs in every order that the memory model allows, up to a number of preemptions.

use alluvium_loom_models::protocols::{Batches, Block, Flaw, InsertQueue, read};
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
        let sequencer = Sequencer::new(SequenceNumber::ZERO);
        // Before the threads start: the lock of the slots would order them.
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

/// Rules S1, S5: `word` is the newest pin; `other` says whether the version before the write's is gone.
#[test]
fn a_snapshot_finds_its_version() {
    check(|| {
        let write = |numbers: &Numbers| {
            numbers.sequencer.announce(&numbers.slot);
            numbers.sequencer.take(&numbers.slot);
            if numbers.word.load(Ordering::Acquire) == 0 {
                numbers.other.store(1, Ordering::Relaxed);
            }
            numbers.sequencer.leave(&numbers.slot);
        };
        let numbers = run_concurrently(Numbers::new(), vec![write], |numbers| {
            numbers.word.store(u64::MAX, Ordering::SeqCst);
            let last = numbers.sequencer.last();
            numbers.word.store(last.0.max(1), Ordering::SeqCst);
            numbers.sequencer.wait_through(last);
            numbers.third.store(last.0, Ordering::Relaxed);
        });
        // If its number includes the write, the snapshot has it; otherwise it needs the previous version.
        let (has_write, gone) = (numbers.third.load(Ordering::Relaxed), numbers.other.load(Ordering::Relaxed));
        assert!(has_write == 1 || gone == 0, "a snapshot's version is gone");
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
