//! The feed of the Membuffer: which nodes wait to be brought into the skiplist, in pieces that one thread each fills.
//!
//! A chunk lies in the arena: a count, the place of another chunk, the chunk's capacity, then as many places of nodes as were put in. One
//! thread fills a chunk; any thread that holds the Membuffer's state reads it.
//!
//! Invariants:
//! 1. A slot is stored before the count that covers it (`Release`), so a reader of the count (`Acquire`) sees the slot and the
//!    node that it names. Slots and counts never change back.
//! 2. A node goes into one slot of one chunk, once.

use crate::util::arena::{Arena, Offset};
use crate::util::planted::{self, Bug};
use crate::util::sync::{AtomicU32, Ordering};

const WORD: usize = size_of::<u32>();
/// Words of a chunk before its first slot.
const COUNT: u32 = 0;
const NEXT: u32 = 1;
const CAPACITY: u32 = 2;
const SLOTS: u32 = 3;

/// The chunk that a thread fills.
#[derive(Debug)]
pub struct InsertQueue {
    chunk: Offset,
    filled: u32,
    capacity: u32,
}

/// A chunk and how far it was read.
#[derive(Debug)]
pub struct QueueReader {
    chunk: Offset,
    taken: u32,
    capacity: u32,
}

/// Bytes of a chunk for so many nodes.
pub fn chunk_bytes(capacity: u32) -> usize {
    (SLOTS as usize + capacity as usize) * WORD
}

impl InsertQueue {
    /// An empty chunk.
    ///
    /// # Safety
    /// `chunk_bytes(capacity)` bytes at `chunk` were allocated from `arena` and belong to the caller alone.
    pub unsafe fn make(arena: &Arena, chunk: Offset, capacity: u32) -> Self {
        // SAFETY: the caller's promise; places are aligned to eight. Writing every word also touches its page, outside any latch.
        unsafe { arena.address(chunk).write_bytes(0, chunk_bytes(capacity)) };
        word(arena, chunk, CAPACITY).store(capacity, Ordering::Relaxed);
        Self { chunk, filled: 0, capacity }
    }

    /// How many nodes still fit.
    pub fn remaining(&self) -> usize {
        (self.capacity - self.filled) as usize
    }

    /// Puts a node in. Requires room.
    pub fn push(&mut self, arena: &Arena, node: Offset) {
        assert!(self.filled < self.capacity, "the feed's chunk is full");
        if planted::is(Bug::FeedCountFirst) {
            word(arena, self.chunk, COUNT).store(self.filled + 1, Ordering::Release);
        }
        word(arena, self.chunk, SLOTS + self.filled).store(node.0, Ordering::Relaxed);
        self.filled += 1;
        word(arena, self.chunk, COUNT).store(self.filled, Ordering::Release);
    }

    /// Puts the chunk in front of a list of others, none of which anybody has read; the caller has the list for itself.
    pub fn add_to_list(&self, arena: &Arena, first: &mut Offset) {
        word(arena, self.chunk, NEXT).store(first.0, Ordering::Relaxed);
        *first = self.chunk;
    }
}

impl QueueReader {
    /// All chunks of a list that the caller has for itself.
    pub fn of_list(arena: &Arena, first: Offset) -> impl Iterator<Item = Self> {
        let some = |chunk: Offset| (!chunk.is_null()).then_some(chunk);
        let next = move |chunk: &Offset| some(Offset(word(arena, *chunk, NEXT).load(Ordering::Relaxed)));
        let reader = |chunk| Self { chunk, taken: 0, capacity: word(arena, chunk, CAPACITY).load(Ordering::Relaxed) };
        std::iter::successors(some(first), next).map(reader)
    }

    /// Gives the nodes that came since the last time; true while more may come.
    pub fn take(&mut self, arena: &Arena, mut each: impl FnMut(Offset)) -> bool {
        let filled = word(arena, self.chunk, COUNT).load(Ordering::Acquire);
        for at in self.taken..filled {
            each(Offset(word(arena, self.chunk, SLOTS + at).load(Ordering::Relaxed)));
        }
        self.taken = filled;
        filled < self.capacity
    }
}

/// A word of a chunk.
fn word(arena: &Arena, chunk: Offset, at: u32) -> &AtomicU32 {
    // SAFETY: `make` initialised the words of this chunk in this life of the arena, and `at` names one of them: `push` and
    // `take` count no further than its capacity.
    unsafe { &*arena.address(chunk).cast::<AtomicU32>().add(at as usize) }
}
