//! The two log threads: one makes segments ready ahead of the writers; the other finishes retired segments, and syncs
//! at the interval that bounds what a power loss can take.

use super::background::Background;
use super::workers::panic_error;
use crate::engine::space::full_disk::SpaceNeed;
use crate::log::LogTask;
use crate::util::sync::Ordering;
use crate::util::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// How often the threads check when no sync is due. Writers wake them when they need a segment.
const BETWEEN_CHECKS: Duration = Duration::from_millis(500);
/// How long to wait before a full disk is tried again.
const FULL_DISK_RETRY: Duration = Duration::from_millis(50);

impl Background {
    /// Does one round of log work in the calling thread. Returns false if there is none.
    pub(super) fn step_log(&self) -> bool {
        if !self.log.log.has_work() || self.health.check().is_err() {
            return false;
        }
        for task in [LogTask::MakeReady, LogTask::Finish] {
            match self.do_log_task(task) {
                // Writers that need the segment get the error.
                Err(error) if error.is_disk_full() => {}
                Err(error) => self.log.poison(&error),
                Ok(()) => {}
            }
        }
        true
    }

    fn do_log_task(&self, task: LogTask) -> Result<()> {
        let (log, sequencer) = (&self.log.log, &self.read.sequencer);
        match task {
            LogTask::MakeReady => {
                log.make_ready(sequencer, &|error| self.space.meet_full_disk(error, SpaceNeed::Memory))
            }
            LogTask::Finish => log.finish(sequencer),
        }
    }

    /// Syncs in the calling thread if the interval has passed and there is something to sync.
    pub(super) fn step_sync(&self) -> bool {
        // An error has made the store read-only, and shows there.
        self.health.check().is_ok() && self.log.sync_when_due().unwrap_or(true)
    }

    /// Does log work until the store closes. The thread of one log task. A panic makes the store read-only: otherwise
    /// writers would wait for segments for ever.
    pub(crate) fn maintain_log(&self, task: LogTask) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| self.maintain(task))) {
            self.log.poison(&panic_error(&*panic));
        }
        if task == LogTask::Finish {
            // After a failure this thread no longer publishes statistics, so the failure is published here.
            self.publish_stats(true);
        }
    }

    fn maintain(&self, task: LogTask) {
        let is_closed = || self.read.closed.load(Ordering::Acquire);
        while !is_closed() {
            let patience = match task {
                LogTask::MakeReady => BETWEEN_CHECKS,
                LogTask::Finish => self.log.time_until_sync().min(BETWEEN_CHECKS),
            };
            self.log.log.wait_for_work(task, patience);
            if is_closed() {
                return;
            }
            match self.do_log_task(task) {
                Ok(()) => {}
                // The store was closed since the check above, which is no failure.
                Err(Error::Closed) => return,
                // Writers that need the segment get this error. The next round tries again.
                Err(error) if error.is_disk_full() => self.scheduler.clock.sleep(FULL_DISK_RETRY),
                Err(error) => return self.log.poison(&error),
            }
            if task == LogTask::MakeReady {
                continue;
            }
            self.publish_stats(false);
            self.rest_log_when_quiet();
            if self.arbiter.rebalance_when_due() {
                self.generations.note_activity();
            }
            // Memory grows while nothing else wakes a worker.
            if self.space.wants_adjustment() {
                self.scheduler.wake_workers();
            }
            if self.log.sync_when_due().is_err() {
                return;
            }
        }
    }

    /// Publishes the statistics for other processes if it is time to, or in any case.
    fn publish_stats(&self, in_any_case: bool) {
        let Some(wall_time) = self.read.storage.wall_time() else { return };
        let started = self.scheduler.clock.now();
        if self.read.closed.load(Ordering::Acquire) || !(self.live_stats.is_due(started) || in_any_case) {
            return;
        }
        let stats = self.statistics.gather();
        let now = self.scheduler.clock.now();
        self.live_stats.publish(&*self.read.storage, stats, wall_time, (now, now.saturating_sub(started)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::DeterministicDb;
    use crate::engine::types::options::Options;
    use crate::io::simulated::SimulatedStorage;
    use crate::util::sync::Arc;

    /// A log thread checks `closed`, then the store closes, then the thread begins its round and finds the log closed.
    /// Once, that made the store read-only, and the end of the log was not recorded in the manifest.
    #[test]
    fn a_log_thread_that_finds_the_log_closed_does_not_poison_the_store() {
        for task in [LogTask::MakeReady, LogTask::Finish] {
            let db = DeterministicDb::open(Arc::new(SimulatedStorage::new(1)), Options::default()).unwrap();
            db.put("key", "value").unwrap();
            db.engine.make_durable().unwrap();
            db.engine.close_log().unwrap();
            db.engine.background.maintain_log(task);
            assert!(db.engine.health.check().is_ok(), "{task:?}: {:?}", db.engine.health.check());
        }
    }
}
