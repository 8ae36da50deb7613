//! One version of a key in the arena: what a write left there.
//!
//! Bytes, from the version's place on; the arena never leaves the process, so numbers have the machine's order:
//!
//! | at | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | number × 256 + kind; the number is 0 until the version is placed |
//! | 8 | 4 | place of the next older version, 0 at the end of the chain |
//! | 12 | 4 | place of the batch's state word, 0 where the version is committed |
//! | 16 | 4 | length of the value |
//! | 20 | | value |
//!
//! Invariants:
//! 1. `write` fills a version before any other thread knows its place. Length and value never change afterwards.
//! 2. Number, previous and batch are set once, in `place`, before the version is linked. Whoever found the version
//!    found it through an `Acquire` load of the link that a `Release` store published, so it sees all three; they are
//!    atomics only so that a misused `Prepared` cannot make a data race.
//! 3. The batch word may later go from a state's place to 0, never back, once the state is committed. That store is a
//!    `Release` and its readers `Acquire`: who sees 0 also sees the commit, and so every other entry of the batch as
//!    committed. Without it a reader could see one key new and then another old.

use crate::base::arena::{Arena, Offset};
use crate::base::sync::{AtomicU32, AtomicU64, Ordering};
use crate::base::{Kind, SequenceNumber};
use std::marker::PhantomData;

/// State word of a batch that is not committed.
pub const BATCH_PENDING: u32 = 0;
/// State word of a batch after its one store.
pub const BATCH_COMMITTED: u32 = 1;

#[repr(C)]
struct Header {
    number_and_kind: AtomicU64,
    previous: AtomicU32,
    batch: AtomicU32,
    value_bytes: u32,
}

const VALUE_AT: usize = std::mem::offset_of!(Header, value_bytes) + 4;
const _: () = assert!(VALUE_AT == 20);

/// A version that was written in the arena.
#[derive(Clone, Copy)]
pub struct Version<'a> {
    place: Offset,
    address: *const u8,
    arena: PhantomData<&'a Arena>,
}

/// Bytes that a version with a value of this length takes.
pub fn version_bytes(value_bytes: usize) -> usize {
    // At least the header's own size, so that a reference to it stays inside the allocation.
    (VALUE_AT + value_bytes).max(size_of::<Header>()).next_multiple_of(8)
}

impl<'a> Version<'a> {
    /// Fills a version that nobody knows yet.
    ///
    /// # Safety
    /// `version_bytes(value.len())` bytes at `place` were allocated from `arena` and belong to the caller alone.
    pub unsafe fn write(arena: &'a Arena, place: Offset, kind: Kind, value: &[u8]) -> Self {
        let address = arena.address(place);
        // SAFETY: the caller owns these bytes; the place is aligned to eight.
        unsafe {
            address.cast::<Header>().write(Header {
                number_and_kind: AtomicU64::new(u64::from(kind as u8)),
                previous: AtomicU32::new(0),
                batch: AtomicU32::new(0),
                value_bytes: value.len() as u32,
            });
            address.add(VALUE_AT).copy_from_nonoverlapping(value.as_ptr(), value.len());
        }
        Self { place, address, arena: PhantomData }
    }

    /// The version at a place.
    ///
    /// # Safety
    /// `place` was given to `write` in this life of `arena`, and this thread learned of it from the writer, itself, or
    /// through a link (invariant 2).
    pub unsafe fn at(arena: &'a Arena, place: Offset) -> Self {
        Self { place, address: arena.address(place).cast_const(), arena: PhantomData }
    }

    fn header(self) -> &'a Header {
        // SAFETY: `write` put a header here (precondition of the constructors); what changes in it is atomic.
        unsafe { &*self.address.cast::<Header>() }
    }

    /// Where it lies.
    pub fn place(self) -> Offset {
        self.place
    }

    /// Gives the version its number, before it is linked in front of `previous`.
    pub fn number_it(self, number: SequenceNumber, previous: Offset, batch: Offset) {
        let header = self.header();
        let kind = header.number_and_kind.load(Ordering::Relaxed) & 0xff;
        debug_assert!(number > SequenceNumber::ZERO && number <= SequenceNumber::MAX);
        header.number_and_kind.store(number.0 << 8 | kind, Ordering::Relaxed);
        header.previous.store(previous.0, Ordering::Relaxed);
        header.batch.store(batch.0, Ordering::Relaxed);
    }

    /// Its number.
    pub fn number(self) -> SequenceNumber {
        SequenceNumber(self.header().number_and_kind.load(Ordering::Relaxed) >> 8)
    }

    /// What it says about its key.
    pub fn kind(self) -> Kind {
        let byte = self.header().number_and_kind.load(Ordering::Relaxed) as u8;
        let Some(kind) = Kind::from_byte(byte) else { unreachable!("kind {byte} was never written to memory") };
        kind
    }

    /// The next older version.
    pub fn previous(self) -> Offset {
        Offset(self.header().previous.load(Ordering::Relaxed))
    }

    /// Its value.
    pub fn value(self) -> &'a [u8] {
        // SAFETY: `write` copied this many bytes behind the header, and they never change (invariant 1).
        unsafe { std::slice::from_raw_parts(self.address.add(VALUE_AT), self.header().value_bytes as usize) }
    }

    /// Whether the batch that it belongs to, if any, is committed.
    pub fn is_committed(self, arena: &Arena) -> bool {
        let batch = &self.header().batch;
        let state_place = Offset(batch.load(Ordering::Acquire));
        if state_place.is_null() {
            return true;
        }
        // SAFETY: `place_pending` stored the place of a state word of this arena.
        let committed = unsafe { state(arena, state_place) }.load(Ordering::Acquire) == BATCH_COMMITTED;
        if committed {
            // Spares later readers the state word's cache line (invariant 3).
            batch.store(0, Ordering::Release);
        }
        committed
    }
}

/// Allocates the state word of a batch, pending.
pub fn new_state(arena: &Arena) -> Offset {
    let place = arena.allocate(size_of::<AtomicU32>());
    // SAFETY: just allocated, aligned to eight, known to nobody else.
    unsafe { arena.address(place).cast::<AtomicU32>().write(AtomicU32::new(BATCH_PENDING)) };
    place
}

/// The state word at a place.
///
/// # Safety
/// `place` came from `new_state` in this life of the arena.
pub unsafe fn state(arena: &Arena, place: Offset) -> &AtomicU32 {
    // SAFETY: the word was initialised in `new_state` and is only used atomically since.
    unsafe { &*arena.address(place).cast::<AtomicU32>() }
}
