//! A store without threads, for tests (feature `testing`): all background work is done by the caller, piece by piece.
//!
//! One thread. On a simulated disk everything that the store does, each I/O operation in its place, is then a pure function
//! of the calls and the disk's seed: what failed once fails again.

use super::Db;
use super::inner::Driver;
use super::{Options, open};
use crate::base::Result;
use crate::base::sync::Arc;
use crate::io::Storage;
use std::ops::Deref;

/// An open store that starts no thread. Calls that would wait for background work do it themselves; `sync_interval` is
/// without effect, and nobody is slowed.
#[derive(Debug)]
pub struct SteppedDb {
    db: Db,
}

impl SteppedDb {
    /// As `Db::open_with`.
    pub fn open(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        let inner = Arc::new(open::open(storage, options, Driver::Stepped)?);
        Ok(Self { db: Db { inner, threads: Vec::new() } })
    }

    /// Does one piece of background work: the log keeper's, an incorporation, a flush, a merge, a removal. False where there
    /// is nothing to do, or the store is read-only. What fails shows in the statistics and in later calls.
    pub fn step(&self) -> bool {
        self.db.inner.step()
    }

    /// As `Db::close`.
    pub fn close(self) -> Result<()> {
        self.db.close()
    }
}

impl Deref for SteppedDb {
    type Target = Db;

    fn deref(&self) -> &Db {
        &self.db
    }
}
