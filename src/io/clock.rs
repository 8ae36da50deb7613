//! Time. All timers of the store use its storage's clock, so that a test can run the store in simulated time. Any
//! thread.
//!
//! Invariants:
//! 1. A clock never goes back.
//! 2. The origin of a clock is arbitrary. Only the difference between two times of one clock has a meaning.
//! 3. No other code of the library asks the system for the time or sleeps (`tests/suite/tidy.rs` checks it). Two kinds
//!    of waiting decide nothing and need no clock: `util::sync::Backoff`, and timeouts of condition variables. These
//!    only limit the cost of a lost wake-up: the woken thread checks the clock.

use crate::util::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

/// The clock of a store, which all its timers use. It never goes back. Its origin is arbitrary: only the difference
/// between two times of one clock has a meaning. `Storage::clock` returns it.
///
/// ```
/// use alluvium::storage::Clock;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// use std::time::Duration;
///
/// /// Time that passes only while somebody sleeps.
/// #[derive(Debug, Default)]
/// struct TestClock(AtomicU64);
///
/// impl Clock for TestClock {
///     fn now(&self) -> Duration {
///         Duration::from_nanos(self.0.load(Ordering::Relaxed))
///     }
///
///     fn sleep(&self, time: Duration) {
///         self.0.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
///     }
/// }
/// # let clock = TestClock::default();
/// # clock.sleep(Duration::from_secs(1));
/// # assert_eq!(clock.now(), Duration::from_secs(1));
/// ```
pub trait Clock: Send + Sync + std::fmt::Debug {
    /// The time now.
    fn now(&self) -> Duration;
    /// Returns once this much time has passed.
    fn sleep(&self, time: Duration);
    /// The time since 1970, which goes on while the store is closed, and which may be set back.
    fn date(&self) -> Duration {
        wall_time()
    }
}

/// The system's monotonic clock. It starts when the process first uses it.
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

/// The time since 1970 by the system's clock, which may be set back. For people, other processes and the expiry of keyspaces.
pub(super) fn wall_time() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}
