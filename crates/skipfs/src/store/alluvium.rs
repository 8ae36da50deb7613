//! `AlluviumStore`: Alluvium as the store of a file system. Any thread.
//!
//! All keys are in the default keyspace. Values of 256 KiB or more, such as whole chunks of a file, lie in value files
//! of the store, so that merges do not move them.

use super::{Batch, Change, Space, Store, Visitor};
use crate::error::{FsError, FsResult};
use alluvium::{Db, Error, Options, WriteBatch, WriteOptions};
use std::path::{Path, PathBuf};

/// What a store without a directory says about its space.
const SPACE_IN_MEMORY: Space = Space { total: 1 << 40, free: 1 << 40 };

/// What a file system keeps in memory of idle files, as a part of the store's memory budget.
const IDLE_CONTENT_SHARE: u64 = 16;

/// An open store of Alluvium.
#[derive(Clone, Debug)]
pub struct AlluviumStore {
    db: Db,
    /// Its directory, if it is one of the system's.
    path: Option<PathBuf>,
}

impl AlluviumStore {
    /// Opens the store in a directory.
    ///
    /// # Errors
    /// `EBUSY` if it is open elsewhere, `ENOENT` if there is none and the options create none; `EIO` for damage.
    pub fn open(path: impl AsRef<Path>, options: Options) -> FsResult<Self> {
        let path = path.as_ref();
        let db = Db::open(path, options).map_err(of_store)?;
        Ok(Self { db, path: Some(path.to_owned()) })
    }

    /// The file system of a store that is open already. `path` is the directory whose space counts.
    pub fn of(db: Db, path: Option<PathBuf>) -> Self {
        Self { db, path }
    }

    /// How much content of idle inodes a file system should keep (`OpenOptions::idle_content_bytes`): a sixteenth of the
    /// store's memory budget.
    pub fn idle_content_bytes(&self) -> u64 {
        self.db.stats().memory_budget / IDLE_CONTENT_SHARE
    }

    /// The store itself.
    pub fn db(&self) -> &Db {
        &self.db
    }
}

/// The number of an error of Alluvium.
fn errno(error: &Error) -> i32 {
    match error {
        _ if error.is_disk_full() => libc::ENOSPC,
        Error::ReadOnly { .. } => libc::EROFS,
        Error::AlreadyOpen { .. } => libc::EBUSY,
        Error::NoStore { .. } => libc::ENOENT,
        Error::InvalidArgument(_) | Error::Mismatch { .. } => libc::EINVAL,
        _ => libc::EIO,
    }
}

pub(super) fn of_store(error: Error) -> FsError {
    FsError::of_store(errno(&error), error)
}

impl Store for AlluviumStore {
    fn get(&self, key: &[u8]) -> FsResult<Option<Vec<u8>>> {
        self.db.get(key).map_err(of_store)
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visitor<'_>) -> FsResult<()> {
        self.db.for_each(start..end, visit).map_err(of_store)
    }

    fn commit(&self, batch: Batch) -> FsResult<()> {
        let mut writes = WriteBatch::new();
        for change in batch.changes() {
            match change {
                Change::Put(key, value) => writes.put(key, value),
                Change::Delete(key) => writes.delete(key),
                Change::DeleteRange(start, end) => writes.delete_range(start..end),
            };
        }
        let options = WriteOptions::new().frees_space(batch.frees_space()).waits_for_space(batch.waits_for_space());
        self.db.write_with(writes, options).map_err(of_store)
    }

    fn sync(&self) -> FsResult<()> {
        self.db.sync().map_err(of_store)
    }

    fn space(&self) -> FsResult<Space> {
        let Some(path) = &self.path else { return Ok(SPACE_IN_MEMORY) };
        let found = rustix::fs::statvfs(path).map_err(|error| FsError::new(error.raw_os_error()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Space { total: bytes(found.f_blocks), free: bytes(found.f_bavail) })
    }

    fn close(&self) -> FsResult<()> {
        self.db.close().map_err(of_store)
    }
}
