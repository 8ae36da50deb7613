//! A bounded set of open branch files. Any thread.
//!
//! Invariants:
//! 1. The table keeps at most `open_max` files open. An evicted file stays open while somebody holds its `Arc`, and
//!    each thread that is opening a file adds at most one.
//! 2. No mutex is held during a system call. Two threads may open the same file at once; then one handle is dropped.
//! 3. The caller closes a file only when nobody will ask for it again, so no handle keeps the disk space of a removed
//!    file. (File numbers are never reused, so a stale handle could never be that of another file.)

use super::clock::Clock;
use crate::io::{OpenMode, Storage, StorageFile};
use crate::util::planted::planted;
use crate::util::sync::{Arc, Mutex};
use crate::util::{FileNumber, Result};
use crossbeam_utils::CachePadded;
use std::hash::RandomState;

/// Approximate number of files in a shard. With fewer files there are fewer shards.
const SHARD_FILES: usize = 64;
/// A lookup precedes every read of the device, which costs a hundred times as much, so few shards are enough.
const SHARDS_MAX: usize = 16;

type Shard = Clock<FileNumber, Arc<dyn StorageFile>, RandomState>;

/// See the module documentation.
#[derive(Debug)]
pub struct FileTable {
    storage: Arc<dyn Storage>,
    mode: OpenMode,
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    shard_files: usize,
}

impl FileTable {
    /// A table that keeps at most `open_max` files of `storage` open (at least one).
    pub fn new(storage: Arc<dyn Storage>, open_max: usize) -> Self {
        Self::with_mode(storage, open_max, OpenMode::ReadPages)
    }

    /// The same, with files opened in a mode of reading.
    pub fn with_mode(storage: Arc<dyn Storage>, open_max: usize, mode: OpenMode) -> Self {
        let count = (open_max / SHARD_FILES).clamp(1, SHARDS_MAX);
        let shards = (0..count).map(|_| CachePadded::default()).collect();
        Self { storage, mode, shards, shard_files: (open_max / count).max(1) }
    }

    fn shard(&self, file: FileNumber) -> &Mutex<Shard> {
        &self.shards[(file.0 % self.shards.len() as u64) as usize]
    }

    /// The file, open for reading pages. `name` is called only if the file must be opened.
    pub fn get(&self, file: FileNumber, name: impl FnOnce() -> String) -> Result<Arc<dyn StorageFile>> {
        let shard = self.shard(file);
        if let Some(handle) = shard.lock().hit(&file) {
            return Ok(Arc::clone(handle));
        }
        let handle = self.storage.open(&name(), self.mode)?;
        let mut given_up = None;
        let mut files = shard.lock();
        if let Some(other) = files.hit(&file) {
            return Ok(Arc::clone(other));
        }
        if planted!(files.len() >= self.shard_files, Bug::FilesNeverClosed => false) {
            given_up = files.evict();
        }
        files.insert(file, Arc::clone(&handle), 1, 2);
        // Closing a file is a system call too, so it happens after the mutex is released.
        drop(files);
        drop(given_up);
        Ok(handle)
    }

    /// The file, open for reads that bypass the system's page cache: those of merges and checks, which read much and
    /// once. If users read it through the page cache, this is a handle of its own, which the caller keeps as long as it
    /// reads.
    pub fn get_direct(&self, file: FileNumber, name: impl Fn() -> String) -> Result<Arc<dyn StorageFile>> {
        let handle = self.get(file, &name)?;
        if handle.reads_through_page_cache() { self.storage.open(&name(), OpenMode::ReadDirect) } else { Ok(handle) }
    }

    /// Closes a file that is about to be removed.
    pub fn close(&self, file: FileNumber) {
        let handle = self.shard(file).lock().remove(&file);
        drop(handle);
    }
}
