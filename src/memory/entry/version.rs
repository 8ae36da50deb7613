//! One version of a key in the arena. Its memory is a *block*, which is reused for later versions of any key.
//!
//! Layout of a block, from its place in the arena. The arena never leaves the process, so numbers have native byte
//! order:
//!
//! | at | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | sequence number × 256 + kind; the number is 0 while the block contains no placed version |
//! | 8 | 4 | place of the next older version, 0 at the end of the chain; in a spare block, of the next spare block |
//! | 12 | 4 | place of the batch's state word, 0 if the version is committed |
//! | 16 | 4 | length of the value |
//! | 20 | 4 | class of the block: the greatest length of a value (`class.rs`); never changes |
//! | 24 | | value, in words of eight bytes |
//!
//! A block keeps its place and its class until the arena is recycled. All fields but the class are atomic, because a
//! block can be refilled while slow readers still read it. These are the updates in place of FloDB §3.2. Here an
//! overwrite swaps blocks instead of changing one, so a writer that stalls half-way blocks nobody.
//!
//! Any thread may read. A thread *owns* a block that no other thread can use: one that it has just created, or taken
//! from spare blocks, or unlinked from its chain. Only the owner calls `write`, `set_number` and `free`.
//!
//! A *look* (`Look`) is the content of a block's header as one reader loaded it. It *holds* as long as the block still
//! contains that version.
//!
//! Invariants:
//! 1. The owner of a block (`write`, `free`) sets its number to 0 before it changes anything else; a `Release` fence
//!    separates the two. When the block is placed again, its number is greater than every number that was taken before
//!    the block was freed.
//! 2. A reader loads the number (`Acquire`), then anything else, and after an `Acquire` fence loads the number again
//!    (`Version::holds`). If the number is unchanged, it has read one version. A reader that followed a link from an
//!    older look, and finds 0 or a number that is not below the number of that look, knows that the block has been
//!    reused.
//! 3. The owner sets number, previous and batch in `set_number`, before the version is linked. Afterwards `previous`
//!    changes only under the key's latch, and only to a version further down the same chain. The batch word is set to 0
//!    once, by the thread that committed the batch, after the commit (`Release`). So a reader that sees 0 also sees
//!    every other entry of the batch as committed.

use super::class::Class;
use crate::util::arena::{Arena, Offset};
use crate::util::planted::planted;
use crate::util::sync::{AtomicU32, AtomicU64, Ordering, fence};
use crate::util::{Kind, SequenceNumber};
use std::marker::PhantomData;

/// State word of a batch that is not committed.
pub const BATCH_PENDING: u32 = 0;
/// State word of a batch that is committed.
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

/// A block that contains a version, or contained one.
#[derive(Clone, Copy)]
pub struct Version<'a> {
    place: Offset,
    address: *const u8,
    arena: PhantomData<&'a Arena>,
}

/// The content of a block's header as loaded by one reader. Valid while `Version::holds` is true for it.
#[derive(Clone, Copy, Debug)]
pub struct Look {
    number_and_kind: u64,
    previous: Offset,
    batch: Offset,
    value_bytes: u32,
}

impl Look {
    /// The version's number; `ZERO` if the block contains none.
    pub fn number(&self) -> SequenceNumber {
        SequenceNumber(self.number_and_kind >> 8)
    }

    /// The version's kind. Requires that the look holds.
    pub fn kind(&self) -> Kind {
        let byte = self.number_and_kind as u8;
        let Some(kind) = Kind::from_byte(byte) else { unreachable!("kind {byte} was never written to memory") };
        kind
    }

    /// The place of the next older version.
    pub fn previous(&self) -> Offset {
        self.previous
    }

    /// Length of the value.
    pub fn value_bytes(&self) -> usize {
        self.value_bytes as usize
    }
}

/// The size of a block of a class, in bytes.
pub fn block_bytes(class: Class) -> usize {
    VALUE_AT + class.value_bytes()
}

