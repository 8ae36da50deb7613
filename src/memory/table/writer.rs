//! What one thread has of a Memtable that it writes to: memory to give out without meeting other threads, spare blocks, its part
//! of the Membuffer's feed, and a desk in the arena with the state word of its batches and its count of versions.
//!
//! One thread at a time. A writer belongs to one Memtable and goes over to another by `Memtable::attach`; what it had of the old one
//! stays behind until that is recycled.

use crate::memory::buffer::insert_queue::InsertQueue;
use crate::memory::entry::class::{CLASSES, Class};
use crate::memory::entry::version::Version;
use crate::util::arena::{Arena, Offset};
use crate::util::sync::{AtomicU32, AtomicU64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct MemtableWriter {
    /// The Memtable's id; 0 is nobody's.
    pub(crate) memtable: u64,
    /// A loose writer has none.
    pub(crate) spares: Option<Spares>,
    pub(crate) queue: Option<InsertQueue>,
    /// A loose writer has none.
    pub(crate) slot: Offset,
    piece: Piece,
}

/// A writer's words in the arena, which others read.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct WriterSlot {
    /// The state of this thread's batches; first, so that its place is the desk's.
    pub(crate) state: AtomicU32,
    /// The place of another writer's.
    next: AtomicU32,
    /// Versions that this thread placed, less those that it took out.
    versions: AtomicU64,
}

/// A line, so that writers do not meet in it.
const WRITER_SLOT_BYTES: usize = 64;
const _: () = assert!(size_of::<WriterSlot>() <= WRITER_SLOT_BYTES && std::mem::offset_of!(WriterSlot, state) == 0);

impl WriterSlot {
    /// A desk in front of a list of others.
    pub(crate) fn make(arena: &Arena, first: &mut Offset) -> Offset {
        let place = arena.allocate(WRITER_SLOT_BYTES);
        let slot = Self { next: AtomicU32::new(first.0), state: AtomicU32::new(0), versions: AtomicU64::new(0) };
        // SAFETY: allocated just now, large enough, aligned to eight.
        unsafe { arena.address(place).cast::<Self>().write(slot) };
        *first = place;
        place
    }

    /// The desk at a place that `make` gave.
    pub(crate) fn at(arena: &Arena, place: Offset) -> &Self {
        debug_assert!(!place.is_null());
        // SAFETY: places of desks come from `make` in this life of the arena (`MemtableWriter::move_to`); all in it is atomic.
        unsafe { &*arena.address(place).cast::<Self>() }
    }

    /// Adds to the count of versions. Only the desk's owner calls this: no locked instruction needed.
    pub(crate) fn count(&self, versions: i64) {
        self.versions.store(self.versions.load(Ordering::Relaxed).wrapping_add_signed(versions), Ordering::Relaxed);
    }

    /// The versions on all desks of a list; a single count may wrap, the sum does not.
    pub(crate) fn sum(arena: &Arena, first: Offset) -> u64 {
        let some = |place: Offset| (!place.is_null()).then(|| Self::at(arena, place));
        let next = |slot: &&Self| some(Offset(slot.next.load(Ordering::Relaxed)));
        std::iter::successors(some(first), next)
            .fold(0, |sum, slot| sum.wrapping_add(slot.versions.load(Ordering::Relaxed)))
    }
}

/// Memory of the arena that one writer gives out by itself.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    next: u32,
    bytes: usize,
}

impl MemtableWriter {
    /// Memory for `bytes` bytes, as `Arena::allocate` gives it; mostly without its shared counter.
    pub(crate) fn allocate(&mut self, arena: &Arena, bytes: usize, piece_bytes: usize) -> Offset {
        let bytes = bytes.next_multiple_of(crate::util::arena::UNIT_BYTES);
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

    /// Counts versions that came, or that went.
    pub(crate) fn count(&self, arena: &Arena, versions: i64) {
        if !self.slot.is_null() {
            WriterSlot::at(arena, self.slot).count(versions);
        }
    }

    /// Forgets the old Memtable, for a new one with a desk in it.
    pub(crate) fn move_to(&mut self, memtable: u64, slot: Offset) {
        let mut spares = self.spares.take().unwrap_or_default();
        spares.clear();
        *self = Self { memtable, spares: Some(spares), slot, ..Self::default() };
    }

    /// A writer for one write that allocates nothing and leaves nothing behind: it has no spare blocks and no feed, and is not counted.
    pub(crate) fn temporary(memtable: u64) -> Self {
        Self { memtable, ..Self::default() }
    }
}

/// Blocks that hold nothing, by class; linked through the blocks themselves.
#[derive(Debug)]
pub(crate) struct Spares {
    first: Box<[Offset; CLASSES]>,
}

impl Default for Spares {
    fn default() -> Self {
        Self { first: Box::new([Offset::NULL; CLASSES]) }
    }
}

impl Spares {
    fn clear(&mut self) {
        self.first.fill(Offset::NULL);
    }

    /// A block of a class.
    pub(crate) fn take<'a>(&mut self, arena: &'a Arena, class: Class) -> Option<Version<'a>> {
        let first = &mut self.first[class.index()];
        if first.is_null() {
            return None;
        }
        // SAFETY: only blocks of this arena come in, by `add`.
        let block = unsafe { Version::at(arena, *first) };
        *first = block.previous();
        Some(block)
    }

    /// Takes a version out of its block and keeps the block. The caller has taken it out of its chain, under the key's latch.
    pub(crate) fn add(&mut self, block: Version<'_>) {
        let first = &mut self.first[block.class().index()];
        block.free(*first);
        *first = block.place();
    }

    /// Takes over all blocks of a class that another list has. Requires that this one has none.
    pub(crate) fn take_all(&mut self, from: &mut Self, class: Class) {
        let (first, from) = (&mut self.first[class.index()], &mut from.first[class.index()]);
        debug_assert!(first.is_null());
        *first = std::mem::replace(from, Offset::NULL);
    }

    /// Whether there is a block of a class.
    pub(crate) fn has(&self, class: Class) -> bool {
        !self.first[class.index()].is_null()
    }

    /// The first block of a class.
    pub(crate) fn first(&self, class: Class) -> Offset {
        self.first[class.index()]
    }
}
