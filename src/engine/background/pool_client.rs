//! A store as a client of its pool. The pool's threads.

use super::background::Background;
use crate::engine::pool::{Lane, Next, PoolClient};
use crate::engine::scheduler::task::WorkerRole;
use crate::log::LogTask;
use std::time::Duration;

impl PoolClient for Background {
    fn run(&self, lane: Lane) -> Next {
        match lane {
            Lane::MakeReady => self.run_log_lane(LogTask::MakeReady),
            Lane::Finish => self.run_log_lane(LogTask::Finish),
            Lane::Work => self.work(WorkerRole::All),
            Lane::Memory => self.work(WorkerRole::Memory),
        }
    }

    fn stays_idle(&self) -> Option<Duration> {
        self.idle_upkeep()
    }

    fn progress(&self) -> u64 {
        self.scheduler.running.progress()
    }
}
