//! The insert queues of the Membuffer: the nodes that wait to be linked into the skiplist. Each writer fills one of its
//! own.
//!
//! A queue consists of chunks in the arena. A chunk has a count, the place of another chunk, its capacity, then the
//! places of its nodes. One thread fills a chunk. Any thread that holds the lock of the Membuffer's state may read it.
//!
//! Invariants:
//! 1. A slot is stored before the count that includes it (`Release`), so a reader of the count (`Acquire`) sees the
//!    slot and its node. A filled slot never changes, and a count never falls.
//! 2. A node is stored once, in one slot of one chunk.

use crate::util::arena::{Arena, Offset};
use crate::util::planted::planted;
use crate::util::sync::{AtomicU32, Ordering};

const WORD: usize = size_of::<u32>();
/// Indexes of the words before a chunk's first slot, and of that slot.
const COUNT: u32 = 0;
const NEXT: u32 = 1;
const CAPACITY: u32 = 2;
const SLOTS: u32 = 3;

/// The writer's end of an insert queue: the chunk that it fills.
#[derive(Debug)]
pub struct InsertQueue {
    chunk: Offset,
    filled: u32,
    capacity: u32,
}

/// The reader's end of a chunk: how far it has been read, and how far it is to be read.
#[derive(Debug)]
pub struct QueueReader {
    chunk: Offset,
    taken: u32,
    wanted: u32,
    capacity: u32,
}

/// The size of a chunk for this many nodes.
pub fn chunk_bytes(capacity: u32) -> usize {
    (SLOTS as usize + capacity as usize) * WORD
}

impl InsertQueue {
    /// Creates an empty chunk.
    ///
    /// # Safety
    /// `chunk_bytes(capacity)` bytes at `chunk` were allocated from `arena` and belong to the caller alone.
    pub unsafe fn make(arena: &Arena, chunk: Offset, capacity: u32) -> Self {
        // SAFETY: the caller guarantees the memory; places are aligned to eight. Writing every word also touches its
        // page, before any latch is held.
        unsafe { arena.address(chunk).write_bytes(0, chunk_bytes(capacity)) };
        word(arena, chunk, CAPACITY).store(capacity, Ordering::Relaxed);
        Self { chunk, filled: 0, capacity }
    }

    /// The number of nodes that still fit.
    pub fn remaining(&self) -> usize {
        (self.capacity - self.filled) as usize
    }

    /// Adds a node. Requires that one fits.
    pub fn push(&mut self, arena: &Arena, node: Offset) {
        assert!(self.filled < self.capacity, "the insert queue's chunk is full");
        planted!(Bug::QueueCountFirst => {
            word(arena, self.chunk, COUNT).store(self.filled + 1, Ordering::Release);
        });
        word(arena, self.chunk, SLOTS + self.filled).store(node.0, Ordering::Relaxed);
        self.filled += 1;
        word(arena, self.chunk, COUNT).store(self.filled, Ordering::Release);
    }

    /// Adds the chunk in front of a list of unread chunks. The caller holds the lock of the list.
    pub fn add_to_list(&self, arena: &Arena, first: &mut Offset) {
        word(arena, self.chunk, NEXT).store(first.0, Ordering::Relaxed);
        *first = self.chunk;
    }
}

impl QueueReader {
    /// Readers of all chunks of a list. No other thread has the list.
    pub fn of_list(arena: &Arena, first: Offset) -> impl Iterator<Item = Self> {
        let some = |chunk: Offset| (!chunk.is_null()).then_some(chunk);
        let next = move |chunk: &Offset| some(Offset(word(arena, *chunk, NEXT).load(Ordering::Relaxed)));
        let capacity = |chunk| word(arena, chunk, CAPACITY).load(Ordering::Relaxed);
        let reader = move |chunk| Self { chunk, taken: 0, wanted: 0, capacity: capacity(chunk) };
        std::iter::successors(some(first), next).map(reader)
    }

    /// Wants all nodes that were added so far. True if some were not taken yet.
    pub fn want(&mut self, arena: &Arena) -> bool {
        self.wanted = word(arena, self.chunk, COUNT).load(Ordering::Acquire);
        self.taken < self.wanted
    }

    /// Takes wanted nodes until `nodes` has this many.
    pub fn take(&mut self, arena: &Arena, nodes: &mut Vec<Offset>, limit: usize) {
        let room = limit.saturating_sub(nodes.len()) as u32;
        let end = self.wanted.min(self.taken + room);
        let node = |at| Offset(word(arena, self.chunk, SLOTS + at).load(Ordering::Relaxed));
        nodes.extend((self.taken..end).map(node));
        self.taken = end;
    }

    /// Whether every node was taken that is wanted.
    pub fn has_no_more(&self) -> bool {
        self.taken == self.wanted
    }

    /// Whether every node was taken that the chunk will ever have.
    pub fn is_at_end(&self) -> bool {
        self.taken == self.capacity
    }
}

/// A word of a chunk.
fn word(arena: &Arena, chunk: Offset, at: u32) -> &AtomicU32 {
    // SAFETY: `make` initialised the words of this chunk in this use of the arena, and `at` names one of them: `push`
    // and `take` count no further than its capacity.
    unsafe { &*arena.address(chunk).cast::<AtomicU32>().add(at as usize) }
}
