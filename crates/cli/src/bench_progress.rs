//! A progress bar for benchmarks on standard error. It appears only on a terminal.

use crate::progress::styled;
use alluvium_bench::Progress;
use indicatif::ProgressBar;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A progress bar for the running workload.
#[derive(Debug)]
pub struct BenchProgress {
    bar: Mutex<ProgressBar>,
}

impl BenchProgress {
    /// No workload runs yet.
    pub fn new() -> Self {
        Self { bar: Mutex::new(ProgressBar::hidden()) }
    }

    /// The bar is consistent even if a thread panicked while it held the lock.
    fn bar(&self) -> MutexGuard<'_, ProgressBar> {
        self.bar.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for BenchProgress {
    fn begin(&self, engine: &str, workload: &str, operations: Option<u64>) {
        let bar = match operations {
            Some(operations) => {
                styled(ProgressBar::new(operations), "{msg} {bar:30} {human_pos} of {human_len}, {per_sec}{left}")
            }
            None => styled(ProgressBar::no_length(), "{msg} {spinner} {human_pos}, {per_sec}, {elapsed}"),
        };
        bar.set_message(format!("{engine}: {workload}"));
        *self.bar() = bar;
    }

    fn done(&self, operations: u64) {
        self.bar().set_position(operations);
    }

    fn settling(&self) {
        let bar = self.bar();
        let message = format!("{}, waiting for background work", bar.message());
        bar.set_message(message);
        bar.enable_steady_tick(Duration::from_millis(200));
    }

    fn end(&self) {
        self.bar().finish_and_clear();
    }
}
