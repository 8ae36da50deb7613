//! Slowing writers smoothly, so that background work keeps up and nobody ever meets a wall (`design.md`, Background work).
//!
//! The delay of a write is its bytes times a rate. The rate is what background work needs per byte (measured) times how
//! far memory or tree debt is between where it starts to matter and where it must not go. At the far end writers are twice
//! as slow as background work, so the far end is not reached.

use crate::base::sync::{AtomicU64, Ordering};
use crate::io::Clock;
use std::time::Duration;

/// Sleeping less than this costs more than it delays.
const SLEEP_NS_MIN: u64 = 100_000;
/// One sleep is never longer: a slowdown stays invisible in single calls.
const SLEEP_NS_MAX: u64 = 2_000_000;
/// How many bytes a thread may write before it looks at the rate again.
const LOOK_BYTES: u64 = 16 << 10;

/// Measured speed of background work. Any thread.
#[derive(Debug)]
pub(super) struct BackgroundSpeed {
    /// Nanoseconds a byte of user data, times 1024; a moving average.
    ns_per_kib: AtomicU64,
}

impl Default for BackgroundSpeed {
    fn default() -> Self {
        // 100 MB/s until something was measured.
        Self { ns_per_kib: AtomicU64::new(10_240) }
    }
}

impl BackgroundSpeed {
    /// Tells of finished work.
    pub(super) fn record(&self, bytes: u64, took: Duration) {
        if bytes < 4096 {
            return;
        }
        let measured = (took.as_nanos() as u64).saturating_mul(1024) / bytes;
        let old = self.ns_per_kib.load(Ordering::Relaxed);
        self.ns_per_kib.store((old * 3 + measured.clamp(64, 1 << 20)) / 4, Ordering::Relaxed);
    }

    fn ns_per_kib(&self) -> u64 {
        self.ns_per_kib.load(Ordering::Relaxed)
    }
}

/// How full something is between two marks, in 1/1024: 0 at `start`, 1024 at `limit` and beyond.
pub(super) fn fullness(used: u64, start: u64, limit: u64) -> u64 {
    (used.saturating_sub(start).saturating_mul(1024) / (limit - start).max(1)).min(1024)
}

/// One thread's account of delay that it still owes.
#[derive(Debug, Default)]
pub(super) struct Pressure {
    ns_per_kib: u64,
    bytes_until_look: u64,
    owed_ns: u64,
}

impl Pressure {
    /// Accounts for a write of `bytes` and sleeps when enough has come together; returns the nanoseconds slept. `fullness`
    /// is asked now and then only, the clock only around a sleep.
    pub(super) fn delay(
        &mut self,
        bytes: u64,
        speed: &BackgroundSpeed,
        clock: &dyn Clock,
        fullness: impl FnOnce() -> u64,
    ) -> u64 {
        if self.bytes_until_look <= bytes {
            self.ns_per_kib = 2 * speed.ns_per_kib() * fullness() / 1024;
            self.bytes_until_look = LOOK_BYTES;
        } else {
            self.bytes_until_look -= bytes;
        }
        if self.ns_per_kib == 0 {
            return 0;
        }
        self.owed_ns += bytes * self.ns_per_kib / 1024;
        if self.owed_ns < SLEEP_NS_MIN {
            return 0;
        }
        let started = clock.now();
        clock.sleep(Duration::from_nanos(self.owed_ns.min(SLEEP_NS_MAX)));
        let slept = clock.now().saturating_sub(started).as_nanos() as u64;
        self.owed_ns = self.owed_ns.saturating_sub(slept);
        slept
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::Storage;
    use crate::io::simulated::SimulatedStorage;

    #[test]
    fn fullness_rises_smoothly_between_its_marks() {
        assert_eq!(fullness(0, 100, 200), 0);
        assert_eq!(fullness(100, 100, 200), 0);
        assert_eq!(fullness(150, 100, 200), 512);
        assert_eq!(fullness(900, 100, 200), 1024);
    }

    #[test]
    fn no_pressure_no_delay_and_full_pressure_slows_to_half_the_background_speed() {
        let disk = SimulatedStorage::new(1);
        let (clock, speed) = (disk.stepped_clock(), BackgroundSpeed::default());
        let mut pressure = Pressure::default();
        assert_eq!((0..1000).map(|_| pressure.delay(1000, &speed, &*clock, || 0)).sum::<u64>(), 0);
        assert_eq!(disk.now(), Duration::ZERO);
        let mut pressure = Pressure::default();
        let slept: u64 = (0..1000).map(|_| pressure.delay(1000, &speed, &*clock, || 1024)).sum();
        // A million bytes at 20 ns each; what is still owed at the end may be missing.
        assert!(slept > 20_000_000 - SLEEP_NS_MIN && slept <= 20_000_000, "{slept}");
        assert_eq!(disk.now(), Duration::from_nanos(slept));
    }

    #[test]
    fn what_one_large_write_owes_is_slept_in_small_pieces() {
        let disk = SimulatedStorage::new(1);
        let (clock, speed, mut pressure) = (disk.stepped_clock(), BackgroundSpeed::default(), Pressure::default());
        let slept: Vec<u64> = [1_000_000]
            .into_iter()
            .chain([1; 12])
            .map(|bytes| pressure.delay(bytes, &speed, &*clock, || 1024))
            .collect();
        assert!(slept.iter().all(|slept| *slept <= SLEEP_NS_MAX), "{slept:?}");
        assert_eq!(slept.iter().sum::<u64>(), 20_000_000, "{slept:?}");
    }
}
