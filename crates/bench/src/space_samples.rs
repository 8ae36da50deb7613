//! Samples the space of files while a workload runs, in a thread. The end of a run would show little, since background
//! work is done by then.

use crate::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// The results of the samples.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpaceSeen {
    /// The mean and the maximum of all samples; `None` if there was nothing to measure.
    pub mean_and_peak: Option<(f64, f64)>,
    /// Processor time that the samples took.
    pub cpu: Duration,
}

/// Takes a sample at once, at every interval, and when the other end of `stop` is dropped or sends. A failed sample
/// counts nothing: files come and go meanwhile.
pub fn take(every: Duration, stop: &Receiver<()>, sample: &dyn Fn() -> Option<f64>) -> SpaceSeen {
    let (mut sum, mut peak, mut samples) = (0.0, 0.0f64, 0u64);
    loop {
        if let Some(seen) = sample() {
            (sum, peak, samples) = (sum + seen, peak.max(seen), samples + 1);
        }
        if stop.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    if let Some(seen) = sample() {
        (sum, peak, samples) = (sum + seen, peak.max(seen), samples + 1);
    }
    let mean_and_peak = (samples > 0).then(|| (sum / samples as f64, peak));
    SpaceSeen { mean_and_peak, cpu: process::thread_cpu_time() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::mpsc::channel;

    /// The result of a run with these samples; the last one is taken after the end.
    fn taken(samples: &[Option<f64>]) -> Option<(f64, f64)> {
        let (send, receive) = channel();
        let (send, at) = (Cell::new(Some(send)), Cell::new(0));
        let sample = || {
            let now = at.replace(at.get() + 1);
            if now + 2 >= samples.len() {
                send.take();
            }
            samples[now]
        };
        let seen = take(Duration::from_millis(1), &receive, &sample);
        assert_eq!(at.get(), samples.len());
        seen.mean_and_peak
    }

    #[test]
    fn the_first_sample_the_last_and_those_between_count() {
        assert_eq!(taken(&[Some(1.0), Some(4.0), None, Some(1.0)]), Some((2.0, 4.0)));
        assert_eq!(taken(&[Some(1.5), Some(2.5)]), Some((2.0, 2.5)));
        assert_eq!(taken(&[None, None, None]), None);
    }
}
