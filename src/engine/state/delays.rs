//! How long writers were delayed, for the statistics. Any thread.

use crate::util::sync::{AtomicU64, Ordering};

/// Delays of writers. All accesses are relaxed: these are statistics and order nothing.
#[derive(Debug, Default)]
pub(crate) struct Delays {
    stalled_writes: AtomicU64,
    stalled_ns: AtomicU64,
    longest_ns: AtomicU64,
}

impl Delays {
    /// Notes that backpressure delayed a write by `ns`.
    pub(crate) fn note_slowed(&self, ns: u64) {
        self.longest_ns.fetch_max(ns, Ordering::Relaxed);
    }

    /// Notes that a write waited for memory for `ns`.
    pub(crate) fn note_stalled(&self, ns: u64) {
        self.stalled_writes.fetch_add(1, Ordering::Relaxed);
        self.stalled_ns.fetch_add(ns, Ordering::Relaxed);
        self.note_slowed(ns);
    }

    pub(crate) fn stalled_writes(&self) -> u64 {
        self.stalled_writes.load(Ordering::Relaxed)
    }

    pub(crate) fn stalled_ns(&self) -> u64 {
        self.stalled_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn longest_ns(&self) -> u64 {
        self.longest_ns.load(Ordering::Relaxed)
    }
}
