//! One version of a key in the arena: what a write left there. Its memory is a *block*, which may hold one version after another.
//!
//! Bytes, from the block's place on; the arena never leaves the process, so numbers have the machine's order:
//!
//! | at | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | number × 256 + kind; the number is 0 while the block holds no placed version |
//! | 8 | 4 | place of the next older version, 0 at the end of the chain; in a spare block, of the next spare one |
//! | 12 | 4 | place of the batch's state word, 0 where the version is committed |
//! | 16 | 4 | length of the value |
//! | 20 | 4 | class of the block: how long a value may be (`class.rs`); never changes |
//! | 24 | | value, in words of eight bytes |
//!
//! A block stays a block, at its place and of its class, for the whole life of the arena. Everything but the class is atomic, since a
//! block is filled anew while slow readers still look at it (FloDB §3.2, updates in place; here by swapping blocks, so that nobody
//! waits for a writer that stands still half-way).
//!
//! Invariants:
//! 1. Whoever has a block for itself (`write`, `free`) sets its number to 0 before it changes anything else, a `Release` fence
//!    between the two. It is placed with a number greater than every number that was taken before it was free.
//! 2. So a reader that loads the number, `Acquire`, then anything else, and after an `Acquire` fence finds the number unchanged
//!    (`Look::holds`), has read one version; and a reader that came to a block through an older look, and finds in it 0
//!    or a number that is not below that of the look, knows that the block went another way meanwhile.
//! 3. Number, previous and batch are set by the thread that has the block, in `number_it`, before the version is linked. Afterwards
//!    `previous` changes under the key's latch only, to a version further down the same chain, and the batch word goes to 0, once, by
//!    the thread that committed the batch, after the commit (`Release`): who sees 0 also sees every other entry as committed.

use super::class::Class;
use crate::util::arena::{Arena, Offset};
use crate::util::planted::planted;
use crate::util::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::util::{Kind, SequenceNumber};
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
    value_bytes: AtomicU32,
    class: u32,
}

const WORD: usize = size_of::<u64>();
const VALUE_AT: usize = size_of::<Header>();
const _: () = assert!(VALUE_AT == 24);

/// A block that holds, or held, a version.
#[derive(Clone, Copy)]
pub struct Version<'a> {
    place: Offset,
    address: *const u8,
    arena: PhantomData<&'a Arena>,
}

/// What a block's header said at one instant, if it still `holds`.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    number_and_kind: u64,
    previous: Offset,
    batch: Offset,
    value_bytes: u32,
}

impl Look {
    /// The version's number; `ZERO` where the block holds none.
    pub fn number(&self) -> SequenceNumber {
        SequenceNumber(self.number_and_kind >> 8)
    }

    /// What it says about its key. Only where the look holds.
    pub fn kind(&self) -> Kind {
        let byte = self.number_and_kind as u8;
        let Some(kind) = Kind::from_byte(byte) else { unreachable!("kind {byte} was never written to memory") };
        kind
    }

    /// The next older version.
    pub fn previous(&self) -> Offset {
        self.previous
    }
}

/// Bytes of a block of a class.
pub fn block_bytes(class: Class) -> usize {
    VALUE_AT + class.value_bytes()
}

impl<'a> Version<'a> {
    /// Makes a block of memory that nobody knows yet, and fills it.
    ///
    /// # Safety
    /// `block_bytes(class)` bytes at `place` were allocated from `arena` and belong to the caller alone.
    pub unsafe fn make(arena: &'a Arena, place: Offset, class: Class, kind: Kind, value: &[u8]) -> Self {
        let address = arena.address(place);
        // SAFETY: the caller owns these bytes; the place is aligned to eight.
        unsafe {
            address.cast::<Header>().write(Header {
                number_and_kind: AtomicU64::new(u64::from(kind as u8)),
                previous: AtomicU32::new(0),
                batch: AtomicU32::new(0),
                value_bytes: AtomicU32::new(value.len() as u32),
                class: class.0,
            });
            // Nobody has looked at these bytes in this life of the arena, so a plain copy will do.
            address.add(VALUE_AT).copy_from_nonoverlapping(value.as_ptr(), value.len());
        }
        Self { place, address, arena: PhantomData }
    }

    /// The block at a place.
    ///
    /// # Safety
    /// `place` was given to `make` in this life of `arena`, and this thread learned of it from its maker, itself, or
    /// through a link.
    pub unsafe fn at(arena: &'a Arena, place: Offset) -> Self {
        Self { place, address: arena.address(place).cast_const(), arena: PhantomData }
    }

    /// Fills a spare block with a version that has no number yet. The caller has the block for itself.
    pub fn write(self, kind: Kind, value: &[u8]) {
        let header = self.header();
        debug_assert!(value.len() <= self.class().value_bytes());
        let kept = planted!(0, Bug::BlockNumberNotCleared => self.number().0 << 8);
        header.number_and_kind.store(kept | u64::from(kind as u8), Ordering::Relaxed);
        fence(Ordering::Release);
        header.value_bytes.store(value.len() as u32, Ordering::Relaxed);
        let (words, tail) = value.as_chunks::<WORD>();
        let places = self.words(value.len());
        for (place, word) in places.iter().zip(words) {
            // Which order the bytes have in the word does not matter, as long as it is the same on both sides.
            place.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        if !tail.is_empty() {
            let mut word = [0; WORD];
            word[..tail.len()].copy_from_slice(tail);
            places[words.len()].store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }

    /// Takes the version out of its block: whoever still reads it finds out. The caller holds the key's latch and has
    /// taken the block out of its chain.
    pub fn free(self, next_spare: Offset) {
        planted!(self.header().number_and_kind.store(0, Ordering::Relaxed), Bug::BlockNumberNotCleared => ());
        fence(Ordering::Release);
        self.header().previous.store(next_spare.0, Ordering::Relaxed);
    }

    fn header(self) -> &'a Header {
        // SAFETY: `make` put a header here (precondition of the constructors); what changes in it is atomic.
        unsafe { &*self.address.cast::<Header>() }
    }

    /// The words that a value of this many bytes fills, which the block's class has room for.
    fn words(self, value_bytes: usize) -> &'a [AtomicU64] {
        assert!(value_bytes <= self.class().value_bytes());
        // SAFETY: `make` was given this much memory behind the header, aligned to eight; from the first time that a block is
        // shared it is only used atomically.
        unsafe { std::slice::from_raw_parts(self.address.add(VALUE_AT).cast(), value_bytes.div_ceil(WORD)) }
    }

