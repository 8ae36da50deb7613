//! Controls one running task: counts its work, throttles it to the write limit, pauses it, and ends it. On the thread
//! of the task.

use crate::disk::Progress;
use crate::engine::pool;
use crate::engine::resources::rate_limit::Class;
use crate::engine::resources::write_limits::WriteLimits;
use crate::engine::scheduler::running_tasks::RunningTask;
use crate::engine::scheduler::{Driver, Scheduler};
use crate::engine::write::backpressure::BackgroundSpeed;
use std::time::Duration;

/// How often a paused or throttled task checks whether it should end.
const BETWEEN_CHECKS: Duration = Duration::from_millis(10);
/// The speed of an incorporation is recorded once it has run for this long.
const MEASURABLE: Duration = Duration::from_millis(50);

/// See the module.
pub(crate) struct TaskControl<'a> {
    pub(super) scheduler: &'a Scheduler,
    pub(super) write_limits: &'a WriteLimits,
    pub(super) speed: &'a BackgroundSpeed,
    pub(super) task: &'a RunningTask,
    pub(super) class: Class,
}

impl TaskControl<'_> {
    /// Whether the task should end: the store closes, or the request that it serves was cancelled.
    fn is_cancelled(&self) -> bool {
        self.scheduler.is_cancelled() || self.task.request.as_ref().is_some_and(|request| request.is_cancelled())
    }

    /// Waits for the end of a pause.
    fn wait_while_paused(&self) {
        let scheduler = self.scheduler;
        let goes_on = self.class == Class::Memory || !scheduler.is_paused();
        if goes_on || scheduler.driver() == Driver::Deterministic {
            return;
        }
        let started = scheduler.clock.now();
        self.task.set_paused(true, 0);
        scheduler.park(|| self.is_cancelled());
        let paused = scheduler.clock.now().saturating_sub(started);
        self.task.set_paused(false, paused.as_nanos() as u64);
    }

    fn record_speed(&self, now: Duration) {
        let took = self.task.runs_for(now);
        if self.class == Class::Memory && took >= MEASURABLE {
            self.speed.record_running(self.task.bytes_done(), took);
        }
    }
}

impl Progress for TaskControl<'_> {
    fn advance(&self, entries: u64, written: u64) -> bool {
        self.task.advance(entries, written);
        let clock = &self.scheduler.clock;
        let mut now = clock.now();
        self.record_speed(now);
        let waits = self.write_limits.charge(written, self.class, now);
        loop {
            self.wait_while_paused();
            if self.is_cancelled() {
                return false;
            }
            let left = self.write_limits.left(waits, now);
            if left.is_zero() {
                return true;
            }
            // Other stores need not wait for this one's limit.
            pool::while_waiting(|| clock.sleep(left.min(BETWEEN_CHECKS)));
            now = clock.now();
        }
    }
}
