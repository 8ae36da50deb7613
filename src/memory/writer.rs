//! What one thread has of a Memtable that it writes to: memory to give out without meeting other threads, spare blocks, its part
//! of the Membuffer's feed, the state word of its batches, its counts.
//!
//! One thread at a time. A writer belongs to one Memtable and goes over to another by `Memtable::attach`; what it had of the old one
//! stays behind until that is recycled.

use super::class::{CLASSES, Class};
use super::feed::Feed;
use super::version::Version;
use crate::base::arena::{Arena, Offset};
use crate::base::sync::{Arc, AtomicU64, Ordering};
use crossbeam_utils::CachePadded;

/// See the module.
#[derive(Debug, Default)]
pub struct MemtableWriter {
    /// The Memtable's id; 0 is nobody's.
    pub(super) memtable: u64,
    /// A loose writer has none.
    pub(super) spares: Option<Spares>,
    pub(super) feed: Option<Feed>,
    /// The state word of this thread's batches, once it wrote one.
    pub(super) state: Offset,
    /// A loose writer has none.
    pub(super) counts: Option<Arc<CachePadded<Counts>>>,
    piece: Piece,
}

/// What one writer counts; others only read.
#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) keys: AtomicU64,
    pub(super) versions: AtomicU64,
}

/// Memory of the arena that one writer gives out by itself.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    next: u32,
    bytes: usize,
}

impl MemtableWriter {
    /// Memory for `bytes` bytes, as `Arena::allocate` gives it; mostly without its shared counter.
    pub(super) fn allocate(&mut self, arena: &Arena, bytes: usize, piece_bytes: usize) -> Offset {
        let bytes = bytes.next_multiple_of(crate::base::arena::UNIT_BYTES);
        if bytes > self.piece.bytes {
            if bytes * 4 > piece_bytes {
                return arena.allocate(bytes);
            }
            self.piece = Piece { next: arena.allocate(piece_bytes).0, bytes: piece_bytes };
        }
        let place = Offset(self.piece.next);
        self.piece = Piece { next: place.plus(bytes).0, bytes: self.piece.bytes - bytes };
        place
    }

    /// Counts keys and versions that came, or versions that went; a count may wrap, the sum of all does not.
    pub(super) fn count(&self, keys: u64, versions: i64) {
        // Only this thread writes them: no locked instruction needed.
        let add = |counter: &AtomicU64, amount| {
            counter.store(counter.load(Ordering::Relaxed).wrapping_add(amount), Ordering::Relaxed);
        };
        if let Some(counts) = &self.counts {
            add(&counts.keys, keys);
            add(&counts.versions, versions as u64);
        }
    }

    /// Forgets the old Memtable, for a new one.
    pub(super) fn move_to(&mut self, memtable: u64) -> Arc<CachePadded<Counts>> {
        let mut spares = self.spares.take().unwrap_or_default();
        spares.forget();
        let counts: Arc<CachePadded<Counts>> = Arc::default();
        *self = Self { memtable, spares: Some(spares), counts: Some(Arc::clone(&counts)), ..Self::default() };
        counts
    }

    /// A writer for one write that allocates nothing and leaves nothing behind: it has no spare blocks and no feed, and is not counted.
    pub(super) fn loose(memtable: u64) -> Self {
        Self { memtable, ..Self::default() }
    }
}

/// Blocks that hold nothing, by class; linked through the blocks themselves.
#[derive(Debug)]
pub(super) struct Spares {
    first: Box<[Offset; CLASSES]>,
}

impl Default for Spares {
    fn default() -> Self {
        Self { first: Box::new([Offset::NULL; CLASSES]) }
    }
}

impl Spares {
    fn forget(&mut self) {
        self.first.fill(Offset::NULL);
    }

    /// A block of a class.
    pub(super) fn take<'a>(&mut self, arena: &'a Arena, class: Class) -> Option<Version<'a>> {
        let first = &mut self.first[class.index()];
        if first.is_null() {
            return None;
        }
        // SAFETY: only blocks of this arena come in, by `give`.
        let block = unsafe { Version::at(arena, *first) };
        *first = block.previous();
        Some(block)
    }

    /// Takes a version out of its block and keeps the block. The caller has taken it out of its chain, under the key's latch.
    pub(super) fn give(&mut self, block: Version<'_>) {
        let first = &mut self.first[block.class().index()];
        block.free(*first);
        *first = block.place();
    }

    /// Takes over all blocks of a class that another list has. Requires that this one has none.
    pub(super) fn take_all(&mut self, from: &mut Self, class: Class) {
        let (first, from) = (&mut self.first[class.index()], &mut from.first[class.index()]);
        debug_assert!(first.is_null());
        *first = std::mem::replace(from, Offset::NULL);
    }

    /// Whether there is a block of a class.
    pub(super) fn has(&self, class: Class) -> bool {
        !self.first[class.index()].is_null()
    }

    /// The first block of a class.
    pub(super) fn first(&self, class: Class) -> Offset {
        self.first[class.index()]
    }
}
