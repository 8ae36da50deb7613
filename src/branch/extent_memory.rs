//! The memory that cursors read leaves into, shared by all cursors of a store. Any thread.
//!
//! A merge reads as many runs as wait for it, at times a hundred, each through a cursor with two extents. What each may take
//! shrinks with what is taken already, so that the sum stays near a limit whatever is merged or scanned.
//!
//! Invariants:
//! 1. `held` is the sum of the leases that live. Extents of more than `EXTENT_BYTES_MIN` are leased only up to the limit; a
//!    cursor that needs a page always gets one, so past the limit each cursor adds one extent of the least size, or of the page
//!    where that is larger.
//! 2. At most `AHEAD_MAX` extents are on their way.

use super::buffer_pool::BufferPool;
use crate::io::AlignedBuffer;
use crate::util::sync::{Arc, AtomicUsize, Ordering};

/// Bytes that a compaction or a long scan reads at once.
pub const EXTENT_BYTES: usize = 256 << 10;
/// Bytes that a scan reads at once when it begins to run through leaves that are not cached.
pub const READ_AHEAD_BYTES: usize = 64 << 10;
/// Bytes that are read at once where memory is short.
pub const EXTENT_BYTES_MIN: usize = 16 << 10;
/// Extents that all cursors together read ahead; past this many a cursor reads when it must.
pub const AHEAD_MAX: usize = 32;

/// See the module.
#[derive(Debug)]
pub struct ExtentMemory {
    limit: usize,
    held: AtomicUsize,
    ahead: AtomicUsize,
    large: BufferPool,
    small: BufferPool,
    least: BufferPool,
}

impl ExtentMemory {
    /// None of it taken yet.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            held: AtomicUsize::new(0),
            ahead: AtomicUsize::new(0),
            large: BufferPool::new(EXTENT_BYTES, (limit / 2 / EXTENT_BYTES).min(16)),
            small: BufferPool::new(READ_AHEAD_BYTES, (limit / 4 / READ_AHEAD_BYTES).min(32)),
            least: BufferPool::new(EXTENT_BYTES_MIN, (limit / 8 / EXTENT_BYTES_MIN).min(64)),
        })
    }

    /// What an extent that should have `bytes` may have now: large ones come out of the first half of the limit, middling
    /// ones out of the whole.
    pub fn allowed(&self, bytes: usize) -> usize {
        // Relaxed, here and below: a count and nothing else. Two that look at once overshoot by an extent.
        let held = self.held.load(Ordering::Relaxed);
        match bytes {
            _ if held + bytes <= self.limit / 2 => bytes,
            _ if held + READ_AHEAD_BYTES <= self.limit => bytes.min(READ_AHEAD_BYTES),
            _ => bytes.min(EXTENT_BYTES_MIN),
        }
    }

    /// Takes `bytes`; they count until the lease is dropped.
    pub fn lease(self: &Arc<Self>, bytes: usize) -> Lease {
        self.held.fetch_add(bytes, Ordering::Relaxed);
        Lease { memory: Arc::clone(self), bytes }
    }

    /// Leave to read one extent ahead, if one of `AHEAD_MAX` is left.
    pub fn ahead(self: &Arc<Self>) -> Option<ReadAheadPermit> {
        let counted = self
            .ahead
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < AHEAD_MAX).then_some(count + 1));
        counted.is_ok().then(|| ReadAheadPermit(Arc::clone(self)))
    }

    /// A buffer of `bytes`, with unspecified contents, or of somewhat more.
    pub fn take(&self, bytes: usize) -> AlignedBuffer {
        if bytes <= EXTENT_BYTES_MIN {
            self.least.take()
        } else if bytes <= READ_AHEAD_BYTES {
            self.small.take()
        } else if bytes <= EXTENT_BYTES {
            self.large.take()
        } else {
            AlignedBuffer::new(bytes)
        }
    }

    /// Takes back what `take` gave.
    pub fn give(&self, buffer: AlignedBuffer) {
        let pool = match buffer.len() {
            bytes if bytes <= EXTENT_BYTES_MIN => &self.least,
            bytes if bytes <= READ_AHEAD_BYTES => &self.small,
            _ => &self.large,
        };
        pool.give(buffer);
    }

    /// Bytes that are leased now.
    #[cfg(test)]
    pub(super) fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// Extents that are read ahead now.
    #[cfg(test)]
    pub(super) fn ahead_now(&self) -> usize {
        self.ahead.load(Ordering::Relaxed)
    }
}

/// Bytes that count as held while it lives.
#[derive(Debug)]
pub struct Lease {
    memory: Arc<ExtentMemory>,
    bytes: usize,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.memory.held.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Leave to read one extent ahead, given back when dropped.
#[derive(Debug)]
pub struct ReadAheadPermit(Arc<ExtentMemory>);

impl Drop for ReadAheadPermit {
    fn drop(&mut self) {
        self.0.ahead.fetch_sub(1, Ordering::Relaxed);
    }
}
