//! What the cache holds: immutable bytes of a file, named by file and offset. Any thread.
//!
//! A page is pinned by holding its `Arc`; eviction takes the cache's reference away and nothing else, so the bytes stay
//! where they are until the last holder lets go.

use crate::base::FileNumber;
use crate::base::sync::Arc;
use crate::io::AlignedBuffer;
use std::ops::Deref;

/// Names a page. File numbers are never used twice, so a key means the same bytes for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PageKey {
    /// The file.
    pub file: FileNumber,
    /// Where the page starts in it, bytes.
    pub offset: u64,
}

/// A page that somebody reads. Clone the `Arc` to keep it.
pub type Page = Arc<PageBuffer>;

/// The bytes of a page, taken over from whatever buffer they were read or unpacked into.
#[derive(Debug)]
pub struct PageBuffer(Bytes);

#[derive(Debug)]
enum Bytes {
    Aligned(AlignedBuffer),
    Plain(Vec<u8>),
}

impl PageBuffer {
    /// Memory that the page holds, which may be more than its length.
    pub fn bytes_held(&self) -> usize {
        match &self.0 {
            Bytes::Aligned(buffer) => buffer.len(),
            Bytes::Plain(bytes) => bytes.capacity(),
        }
    }
}

impl From<AlignedBuffer> for PageBuffer {
    fn from(buffer: AlignedBuffer) -> Self {
        Self(Bytes::Aligned(buffer))
    }
}

impl From<Vec<u8>> for PageBuffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self(Bytes::Plain(bytes))
    }
}

impl Deref for PageBuffer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match &self.0 {
            Bytes::Aligned(buffer) => buffer,
            Bytes::Plain(bytes) => bytes,
        }
    }
}

/// How dear a page is to the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Priority {
    /// Leaves: one read of the device brings one back, and scans bring many that nobody asks for again.
    Low,
    /// Index and filter pages: every get of their branch needs them. They survive more rounds of the clock.
    High,
}