impl<'a> Version<'a> {
    /// Creates a block in memory that no other thread knows yet, and fills it.
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
            // No other thread has access to these bytes yet, so a plain copy is enough.
            address.add(VALUE_AT).copy_from_nonoverlapping(value.as_ptr(), value.len());
        }
        Self { place, address, arena: PhantomData }
    }

    /// The block at a place.
    ///
    /// # Safety
    /// `place` was given to `make` in this use of `arena`, and this thread got it from the thread that made the block,
    /// is that thread, or loaded it from a link.
    pub unsafe fn at(arena: &'a Arena, place: Offset) -> Self {
        Self { place, address: arena.address(place).cast_const(), arena: PhantomData }
    }

    /// Fills a spare block with a version that has no number yet. The caller owns the block.
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
            // The byte order in the word does not matter, as long as `copy_value` uses the same one.
            place.store(u64::from_le_bytes(*word), Ordering::Relaxed);
        }
        if !tail.is_empty() {
            let mut word = [0; WORD];
            word[..tail.len()].copy_from_slice(tail);
            places[words.len()].store(u64::from_le_bytes(word), Ordering::Relaxed);
        }
    }

    /// Removes the version from its block. A reader that still reads it detects that. The caller holds the key's latch
    /// and has unlinked the block from its chain.
    pub fn free(self, next_spare: Offset) {
        planted!(self.header().number_and_kind.store(0, Ordering::Relaxed), Bug::BlockNumberNotCleared => ());
        fence(Ordering::Release);
        self.header().previous.store(next_spare.0, Ordering::Relaxed);
    }

    fn header(self) -> &'a Header {
        // SAFETY: `make` wrote a header here (precondition of the constructors); all fields that change are atomic.
        unsafe { &*self.address.cast::<Header>() }
    }

    /// The words that a value of this length occupies. Requires that the length fits the block's class.
    fn words(self, value_bytes: usize) -> &'a [AtomicU64] {
        assert!(value_bytes <= self.class().value_bytes());
        // SAFETY: `make` was given this much memory after the header, aligned to eight. Once the block is shared, this
        // memory is accessed only atomically.
        unsafe { std::slice::from_raw_parts(self.address.add(VALUE_AT).cast(), value_bytes.div_ceil(WORD)) }
    }

    /// The block's place in the arena.
    pub fn place(self) -> Offset {
        self.place
    }

    /// The block's class.
    pub fn class(self) -> Class {
        Class(self.header().class)
    }

    /// Sets the version's number, before the version is linked in front of `previous`.
    pub fn set_number(self, number: SequenceNumber, previous: Offset, batch: Offset) {
        let header = self.header();
        let kind = header.number_and_kind.load(Ordering::Relaxed) & 0xff;
        debug_assert!(number > SequenceNumber::ZERO && number <= SequenceNumber::MAX);
        header.previous.store(previous.0, Ordering::Relaxed);
        header.batch.store(batch.0, Ordering::Relaxed);
        header.number_and_kind.store(number.0 << 8 | kind, Ordering::Release);
    }

    /// Changes the next older version. The caller holds the key's latch, or is the only thread with the Memtable.
    pub fn set_previous(self, previous: Offset) {
        self.header().previous.store(previous.0, Ordering::Release);
    }

    /// Marks the entry of a committed batch as committed, independently of the batch's state word.
    pub fn clear_batch(self) {
        self.header().batch.store(0, Ordering::Release);
    }

    /// Loads the header.
    pub fn look(self) -> Look {
        let header = self.header();
        Look {
            number_and_kind: header.number_and_kind.load(Ordering::Acquire),
            previous: Offset(header.previous.load(Ordering::Acquire)),
            batch: Offset(header.batch.load(Ordering::Acquire)),
            value_bytes: header.value_bytes.load(Ordering::Relaxed),
        }
    }

    /// Whether everything that was read since the look belongs to the version of the look (invariant 2).
    pub fn holds(self, look: &Look) -> bool {
        fence(Ordering::Acquire);
        self.header().number_and_kind.load(Ordering::Relaxed) == look.number_and_kind
    }

    /// The version's number. Requires that it cannot change: the caller holds the key's latch, owns the block, or reads
    /// at a snapshot that needs the version.
    pub fn number(self) -> SequenceNumber {
        self.look().number()
    }

    /// The version's kind. Same requirement as `number`.
    pub fn kind(self) -> Kind {
        self.look().kind()
    }

    /// The place of the next older version. Same requirement as `number`.
    pub fn previous(self) -> Offset {
        self.look().previous()
    }

    /// Appends the value of the version of the look to `out`. False, and nothing appended, if the look no longer holds.
    pub fn copy_value(self, look: &Look, out: &mut Vec<u8>) -> bool {
        // Checked before the length is used: the length of another version may exceed the block.
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

    /// The value. Requires a snapshot that needs the version, or a Memtable that no thread writes to any more.
    pub fn value(self) -> &'a [u8] {
        let length = self.header().value_bytes.load(Ordering::Relaxed) as usize;
        assert!(length <= self.class().value_bytes());
        // SAFETY: the block has this length, and the caller guarantees that no thread refills it: a live snapshot needs
        // this version, or there are no writers any more.
        unsafe { std::slice::from_raw_parts(self.address.add(VALUE_AT), length) }
    }

    /// Whether the version is committed, alone or with its batch; `None` if the look no longer holds.
    pub fn is_committed(self, look: &Look, arena: &Arena) -> Option<bool> {
        if look.batch.is_null() {
            return Some(true);
        }
        if !self.holds(look) {
            return None;
        }
        // SAFETY: the look holds, so the thread that placed the version stored the place of a state word of this arena.
        if unsafe { state(arena, look.batch) }.load(Ordering::Acquire) == BATCH_COMMITTED {
            return Some(true);
        }
        // The thread's next batch reuses the state word, but only after all entries of this batch have cleared theirs.
        let same_batch = self.header().batch.load(Ordering::Acquire) == look.batch.0;
        if same_batch && self.holds(look) { Some(false) } else { None }
    }
}

/// Creates a state word, pending, in memory that no other thread knows yet.
///
/// # Safety
/// Four bytes at `place` were allocated from `arena` and belong to the caller alone.
pub unsafe fn make_state(arena: &Arena, place: Offset) {
    // SAFETY: the caller guarantees the memory; places are aligned to eight.
    unsafe { arena.address(place).cast::<AtomicU32>().write(AtomicU32::new(BATCH_PENDING)) };
}

/// The state word at a place.
///
/// # Safety
/// `place` was given to `make_state` in this use of the arena.
pub unsafe fn state(arena: &Arena, place: Offset) -> &AtomicU32 {
    // SAFETY: `make_state` initialised the word; since then it is accessed only atomically.
    unsafe { &*arena.address(place).cast::<AtomicU32>() }
}
