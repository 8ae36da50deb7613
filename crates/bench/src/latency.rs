//! Latencies of operations: one histogram per thread, merged at the end.
//!
//! A measurement costs one read of the clock and one increment; it runs from the end of the previous operation.
//! `calibrate.rs` measures the cost.

use crate::outcome::Percentile;
use hdrhistogram::Histogram;
use std::time::Instant;

/// Longer times count as this long. The longest is kept exactly.
const NANOSECONDS_MAX: u64 = 600_000_000_000;
/// Two digits keep the used counters within one or two KiB, and a percentile within 1%.
const DIGITS: u8 = 2;
/// The points of the distribution in the results.
const PERCENTS: [f64; 14] = [1.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.99, 99.999, 100.0];

/// Times of one thread, or of all.
#[derive(Debug)]
pub struct Latencies {
    histogram: Option<Histogram<u64>>,
    longest: u64,
    last: Instant,
}

impl Latencies {
    /// Empty; the first time runs from now.
    pub fn new() -> Self {
        // The bounds are constants that the histogram accepts (a test makes one). Without the histogram there would be
        // no percentiles.
        let histogram = Histogram::new_with_bounds(1, NANOSECONDS_MAX, DIGITS).ok();
        Self { histogram, longest: 0, last: Instant::now() }
    }

    /// The next time runs from now.
    pub fn restart(&mut self) -> Instant {
        self.last = Instant::now();
        self.last
    }

    /// This many operations ended now, which together took the time since the last end; returns the time now.
    #[inline]
    pub fn lap(&mut self, operations: u64) -> Instant {
        let now = Instant::now();
        let nanoseconds = now.duration_since(self.last).as_nanos() as u64;
        self.last = now;
        self.record(nanoseconds, operations);
        now
    }

    #[inline]
    fn record(&mut self, nanoseconds: u64, operations: u64) {
        self.longest = self.longest.max(nanoseconds);
        if let Some(histogram) = &mut self.histogram {
            let each = if operations > 1 { nanoseconds / operations } else { nanoseconds };
            let each = each.clamp(1, NANOSECONDS_MAX);
            // A value within the bounds is always accepted.
            let _ = if operations > 1 { histogram.record_n(each, operations) } else { histogram.record(each) };
        }
    }

    /// Adds the times of another thread.
    pub fn merge(&mut self, other: &Self) {
        self.longest = self.longest.max(other.longest);
        if let (Some(histogram), Some(other)) = (&mut self.histogram, &other.histogram) {
            // Both have the same bounds.
            let _ = histogram.add(other);
        }
    }

    /// This percentage of operations took at most this many microseconds.
    pub fn percentile_us(&self, percent: f64) -> f64 {
        let Some(histogram) = self.histogram.as_ref().filter(|histogram| !histogram.is_empty()) else { return 0.0 };
        histogram.value_at_percentile(percent).min(self.longest) as f64 / 1e3
    }

    /// The longest time, in milliseconds.
    pub fn longest_ms(&self) -> f64 {
        self.longest as f64 / 1e6
    }

    /// The whole distribution.
    pub fn curve(&self) -> Vec<Percentile> {
        PERCENTS.iter().map(|&percent| Percentile { percent, us: self.percentile_us(percent) }).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_of_known_times() {
        let (mut even, mut odd) = (Latencies::new(), Latencies::new());
        for microseconds in 1..=1000u64 {
            if microseconds % 2 == 0 { even.record(microseconds * 1000, 1) } else { odd.record(microseconds * 1000, 1) }
        }
        // The longest time is not in the histogram that the others are merged into.
        odd.merge(&even);
        for (percent, expected) in [(50.0, 500.0), (90.0, 900.0), (99.0, 990.0), (99.9, 999.0)] {
            let found = odd.percentile_us(percent);
            assert!((found / expected - 1.0f64).abs() < 0.011, "{percent}: {found}");
        }
        assert_eq!(odd.longest_ms(), 1.0);
        let curve = odd.curve();
        assert!(curve.windows(2).all(|pair| pair[0].us <= pair[1].us), "{curve:?}");
        assert_eq!(curve.last().unwrap().us, 1000.0);
    }

    #[test]
    fn many_operations_share_their_time_and_the_longest_is_whole() {
        let mut latencies = Latencies::new();
        latencies.record(1_000_000, 1000);
        assert!((0.99..1.02).contains(&latencies.percentile_us(50.0)));
        assert_eq!(latencies.longest_ms(), 1.0);
    }

    #[test]
    fn no_operations_and_endless_ones() {
        let mut latencies = Latencies::new();
        assert_eq!((latencies.percentile_us(99.0), latencies.longest_ms()), (0.0, 0.0));
        latencies.record(u64::MAX, 1);
        latencies.record(0, 1);
        assert!(latencies.percentile_us(100.0) >= 6e8 * 0.99);
    }

    #[test]
    fn laps_are_the_time_that_passed() {
        let mut latencies = Latencies::new();
        latencies.restart();
        std::thread::sleep(std::time::Duration::from_millis(5));
        latencies.lap(1);
        assert!(latencies.longest_ms() >= 5.0 && latencies.percentile_us(50.0) >= 4_900.0);
    }
}
