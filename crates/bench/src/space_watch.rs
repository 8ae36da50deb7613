//! How much space files take while a workload runs: a thread that looks now and then. The end of a run says little of it: background
//! work is done by then.

use crate::process;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// What the looks saw.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct SpaceSeen {
    /// The mean of all looks, and the most; `None` where there was nothing to see.
    pub mean_and_peak: Option<(f64, f64)>,
    /// Processor time that the looks took.
    pub cpu: Duration,
}

/// Looks at once, every so often, and once more when the other end of `stop` is dropped or speaks. A look that fails counts nothing: files
/// come and go meanwhile.
pub fn watch(every: Duration, stop: &Receiver<()>, look: &dyn Fn() -> Option<f64>) -> SpaceSeen {
    let (mut sum, mut peak, mut looks) = (0.0, 0.0f64, 0u64);
    loop {
        if let Some(seen) = look() {
            (sum, peak, looks) = (sum + seen, peak.max(seen), looks + 1);
        }
        if stop.recv_timeout(every) != Err(RecvTimeoutError::Timeout) {
            break;
        }
    }
    if let Some(seen) = look() {
        (sum, peak, looks) = (sum + seen, peak.max(seen), looks + 1);
    }
    let mean_and_peak = (looks > 0).then(|| (sum / looks as f64, peak));
    SpaceSeen { mean_and_peak, cpu: process::thread_cpu_time() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::mpsc::channel;

    /// What a run of these looks gives; the last is the one behind the end.
    fn watched(looks: &[Option<f64>]) -> Option<(f64, f64)> {
        let (send, receive) = channel();
        let (send, at) = (Cell::new(Some(send)), Cell::new(0));
        let look = || {
            let now = at.replace(at.get() + 1);
            if now + 2 >= looks.len() {
                send.take();
            }
            looks[now]
        };
        let seen = watch(Duration::from_millis(1), &receive, &look);
        assert_eq!(at.get(), looks.len());
        seen.mean_and_peak
    }

    #[test]
    fn the_first_look_the_last_and_those_between_count() {
        assert_eq!(watched(&[Some(1.0), Some(4.0), None, Some(1.0)]), Some((2.0, 4.0)));
        assert_eq!(watched(&[Some(1.5), Some(2.5)]), Some((2.0, 2.5)));
        assert_eq!(watched(&[None, None, None]), None);
    }
}
