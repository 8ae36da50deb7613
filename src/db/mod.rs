//! Layer 6: joins everything into the store that users see.

mod batch;
mod iter;
mod options;
mod snapshot;
mod stats;

use crate::base::{Error, Result};
use crate::io::Storage;
use std::ops::RangeBounds;
use std::path::Path;
use std::sync::Arc;

pub use batch::WriteBatch;
pub use iter::{Iter, Reversed};
pub use options::{Compression, Durability, Options, WriteOptions};
pub use snapshot::Snapshot;
pub use stats::{LevelStats, Stats};

/// What `verify` looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VerifyReport {
    /// Branch files read whole.
    pub branch_files: u64,
    /// Pages whose checksums were computed.
    pub pages: u64,
    /// Entries found in them.
    pub entries: u64,
    /// Value files read whole.
    pub value_files: u64,
    /// Bytes read.
    pub bytes: u64,
}

/// An open store. Share it between threads by reference or in an `Arc`.
#[derive(Debug)]
pub struct Db {}

impl Db {
    /// Opens the store in a directory, making it where that is asked for.
    pub fn open(_path: impl AsRef<Path>, _options: Options) -> Result<Self> {
        Err(Error::Closed)
    }
    /// Opens a store on any storage.
    pub fn open_with(_storage: Arc<dyn Storage>, _options: Options) -> Result<Self> {
        Err(Error::Closed)
    }
    /// Sets a key.
    pub fn put(&self, _key: impl AsRef<[u8]>, _value: impl AsRef<[u8]>) -> Result<()> {
        Err(Error::Closed)
    }
    /// Sets a key, with options.
    pub fn put_with(&self, _key: impl AsRef<[u8]>, _value: impl AsRef<[u8]>, _options: WriteOptions) -> Result<()> {
        Err(Error::Closed)
    }
    /// Removes a key.
    pub fn delete(&self, _key: impl AsRef<[u8]>) -> Result<()> {
        Err(Error::Closed)
    }
    /// Removes a key, with options.
    pub fn delete_with(&self, _key: impl AsRef<[u8]>, _options: WriteOptions) -> Result<()> {
        Err(Error::Closed)
    }
    /// Applies a batch.
    pub fn write(&self, _batch: WriteBatch) -> Result<()> {
        Err(Error::Closed)
    }
    /// Applies a batch, with options.
    pub fn write_with(&self, _batch: WriteBatch, _options: WriteOptions) -> Result<()> {
        Err(Error::Closed)
    }
    /// The value of a key.
    pub fn get(&self, _key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        Err(Error::Closed)
    }
    /// Reads a value into `out` (replacing what it holds); false where the key is absent.
    pub fn get_into(&self, _key: impl AsRef<[u8]>, _out: &mut Vec<u8>) -> Result<bool> {
        Err(Error::Closed)
    }
    /// The store as it is now.
    pub fn snapshot(&self) -> Result<Snapshot> {
        Err(Error::Closed)
    }
    /// All pairs, at a snapshot of their own.
    pub fn iter(&self) -> Result<Iter> {
        Err(Error::Closed)
    }
    /// The pairs of a key range.
    pub fn range<K: AsRef<[u8]>>(&self, _range: impl RangeBounds<K>) -> Result<Iter> {
        Err(Error::Closed)
    }
    /// The pairs whose keys begin with a prefix.
    pub fn prefix(&self, _prefix: impl AsRef<[u8]>) -> Result<Iter> {
        Err(Error::Closed)
    }
    /// Writes everything in memory to branch files.
    pub fn flush(&self) -> Result<()> {
        Err(Error::Closed)
    }
    /// Makes everything written so far durable.
    pub fn sync(&self) -> Result<()> {
        Err(Error::Closed)
    }
    /// Waits until no background work is left.
    pub fn settle(&self) -> Result<()> {
        Err(Error::Closed)
    }
    /// Reads and checks everything on disk.
    pub fn verify(&self) -> Result<VerifyReport> {
        Err(Error::Closed)
    }
    /// Figures.
    pub fn stats(&self) -> Stats {
        Stats::default()
    }
    /// Syncs and closes; dropping does the same but cannot tell of an error.
    pub fn close(self) -> Result<()> {
        Err(Error::Closed)
    }
    /// Removes a store that nobody has open; an error where the directory is none.
    pub fn destroy(_path: impl AsRef<Path>) -> Result<()> {
        Err(Error::Closed)
    }
}
