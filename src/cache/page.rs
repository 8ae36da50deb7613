//! A page in memory: the immutable bytes of its header and its raw payload. Any thread.
//!
//! A page is pinned by its `Arc`, or by an epoch (see `page_table`). Eviction drops the reference of the cache and
//! nothing else, so the bytes stay valid until the last reference is dropped.

use crate::format::page::{self, PAGE_HEADER_BYTES};
use crate::io::AlignedBuffer;
use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::Arc;
use std::ops::Deref;

pub use crate::format::page::PageKind;

/// A counted reference to a page. Clone it to keep the page.
pub type Page = Arc<PageBuffer>;

/// The bytes of a page, in an aligned buffer. All pages use the same recycled frames, whoever created them, so the
/// memory of one page fits the next (`io::AlignedBuffer`).
#[derive(Debug)]
pub struct PageBuffer {
    buffer: AlignedBuffer,
    length: usize,
}

impl PageBuffer {
    /// A page with a copy of the concatenated parts.
    pub fn copied(parts: &[&[u8]]) -> Self {
        let length = parts.iter().map(|part| part.len()).sum();
        let mut buffer = AlignedBuffer::new(usize::max(length, 1).next_multiple_of(IO_ALIGNMENT));
        let mut at = 0;
        for part in parts {
            buffer[at..at + part.len()].copy_from_slice(part);
            at += part.len();
        }
        Self { buffer, length }
    }

    /// A page with the first `length` bytes of a buffer.
    pub fn front(buffer: AlignedBuffer, length: usize) -> Self {
        assert!(length <= buffer.len());
        Self { buffer, length }
    }

    /// The raw payload after the header.
    pub fn payload(&self) -> &[u8] {
        let length = self.first_chunk().map_or(0, page::raw_length);
        self.get(PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + length).unwrap_or_default()
    }

    /// Bytes of memory of the page, which may be more than its length.
    pub fn memory_bytes(&self) -> usize {
        self.buffer.len()
    }
}

impl From<AlignedBuffer> for PageBuffer {
    fn from(buffer: AlignedBuffer) -> Self {
        let length = buffer.len();
        Self { buffer, length }
    }
}

impl Deref for PageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.buffer[..self.length]
    }
}
