//! An open store, until its last handle is dropped.

use crate::engine::engine::Engine;
use crate::io::TemporaryDirectory;
use crate::util::sync::{Arc, Mutex};
use crate::util::{Error, Result};

/// Closes the store when it is dropped.
#[derive(Debug)]
pub(super) struct OpenStore {
    engine: Arc<Engine>,
    /// Removed once the store is closed.
    temporary: Mutex<Option<TemporaryDirectory>>,
}

impl OpenStore {
    pub(super) fn new(engine: &Arc<Engine>) -> Arc<Self> {
        Arc::new(Self { engine: Arc::clone(engine), temporary: Mutex::default() })
    }

    /// Removes a directory after the store is closed.
    pub(super) fn remove_when_closed(&self, directory: TemporaryDirectory) {
        *self.temporary.lock() = Some(directory);
    }

    pub(super) fn close(&self) -> Result<()> {
        let closed = self.engine.close();
        // In a forked child the lock may be held for ever, and the directory is the parent's.
        if !matches!(closed, Err(Error::Forked)) {
            drop(self.temporary.lock().take());
        }
        closed
    }
}

impl Drop for OpenStore {
    fn drop(&mut self) {
        // `Db::close` returns the error.
        let _ = self.close();
    }
}
