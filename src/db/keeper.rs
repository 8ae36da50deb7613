//! The log keeper: one thread that makes segments ready ahead of the writers, finishes retired ones, and syncs at the interval
//! that bounds what a power loss can take.

use super::full_disk::Need;
use super::inner::Inner;
use super::workers::panicked;
use crate::base::sync::{Arc, Ordering};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

/// How often the keeper looks where no sync is due; writers wake it when they need a segment.
const LOOK: Duration = Duration::from_millis(500);

impl Inner {
    /// One round of the keeper's work, in the calling thread, where there is any.
    pub(super) fn step_log(&self) -> bool {
        if !self.log.has_work() || self.health.check().is_err() {
            return false;
        }
        match self.log.maintain_with(&self.sequencer, &|error| self.meet_full_disk(error, Need::Memory)) {
            Err(error) if error.is_disk_full() => self.health.wait_for(error),
            Err(error) => self.poison(&error),
            Ok(()) => {}
        }
        true
    }

    /// The keeper's life; ends when the store closes. A panic makes the store read-only: without a keeper writers would wait
    /// for segments for ever.
    pub(super) fn keep_log(self: &Arc<Self>) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.keep())) {
            self.poison(&panicked(&*panic));
        }
    }

    fn keep(&self) {
        let interval = self.options.sync_interval;
        // An interval beyond what the clock can count is none.
        let after = |interval: Option<Duration>| interval.and_then(|interval| Instant::now().checked_add(interval));
        let mut next_sync = after(interval);
        while !self.closed.load(Ordering::Acquire) {
            let until_sync = next_sync.map_or(LOOK, |next| next.saturating_duration_since(Instant::now()));
            self.log.wait_for_work(until_sync.min(LOOK));
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            match self.log.maintain_with(&self.sequencer, &|error| self.meet_full_disk(error, Need::Memory)) {
                Ok(()) => {}
                Err(error) if error.is_disk_full() => {
                    // Writers that need the segment get this error; the next round tries again.
                    std::thread::sleep(Duration::from_millis(50));
                }
                Err(error) => {
                    self.poison(&error);
                    return;
                }
            }
            // Memory grows while nothing else would wake a worker.
            if self.wants_ballast() {
                self.work.wake();
            }
            if next_sync.is_some_and(|due| Instant::now() >= due) {
                let last = self.sequencer.last_relaxed();
                if last > self.log.synced() && self.sync_through(last).is_err() {
                    return;
                }
                next_sync = after(interval);
            }
        }
    }
}
