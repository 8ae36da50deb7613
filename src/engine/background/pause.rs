//! Holding background work for a while. Any thread.

use crate::engine::engine::{Driver, Engine};
use crate::util::sync::Arc;
use std::sync::Weak;

/// Holds the store's merges until dropped; see `Db::pause_background`. It does not keep the store open.
#[derive(Debug)]
#[must_use = "background work goes on once this is dropped"]
pub struct BackgroundPause {
    inner: Weak<Engine>,
}

impl BackgroundPause {
    /// Begins a pause, and waits until no merge reads or writes.
    pub(crate) fn begin(inner: &Arc<Engine>) -> Self {
        inner.work.begin_pause(inner.driver == Driver::Threads);
        Self { inner: Arc::downgrade(inner) }
    }
}

impl Drop for BackgroundPause {
    fn drop(&mut self) {
        if let Some(inner) = self.inner.upgrade() {
            inner.work.end_pause();
        }
    }
}
