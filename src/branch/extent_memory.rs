//! The memory that cursors (and merges of filters) read into, shared by all of a store. Any thread.
//!
//! A cursor reads leaves in *extents*: pieces of a file of several pages. It holds a current extent and, if memory
//! permits, one that is read ahead (`extent_reader.rs`). A merge may read a hundred runs, each through a cursor. Each
//! extent is leased, and the more memory is leased, the smaller are the next extents, so that the sum stays near a
//! limit.
//!
//! Invariants:
//! 1. `leased` is the sum of the live leases. Callers lease what `allowed` returned, so extents of more than
//!    `EXTENT_BYTES_MIN` stay within the limit, except that concurrent callers may each exceed it by one extent. A
//!    cursor that needs a page always gets an extent: beyond the limit it has the smallest size, or the size of the
//!    page if that is larger.
//! 2. At most `AHEAD_MAX` extents are being read ahead at any time.

use super::buffer_pool::BufferPool;
use crate::io::AlignedBuffer;
use crate::util::sync::{Arc, AtomicUsize, Ordering};

/// Bytes that a compaction or a long scan reads at once.
pub const EXTENT_BYTES: usize = 256 << 10;
/// Bytes that a scan reads at once when it begins to read uncached leaves in sequence.
pub const READ_AHEAD_BYTES: usize = 64 << 10;
/// Bytes that are read at once when memory is short.
pub const EXTENT_BYTES_MIN: usize = 16 << 10;
/// Extents that all cursors together may read ahead. Beyond this, a cursor reads an extent only when it needs it.
pub const AHEAD_MAX: usize = 32;

/// See the module documentation.
#[derive(Debug)]
pub struct ExtentMemory {
    limit: usize,
    leased: AtomicUsize,
    ahead: AtomicUsize,
    large: BufferPool,
    medium: BufferPool,
    small: BufferPool,
}

impl ExtentMemory {
    /// Memory of `limit` bytes, none of it leased.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            leased: AtomicUsize::new(0),
            ahead: AtomicUsize::new(0),
            large: BufferPool::new(EXTENT_BYTES, (limit / 2 / EXTENT_BYTES).min(16)),
            medium: BufferPool::new(READ_AHEAD_BYTES, (limit / 4 / READ_AHEAD_BYTES).min(32)),
            small: BufferPool::new(EXTENT_BYTES_MIN, (limit / 8 / EXTENT_BYTES_MIN).min(64)),
        })
    }

    /// The size that an extent of `bytes` may have now. Any size is granted while the sum stays within half of the
    /// limit, and up to `READ_AHEAD_BYTES` while it stays within the limit. Otherwise the minimum is granted.
    pub fn allowed(&self, bytes: usize) -> usize {
        // Relaxed, here and below: it is only a counter (invariant 1).
        let leased = self.leased.load(Ordering::Relaxed);
        if leased + bytes <= self.limit / 2 {
            bytes
        } else if leased + READ_AHEAD_BYTES <= self.limit {
            bytes.min(READ_AHEAD_BYTES)
        } else {
            bytes.min(EXTENT_BYTES_MIN)
        }
    }

    /// Leases `bytes`. They count until the lease is dropped.
    pub fn lease(self: &Arc<Self>, bytes: usize) -> Lease {
        self.leased.fetch_add(bytes, Ordering::Relaxed);
        Lease { memory: Arc::clone(self), bytes }
    }

    /// Permission to read one extent ahead; `None` if `AHEAD_MAX` extents are being read ahead.
    pub fn permit_read_ahead(self: &Arc<Self>) -> Option<ReadAheadPermit> {
        let counted = self
            .ahead
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |count| (count < AHEAD_MAX).then_some(count + 1));
        counted.is_ok().then(|| ReadAheadPermit(Arc::clone(self)))
    }

    /// A buffer of at least `bytes`, with unspecified contents.
    pub fn take(&self, bytes: usize) -> AlignedBuffer {
        if bytes <= EXTENT_BYTES_MIN {
            self.small.take()
        } else if bytes <= READ_AHEAD_BYTES {
            self.medium.take()
        } else if bytes <= EXTENT_BYTES {
            self.large.take()
        } else {
            AlignedBuffer::new(bytes)
        }
    }

    /// Returns a buffer that `take` gave out. One larger than `EXTENT_BYTES` is freed.
    pub fn give(&self, buffer: AlignedBuffer) {
        let pool = match buffer.len() {
            bytes if bytes <= EXTENT_BYTES_MIN => &self.small,
            bytes if bytes <= READ_AHEAD_BYTES => &self.medium,
            _ => &self.large,
        };
        pool.give(buffer);
    }

    /// Bytes that are leased now.
    #[cfg(test)]
    pub(super) fn leased(&self) -> usize {
        self.leased.load(Ordering::Relaxed)
    }

    /// Extents that are being read ahead now.
    #[cfg(test)]
    pub(super) fn ahead_now(&self) -> usize {
        self.ahead.load(Ordering::Relaxed)
    }
}

/// Bytes that count as leased while this value lives.
#[derive(Debug)]
pub struct Lease {
    memory: Arc<ExtentMemory>,
    bytes: usize,
}

impl Drop for Lease {
    fn drop(&mut self) {
        self.memory.leased.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Permission to read one extent ahead. Dropping it returns the permission.
#[derive(Debug)]
pub struct ReadAheadPermit(Arc<ExtentMemory>);

impl Drop for ReadAheadPermit {
    fn drop(&mut self) {
        self.0.ahead.fetch_sub(1, Ordering::Relaxed);
    }
}
