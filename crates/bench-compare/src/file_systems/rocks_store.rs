//! `RocksStore`: RocksDB as the store of a SkipFS, with the settings of the comparison. Any thread.
//!
//! A batch is a write batch, and an iterator reads a snapshot of the moment when it was made. The log is not synced by
//! a commit, but by `sync`, as in Alluvium's store.

use super::stores::EngineStore;
use crate::engines::Setup;
use crate::engines::rocksdb::configured;
use alluvium_bench::engine::Result;
use rocksdb::statistics::Ticker;
use rocksdb::{DB, Error, ErrorKind, Options, ReadOptions, WaitForCompactOptions, WriteBatch};
use skipfs::store::{Batch, Change, Space, Store, Visitor};
use skipfs::{FsError, FsResult};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// An open RocksDB.
pub struct RocksStore {
    db: DB,
    options: Options,
    directory: PathBuf,
    /// Set once by `close`. No data depends on it, so `Relaxed` is enough.
    is_closed: AtomicBool,
}

impl RocksStore {
    /// Opens it, or makes it in an empty directory.
    pub fn open(setup: &Setup) -> Result<Self> {
        let (options, _) = configured(setup)?;
        let db = DB::open(&options, &setup.directory)?;
        Ok(Self { db, options, directory: setup.directory.clone(), is_closed: AtomicBool::new(false) })
    }

    fn check_open(&self) -> FsResult<()> {
        match self.is_closed.load(Ordering::Relaxed) {
            false => Ok(()),
            true => Err(FsError::with_detail(libc::EIO, "the store is closed")),
        }
    }
}

fn of_store(error: Error) -> FsError {
    let is_full = error.kind() == ErrorKind::IOError && error.as_ref().contains("No space left");
    FsError::of_store(if is_full { libc::ENOSPC } else { libc::EIO }, error)
}

impl Store for RocksStore {
    fn get(&self, key: &[u8]) -> FsResult<Option<Vec<u8>>> {
        self.check_open()?;
        self.db.get(key).map_err(of_store)
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visitor<'_>) -> FsResult<()> {
        self.check_open()?;
        let mut bounds = ReadOptions::default();
        bounds.set_iterate_upper_bound(end);
        let mut iterator = self.db.raw_iterator_opt(bounds);
        iterator.seek(start);
        while let Some((key, value)) = iterator.item() {
            if visit(key, value).is_break() {
                return Ok(());
            }
            iterator.next();
        }
        iterator.status().map_err(of_store)
    }

    fn commit(&self, batch: Batch) -> FsResult<()> {
        self.check_open()?;
        let mut writes = WriteBatch::default();
        for change in batch.changes() {
            match change {
                Change::Put(key, value) => writes.put(key, value),
                Change::Delete(key) => writes.delete(key),
                Change::DeleteRange(start, end) => writes.delete_range(start, end),
            }
        }
        self.db.write(writes).map_err(of_store)
    }

    fn sync(&self) -> FsResult<()> {
        self.check_open()?;
        self.db.flush_wal(true).map_err(of_store)
    }

    fn space(&self) -> FsResult<Space> {
        let found = rustix::fs::statvfs(&self.directory).map_err(|error| FsError::new(error.raw_os_error()))?;
        let bytes = |blocks: u64| blocks.saturating_mul(found.f_frsize);
        Ok(Space { total: bytes(found.f_blocks), free: bytes(found.f_bavail) })
    }

    /// The files are closed when the value is dropped.
    fn close(&self) -> FsResult<()> {
        self.sync()?;
        self.is_closed.store(true, Ordering::Relaxed);
        Ok(())
    }
}

impl EngineStore for RocksStore {
    fn settle(&self) -> Result<()> {
        let mut options = WaitForCompactOptions::default();
        options.set_flush(true);
        Ok(self.db.wait_for_compact(&options)?)
    }

    fn written_bytes(&self) -> u64 {
        let tickers = [Ticker::FlushWriteBytes, Ticker::CompactWriteBytes, Ticker::WalFileBytes];
        tickers.iter().map(|ticker| self.options.get_ticker_count(*ticker)).sum()
    }
}
