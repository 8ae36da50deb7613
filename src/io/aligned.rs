//! A byte buffer for direct I/O. Owned by one thread at a time, like a `Vec<u8>`. Buffers should be few and reused,
//! since every fresh page costs microseconds (`docs/costs.md`).
//!
//! Invariants:
//! 1. `pointer` comes from `frames` if the buffer has at most `FRAME_PAGES_MAX` pages, otherwise from `map_pages`. It
//!    belongs to this value alone.
//! 2. All `length` bytes are initialized from the start (zeroes).

use super::frames::{self, FRAME_PAGES_MAX};
use crate::util::limits::IO_ALIGNMENT;
use std::alloc::{Layout, handle_alloc_error};
use std::fmt;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

/// Bytes of the largest buffer that is a frame (`io/frames.rs`). The memory of larger ones goes back to the system.
pub const FRAME_BYTES_MAX: usize = FRAME_PAGES_MAX * IO_ALIGNMENT;

/// A byte buffer of fixed length whose address and length are multiples of `limits::IO_ALIGNMENT`.
///
/// ```
/// use alluvium::storage::AlignedBuffer;
/// let mut buffer = AlignedBuffer::new(8192); // it dereferences to bytes
/// buffer[..4].copy_from_slice(b"silt");
/// assert_eq!((buffer.len(), &buffer[..5]), (8192, &b"silt\0"[..]));
/// ```
pub struct AlignedBuffer {
    pointer: NonNull<u8>,
    length: usize,
}

impl AlignedBuffer {
    /// A zeroed buffer. Requires a length that is a multiple of `limits::IO_ALIGNMENT`, and not 0.
    pub fn new(length: usize) -> Self {
        assert!(length > 0 && length.is_multiple_of(IO_ALIGNMENT), "{length} is not a length of an aligned buffer");
        assert!(length <= isize::MAX as usize - IO_ALIGNMENT, "{length} is not a length of an aligned buffer");
        if let Some(pages) = frame_pages(length) {
            let mut buffer = Self { pointer: frames::take(pages), length };
            buffer.fill(0);
            return buffer;
        }
        Self { pointer: map_pages(length), length }
    }

    /// The first byte. The whole buffer may be read and written through it while the value lives and no reference to
    /// its bytes is made.
    pub fn pointer(&self) -> NonNull<u8> {
        self.pointer
    }
}

/// Zeroed pages from the kernel. The global allocator would keep freed buffers of this size in a heap that only grows:
/// a store with a budget of 8 MiB once held 150 MiB.
fn map_pages(length: usize) -> NonNull<u8> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
    let address = unsafe { libc::mmap(std::ptr::null_mut(), length, protection, flags, -1, 0) };
    match NonNull::new(address.cast::<u8>()) {
        Some(pointer) if address != libc::MAP_FAILED => pointer,
        _ => handle_alloc_error(Layout::array::<u8>(length).unwrap_or(Layout::new::<u8>())),
    }
}

/// The pages of a buffer that is a frame.
fn frame_pages(length: usize) -> Option<usize> {
    let pages = length / IO_ALIGNMENT;
    (pages <= FRAME_PAGES_MAX).then_some(pages)
}

impl Drop for AlignedBuffer {
    fn drop(&mut self) {
        if let Some(pages) = frame_pages(self.length) {
            // SAFETY: invariant 1; the value that owned the frame is being dropped.
            return unsafe { frames::give_back(self.pointer, pages) };
        }
        // SAFETY: invariant 1; the mapping has exactly this length.
        unsafe { libc::munmap(self.pointer.as_ptr().cast(), self.length) };
    }
}

impl Deref for AlignedBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        // SAFETY: invariants 1 and 2; the shared borrow of `self` excludes writers of this value's bytes.
        unsafe { std::slice::from_raw_parts(self.pointer.as_ptr(), self.length) }
    }
}

impl DerefMut for AlignedBuffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        // SAFETY: invariants 1 and 2; the exclusive borrow of `self` excludes all other users.
        unsafe { std::slice::from_raw_parts_mut(self.pointer.as_ptr(), self.length) }
    }
}

// SAFETY: the buffer owns its bytes (invariant 1) and returns references only by the borrow rules.
unsafe impl Send for AlignedBuffer {}
// SAFETY: as for `Send`; a shared buffer can only be read.
unsafe impl Sync for AlignedBuffer {}

impl fmt::Debug for AlignedBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AlignedBuffer").field("length", &self.length).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_and_length_are_aligned_and_bytes_start_as_zeroes() {
        for pages in [1, 2, 7, 256, 1, 2, 7, 8, 9] {
            let mut buffer = AlignedBuffer::new(pages * IO_ALIGNMENT);
            assert!(buffer.as_ptr().addr().is_multiple_of(IO_ALIGNMENT));
            assert_eq!(buffer.len(), pages * IO_ALIGNMENT);
            assert!(buffer.iter().all(|&byte| byte == 0));
            buffer.fill(7);
            let moved = std::thread::spawn(move || buffer).join().unwrap();
            assert!(moved.iter().all(|&byte| byte == 7));
            assert!(format!("{moved:?}").len() < 80);
        }
    }

    #[test]
    #[should_panic(expected = "is not a length")]
    fn an_unaligned_length_is_rejected() {
        AlignedBuffer::new(100);
    }
}
