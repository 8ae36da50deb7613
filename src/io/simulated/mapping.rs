//! The memory of a mapped simulated file. The store's threads store to it through raw pointers while the disk copies
//! it; both may be on any thread.
//!
//! Invariants:
//! 1. The memory lives as long as an `Arc` around this value: the disk's, and that of every mapping handed out. Then it
//!    is kept for the next mapping of its length, since fresh pages cost more than everything else that a simulated
//!    crash does.
//! 2. After creation the bytes are accessed only through `pointer`; no reference to them is made. The disk reads and
//!    writes them by atomic words, so that a copy taken during a store has each word old or new.

use super::pages::{PAGE, Pages};
use crate::io::AlignedBuffer;
use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::{AtomicU8, AtomicU64, Mutex, Ordering};
use std::ptr::NonNull;

/// Most buffers that are kept for their next use.
const SPARE_MAX: usize = 64;

static SPARE: Mutex<Vec<AlignedBuffer>> = Mutex::new(Vec::new());

/// Mapped memory of a fixed length.
#[derive(Debug)]
pub(super) struct MapMemory {
    /// `Some` until dropped.
    buffer: Option<AlignedBuffer>,
    pointer: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is owned (invariant 1), and accesses to it through the shared value are atomic (invariant 2); the
// callers of the mapping prevent races of stores through raw pointers, as with any mapped file.
unsafe impl Send for MapMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for MapMemory {}

impl MapMemory {
    /// Memory that starts as a copy of a file's bytes; not empty.
    pub(super) fn new(bytes: &Pages) -> Self {
        let length = bytes.length();
        let capacity = length.next_multiple_of(IO_ALIGNMENT);
        let spare = {
            let mut spare = SPARE.lock();
            let found = spare.iter().rposition(|buffer| buffer.len() == capacity);
            found.map(|at| spare.swap_remove(at))
        };
        let mut buffer = spare.unwrap_or_else(|| AlignedBuffer::new(capacity));
        for (page, to) in buffer.chunks_exact_mut(PAGE).enumerate() {
            to.copy_from_slice(bytes.page(page));
        }
        Self { pointer: buffer.pointer(), buffer: Some(buffer), length }
    }

    pub(super) fn pointer(&self) -> *mut u8 {
        self.pointer.as_ptr()
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    /// Copies from `offset` on into `out`.
    pub(super) fn read(&self, offset: usize, out: &mut [u8]) {
        assert!(offset <= self.length && out.len() <= self.length - offset);
        let mut at = 0;
        while at < out.len() {
            if (offset + at).is_multiple_of(8) && out.len() - at >= 8 {
                out[at..at + 8].copy_from_slice(&self.word(offset + at).load(Ordering::Acquire).to_le_bytes());
                at += 8;
            } else {
                out[at] = self.byte(offset + at).load(Ordering::Acquire);
                at += 1;
            }
        }
    }

    /// Whether the bytes at `offset`, a multiple of 8, are these.
    pub(super) fn equals(&self, offset: usize, bytes: &[u8]) -> bool {
        assert!(offset <= self.length && bytes.len() <= self.length - offset);
        let mut words = bytes.chunks_exact(8);
        let mut at = offset;
        for word in &mut words {
            if self.word(at).load(Ordering::Relaxed).to_le_bytes() != *word {
                return false;
            }
            at += 8;
        }
        words.remainder().iter().zip(at..).all(|(&byte, at)| self.byte(at).load(Ordering::Relaxed) == byte)
    }

    /// Copies `bytes` to `offset`.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset <= self.length && bytes.len() <= self.length - offset);
        for (at, &byte) in bytes.iter().enumerate() {
            self.byte(offset + at).store(byte, Ordering::Release);
        }
    }

    /// The eight bytes at `offset`, a multiple of 8 at least 8 before the end, as a little-endian word.
    fn word(&self, offset: usize) -> LittleEndianWord<'_> {
        // SAFETY: the callers stay inside the length (asserted there), the buffer is aligned far beyond 8, and `offset`
        // is a multiple of 8; the memory lives as long as `self` (invariant 1).
        LittleEndianWord(unsafe { AtomicU64::from_ptr(self.pointer.as_ptr().add(offset).cast()) })
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        // SAFETY: the callers stay inside the length (asserted there); the memory lives as long as `self`.
        unsafe { AtomicU8::from_ptr(self.pointer.as_ptr().add(offset)) }
    }
}

impl Drop for MapMemory {
    fn drop(&mut self) {
        let mut spare = SPARE.lock();
        if spare.len() < SPARE_MAX {
            spare.extend(self.buffer.take());
        }
    }
}

/// A word of bytes as a little-endian number on every machine.
struct LittleEndianWord<'a>(&'a AtomicU64);

impl LittleEndianWord<'_> {
    fn load(&self, ordering: Ordering) -> u64 {
        u64::from_le(self.0.load(ordering))
    }
}
