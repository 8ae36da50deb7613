//! The memory that cursors read leaves into, shared by all cursors of a store. Any thread.
//!
//! A merge reads all runs that wait for it, sometimes a hundred, each through a cursor with two extents. The more
//! memory is leased, the smaller the extents that a cursor may lease, so the sum stays near a limit.
//!
//! Invariants:
//! 1. `leased` is the sum of the live leases. Extents of more than `EXTENT_BYTES_MIN` are leased only up to the limit.
//!    A cursor that needs a page always gets an extent, so beyond the limit each cursor adds one extent of the smallest
//!    size, or of the size of the page if that is larger.
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
    small: BufferPool,
    smallest: BufferPool,
}

impl ExtentMemory {
    /// Memory of `limit` bytes, none of it leased.
    pub fn new(limit: usize) -> Arc<Self> {
        Arc::new(Self {
            limit,
            leased: AtomicUsize::new(0),
            ahead: AtomicUsize::new(0),
            large: BufferPool::new(EXTENT_BYTES, (limit / 2 / EXTENT_BYTES).min(16)),
            small: BufferPool::new(READ_AHEAD_BYTES, (limit / 4 / READ_AHEAD_BYTES).min(32)),
            smallest: BufferPool::new(EXTENT_BYTES_MIN, (limit / 8 / EXTENT_BYTES_MIN).min(64)),
        })
    }

    /// The size that an extent of `bytes` may have now. Large extents come out of the first half of the limit, medium
    /// ones out of the whole limit.
    pub fn allowed(&self, bytes: usize) -> usize {
        // Relaxed, here and below: it is only a counter. Two concurrent callers may exceed the limit by one extent.
        let leased = self.leased.load(Ordering::Relaxed);
        match bytes {
            _ if leased + bytes <= self.limit / 2 => bytes,
            _ if leased + READ_AHEAD_BYTES <= self.limit => bytes.min(READ_AHEAD_BYTES),
            _ => bytes.min(EXTENT_BYTES_MIN),
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
            self.smallest.take()
        } else if bytes <= READ_AHEAD_BYTES {
            self.small.take()
        } else if bytes <= EXTENT_BYTES {
            self.large.take()
        } else {
            AlignedBuffer::new(bytes)
        }
    }

    /// Returns a buffer that `take` gave out.
    pub fn give(&self, buffer: AlignedBuffer) {
        let pool = match buffer.len() {
            bytes if bytes <= EXTENT_BYTES_MIN => &self.smallest,
            bytes if bytes <= READ_AHEAD_BYTES => &self.small,
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
