//! What one thread has of the Memtable that it writes to: a piece of memory to allocate from without contention, spare
//! blocks, its insert queue, and a *writer slot* in the arena with the state word of its batches and its count of
//! versions.
//!
//! One thread at a time uses a writer. A writer belongs to one Memtable, and `Memtable::attach` moves it to another
//! one. What it had of the old one stays unused until that is recycled.
//!
//! Invariant: places in a writer (slot, queue, spare blocks, piece) belong to the arena of the Memtable with its id.

use crate::memory::buffer::insert_queue::InsertQueue;
use crate::memory::entry::class::{CLASSES, Class};
use crate::memory::entry::version::Version;
use crate::util::arena::{Arena, Offset};
use crate::util::sync::{AtomicU32, AtomicU64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct MemtableWriter {
    /// The Memtable's id; 0 is no Memtable's.
    pub(crate) memtable: u64,
    /// `None` for a temporary writer.
    pub(crate) spares: Option<Spares>,
    pub(crate) queue: Option<InsertQueue>,
    /// `NULL` for a temporary writer.
    pub(crate) slot: Offset,
    piece: Piece,
}

/// The part of a writer that other threads read, in the arena.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct WriterSlot {
    /// The state of this thread's batches. The first field, so that its place is also the slot's.
    pub(crate) state: AtomicU32,
    /// The place of the next writer slot of the Memtable.
    next: AtomicU32,
    /// The number of versions that this thread has placed, less the number that it has removed.
    versions: AtomicU64,
}

/// A cache line, so that writers do not share one.
const WRITER_SLOT_BYTES: usize = 64;
const _: () = assert!(size_of::<WriterSlot>() <= WRITER_SLOT_BYTES && std::mem::offset_of!(WriterSlot, state) == 0);

impl WriterSlot {
    /// Creates a slot in front of a list of others.
    pub(crate) fn make(arena: &Arena, first: &mut Offset) -> Offset {
        let place = arena.allocate(WRITER_SLOT_BYTES);
        let slot = Self { next: AtomicU32::new(first.0), state: AtomicU32::new(0), versions: AtomicU64::new(0) };
        // SAFETY: allocated just now, large enough, aligned to eight.
        unsafe { arena.address(place).cast::<Self>().write(slot) };
        *first = place;
        place
    }

    /// The slot at a place that `make` returned.
    pub(crate) fn at(arena: &Arena, place: Offset) -> &Self {
        debug_assert!(!place.is_null());
        // SAFETY: places of slots come from `make` in this use of the arena (`MemtableWriter::move_to`). All fields are
        // atomic.
        unsafe { &*arena.address(place).cast::<Self>() }
    }

    /// Adds to the count of versions. Only the slot's owner calls this, so it needs no atomic read-modify-write.
    pub(crate) fn count(&self, versions: i64) {
        self.versions.store(self.versions.load(Ordering::Relaxed).wrapping_add_signed(versions), Ordering::Relaxed);
    }

    /// The number of versions in all slots of a list. A single count may wrap; the sum does not.
    pub(crate) fn sum(arena: &Arena, first: Offset) -> u64 {
        let some = |place: Offset| (!place.is_null()).then(|| Self::at(arena, place));
        let next = |slot: &&Self| some(Offset(slot.next.load(Ordering::Relaxed)));
        std::iter::successors(some(first), next)
            .fold(0, |sum, slot| sum.wrapping_add(slot.versions.load(Ordering::Relaxed)))
    }
}

/// Memory of the arena that one writer allocates from.
#[derive(Clone, Copy, Debug, Default)]
struct Piece {
    next: u32,
    bytes: usize,
}

impl MemtableWriter {
    /// Allocates `bytes` bytes as `Arena::allocate` does, mostly without its shared counter.
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

    /// Counts versions that were added, or removed if negative.
    pub(crate) fn count(&self, arena: &Arena, versions: i64) {
        if !self.slot.is_null() {
            WriterSlot::at(arena, self.slot).count(versions);
        }
    }

    /// Drops everything of the old Memtable, and moves to a new one with a slot in it.
    pub(crate) fn move_to(&mut self, memtable: u64, slot: Offset) {
        let mut spares = self.spares.take().unwrap_or_default();
        spares.clear();
        *self = Self { memtable, spares: Some(spares), slot, ..Self::default() };
    }

    /// A writer for a single write. It has no spare blocks and no insert queue, allocates nothing, and does not count
    /// versions.
    pub(crate) fn temporary(memtable: u64) -> Self {
        Self { memtable, ..Self::default() }
    }
}

/// Adds a block that is in no chain to the spare blocks of a writer that has any.
pub(crate) fn add_spare(writer: &mut MemtableWriter, block: Version<'_>) {
    if let Some(spares) = &mut writer.spares {
        spares.add(block);
    }
}

/// Spare blocks by class, linked through the blocks themselves.
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

    /// Takes a block of a class.
    pub(crate) fn take<'a>(&mut self, arena: &'a Arena, class: Class) -> Option<Version<'a>> {
        let first = &mut self.first[class.index()];
        if first.is_null() {
            return None;
        }
        // SAFETY: the lists contain only blocks of this arena, added by `add`.
        let block = unsafe { Version::at(arena, *first) };
        *first = block.previous();
        Some(block)
    }

    /// Removes a version from its block and adds the block. The caller has unlinked it from its chain, under the key's
    /// latch.
    pub(crate) fn add(&mut self, block: Version<'_>) {
        let first = &mut self.first[block.class().index()];
        block.free(*first);
        *first = block.place();
    }

    /// Takes all blocks of a class from another list. Requires that this list has none.
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
