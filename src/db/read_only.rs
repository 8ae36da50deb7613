//! Reading a store without the right, or the wish, to change it: beside a writer, on a read-only file system, or just to look
//! (`docs/recovery.md`, Openers).

use super::iter::Iter;
use super::snapshot::Snapshot;
use crate::engine::open::reading::ReadOnlyStore;
use crate::engine::read::pinned_value::Pinned;
use crate::engine::space::ballast::Ballast;
use crate::engine::types::bounds::Bounds;
use crate::engine::types::options::Options;
use crate::engine::types::stats::{BranchFile, Stats};
use crate::io::{PosixStorage, Storage};
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};
use std::ops::RangeBounds;
use std::path::Path;

/// A store open for reading only. It shows what the store held when it was opened, every write included that returned before
/// `open` was called, and never changes; open another one to see more. Nothing is written, not even a lock file.
///
/// Any number may be open, beside one writer. As long as one is, the writer keeps the files that it may read, so space of
/// old data comes back only after it is dropped. What of the log is not in branch files yet is read into memory.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Options, ReadOnlyDb};
/// let writer = Db::open(directory.path(), Options::default())?;
/// writer.put("river", "silt")?;
/// let reader = ReadOnlyDb::open(directory.path(), Options::default())?;
/// writer.put("river", "sand")?;
/// assert_eq!(reader.get("river")?.as_deref(), Some(&b"silt"[..]));
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct ReadOnlyDb {
    store: ReadOnlyStore,
}

impl ReadOnlyDb {
    /// Opens the store in a directory. Of the options those count that say how to read: `memory_budget`, `force_cut`.
    ///
    /// # Errors
    /// `NoStore`, `NewerFormat`, `Corruption` with file and offset, `Io`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_with(Arc::new(PosixStorage::new(path.as_ref())), options)
    }

    /// Opens a store on any storage.
    pub fn open_with(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        Ok(Self { store: ReadOnlyStore::open(storage, &options)? })
    }

    /// The value of a key.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Reads a value into `out`, replacing what it holds; false where the key is absent.
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        self.store.read.get_at(key.as_ref(), SequenceNumber::MAX, out)
    }

    /// The value of a key without a copy, where it lies in a cached page: see `Pinned`.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        self.store.read.get_pinned_at(key.as_ref(), SequenceNumber::MAX)
    }

    /// The values of many keys, in their order; see `Db::multi_get`.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.snapshot().multi_get(keys)
    }

    /// The same contents as a `Snapshot`, for code that takes one.
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.store.read)
    }

    /// All pairs.
    pub fn iter(&self) -> Result<Iter> {
        self.snapshot().iterate(Bounds::all())
    }

    /// The pairs of a key range.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        self.snapshot().iterate(Bounds::of_range(range))
    }

    /// The pairs whose keys begin with a prefix.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.snapshot().iterate(Bounds::of_prefix(prefix.as_ref()))
    }

    /// About how many bytes the pairs of a key range take; see `Db::approximate_size`.
    pub fn approximate_size<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<u64> {
        self.store.read.approximate_size(&Bounds::of_range(range))
    }

    /// The branch files of the tree; see `Db::branch_files`.
    pub fn branch_files(&self) -> Vec<BranchFile> {
        self.store.read.branch_files()
    }

    /// Figures of what was opened, `log_bytes` of whole segment files; those of what a writer did are zero (`Db::live_stats` has them).
    pub fn stats(&self) -> Stats {
        Stats {
            incorporated_number: self.store.incorporated.0,
            synced_number: self.store.synced.0,
            log_bytes: self.store.log_bytes,
            log_memory_bytes: self.store.log_memory_bytes,
            ballast_bytes: Ballast::find(&self.store.read.storage).bytes(),
            memory_budget: self.store.memory_budget,
            ..self.store.read.stats()
        }
    }
}

impl std::fmt::Debug for ReadOnlyDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadOnlyDb").field("path", &self.store.read.storage.path()).finish_non_exhaustive()
    }
}
