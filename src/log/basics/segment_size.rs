//! The length of a segment and of its shadow. Plain data.

use crate::format::log_segment::PAGE_BYTES;

/// The length of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentSize {
    /// The number of its chunks.
    pub chunks: usize,
    /// Bytes of a chunk.
    pub chunk_bytes: usize,
}

impl SegmentSize {
    /// Bytes of the file.
    pub fn bytes(self) -> usize {
        PAGE_BYTES + self.chunks * self.chunk_bytes
    }

    /// Bytes that records can take.
    pub fn record_bytes(self) -> usize {
        self.chunks * self.chunk_bytes
    }
}
