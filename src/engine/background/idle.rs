//! Waiting for background work: until something is done, or nothing is left to do. Any thread; in a store without threads the caller
//! does the work meanwhile.

use super::tasks::WorkerRole;
use crate::engine::engine::{Driver, Engine};
use crate::util::{Error, Result};
use std::time::Duration;

impl Engine {
    /// Waits until `done`, as long as background work can get there; an error where it cannot.
    pub(crate) fn wait_for_progress(&self, mut done: impl FnMut(&Self) -> bool) -> Result<()> {
        loop {
            let mut state = self.work.state.lock();
            if done(self) {
                return Ok(());
            }
            self.health.blocking_error()?;
            if state.stopped {
                return Err(Error::Closed);
            }
            match self.driver {
                Driver::Threads => {
                    self.work.progress.wait_for(&mut state, Duration::from_millis(50));
                }
                Driver::Deterministic => {
                    drop(state);
                    let deterministic = self.step();
                    assert!(
                        deterministic || done(self),
                        "nothing is left to do, and yet there is something to wait for"
                    );
                }
            }
        }
    }

    /// Waits until nothing runs and nothing is left to do.
    pub(crate) fn wait_until_idle(&self) -> Result<()> {
        loop {
            self.health.check()?;
            if self.driver == Driver::Deterministic {
                if !self.step() {
                    return self.health.blocking_error();
                }
                self.health.blocking_error()?;
            } else {
                let mut state = self.work.state.lock();
                if state.stopped {
                    return Err(Error::Closed);
                }
                // What stands still because of a pause does nothing.
                if state.running == state.parked {
                    let (full_disk_retry_at, reclaim) = (state.full_disk_retry_at, state.reclaim);
                    match self.pick(&mut state, WorkerRole::All) {
                        None => return Ok(()),
                        // Only a look: what was picked goes back (a job's claim by its drop).
                        Some(_) => {
                            state.incorporating.clear();
                            state.draining = false;
                            (state.full_disk_retry_at, state.reclaim) = (full_disk_retry_at, reclaim);
                        }
                    }
                    // There is something to do, and nobody gets it done.
                    self.health.blocking_error()?;
                }
                self.work.wake.notify_all();
                self.work.progress.wait_for(&mut state, Duration::from_millis(20));
            }
        }
    }
}
