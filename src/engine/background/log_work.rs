//! The log's background work, in two lanes of the pool. One makes segments ready ahead of the writers; the other
//! finishes retired segments, syncs at the interval that bounds what a power loss can take, and looks after what no
//! event announces.

use super::background::Background;
use super::upkeep::Activity;
use super::workers::panic_error;
use crate::engine::pool::Next;
use crate::engine::space::full_disk::SpaceNeed;
use crate::log::LogTask;
use crate::util::sync::Ordering;
use crate::util::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// How long to wait before a full disk is tried again, if a writer asks for that.
const FULL_DISK_RETRY: Duration = Duration::from_millis(50);
/// The same, if none does.
const FULL_DISK_IDLE_RETRY: Duration = Duration::from_millis(500);

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

    /// Does what is due of one kind of log work. A panic makes the store read-only: otherwise writers would wait for
    /// segments for ever.
    pub(super) fn run_log_lane(&self, task: LogTask) -> Next {
        let run = || match task {
            LogTask::MakeReady => self.make_ready(),
            LogTask::Finish => self.finish_and_sync(),
        };
        match catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panic| Err(panic_error(&*panic))) {
            Ok(next) => next,
            // The store was closed meanwhile, which is no failure.
            Err(Error::Closed) => Next::WhenWoken,
            Err(error) => {
                self.log.poison(&error);
                self.publish_stats(true);
                Next::WhenWoken
            }
        }
    }

    fn make_ready(&self) -> Result<Next> {
        if self.is_over() {
            return Ok(Next::WhenWoken);
        }
        let mut retry = self.segment_retry.lock();
        let now = self.scheduler.clock.now();
        if now < *retry {
            return Ok(Next::After(*retry - now));
        }
        match self.do_log_task(LogTask::MakeReady) {
            Ok(()) => Ok(Next::WhenWoken),
            // Writers that need the segment get this error. The next run tries again.
            Err(error) if error.is_disk_full() => {
                *retry = self.scheduler.clock.now().saturating_add(FULL_DISK_RETRY);
                Ok(Next::After(FULL_DISK_IDLE_RETRY))
            }
            Err(error) => Err(error),
        }
    }

    fn finish_and_sync(&self) -> Result<Next> {
        if self.is_over() {
            // A failure is published here.
            self.publish_stats(true);
            return Ok(Next::WhenWoken);
        }
        let retry = match self.do_log_task(LogTask::Finish) {
            Ok(()) => Duration::MAX,
            Err(error) if error.is_disk_full() => FULL_DISK_RETRY,
            Err(error) => return Err(error),
        };
        self.publish_stats(false);
        self.rest_log_when_quiet();
        if self.arbiter.rebalance_when_due() {
            self.generations.note_activity();
        }
        // What fails here is tried again.
        let _ = self.incorporate_freed();
        // Memory grows while nothing else wakes a worker.
        if self.space.wants_adjustment() {
            self.scheduler.ask_for_workers();
        }
        self.log.sync_when_due()?;
        if self.changes.copied() < self.log.log.synced() {
            // So that followers in other processes see it soon, and incorporations have little to copy.
            self.changes.copy_through(self.log.log.synced(), false)?;
        }
        let mut upkeep = self.upkeep.lock();
        let is_armed = self.log.is_armed_after(upkeep.last_number());
        let now = self.scheduler.clock.now();
        if upkeep.is_due(now) {
            upkeep.note(now, self.activity());
            self.scheduler.ask_for_workers();
        }
        let until_sync = if is_armed { self.log.time_until_sync() } else { Duration::MAX };
        Ok(Next::After(until_sync.min(upkeep.due_in(now)).min(retry)))
    }

    /// If nothing has happened in an idle store since the last visit, and nothing is left over: when to look again.
    pub(super) fn idle_upkeep(&self) -> Option<Duration> {
        let is_settled = !self.is_over()
            && !self.log.is_armed()
            && !self.obsolete_files.are_any()
            && self.read.snapshots.count() == 0;
        let now = self.scheduler.clock.now();
        // A run that holds the lock is no idleness.
        self.upkeep.try_lock().filter(|_| is_settled)?.stay_idle(now, || self.activity())
    }

    /// Whether the store was closed or has failed.
    fn is_over(&self) -> bool {
        self.read.closed.load(Ordering::Acquire) || self.health.check().is_err()
    }

    fn activity(&self) -> Activity {
        let cache = self.read.cache.statistics();
        Activity {
            last: self.read.sequencer.last(),
            reads: cache.hits + cache.misses,
            snapshot_changes: self.read.snapshots.changes(),
            tasks: self.scheduler.running.begun(),
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

    /// A run checks `closed`, then the store closes, then the run goes on and finds the log closed. Once, that made the
    /// store read-only, and the end of the log was not recorded in the manifest.
    #[test]
    fn log_work_that_finds_the_log_closed_does_not_poison_the_store() {
        for task in [LogTask::MakeReady, LogTask::Finish] {
            let db = DeterministicDb::open(Arc::new(SimulatedStorage::new(1)), Options::default()).unwrap();
            db.put("key", "value").unwrap();
            db.engine.make_durable().unwrap();
            db.engine.close_log().unwrap();
            assert_eq!(db.engine.background.run_log_lane(task), Next::WhenWoken);
            assert!(db.engine.health.check().is_ok(), "{task:?}: {:?}", db.engine.health.check());
        }
    }
}
