//! Overlapping reads: many at once, or one that continues while the caller does something else. A request owns its
//! buffer, so that the kernel may write there as long as needed, whatever the caller does.
//!
//! They are started with `Storage::start_reads`, by any thread. The handle belongs to one thread at a time.
//!
//! Invariants:
//! 1. From the start to the end of a read, its buffer belongs to the reader that performs it, and nothing else can
//!    access it.
//! 2. `wait` returns one result for each request, in their order; an error concerns only its own request.
//! 3. A handle may be dropped at any time. Its reads end by themselves; buffers and results are freed.

#[cfg(test)]
mod tests;

use super::{AlignedBuffer, StorageFile};
use crate::util::Result;
use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::Arc;
use std::fmt;

/// A read to be started.
#[derive(Debug)]
pub struct ReadRequest {
    pub(super) file: Arc<dyn StorageFile>,
    pub(super) offset: u64,
    pub(super) length: usize,
    pub(super) buffer: AlignedBuffer,
}

impl ReadRequest {
    /// Fills the first `length` bytes of `buffer` from `offset` of `file`. Requires that `offset` and `length` are
    /// multiples of `limits::IO_ALIGNMENT`, whatever the file's mode, and that `length` is not 0.
    pub fn new(file: Arc<dyn StorageFile>, offset: u64, length: usize, buffer: AlignedBuffer) -> Self {
        let is_aligned = offset.is_multiple_of(IO_ALIGNMENT as u64) && length.is_multiple_of(IO_ALIGNMENT);
        assert!(is_aligned, "unaligned read of {length} bytes at {offset} of {}", file.path().display());
        assert!(length > 0 && length <= buffer.len(), "{length} bytes do not fit into {}", buffer.len());
        Self { file, offset, length, buffer }
    }

    /// Reads now, on this thread.
    pub(super) fn perform(mut self) -> ReadDone {
        let result = self.file.read_exact_at(&mut self.buffer[..self.length], self.offset);
        ReadDone { buffer: self.buffer, result }
    }
}

/// A read that ended.
#[derive(Debug)]
pub struct ReadDone {
    /// The request's buffer. After an error its bytes are unspecified.
    pub buffer: AlignedBuffer,
    /// Success, if all bytes were read.
    pub result: Result<()>,
}

/// Reads under way.
pub trait PendingReads: Send + Sync + fmt::Debug {
    /// Whether `wait` would return at once. Reads that found no free slot when they were started begin in `wait`, so
    /// this may stay false.
    fn is_done(&mut self) -> bool;
    /// The results, once all reads have ended.
    fn wait(self: Box<Self>) -> Vec<ReadDone>;
}

/// Reads that were performed when they were started.
#[derive(Debug)]
pub(super) struct PerformedReads(Vec<ReadDone>);

impl PerformedReads {
    pub(super) fn new(requests: Vec<ReadRequest>) -> Self {
        Self(requests.into_iter().map(ReadRequest::perform).collect())
    }
}

impl PendingReads for PerformedReads {
    fn is_done(&mut self) -> bool {
        true
    }

    fn wait(self: Box<Self>) -> Vec<ReadDone> {
        self.0
    }
}
