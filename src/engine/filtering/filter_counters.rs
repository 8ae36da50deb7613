//! Counters of what compaction filters have done since the store was opened. Any thread.

use crate::merge::Filtered;
use crate::util::sync::{AtomicU64, Ordering};

/// See the module. Relaxed: nothing depends on them.
#[derive(Debug, Default)]
pub(crate) struct FilterCounters {
    pub(crate) removed: AtomicU64,
    pub(crate) replaced: AtomicU64,
    pub(crate) panics: AtomicU64,
    pub(crate) refused: AtomicU64,
    pub(crate) repeated: AtomicU64,
}

impl FilterCounters {
    /// Counts what a published job has changed.
    pub(crate) fn note_published(&self, filtered: &Filtered) {
        self.removed.fetch_add(filtered.removed, Ordering::Relaxed);
        self.replaced.fetch_add(filtered.replaced, Ordering::Relaxed);
    }

    /// Counts what filters have failed to decide in a job.
    pub(crate) fn note_failed(&self, filtered: &Filtered) {
        self.panics.fetch_add(filtered.panics, Ordering::Relaxed);
        self.refused.fetch_add(filtered.refused, Ordering::Relaxed);
    }

    /// Counts a job that was repeated without filters.
    pub(crate) fn note_repeated(&self) {
        self.repeated.fetch_add(1, Ordering::Relaxed);
    }
}