    /// Where it lies.
    pub fn place(self) -> Offset {
        self.place
    }

    /// The block's class.
    pub fn class(self) -> Class {
        Class(self.header().class)
    }

    /// Gives the version its number, before it is linked in front of `previous`.
    pub fn number_it(self, number: SequenceNumber, previous: Offset, batch: Offset) {
        let header = self.header();
        let kind = header.number_and_kind.load(Ordering::Relaxed) & 0xff;
        debug_assert!(number > SequenceNumber::ZERO && number <= SequenceNumber::MAX);
        header.previous.store(previous.0, Ordering::Relaxed);
        header.batch.store(batch.0, Ordering::Relaxed);
        header.number_and_kind.store(number.0 << 8 | kind, Ordering::Release);
    }

    /// Puts another older version behind this one. The caller holds the key's latch, or has the whole Memtable.
    pub fn set_previous(self, previous: Offset) {
        self.header().previous.store(previous.0, Ordering::Release);
    }

    /// Marks the entry of a committed batch as committed by itself.
    pub fn forget_batch(self) {
        self.header().batch.store(0, Ordering::Release);
    }

    /// What the header says now.
    pub fn look(self) -> Look {
        let header = self.header();
        Look {
            number_and_kind: header.number_and_kind.load(Ordering::Acquire),
            previous: Offset(header.previous.load(Ordering::Acquire)),
            batch: Offset(header.batch.load(Ordering::Acquire)),
            value_bytes: header.value_bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether all that was read since a look is of the version that was looked at (invariant 2).
    pub fn holds(self, look: &Look) -> bool {
        fence(Ordering::Acquire);
        self.header().number_and_kind.load(Ordering::Relaxed) == look.number_and_kind
    }

    /// Its number, for callers who know that it cannot change: they hold the key's latch, or have the block to themselves, or
    /// a snapshot that needs it.
    pub fn number(self) -> SequenceNumber {
        self.look().number()
    }

    /// Its kind; as for `number`.
    pub fn kind(self) -> Kind {
        self.look().kind()
    }

    /// The next older version; as for `number`.
    pub fn previous(self) -> Offset {
        self.look().previous()
    }

    /// Appends the value that was looked at to `out`; true if it is whole.
    pub fn copy_value(self, look: &Look, out: &mut Vec<u8>) -> bool {
        // The length first: a length of another version may reach out of the block.
        if !self.holds(look) {
            return false;
        }
        let (start, length) = (out.len(), look.value_bytes as usize);
        let words = self.words(length);
        out.resize(start + words.len() * WORD, 0);
        for (bytes, word) in out[start..].as_chunks_mut::<WORD>().0.iter_mut().zip(words) {
            *bytes = word.load(Ordering::Relaxed).to_le_bytes();
        }
        let whole = planted!(self.holds(look), Bug::ValueNotCheckedAgain => true);
        out.truncate(if whole { start + length } else { start });
        whole
    }

    /// Its value, for readers with a snapshot that needs it, or of a Memtable that nobody writes to any more.
    pub fn value(self) -> &'a [u8] {
        let length = self.header().value_bytes.load(Ordering::Relaxed) as usize;
        assert!(length <= self.class().value_bytes());
        // SAFETY: the block has room for this, and nobody fills it anew while a snapshot that needs this version lives (caller).
        unsafe { std::slice::from_raw_parts(self.address.add(VALUE_AT), length) }
    }

    /// Whether the batch that it belongs to, if any, is committed; `None` where the look no longer holds.
    pub fn is_committed(self, look: &Look, arena: &Arena) -> Option<bool> {
        if look.batch.is_null() {
            return Some(true);
        }
        if !self.holds(look) {
            return None;
        }
        // SAFETY: the look holds, so a placing thread stored the place of a state word of this arena.
        if unsafe { state(arena, look.batch) }.load(Ordering::Acquire) == BATCH_COMMITTED {
            return Some(true);
        }
        // A thread's next batch uses its state word again, but not before all entries of the one before have forgotten it.
        let same_batch = self.header().batch.load(Ordering::Acquire) == look.batch.0;
        if same_batch && self.holds(look) { Some(false) } else { None }
    }
}

/// Makes a state word of memory that nobody knows yet, pending.
///
/// # Safety
/// Four bytes at `place` were allocated from `arena` and belong to the caller alone.
pub unsafe fn make_state(arena: &Arena, place: Offset) {
    // SAFETY: the caller's promise; places are aligned to eight.
    unsafe { arena.address(place).cast::<AtomicU32>().write(AtomicU32::new(BATCH_PENDING)) };
}

/// The state word at a place.
///
/// # Safety
/// `place` was given to `make_state` in this life of the arena.
pub unsafe fn state(arena: &Arena, place: Offset) -> &AtomicU32 {
    // SAFETY: the word was initialised in `make_state` and is only used atomically since.
    unsafe { &*arena.address(place).cast::<AtomicU32>() }
}
