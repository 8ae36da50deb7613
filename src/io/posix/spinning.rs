//! Whether a thread that waits for reads looks for their end again and again before it sleeps. Any thread.
//!
//! An idle processor goes to sleep with its last thread, and waking both takes a third of what a fast device takes for
//! a read (`docs/performance.md`, Cold reads). So a thread spins for somewhat more than the mean wait, if few others
//! wait. Background threads never spin, and their waits do not count.
//!
//! Invariant: at most `spinners_max` threads spin at a time for the reads of a directory. That is at most half of the
//! processors.

use crate::io::{Clock, SystemClock};
use crate::util::sync::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

/// Longer waits are those of a slow or a busy device: there waking up is a small part.
const SPIN_MAX: Duration = Duration::from_micros(200);
/// The mean at first, in nanoseconds.
const MEAN_AT_FIRST: u64 = 50_000;
/// The mean follows about this number of waits.
const MEAN_OF: u64 = 16;
/// Looks between two looks at the clock.
const LOOKS: u32 = 16;

/// See the module.
#[derive(Debug)]
pub(super) struct Spinning {
    /// Threads that wait, spinning or asleep.
    waiting: AtomicUsize,
    spinners_max: usize,
    /// The mean wait in nanoseconds. One of two concurrent changes may be lost.
    mean_ns: AtomicU64,
}

impl Spinning {
    pub(super) fn new() -> Self {
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Self { waiting: AtomicUsize::new(0), spinners_max: processors / 2, mean_ns: AtomicU64::new(MEAN_AT_FIRST) }
    }

    /// Begins the wait of a thread that may spin.
    pub(super) fn begin(&self) -> Wait<'_> {
        let others = self.waiting.fetch_add(1, Ordering::Relaxed);
        let limit = Duration::from_nanos(self.mean_ns.load(Ordering::Relaxed) * 3 / 2);
        let spins = others < self.spinners_max && limit <= SPIN_MAX;
        Wait { spinning: self, began: SystemClock.now(), limit: if spins { limit } else { Duration::ZERO } }
    }
}

/// The wait of one thread, until it is dropped.
pub(super) struct Wait<'s> {
    spinning: &'s Spinning,
    began: Duration,
    limit: Duration,
}

impl Wait<'_> {
    /// Spins until `is_over`, or until it is better to sleep.
    pub(super) fn spin(&self, mut is_over: impl FnMut() -> bool) {
        while self.waited() < self.limit {
            for _ in 0..LOOKS {
                if is_over() {
                    return;
                }
                std::hint::spin_loop();
            }
        }
    }

    fn waited(&self) -> Duration {
        SystemClock.now().saturating_sub(self.began)
    }
}

impl Drop for Wait<'_> {
    fn drop(&mut self) {
        let Spinning { waiting, mean_ns, .. } = self.spinning;
        waiting.fetch_sub(1, Ordering::Relaxed);
        let mean = mean_ns.load(Ordering::Relaxed);
        // A single long wait, as of a device that was busy with writes, says little.
        let waited = self.waited().min(4 * SPIN_MAX).as_nanos() as u64;
        mean_ns.store(mean - mean / MEAN_OF + waited / MEAN_OF, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spinning(spinners_max: usize, mean: Duration) -> Spinning {
        let mean_ns = AtomicU64::new(mean.as_nanos() as u64);
        Spinning { waiting: AtomicUsize::new(0), spinners_max, mean_ns }
    }

    /// On a busy machine each of the waits here may take long. None adds more than 50 us to the mean.
    #[test]
    fn few_threads_spin_and_none_for_a_slow_device() {
        let fast = spinning(2, Duration::from_micros(10));
        let first = fast.begin();
        assert_eq!(first.limit, Duration::from_micros(15));
        let second = fast.begin();
        assert_eq!(second.limit, Duration::from_micros(15));
        assert_eq!(fast.begin().limit, Duration::ZERO, "two wait already");
        drop(second);
        assert!(fast.begin().limit > Duration::ZERO);
        drop(first);
        assert_eq!(fast.waiting.load(Ordering::Relaxed), 0);
        assert_eq!(spinning(2, Duration::from_micros(150)).begin().limit, Duration::ZERO);
        assert_eq!(spinning(0, Duration::from_micros(10)).begin().limit, Duration::ZERO);
    }

    #[test]
    fn a_spin_ends_with_what_it_looks_for_or_with_its_time() {
        let spinning = spinning(1, Duration::from_micros(100));
        let wait = spinning.begin();
        let mut looks = 0;
        wait.spin(|| {
            looks += 1;
            looks == 5
        });
        assert!(looks == 5 || wait.waited() >= wait.limit, "{looks}");
        wait.spin(|| false);
        assert!(wait.waited() >= wait.limit);
        let mut is_asked = false;
        wait.spin(|| {
            is_asked = true;
            false
        });
        assert!(!is_asked, "it spins on although the time has passed");
    }

    /// After slow waits threads sleep, after fast ones they spin again.
    #[test]
    fn the_mean_follows_the_waits() {
        let spinning = spinning(1, Duration::from_micros(100));
        for _ in 0..100 {
            let mut wait = spinning.begin();
            wait.began = wait.began.saturating_sub(Duration::from_millis(3));
        }
        assert_eq!(spinning.begin().limit, Duration::ZERO);
        let is_asleep = || spinning.begin().limit.is_zero();
        assert!((0..1_000_000).any(|_| !is_asleep()), "the mean stays at {:?} ns", spinning.mean_ns);
    }
}
