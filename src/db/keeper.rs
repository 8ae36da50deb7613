//! The log keepers: one thread makes segments ready ahead of the writers; another finishes retired ones, and syncs at the interval that
//! bounds what a power loss can take.

use super::Options;
use super::full_disk::Need;
use super::inner::Inner;
use super::workers::panicked;
use crate::base::sync::{Arc, Ordering};
use crate::base::{Error, Result};
use crate::io::Clock;
use crate::log::Chore;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// How often the keepers look where no sync is due; writers wake them when they need a segment.
const LOOK: Duration = Duration::from_millis(500);
/// How long the keeper leaves a full disk alone.
const FULL_DISK_RETRY: Duration = Duration::from_millis(50);

/// When the next background sync is due; never, where there are none.
pub(super) fn sync_due(clock: &dyn Clock, options: &Options) -> Duration {
    let interval = options.sync_interval.filter(|interval| !interval.is_zero());
    interval.map_or(Duration::MAX, |interval| clock.now().saturating_add(interval))
}

impl Inner {
    /// One round of the keeper's work, in the calling thread, where there is any.
    pub(super) fn step_log(&self) -> bool {
        if !self.log.has_work() || self.health.check().is_err() {
            return false;
        }
        for chore in [Chore::MakeReady, Chore::Finish] {
            match self.do_chore(chore) {
                // Writers that need the segment meet the error.
                Err(error) if error.is_disk_full() => {}
                Err(error) => self.poison(&error),
                Ok(()) => {}
            }
        }
        true
    }

    fn do_chore(&self, chore: Chore) -> Result<()> {
        match chore {
            Chore::MakeReady => self.log.make_ready(&self.sequencer, &|error| self.meet_full_disk(error, Need::Memory)),
            Chore::Finish => self.log.finish(&self.sequencer),
        }
    }

    /// Syncs in the calling thread where the interval has passed and there is something to sync.
    pub(super) fn step_sync(&self) -> bool {
        // An error has made the store read-only, and shows there.
        self.health.check().is_ok() && self.sync_when_due().unwrap_or(true)
    }

    /// Makes everything durable where the interval has passed since the last time; false where there was nothing to do.
    fn sync_when_due(&self) -> Result<bool> {
        if self.clock.now() < *self.sync_due.lock() {
            return Ok(false);
        }
        let last = self.sequencer.last_relaxed();
        let behind = last > self.log.synced();
        if behind {
            self.sync_through(last)?;
        }
        *self.sync_due.lock() = sync_due(&*self.clock, &self.options);
        Ok(behind)
    }

    /// A keeper's life; ends when the store closes. A panic makes the store read-only: without a keeper writers would wait
    /// for segments for ever.
    pub(super) fn keep_log(self: &Arc<Self>, chore: Chore) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.keep(chore))) {
            self.poison(&panicked(&*panic));
        }
        if chore == Chore::Finish {
            // After a failure nobody publishes any more, so that it is told here.
            self.publish_stats(true);
        }
    }

    fn keep(&self, chore: Chore) {
        while !self.closed.load(Ordering::Acquire) {
            let patience = match chore {
                Chore::MakeReady => LOOK,
                Chore::Finish => self.sync_due.lock().saturating_sub(self.clock.now()).min(LOOK),
            };
            self.log.wait_for_work(chore, patience);
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            match self.do_chore(chore) {
                Ok(()) => {}
                // The store closed since the look above, which is no failure.
                Err(Error::Closed) => return,
                Err(error) if error.is_disk_full() => {
                    // Writers that need the segment get this error; the next round tries again.
                    self.clock.sleep(FULL_DISK_RETRY);
                }
                Err(error) => {
                    self.poison(&error);
                    return;
                }
            }
            if chore == Chore::MakeReady {
                continue;
            }
            self.publish_stats(false);
            self.lend_memory_when_due();
            // Memory grows while nothing else would wake a worker.
            if self.wants_ballast() {
                self.work.wake();
            }
            if self.sync_when_due().is_err() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::SteppedDb;
    use crate::io::simulated::SimulatedStorage;

    /// A keeper looks at `closed`, then the store closes, then the keeper begins its round and finds the log closed. *Else:* that made the
    /// store read-only, and the end of the log was silently left out of the manifest.
    #[test]
    fn a_keeper_that_finds_the_log_closed_poisons_nothing() {
        for chore in [Chore::MakeReady, Chore::Finish] {
            let db = SteppedDb::open(Arc::new(SimulatedStorage::new(1)), Options::default()).unwrap();
            db.put("key", "value").unwrap();
            db.inner.prepare_to_close().unwrap();
            db.inner.close_log().unwrap();
            db.inner.keep_log(chore);
            assert!(db.inner.health.check().is_ok(), "{chore:?}: {:?}", db.inner.health.check());
        }
    }
}
