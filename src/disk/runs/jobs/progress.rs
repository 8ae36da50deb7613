//! Progress of a task that reads and writes data. It is reported on the thread that does the task, which holds no lock.

use crate::util::sync::{AtomicBool, Ordering};

/// Counts, throttles, pauses and cancels a task.
pub trait Progress: Sync {
    /// Since the last call the task read `entries` more entries and wrote `written` more bytes. May wait. False if the
    /// task should end.
    fn advance(&self, entries: u64, written: u64) -> bool;
}

/// A flag that cancels the task. Relaxed: it publishes no other data.
impl Progress for AtomicBool {
    fn advance(&self, _: u64, _: u64) -> bool {
        !self.load(Ordering::Relaxed)
    }
}

/// Entries, or bytes written, between two reports.
const ENTRIES_PER_REPORT: u64 = 256;
const BYTES_PER_REPORT: u64 = 16 << 10;

/// Reports the progress of one task from time to time.
pub struct ProgressReporter<'a> {
    progress: &'a dyn Progress,
    entries: u64,
    written: u64,
}

impl<'a> ProgressReporter<'a> {
    /// At the start of a task.
    pub fn new(progress: &'a dyn Progress) -> Self {
        Self { progress, entries: 0, written: 0 }
    }

    /// One more entry was read, and the task has written `written` bytes in all. False if the task should end.
    #[inline]
    pub fn step(&mut self, written: u64) -> bool {
        self.entries += 1;
        let is_due = self.entries >= ENTRIES_PER_REPORT || written.saturating_sub(self.written) >= BYTES_PER_REPORT;
        !is_due || self.report(written)
    }

    /// Reports what was done since the last report. False if the task should end.
    pub fn report(&mut self, written: u64) -> bool {
        let more = written.saturating_sub(self.written);
        self.written = written;
        self.progress.advance(std::mem::take(&mut self.entries), more)
    }
}
