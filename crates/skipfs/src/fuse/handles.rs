//! `Handles`: the open directories of a mount, by the numbers that the kernel has of them. Any thread.

use crate::error::{FsError, FsResult};
use crate::fs::DirectoryHandle;
use parking_lot::Mutex;
use std::collections::HashMap;
use std::sync::Arc;

/// The open directories. Numbers are never used again.
#[derive(Debug, Default)]
pub(super) struct Handles {
    open: Mutex<Open>,
}

#[derive(Debug, Default)]
struct Open {
    last: u64,
    handles: HashMap<u64, Arc<Mutex<DirectoryHandle>>>,
}

impl Handles {
    pub(super) fn add(&self, handle: DirectoryHandle) -> u64 {
        let mut open = self.open.lock();
        open.last += 1;
        let number = open.last;
        open.handles.insert(number, Arc::new(Mutex::new(handle)));
        number
    }

    /// `EBADF` if there is none.
    pub(super) fn get(&self, number: u64) -> FsResult<Arc<Mutex<DirectoryHandle>>> {
        self.open.lock().handles.get(&number).cloned().ok_or_else(|| FsError::new(libc::EBADF))
    }

    pub(super) fn remove(&self, number: u64) {
        self.open.lock().handles.remove(&number);
    }
}
