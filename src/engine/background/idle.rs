//! Waiting until no background work runs or is due. Any thread.

use super::background::Background;
use super::priorities;
use crate::engine::scheduler::Driver;
use crate::engine::scheduler::task::WorkerRole;
use crate::util::{Error, Result};
use std::time::Duration;

impl Background {
    /// Waits until nothing runs and nothing is left to do. Meanwhile no work begins that is only for quiet times. With
    /// `Driver::Deterministic` the calling thread does the work.
    pub(crate) fn wait_until_idle(&self) -> Result<()> {
        self.wait_until_idle_or(Duration::MAX)
    }

    /// The same, at most until this time of the store's clock.
    pub(crate) fn wait_until_idle_or(&self, until: Duration) -> Result<()> {
        {
            let mut state = self.scheduler.state.lock();
            state.awaited += 1;
            state.flushed_when_quiet = false;
        }
        let waited = self.wait_for_all_work(until);
        self.scheduler.state.lock().awaited -= 1;
        // Workers that looked meanwhile did not find what is only for quiet times.
        self.scheduler.ask_for_workers();
        waited
    }

    fn wait_for_all_work(&self, until: Duration) -> Result<()> {
        loop {
            self.health.check()?;
            if self.scheduler.clock.now() >= until {
                return Ok(());
            }
            if self.scheduler.driver() == Driver::Deterministic {
                if !self.step() {
                    return self.health.blocking_error();
                }
                self.health.blocking_error()?;
                continue;
            }
            let mut state = self.scheduler.state.lock();
            if state.stopped {
                return Err(Error::Closed);
            }
            // Tasks that wait for the end of a pause do nothing.
            if state.is_idle() {
                let (check_space_at, last_cleanup) = (state.check_space_at, state.last_cleanup);
                if priorities::choose(self, &mut state, WorkerRole::All).is_none() {
                    return Ok(());
                }
                // This was only a check, so the choice is undone. (A job gives its claim back when it is dropped.)
                (state.check_space_at, state.last_cleanup) = (check_space_at, last_cleanup);
                // Something is left to do, but a blocking error may prevent it.
                self.health.blocking_error()?;
            }
            self.scheduler.wait_for_workers(&mut state);
        }
    }
}
