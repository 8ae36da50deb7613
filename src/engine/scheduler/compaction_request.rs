//! A caller's request to compact a key range, as the workers see it.
//!
//! Idle workers look at the open requests. What is left to do for one is computed from the tree each time, so it does
//! not matter which job does the work: the request's own jobs, those of another request, or work that was due anyway.

use crate::disk::RequestedRange;
use crate::engine::types::compaction::{Cancellation, CompactReport};
use crate::util::sync::{AtomicBool, AtomicU64, Ordering};

/// One call of `Db::compact_with`. Any thread. The counters are relaxed: they are statistics and order nothing.
#[derive(Debug)]
pub(crate) struct CompactionRequest {
    pub(crate) range: RequestedRange,
    /// Set by the caller.
    cancellation: Option<Cancellation>,
    /// Whether the call has ended.
    ended: AtomicBool,
    read: AtomicU64,
    written: AtomicU64,
}

impl CompactionRequest {
    pub(crate) fn new(range: RequestedRange, cancellation: Option<Cancellation>) -> Self {
        Self { range, cancellation, ended: AtomicBool::new(false), read: AtomicU64::new(0), written: AtomicU64::new(0) }
    }

    /// Whether its jobs should end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.ended.load(Ordering::Relaxed) || self.cancellation.as_ref().is_some_and(Cancellation::is_cancelled)
    }

    /// The call has ended.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Notes that one of its jobs has ended.
    pub(crate) fn note_done(&self, read: u64, written: u64) {
        self.read.fetch_add(read, Ordering::Relaxed);
        self.written.fetch_add(written, Ordering::Relaxed);
    }

    pub(crate) fn report(&self) -> CompactReport {
        CompactReport {
            bytes_read: self.read.load(Ordering::Relaxed),
            bytes_written: self.written.load(Ordering::Relaxed),
        }
    }
}
