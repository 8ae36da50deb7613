//! `StagedBatch`: a batch of any size, readable before its commit. One thread changes it; any thread may read it.

mod iter;
mod keyspace;
#[cfg(feature = "async")]
mod nonblocking;

use super::db::Db;
use super::keyspace::Keyspace;
use super::snapshot::Snapshot;
use crate::engine::staging::staged_writes::StagedWrites;
use crate::engine::types::bounds::Bounds;
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::options::WriteOptions;
use crate::engine::types::user_key::UserKey;
use crate::merge::Values;
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Result};
pub use iter::{StagedIter, StagedKeys};
pub use keyspace::StagedKeyspace;

/// Memory of a batch, unless it says otherwise.
const MEMORY_BYTES: usize = 16 << 20;

/// A batch of any size, which its owner reads before it takes effect: the result of [`Db::staged_batch`].
///
/// Its reads show the store as it was when the batch began, with the writes of the batch on top. Others see nothing of it until
/// `commit`; then all of it enters the store at once, at one number, and a crash leaves all or nothing. If it is dropped before,
/// or if the process ends, nothing of it remains.
///
/// It has its writes in memory, by default up to 16 MiB, and those beyond that in files of the store's directory. So its size
/// is limited by the disk. Deleted ranges stay in memory.
///
/// It differs from a [`Transaction`](crate::Transaction) in that it checks nothing: what others have written meanwhile to keys
/// that it has read does not make it fail, and its own writes replace theirs. It differs from a
/// [`WriteBatch`](crate::WriteBatch) in that it is sorted, can be read, and has no limit.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// db.put("elbe", "1094 km")?;
/// let mut batch = db.staged_batch()?;
/// batch.put("oder", "840 km")?;
/// batch.put("rhine", "1233 km")?;
/// batch.delete("elbe")?;
/// assert_eq!(batch.get("oder")?.as_deref(), Some(&b"840 km"[..]));
/// let keys = batch.iter()?.keys()?.collect::<Result<Vec<_>, _>>()?;
/// assert_eq!(keys, [b"oder".to_vec(), b"rhine".to_vec()]);
/// assert!(db.get("oder")?.is_none());
/// batch.commit()?;
/// assert_eq!((db.get("elbe")?, db.iter()?.count()), (None, 2));
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct StagedBatch {
    writes: StagedWrites,
    /// What is below the writes.
    snapshot: Snapshot,
}

/// Staged batches.
impl Db {
    /// Begins a batch that may be large, and that is read before it is committed; see [`StagedBatch`].
    ///
    /// As long as it lives, the store retains the versions that it may read, as for a snapshot.
    ///
    /// # Errors
    /// `Closed`.
    pub fn staged_batch(&self) -> Result<StagedBatch> {
        let writes = StagedWrites::new(&self.engine, MEMORY_BYTES)?;
        Ok(StagedBatch { writes, snapshot: self.snapshot() })
    }
}

