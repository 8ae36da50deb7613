//! Throughput over time: a thread that samples the counters of the others and reports progress.

use crate::outcome::Sample;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Samples `count` until the other end of `stop` is dropped or sends; calls `tell` with every count.
pub fn record(every: Duration, stop: Receiver<()>, count: &dyn Fn() -> u64, tell: &dyn Fn(u64)) -> Vec<Sample> {
    let started = Instant::now();
    let mut sampler = Sampler::default();
    let mut next = every;
    loop {
        let ended = stop.recv_timeout(next.saturating_sub(started.elapsed())) != Err(RecvTimeoutError::Timeout);
        let counted = count();
        sampler.add(started.elapsed(), counted, if ended { every / 2 } else { Duration::ZERO });
        tell(counted);
        if ended {
            return sampler.samples;
        }
        // A late wake-up gives a longer sample, not two short ones.
        next = next.max(started.elapsed()) + every;
    }
}

#[derive(Debug, Default)]
struct Sampler {
    samples: Vec<Sample>,
    last: Duration,
    counted: u64,
}

impl Sampler {
    /// A sample shorter than `least` has no meaning, unless it is the only one.
    fn add(&mut self, at: Duration, counted: u64, least: Duration) {
        let time = at.saturating_sub(self.last);
        if time.is_zero() || (time < least && !self.samples.is_empty()) {
            return;
        }
        let operations = counted.saturating_sub(self.counted);
        self.samples.push(Sample { at_s: at.as_secs_f64(), ops_per_s: operations as f64 / time.as_secs_f64() });
        (self.last, self.counted) = (at, counted);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc::channel;

    #[test]
    fn samples_are_differences() {
        let (mut sampler, ms) = (Sampler::default(), Duration::from_millis);
        sampler.add(ms(100), 50, Duration::ZERO);
        sampler.add(ms(300), 60, Duration::ZERO);
        sampler.add(ms(310), 100, ms(50));
        sampler.add(ms(400), 160, ms(50));
        let rates: Vec<u64> = sampler.samples.iter().map(|sample| sample.ops_per_s.round() as u64).collect();
        assert_eq!(rates, [500, 50, 1000]);
        assert_eq!(sampler.samples[2].at_s, 0.4);
    }

    #[test]
    fn the_samples_add_up_to_what_was_counted() {
        let (send, receive) = channel();
        let (count, told) = (AtomicU64::new(0), AtomicU64::new(0));
        let samples = std::thread::scope(|scope| {
            let recording = scope.spawn(|| {
                let tell = |counted| told.store(counted, Ordering::Relaxed);
                record(Duration::from_millis(10), receive, &|| count.load(Ordering::Relaxed), &tell)
            });
            for _ in 0..20 {
                std::thread::sleep(Duration::from_millis(5));
                count.fetch_add(7, Ordering::Relaxed);
            }
            drop(send);
            recording.join().unwrap()
        });
        let mut last = 0.0;
        let sum: f64 = samples.iter().map(|s| s.ops_per_s * (s.at_s - std::mem::replace(&mut last, s.at_s))).sum();
        assert!(samples.len() >= 2 && sum <= 140.5 && sum > 60.0, "{sum} in {samples:?}");
        assert_eq!(told.load(Ordering::Relaxed), 140);
    }
}
