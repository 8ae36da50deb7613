//! A pause of background work.

use super::scheduler::Scheduler;
use crate::util::sync::Arc;
use std::sync::Weak;

/// Pauses the merges of a store until it is dropped; see `Db::pause_background`. It does not keep the store open.
#[derive(Debug)]
#[must_use = "background work resumes when this is dropped"]
pub struct BackgroundPause {
    scheduler: Weak<Scheduler>,
}

impl BackgroundPause {
    /// Begins a pause and waits until no merge reads or writes.
    pub(crate) fn begin(scheduler: &Arc<Scheduler>) -> Self {
        scheduler.begin_pause();
        Self { scheduler: Arc::downgrade(scheduler) }
    }
}

impl Drop for BackgroundPause {
    fn drop(&mut self) {
        if let Some(scheduler) = self.scheduler.upgrade() {
            scheduler.end_pause();
        }
    }
}
