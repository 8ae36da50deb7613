//! When to look for large values that newer data hides, and what limits the work. Any thread.
//!
//! A value file goes with the last branch file that refers to it, and the branch file goes with a merge. References are
//! small, so no merge may be due for a long time while the values fill the disk. `background/deleted_values.rs` looks.

use super::in_vain::InVain;
use crate::util::sync::{AtomicBool, AtomicU64, Mutex, Ordering};
use std::time::Duration;

/// The time between two looks.
const BETWEEN_LOOKS: Duration = Duration::from_secs(1);
/// What merges for the sake of values may read in quiet times, before any large value was written.
const FIRST_CREDIT: u64 = 16 << 20;
/// Large values allow merges in quiet times to read this part of their bytes.
const CREDIT_PART: u64 = 8;

/// See the module.
#[derive(Debug)]
pub(crate) struct DeletedValues {
    /// Whether something found no space since the last look.
    is_wanted: AtomicBool,
    /// A time of the store's clock, nanoseconds: no look begins earlier.
    not_before: AtomicU64,
    /// What the last look saw: the version of the view, and the counter of released snapshots.
    seen: Mutex<Option<(u64, u64)>>,
    /// When a value has waited in vain for the space of others.
    pub(crate) in_vain: InVain,
    /// Whether deletes are in memory.
    has_deletes: AtomicBool,
    /// Bytes that merges in quiet times may still read.
    credit: AtomicU64,
}

impl Default for DeletedValues {
    fn default() -> Self {
        Self {
            is_wanted: AtomicBool::new(false),
            not_before: AtomicU64::new(0),
            seen: Mutex::default(),
            in_vain: InVain::default(),
            has_deletes: AtomicBool::new(false),
            credit: AtomicU64::new(FIRST_CREDIT),
        }
    }
}

impl DeletedValues {
    /// Something finds no space: asks for a look.
    pub(crate) fn want(&self) {
        self.is_wanted.store(true, Ordering::Release);
    }

    /// Whether a look was asked for and has not begun.
    pub(crate) fn is_wanted(&self) -> bool {
        self.is_wanted.load(Ordering::Acquire)
    }

    /// When the next look may begin.
    pub(crate) fn not_before(&self) -> Duration {
        Duration::from_nanos(self.not_before.load(Ordering::Relaxed))
    }

    /// Whether the last look saw this version of the view, and this counter of released snapshots.
    pub(crate) fn has_seen(&self, version: u64, releases: u64) -> bool {
        *self.seen.lock() == Some((version, releases))
    }

    /// A look at this begins. Returns whether it was asked for.
    pub(crate) fn begin(&self, now: Duration, version: u64, releases: u64) -> bool {
        let not_before = u64::try_from((now + BETWEEN_LOOKS).as_nanos()).unwrap_or(u64::MAX);
        self.not_before.store(not_before, Ordering::Relaxed);
        *self.seen.lock() = Some((version, releases));
        self.is_wanted.swap(false, Ordering::AcqRel)
    }

    /// Notes a delete.
    #[inline]
    pub(crate) fn note_delete(&self) {
        // Stored once, so that the line stays shared.
        if !self.has_deletes.load(Ordering::Relaxed) {
            self.has_deletes.store(true, Ordering::Relaxed);
        }
    }

    /// Whether deletes may be in memory.
    pub(crate) fn has_deletes(&self) -> bool {
        self.has_deletes.load(Ordering::Relaxed)
    }

    /// What is in memory is about to be incorporated. Before the switch, so that a later delete counts again.
    pub(crate) fn forget_deletes(&self) {
        self.has_deletes.store(false, Ordering::Relaxed);
    }

    /// Notes a large value that was written.
    pub(crate) fn note_written(&self, bytes: u64) {
        self.credit.fetch_add(bytes / CREDIT_PART, Ordering::Relaxed);
    }

    /// Takes this much of the credit of quiet times. False if there is not as much.
    pub(crate) fn take_credit(&self, bytes: u64) -> bool {
        let take = |credit: u64| credit.checked_sub(bytes);
        self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_look_follows_a_wish_and_not_another_look_at_once() {
        let looks = DeletedValues::default();
        let now = Duration::from_secs(5);
        assert!(!looks.is_wanted() && !looks.has_seen(3, 0) && looks.not_before() <= now);
        assert!(!looks.begin(now, 3, 0));
        assert!(looks.has_seen(3, 0) && !looks.has_seen(4, 0) && !looks.has_seen(3, 1));
        assert_eq!(looks.not_before(), now + BETWEEN_LOOKS);
        looks.want();
        assert!(looks.is_wanted() && looks.begin(now, 4, 0) && !looks.is_wanted());
    }

    #[test]
    fn the_credit_grows_with_what_is_written() {
        let looks = DeletedValues::default();
        assert!(looks.take_credit(FIRST_CREDIT) && !looks.take_credit(1));
        looks.note_written(CREDIT_PART * 10);
        assert!(!looks.take_credit(11) && looks.take_credit(10) && !looks.take_credit(1));
    }
}
