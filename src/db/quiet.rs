//! Waiting for background work: until something is done, or nothing is left to do. Any thread; in a store without threads the caller
//! does the work meanwhile.

use super::inner::{Driver, Inner};
use super::tasks::Duty;
use crate::base::{Error, Result};
use std::time::Duration;

impl Inner {
    /// Waits until `done`, as long as background work can get there; an error where it cannot.
    pub(super) fn wait_for_progress(&self, mut done: impl FnMut(&Self) -> bool) -> Result<()> {
        loop {
            let mut state = self.work.state.lock();
            if done(self) {
                return Ok(());
            }
            self.health.obstacle()?;
            if state.stopped {
                return Err(Error::Closed);
            }
            match self.driver {
                Driver::Threads => {
                    self.work.progress.wait_for(&mut state, Duration::from_millis(50));
                }
                Driver::Stepped => {
                    drop(state);
                    let stepped = self.step();
                    assert!(stepped || done(self), "nothing is left to do, and yet there is something to wait for");
                }
            }
        }
    }

    /// Waits until nothing runs and nothing is left to do.
    pub(super) fn wait_until_quiet(&self) -> Result<()> {
        loop {
            self.health.check()?;
            if self.driver == Driver::Stepped {
                if !self.step() {
                    return self.health.obstacle();
                }
                self.health.obstacle()?;
            } else {
                let mut state = self.work.state.lock();
                if state.stopped {
                    return Err(Error::Closed);
                }
                // What stands still because of a pause does nothing.
                if state.running == state.parked {
                    let (relieve_at, reclaim) = (state.relieve_at, state.reclaim);
                    match self.pick(&mut state, Duty::All) {
                        None => return Ok(()),
                        // Only a look: what was picked goes back (a job's claim by its drop).
                        Some(_) => {
                            state.incorporating.clear();
                            state.sweeping = false;
                            (state.relieve_at, state.reclaim) = (relieve_at, reclaim);
                        }
                    }
                    // There is something to do, and nobody gets it done.
                    self.health.obstacle()?;
                }
                self.work.wake.notify_all();
                self.work.progress.wait_for(&mut state, Duration::from_millis(20));
            }
        }
    }
}
