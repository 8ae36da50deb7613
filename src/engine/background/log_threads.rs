//! The log keepers: one thread makes segments ready ahead of the writers; another finishes retired ones, and syncs at the interval that
//! bounds what a power loss can take.

use super::workers::panicked;
use crate::engine::engine::Engine;
use crate::engine::space::full_disk::SpaceNeed;
use crate::engine::types::options::Options;
use crate::io::Clock;
use crate::log::LogTask;
use crate::util::sync::{Arc, Ordering};
use crate::util::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// How often the keepers look where no sync is due; writers wake them when they need a segment.
const LOOK: Duration = Duration::from_millis(500);
/// How long the keeper leaves a full disk alone.
const FULL_DISK_RETRY: Duration = Duration::from_millis(50);

/// When the next background sync is due; never, where there are none.
pub(crate) fn sync_due(clock: &dyn Clock, options: &Options) -> Duration {
    let interval = options.sync_interval.filter(|interval| !interval.is_zero());
    interval.map_or(Duration::MAX, |interval| clock.now().saturating_add(interval))
}

impl Engine {
    /// One round of the keeper's work, in the calling thread, where there is any.
    pub(crate) fn step_log(&self) -> bool {
        if !self.log.has_work() || self.health.check().is_err() {
            return false;
        }
        for task in [LogTask::MakeReady, LogTask::Finish] {
            match self.do_chore(task) {
                // Writers that need the segment meet the error.
                Err(error) if error.is_disk_full() => {}
                Err(error) => self.poison(&error),
                Ok(()) => {}
            }
        }
        true
    }

    fn do_chore(&self, task: LogTask) -> Result<()> {
        match task {
            LogTask::MakeReady => {
                self.log.make_ready(&self.sequencer, &|error| self.meet_full_disk(error, SpaceNeed::Memory))
            }
            LogTask::Finish => self.log.finish(&self.sequencer),
        }
    }

    /// Syncs in the calling thread where the interval has passed and there is something to sync.
    pub(crate) fn step_sync(&self) -> bool {
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
    pub(crate) fn keep_log(self: &Arc<Self>, task: LogTask) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.keep(task))) {
            self.poison(&panicked(&*panic));
        }
        if task == LogTask::Finish {
            // After a failure nobody publishes any more, so that it is told here.
            self.publish_stats(true);
        }
    }

    fn keep(&self, task: LogTask) {
        while !self.closed.load(Ordering::Acquire) {
            let patience = match task {
                LogTask::MakeReady => LOOK,
                LogTask::Finish => self.sync_due.lock().saturating_sub(self.clock.now()).min(LOOK),
            };
            self.log.wait_for_work(task, patience);
            if self.closed.load(Ordering::Acquire) {
                return;
            }
            match self.do_chore(task) {
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
            if task == LogTask::MakeReady {
                continue;
            }
            self.publish_stats(false);
            self.rebalance_memory_when_due();
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
    use crate::db::DeterministicDb;
    use crate::io::simulated::SimulatedStorage;

    /// A keeper looks at `closed`, then the store closes, then the keeper begins its round and finds the log closed. *Else:* that made the
    /// store read-only, and the end of the log was silently left out of the manifest.
    #[test]
    fn a_keeper_that_finds_the_log_closed_poisons_nothing() {
        for task in [LogTask::MakeReady, LogTask::Finish] {
            let db = DeterministicDb::open(Arc::new(SimulatedStorage::new(1)), Options::default()).unwrap();
            db.put("key", "value").unwrap();
            db.inner.prepare_to_close().unwrap();
            db.inner.close_log().unwrap();
            db.inner.keep_log(task);
            assert!(db.inner.health.check().is_ok(), "{task:?}: {:?}", db.inner.health.check());
        }
    }
}
