//! The control thread: measures the longest time for which the machine itself kept a thread from running.

use crate::process;
use crate::settings::Control;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a sleeping control thread sleeps.
const NAP: Duration = Duration::from_millis(1);

/// The result.
#[derive(Clone, Copy, Debug, Default)]
pub struct Found {
    /// The longest time between two reads of the clock, minus the intended sleep.
    pub gap: Duration,
    /// Processor time that it used itself.
    pub cpu: Duration,
}

/// Reads the clock until stopped. The flag carries no data, so relaxed order is enough.
pub fn run(control: Control, stop: &AtomicBool) -> Found {
    let mut found = Found::default();
    let mut last = Instant::now();
    while !stop.load(Ordering::Relaxed) {
        let meant = match control {
            Control::Sleeping => {
                std::thread::sleep(NAP);
                NAP
            }
            Control::Spinning => Duration::ZERO,
        };
        let now = Instant::now();
        found.gap = found.gap.max((now - last).saturating_sub(meant));
        last = now;
    }
    found.cpu = process::thread_cpu_time();
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_kinds_end_and_find_a_gap() {
        for control in [Control::Sleeping, Control::Spinning] {
            let stop = AtomicBool::new(false);
            let found = std::thread::scope(|scope| {
                let watching = scope.spawn(|| run(control, &stop));
                std::thread::sleep(Duration::from_millis(30));
                stop.store(true, Ordering::Relaxed);
                watching.join().unwrap()
            });
            assert!(found.gap > Duration::ZERO && found.gap < Duration::from_secs(5), "{control:?}: {found:?}");
        }
    }
}
