//! `ReadOnlyDb`: reads a store without changing it, concurrently with a writer or on a read-only file system
//! (`docs/recovery.md`, Openers).

use super::iter::{Iter, Pair};
use super::keyspace::catalog::{load_expiry, load_options};
use super::snapshot::Snapshot;
use crate::engine::changes::foreign::ForeignChanges;
use crate::engine::open::read_only_store::ReadOnlyStore;
use crate::engine::read::pinned_value::Pinned;
use crate::engine::space::ballast::Ballast;
use crate::engine::types::bounds::Bounds;
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::options::Options;
use crate::engine::types::stats::{BranchFile, Stats};
use crate::engine::types::user_key::UserKey;
use crate::io::{PosixStorage, Storage};
use crate::util::sync::{Arc, Mutex};
use crate::util::{KeyspaceId, Result, SequenceNumber};
use arc_swap::ArcSwap;
use std::ops::ControlFlow;
use std::path::Path;

/// A store that is open for reading only. It shows the contents at the time of the opening, including every write that
/// returned before `open` was called, and changes only by `refresh`. It writes nothing, not even a lock file.
///
/// This holds for expiry, too: a pair that had not expired at the opening is found until a `refresh` after its expiry.
///
/// Any number of `ReadOnlyDb` may be open, concurrently with one writer in any process. While one is open, the writer
/// keeps the files that it may read, so space of old data is freed only after it is dropped. The part of the log that
/// is not incorporated is read into memory.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Options, ReadOnlyDb};
/// let writer = Db::open(directory.path(), Options::default())?;
/// writer.put("river", "silt")?;
/// let reader = ReadOnlyDb::open(directory.path(), Options::default())?;
/// writer.put("river", "sand")?;
/// assert_eq!(reader.get("river")?.as_deref(), Some(&b"silt"[..]));
/// for pair in reader.prefix("ri")? {
///     let (key, value) = pair?;
///     println!("{}: {}", key.escape_ascii(), value.escape_ascii());
/// }
/// println!("{} files", reader.stats().branch_files);
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct ReadOnlyDb {
    storage: Arc<dyn Storage>,
    options: Options,
    pub(super) store: ArcSwap<ReadOnlyStore>,
    /// What was open before refreshes, and whose snapshots or iterators may live. Held during a refresh.
    old: Mutex<Vec<Arc<ReadOnlyStore>>>,
}

