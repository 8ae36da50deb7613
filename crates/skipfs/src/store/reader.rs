//! `AlluviumReader`: a store of Alluvium that is only read, while another process may have it open. Any thread.

use super::alluvium::of_store;
use super::{Batch, Space, Store, Visitor};
use crate::error::{FsError, FsResult};
use alluvium::ReadOnlyDb;

/// What has no space of its own.
const NO_SPACE: Space = Space { total: 0, free: 0 };

/// A store as it was when it was opened. For the checker: a file system may have to delete orphans when it is opened.
pub struct AlluviumReader {
    db: ReadOnlyDb,
}

impl AlluviumReader {
    /// Reads what an open store has.
    pub fn of(db: ReadOnlyDb) -> Self {
        Self { db }
    }
}

impl Store for AlluviumReader {
    fn get(&self, key: &[u8]) -> FsResult<Option<Vec<u8>>> {
        self.db.get(key).map_err(of_store)
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visitor<'_>) -> FsResult<()> {
        self.db.for_each(start..end, visit).map_err(of_store)
    }

    fn commit(&self, _: Batch) -> FsResult<()> {
        Err(FsError::with_detail(libc::EROFS, "the store is only read"))
    }

    fn sync(&self) -> FsResult<()> {
        Ok(())
    }

    fn space(&self) -> FsResult<Space> {
        Ok(NO_SPACE)
    }

    fn close(&self) -> FsResult<()> {
        Ok(())
    }
}
