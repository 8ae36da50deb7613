//! The histograms: some for each group of threads, so that threads rarely wait for each other. Any thread.

use super::{Call, Latencies, Latency};
use crate::io::Clock;
use crate::util::sync::{Arc, Mutex, Striped};
use hdrhistogram::Histogram;
use std::time::Duration;

/// Times are correct to this many digits.
const DIGITS: u8 = 2;

/// See the module. Without histograms a call costs a load and a branch.
#[derive(Default)]
pub(crate) struct LatencyHistograms(Option<Box<Measuring>>);

struct Measuring {
    clock: Arc<dyn Clock>,
    stripes: Striped<Mutex<Stripe>>,
}

/// Histograms of nanoseconds, by `Call::index`. They grow with the longest time.
struct Stripe([Histogram<u64>; Call::ALL.len()]);

impl Default for Stripe {
    fn default() -> Self {
        Self(Call::ALL.map(|_| new_histogram()))
    }
}

fn new_histogram() -> Histogram<u64> {
    match Histogram::new(DIGITS) {
        Ok(histogram) => histogram,
        Err(error) => unreachable!("{DIGITS} digits are allowed: {error}"),
    }
}

/// Measures one call: until it is dropped.
pub(crate) struct Timer<'a>(Option<(&'a Measuring, Call, Duration)>);

impl LatencyHistograms {
    /// Histograms of times of this clock.
    pub(crate) fn new(clock: &Arc<dyn Clock>) -> Self {
        Self(Some(Box::new(Measuring { clock: Arc::clone(clock), stripes: Striped::default() })))
    }

    /// A call of this kind begins.
    #[inline]
    pub(crate) fn time(&self, call: Call) -> Timer<'_> {
        Timer(self.0.as_deref().map(|measuring| (measuring, call, measuring.clock.now())))
    }

    /// What they say; `None` without histograms.
    pub(crate) fn latencies(&self) -> Option<Latencies> {
        let measuring = self.0.as_deref()?;
        let mut sums = Stripe::default().0;
        for stripe in measuring.stripes.iter() {
            let stripe = stripe.lock();
            for (sum, part) in sums.iter_mut().zip(&stripe.0) {
                if let Err(error) = sum.add(part) {
                    unreachable!("histograms that grow can be added: {error}");
                }
            }
        }
        let calls = Call::ALL.into_iter().zip(&sums).filter(|(_, histogram)| !histogram.is_empty());
        Some(Latencies(calls.map(|(call, histogram)| latency(call, histogram)).collect()))
    }

    /// Forgets all calls so far.
    pub(crate) fn reset(&self) {
        if let Some(measuring) = &self.0 {
            measuring.stripes.iter().for_each(|stripe| *stripe.lock() = Stripe::default());
        }
    }
}

fn latency(call: Call, histogram: &Histogram<u64>) -> Latency {
    let at = |quantile| Duration::from_nanos(histogram.value_at_quantile(quantile));
    Latency {
        call,
        count: histogram.len(),
        mean: Duration::from_nanos(histogram.mean() as u64),
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: Duration::from_nanos(histogram.max()),
    }
}

impl Drop for Timer<'_> {
    #[inline]
    fn drop(&mut self) {
        if let Some((measuring, call, began)) = self.0 {
            measuring.record(call, began);
        }
    }
}

impl Measuring {
    #[cold]
    fn record(&self, call: Call, began: Duration) {
        let took = self.clock.now().saturating_sub(began);
        let nanoseconds = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX);
        let recorded = self.stripes.mine().lock().0[call.index()].record(nanoseconds);
        debug_assert!(recorded.is_ok(), "it grows");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::sync::{AtomicU64, Ordering};

    /// Each reading is as much later as the test says.
    #[derive(Debug, Default)]
    struct Steps {
        now: AtomicU64,
        step: AtomicU64,
    }

    impl Clock for Steps {
        fn now(&self) -> Duration {
            Duration::from_nanos(self.now.fetch_add(self.step.load(Ordering::Relaxed), Ordering::Relaxed))
        }

        fn sleep(&self, _: Duration) {}
    }

    #[test]
    fn calls_of_all_threads_are_counted_with_their_times() {
        let clock = Arc::new(Steps::default());
        let of_store: Arc<dyn Clock> = clock.clone();
        let histograms = LatencyHistograms::new(&of_store);
        assert!(histograms.latencies().unwrap().is_empty());
        for micros in 1..=1000 {
            clock.step.store(1000 * micros, Ordering::Relaxed);
            std::thread::scope(|scope| scope.spawn(|| drop(histograms.time(Call::Get))).join()).unwrap();
        }
        drop(histograms.time(Call::Sync));
        let latencies = histograms.latencies().unwrap();
        let get = latencies.get(Call::Get).unwrap();
        assert_eq!(get.count, 1000);
        let is_near = |time: Duration, micros: u64| {
            let (found, expected) = (time.as_nanos() as f64, micros as f64 * 1000.0);
            assert!((found / expected - 1.0).abs() < 0.011, "{time:?}, not {micros} us");
        };
        is_near(get.mean, 500);
        is_near(get.p50, 500);
        is_near(get.p90, 900);
        is_near(get.p99, 990);
        is_near(get.p999, 999);
        is_near(get.max, 1000);
        assert_eq!(latencies.get(Call::Sync).unwrap().count, 1);
        assert!(latencies.get(Call::Commit).is_none());
        let text = latencies.to_string();
        let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
        assert_eq!((rows[0][1], rows[1][0], rows[1][1], rows[2][0]), ("mean", "get", "1000", "sync"), "{text}");
        histograms.reset();
        assert!(histograms.latencies().unwrap().is_empty());
    }

    #[test]
    fn without_histograms_there_are_no_latencies() {
        let histograms = LatencyHistograms::default();
        drop(histograms.time(Call::Get));
        histograms.reset();
        assert_eq!(histograms.latencies(), None);
    }
}