impl ReadOnlyDb {
    /// Opens the store in a directory. Only the options for reading are used: `memory_budget`, `resources`,
    /// `merge_operator` and `force_cut`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Error, Options, ReadOnlyDb};
    /// assert!(matches!(ReadOnlyDb::open(directory.path(), Options::default()), Err(Error::NoStore { .. })));
    /// Db::open(directory.path(), Options::default())?.put("river", "silt")?;
    /// let reader = ReadOnlyDb::open(directory.path(), Options::new().memory_budget(16 << 20))?;
    /// assert_eq!(reader.get("river")?.as_deref(), Some(&b"silt"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `NoStore`, `NewerFormat`, `Corruption` with file and offset, `InvalidArgument`, `Io`.
    pub fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        Self::open_with(Arc::new(PosixStorage::new(path.as_ref())), options)
    }

    /// Opens a store on another implementation of `Storage`. Otherwise like `open`.
    pub fn open_with(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        let store = Arc::new(ReadOnlyStore::open(Arc::clone(&storage), &options)?);
        load_options(&store.read)?;
        load_expiry(&store.read)?;
        Ok(Self { storage, options, store: ArcSwap::new(store), old: Mutex::default() })
    }

    /// Opens the contents again: all later calls show the store as it is now, including every write that returned before
    /// this call. Snapshots and iterators from before stay valid and show what they showed; their memory is freed by the
    /// first refresh after the last of them was dropped. A refresh lets the writer free no space: that waits for a moment
    /// without any reader.
    ///
    /// Other threads may read meanwhile. A refresh costs as much as `open`: the part of the log that is not incorporated
    /// is read.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Options, ReadOnlyDb};
    /// let writer = Db::open(directory.path(), Options::default())?;
    /// let reader = ReadOnlyDb::open(directory.path(), Options::default())?;
    /// let before = reader.snapshot();
    /// writer.put("river", "silt")?;
    /// assert_eq!(reader.get("river")?, None);
    /// reader.refresh()?;
    /// assert_eq!(reader.get("river")?.as_deref(), Some(&b"silt"[..]));
    /// assert_eq!(before.get("river")?, None);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// As for `open`. The reader then goes on with the contents that it has.
    pub fn refresh(&self) -> Result<()> {
        // In a forked child the lock may be held by a thread that does not exist.
        self.store.load().read.check_process()?;
        let mut old = self.old.lock();
        let store = Arc::new(ReadOnlyStore::open(Arc::clone(&self.storage), &self.options)?);
        load_options(&store.read)?;
        load_expiry(&store.read)?;
        old.push(self.store.swap(store));
        // Snapshots and iterators hold the read path; calls that have not returned hold the store.
        old.retain(|store| Arc::strong_count(store) > 1 || Arc::strong_count(&store.read) > 1);
        Ok(())
    }

    /// Returns the value of a key; `None` if the key is absent.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Reads the value of a key into `out` and replaces its contents. Returns false if the key is absent.
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        self.store.load().read.get_at(UserKey::of_default(&key), SequenceNumber::MAX, out)
    }

    /// Like `get`, but without a copy if the value is in a cached page; see `Pinned`.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        self.store.load().read.get_pinned_at(UserKey::of_default(&key), SequenceNumber::MAX)
    }

    /// Returns the values of several keys, in the order of the keys; see `Db::multi_get`.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.snapshot().multi_get(keys)
    }

    /// The contents as a `Snapshot`, for code that takes one.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Options, ReadOnlyDb};
    /// let writer = Db::open(directory.path(), Options::default())?;
    /// let reader = ReadOnlyDb::open(directory.path(), Options::default())?;
    /// let snapshot = reader.snapshot(); // stays as it is through refreshes
    /// writer.put("river", "silt")?;
    /// reader.refresh()?;
    /// assert!(snapshot.is_empty()? && !reader.is_empty()?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn snapshot(&self) -> Snapshot {
        Snapshot::take(&self.store.load().read, KeyspaceId::DEFAULT)
    }

    /// Iterates over all pairs.
    pub fn iter(&self) -> Result<Iter> {
        self.snapshot().into_iter_within(Bounds::all(KeyspaceId::DEFAULT))
    }

    /// Iterates over the pairs in a key range.
    pub fn range(&self, range: impl KeyRange) -> Result<Iter> {
        self.snapshot().into_iter_within(Bounds::of_range(KeyspaceId::DEFAULT, range))
    }

    /// Iterates over the pairs whose keys start with a prefix.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.snapshot().into_iter_within(Bounds::of_prefix(KeyspaceId::DEFAULT, prefix.as_ref()))
    }

    /// Whether a key has a value. See `Db::contains_key`.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.store.load().read.contains_at(UserKey::of_default(&key), SequenceNumber::MAX)
    }

    /// Returns the pair with the smallest key; `None` if there is none. See `Db::first`.
    pub fn first(&self) -> Result<Option<Pair>> {
        self.iter()?.next().transpose()
    }

    /// Returns the pair with the greatest key; `None` if there is none. See `Db::last`.
    pub fn last(&self) -> Result<Option<Pair>> {
        self.iter()?.next_back().transpose()
    }

    /// Whether there are no keys. See `Db::is_empty`.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.iter()?.keys().next().transpose()?.is_none())
    }

    /// Calls `visit` with each pair of a key range in order, until it breaks. See `Db::for_each`.
    pub fn for_each(&self, range: impl KeyRange, visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()> {
        self.range(range)?.visit(visit)
    }

    /// Estimates the size of a key range in bytes; see `Db::approximate_size`.
    pub fn approximate_size(&self, range: impl KeyRange) -> Result<u64> {
        self.store.load().read.approximate_size(&Bounds::of_range(KeyspaceId::DEFAULT, range))
    }

    /// Lists the branch files of the tree; see `Db::branch_files`.
    pub fn branch_files(&self) -> Vec<BranchFile> {
        self.store.load().read.branch_files()
    }

    /// Returns statistics of the opened contents. `log_bytes` is the size of whole segment files. Statistics of a
    /// writer's activity are zero; `Db::live_stats` has them.
    pub fn stats(&self) -> Stats {
        let store = self.store.load();
        // What cannot be listed now counts as not there, as in the rest of the figures.
        let changes = ForeignChanges::new(&store.read).map(|changes| changes.stats()).unwrap_or_default();
        Stats {
            change_bytes: changes.bytes,
            changes_after: changes.oldest,
            incorporated_number: store.incorporated.0,
            synced_number: store.synced.0,
            log_bytes: store.log_bytes,
            log_shadow_bytes: store.log_shadow_bytes,
            log_discarded_writes: store.log_discarded_writes,
            ballast_bytes: Ballast::find(&store.read.storage).bytes(),
            memory_budget: store.memory_budget,
            ..store.read.stats()
        }
    }
}

impl std::fmt::Debug for ReadOnlyDb {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ReadOnlyDb").field("path", &self.storage.path()).finish_non_exhaustive()
    }
}
