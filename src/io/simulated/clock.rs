//! The simulated disk's two clocks. Any thread.
//!
//! Both count the disk's own time: the duration of its operations, slow ones longer, and what a test let pass
//! (`advance`). The stepped clock counts nothing else, so that the time of a store without threads is a pure function
//! of its calls: a thread that sleeps on it advances it and does not wait. With threads, time must also pass while they
//! wait for each other. So their clock also follows the system's clock, and sleeping on it takes real time; slow
//! operations advance it and return at once.

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

    /// The disk's own time. *Otherwise:* what has expired depends on how long the process has run.
    fn date(&self) -> Duration {
        self.0.lock().time()
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

    fn date(&self) -> Duration {
        self.now()
    }
}