impl StagedBatch {
    /// Sets how many bytes of writes it has in memory, about, before it writes them to files. A batch that never exceeds this,
    /// nor 32 MiB, is committed as a `WriteBatch`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let mut batch = db.staged_batch()?.with_memory(1 << 20);
    /// for number in 0..20_000_u32 {
    ///     batch.put(number.to_be_bytes(), [7; 100])?;
    /// }
    /// assert!(batch.memory_bytes() < 2 << 20 && batch.spilled_bytes() > 1 << 20);
    /// assert_eq!(batch.get(5_u32.to_be_bytes())?, Some(vec![7; 100]));
    /// batch.commit()?;
    /// assert_eq!(db.iter()?.keys().count(), 20_000);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn with_memory(mut self, bytes: usize) -> Self {
        self.set_memory(bytes);
        self
    }

    pub(crate) fn set_memory(&mut self, bytes: usize) {
        self.writes.set_memory_max(bytes);
    }

    /// The part of the batch in a keyspace: reads and changes it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let lengths = db.keyspace("lengths", Default::default())?;
    /// let mut batch = db.staged_batch()?;
    /// batch.put("oder", "Baltic Sea")?;
    /// batch.within(&lengths)?.put("oder", "840 km")?;
    /// batch.commit()?;
    /// assert_eq!(lengths.get("oder")?.as_deref(), Some(&b"840 km"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `KeyspaceDropped`; `InvalidArgument` if the keyspace is that of another store, or of an earlier opening of this one.
    pub fn within(&mut self, keyspace: &Keyspace) -> Result<StagedKeyspace<'_>> {
        self.writes.check(&keyspace.info)?;
        Ok(StagedKeyspace { batch: self, keyspace: keyspace.info.id, info: Some(Arc::clone(&keyspace.info)) })
    }

    fn default_keyspace(&mut self) -> StagedKeyspace<'_> {
        StagedKeyspace { batch: self, keyspace: KeyspaceId::DEFAULT, info: None }
    }

    /// Sets a key.
    ///
    /// # Errors
    /// `InvalidArgument` for a key or value that is too large. `DiskFull` and `Io` if the batch must write to its files and
    /// cannot; then this write is not in the batch, and it may be tried again. `Closed`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().put(key, value)
    }

    /// Deletes a key. Errors are those of `put`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().delete(key)
    }

    /// Merges an operand into the value of a key, as `Db::merge` does: into that of the batch, or else into what the store has
    /// when the batch is committed.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Options, merge_operators::Append};
    /// let db = Db::open(directory.path(), Options::new().merge_operator(Append))?;
    /// let mut batch = db.staged_batch()?;
    /// batch.merge("log", "b")?;
    /// batch.merge("log", "c")?;
    /// db.put("log", "a")?; // meanwhile
    /// batch.commit()?;
    /// assert_eq!(db.get("log")?.as_deref(), Some(&b"abc"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for an operand that the operator refuses; `MergeOperands` if it cannot join this one and an earlier one
    /// of the key (`MergeOperator::partial_merge`) to one of less than 256 KiB. Otherwise those of `put`.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().merge(key, operand)
    }

    /// Deletes all keys of a range: those of the batch so far, and those of the store when the batch is committed.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("list/7", "old")?;
    /// let mut batch = db.staged_batch()?;
    /// batch.delete_range("list/".."list0")?;
    /// batch.put("list/0", "new")?;
    /// assert_eq!(batch.prefix("list/")?.count(), 1);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a bound that is too large. Otherwise those of `put`.
    pub fn delete_range(&mut self, range: impl KeyRange) -> Result<()> {
        self.default_keyspace().delete_range(range)
    }

    /// Deletes all keys that start with a prefix; see `delete_range`.
    pub fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().delete_prefix(prefix)
    }

    /// The value of a key: what the batch has written, or else what the store had when the batch began.
    ///
    /// # Errors
    /// `Io`, `Corruption`, `Closed`; `SnapshotExpired` if the batch is older than `Options::snapshot_age_limit` and must read
    /// what is below it; `MergeOperands`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.value(UserKey::of_default(&key))
    }

    /// Whether a key has a value. Errors are those of `get`.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.has_value(UserKey::of_default(&key))
    }

    /// Iterates over all pairs, as `get` would find them.
    pub fn iter(&self) -> Result<StagedIter<'_>> {
        self.iterate(Bounds::all(KeyspaceId::DEFAULT))
    }

    /// Iterates over the pairs in a key range.
    pub fn range(&self, range: impl KeyRange) -> Result<StagedIter<'_>> {
        self.iterate(Bounds::of_range(KeyspaceId::DEFAULT, range))
    }

    /// Iterates over the pairs whose keys start with a prefix.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<StagedIter<'_>> {
        self.iterate(Bounds::of_prefix(KeyspaceId::DEFAULT, prefix.as_ref()))
    }

    fn value(&self, key: UserKey<&[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        let is_there = self.writes.value(key, &mut value, |out| self.snapshot.value_into(key, out))?;
        Ok(is_there.then_some(value))
    }

    fn has_value(&self, key: UserKey<&[u8]>) -> Result<bool> {
        let own = self.writes.has_value(key)?;
        own.map_or_else(|| self.snapshot.has_value(key), Ok)
    }

    fn iterate(&self, bounds: Bounds) -> Result<StagedIter<'_>> {
        StagedIter::new(self, bounds, Values::Borrowed)
    }

    /// From now on its reads show the store as it is now, below the writes of the batch. So what was retained for it may go.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let mut batch = db.staged_batch()?;
    /// db.put("river", "silt")?;
    /// assert!(!batch.contains_key("river")?);
    /// batch.refresh();
    /// assert!(batch.contains_key("river")?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn refresh(&mut self) {
        self.snapshot = self.snapshot.newest();
    }

    /// Bytes of its writes in memory, about.
    pub fn memory_bytes(&self) -> usize {
        self.writes.memory_bytes()
    }

    /// Bytes of its files, without those of values from 256 KiB on, which have files of their own.
    pub fn spilled_bytes(&self) -> u64 {
        self.writes.spilled_bytes()
    }

    /// Whether it has no writes.
    pub fn is_empty(&self) -> bool {
        self.writes.is_empty()
    }

    /// Makes all writes part of the store at once.
    ///
    /// A batch that was in memory all along is committed as a `WriteBatch` is. Another one is durable when this returns, and so is
    /// everything that was written before. It is written once more, sorted, and then enters the store as an ingest does
    /// (`Keyspace::ingest`): meanwhile writers continue, and at the end those of keys between the first and the last one that
    /// the batch has in a keyspace wait for a few syncs of the disk, and so do new snapshots.
    ///
    /// If the store keeps changes for followers, a batch with files that is larger than what is kept, or that merges into more than
    /// some 200,000 keys, ends what was kept: followers get `ChangesTooOld`, and the listener `Event::ChangesLost`.
    ///
    /// # Errors
    /// `DiskFull`, `Io`, `KeyspaceDropped`, `Closed`, `ReadOnly` after an earlier failure. Nothing of it has entered the store
    /// then, except after an error that makes the store read-only: it may be durable or not, as a write whose sync fails.
    pub fn commit(self) -> Result<()> {
        self.commit_with(WriteOptions::default())
    }

    /// Like `commit`, with options, which count if the batch was in memory all along.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let mut batch = db.staged_batch()?;
    /// batch.put("order/7", "paid")?;
    /// batch.commit_with(alluvium::WriteOptions::sync())?; // on disk when it returns
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn commit_with(self, options: WriteOptions) -> Result<()> {
        self.writes.commit(options)
    }
}

impl std::fmt::Debug for StagedBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("StagedBatch")
            .field("memory_bytes", &self.memory_bytes())
            .field("spilled_bytes", &self.spilled_bytes())
            .finish_non_exhaustive()
    }
}
