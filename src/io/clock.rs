//! Time. What the store decides by time it asks of its storage's clock, so that a test can run it in simulated time. Any thread.
//!
//! Invariants:
//! 1. A clock never goes back.
//! 2. Moments are counted from one that means nothing, so only their differences do, and only of one clock.
//! 3. Nobody else in the library asks the system for the time or sleeps (`tests/suite/tidy.rs` checks it). Two kinds of waiting are no
//!    decision by time and need no clock: `base::sync::Backoff`, and the timeouts of condition variables, which only bound what a
//!    lost wake-up would cost: whoever wakes by one looks at the clock.

use crate::util::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

/// See the module.
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The present moment.
    fn now(&self) -> Duration;
    /// Returns once so much time has passed.
    fn sleep(&self, time: Duration);
}

/// The system's clock, monotonic; it starts when the process first asks.
#[derive(Clone, Copy, Debug)]
pub struct SystemClock;

static START: OnceLock<Instant> = OnceLock::new();

impl Clock for SystemClock {
    fn now(&self) -> Duration {
        START.get_or_init(Instant::now).elapsed()
    }

    fn sleep(&self, time: Duration) {
        std::thread::sleep(time);
    }
}

/// The time since 1970 by the system's clock, which may be set back: for telling people and other processes, and for nothing that the
/// store decides.
pub(super) fn wall_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
