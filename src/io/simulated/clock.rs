//! The simulated disk's two clocks. Any thread.
//!
//! Both count the disk's own time: what its operations took, slow ones longer, and what a test let pass (`advance`). The stepped
//! one counts nothing else, so that a store without threads lives in time that is a pure function of its calls: who sleeps on it
//! moves it and does not wait. With threads time must also pass while they wait for each other, so their clock goes with the
//! system's, too, and sleeping on it takes the time that it says; slow operations put it forward and return at once.

use super::disk::Disk;
use crate::io::{Clock, SystemClock};
use crate::util::sync::{Arc, Mutex};
use std::time::Duration;

/// For a store with threads.
#[derive(Debug)]
pub(super) struct RunningClock(pub(super) Arc<Mutex<Disk>>);

impl Clock for RunningClock {
    fn now(&self) -> Duration {
        self.0.lock().time().saturating_add(SystemClock.now())
    }

    fn sleep(&self, time: Duration) {
        SystemClock.sleep(time);
    }
}

/// For a store without.
#[derive(Debug)]
pub(super) struct SteppedClock(pub(super) Arc<Mutex<Disk>>);

impl Clock for SteppedClock {
    fn now(&self) -> Duration {
        self.0.lock().time()
    }

    fn sleep(&self, time: Duration) {
        self.0.lock().pass(time);
    }
}
