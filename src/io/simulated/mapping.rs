//! The memory of a mapped simulated file. The store's threads store to it through raw pointers while the disk copies
//! it; both may be any thread.
//!
//! Invariants:
//! 1. The memory lives as long as anyone holds the `Arc` around this value: the file that it is the head of, and every
//!    mapping handed out.
//! 2. After creation the bytes are touched only through `pointer`; no reference to them is made. The disk reads and
//!    writes them by atomic words, so that a copy taken beside a store has each word old or new.

use crate::base::limits::IO_ALIGNMENT;
use crate::base::sync::{AtomicU8, AtomicU64, Ordering};
use crate::io::AlignedBuffer;
use std::ptr::NonNull;

/// Mapped memory of a fixed length.
#[derive(Debug)]
pub(super) struct MapMemory {
    _buffer: AlignedBuffer,
    pointer: NonNull<u8>,
    length: usize,
}

// SAFETY: the memory is owned (invariant 1), and what is done to it through the shared value is atomic (invariant 2);
// stores through raw pointers are the mapping's callers' to keep apart, as with any mapped file.
unsafe impl Send for MapMemory {}
// SAFETY: as for `Send`.
unsafe impl Sync for MapMemory {}

impl MapMemory {
    /// Memory that starts as a copy of `bytes`, which are not empty.
    pub(super) fn new(bytes: &[u8]) -> Self {
        let mut buffer = AlignedBuffer::new(bytes.len().next_multiple_of(IO_ALIGNMENT));
        buffer[..bytes.len()].copy_from_slice(bytes);
        let pointer = buffer.pointer();
        Self { _buffer: buffer, pointer, length: bytes.len() }
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

    /// Copies `bytes` to `offset`.
    pub(super) fn write(&self, offset: usize, bytes: &[u8]) {
        assert!(offset <= self.length && bytes.len() <= self.length - offset);
        for (at, &byte) in bytes.iter().enumerate() {
            self.byte(offset + at).store(byte, Ordering::Release);
        }
    }

    /// The eight bytes at `offset`, a multiple of 8 at least 8 before the end, as a little-endian word.
    fn word(&self, offset: usize) -> LittleEndianWord<'_> {
        // SAFETY: `read` stays inside the length (asserted there), the buffer is aligned far beyond 8, and `offset` is
        // a multiple of 8; the memory lives as long as `self` (invariant 1).
        LittleEndianWord(unsafe { AtomicU64::from_ptr(self.pointer.as_ptr().add(offset).cast()) })
    }

    fn byte(&self, offset: usize) -> &AtomicU8 {
        // SAFETY: `read` and `write` stay inside the length (asserted there); the memory lives as long as `self`.
        unsafe { AtomicU8::from_ptr(self.pointer.as_ptr().add(offset)) }
    }
}

/// A word of bytes, seen as a little-endian number on every machine.
struct LittleEndianWord<'a>(&'a AtomicU64);

impl LittleEndianWord<'_> {
    fn load(&self, ordering: Ordering) -> u64 {
        u64::from_le(self.0.load(ordering))
    }
}
