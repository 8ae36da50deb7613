//! The change stream: `Db::changes`.

use super::db::Db;
use super::keyspace::KeyspaceOptions;
use super::keyspaces::options_of;
use super::read_only::ReadOnlyDb;
use crate::engine::changes::follower::{CatalogChange, CommittedBatch, Follower};
use crate::engine::changes::foreign::ForeignChanges;
use crate::engine::open::read_only_store::ReadOnlyStore;
use crate::engine::read::read_path::ReadPath;
use crate::engine::types::batch::{Operation, WriteBatch};
use crate::engine::types::keyspace_info::DEFAULT_NAME;
use crate::merge::MergeOperators;
use crate::util::sync::Arc;
use crate::util::{Error, Kind, Result, SequenceNumber};

/// The change stream.
impl Db {
    /// Follows what is written to the store, of all keyspaces, in the order in which it took effect: an iterator over the writes
    /// with numbers above `since`. A write is a put, a delete, a batch, a transaction or an ingest; it has one number.
    ///
    /// The store must keep changes: `Options::change_retention`. For a copy of the store that follows it, make a checkpoint, and
    /// follow the changes after its number (`CheckpointReport::number`). [`Changes::through`] is where a follower goes on after
    /// it was stopped; it stays valid when the store is closed, killed, or loses its power.
    ///
    /// Only what is durable is returned: if there are newer writes, `next` syncs the log. The iterator returns `None` when there
    /// is nothing newer yet, and goes on when it is asked again.
    ///
    /// What the store does by itself is no change: that pairs expire, and what a compaction filter removes. Writes without log
    /// (`Durability::Unlogged`) are left out. What a merge is given is returned as it is, an operand.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{ChangeRetention, Db, Operation, Options};
    /// let db = Db::open(directory.path(), Options::new().change_retention(ChangeRetention::new(1 << 30)))?;
    /// let since = db.stats().last_number;
    /// db.put("river", "silt")?;
    /// let mut changes = db.changes(since)?;
    /// let write = changes.next().expect("a write")?;
    /// let [Operation::Put { key, value, .. }] = write.operations().collect::<Vec<_>>()[..] else { unreachable!() };
    /// assert_eq!((key, value), (&b"river"[..], &b"silt"[..]));
    /// assert!(changes.next().is_none()); // until something is written
    /// db.delete("river")?;
    /// assert!(changes.next().is_some());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// - `ChangesTooOld` if the changes after this number are not kept any more, here or in `next`.
    /// - `InvalidArgument` if the store keeps no changes, or if there was no write with this number yet.
    /// - `Io`, `Corruption`, `Closed`; `ReadOnly` after an earlier failure.
    pub fn changes(&self, since: u64) -> Result<Changes> {
        let follower = Follower::new(self.engine.background.changes.clone(), SequenceNumber(since))?;
        Ok(Changes { follower, read: Arc::clone(&self.engine.read), _store: Store::Open(self.clone()) })
    }
}

/// The change stream.
impl ReadOnlyDb {
    /// Follows what another process writes to the store, as far as that process has copied it for followers: at each background sync
    /// (`Options::sync_interval`), at the latest when memory is incorporated, and when it closes. This need not be reopened to see
    /// more. Otherwise like [`Db::changes`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{ChangeRetention, Db, Options, ReadOnlyDb};
    /// let options = Options::new().change_retention(ChangeRetention::new(1 << 30));
    /// let writer = Db::open(directory.path(), options)?;
    /// let reader = ReadOnlyDb::open(directory.path(), Options::default())?;
    /// let mut changes = reader.changes(0)?;
    /// writer.put("river", "silt")?;
    /// writer.close()?;
    /// assert_eq!(changes.next().expect("a write")?.operations().count(), 1);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `ChangesTooOld`, here or in `next`; `InvalidArgument` if the store keeps no changes; `Io`, `Corruption`.
    pub fn changes(&self, since: u64) -> Result<Changes> {
        let store = self.store.load_full();
        let follower = Follower::new(Arc::new(ForeignChanges::new(&store.read)?), SequenceNumber(since))?;
        Ok(Changes { follower, read: Arc::clone(&store.read), _store: Store::ReadOnly(store) })
    }
}

/// What keeps the store open.
enum Store {
    Open(#[allow(dead_code, reason = "dropped last")] Db),
    ReadOnly(#[allow(dead_code, reason = "dropped last")] Arc<ReadOnlyStore>),
}

/// An iterator over the writes to a store; see [`Db::changes`]. After `None` it may be asked again.
pub struct Changes {
    follower: Follower,
    read: Arc<ReadPath>,
    _store: Store,
}

impl Changes {
    /// All changes up to this number were returned. A later `Db::changes` goes on after it.
    pub fn through(&self) -> u64 {
        self.follower.position().0
    }
}

impl Iterator for Changes {
    type Item = Result<CommittedWrite>;

    fn next(&mut self) -> Option<Self::Item> {
        let next = self.follower.next().transpose()?;
        Some(next.map(|batch| CommittedWrite::new(batch, &self.read.merge_operators)))
    }
}

impl std::fmt::Debug for Changes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Changes").field("through", &self.through()).finish_non_exhaustive()
    }
}

/// A write that [`Db::changes`] returns.
#[derive(Clone, Debug)]
pub struct CommittedWrite {
    batch: CommittedBatch,
    keyspaces: Vec<KeyspaceChange>,
}

/// What a write has done to the list of keyspaces.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum KeyspaceChange {
    /// It was created, or its options were changed.
    Set {
        /// Its name.
        keyspace: String,
        /// Its options. A merge operator that this program does not have is missing.
        options: KeyspaceOptions,
    },
    /// It was dropped, with all of its keys.
    Dropped {
        /// Its name.
        keyspace: String,
    },
}

impl CommittedWrite {
    fn new(batch: CommittedBatch, operators: &MergeOperators) -> Self {
        let keyspaces = batch.keyspaces.iter().map(|change| match change {
            CatalogChange::Set { name, entry } => {
                KeyspaceChange::Set { keyspace: name.to_string(), options: options_of(entry, operators) }
            }
            CatalogChange::Dropped { name } => KeyspaceChange::Dropped { keyspace: name.to_string() },
        });
        let keyspaces = keyspaces.collect();
        Self { batch, keyspaces }
    }

    /// Its number. The pairs of an ingest come in parts, which have the same number.
    pub fn number(&self) -> u64 {
        self.batch.number.0
    }

    /// Where a follower goes on that has applied it: its number; for a part of an ingest that is not the last one, a smaller number,
    /// so that all parts come again.
    pub fn position(&self) -> u64 {
        self.batch.number.0 - u64::from(!self.batch.is_whole)
    }

    /// Bytes of its keys and values, about.
    #[cfg(feature = "async")]
    pub(crate) fn bytes(&self) -> usize {
        self.batch.bytes()
    }

    /// What it has done to the list of keyspaces. Most writes do nothing to it.
    pub fn keyspaces(&self) -> &[KeyspaceChange] {
        &self.keyspaces
    }

    /// What it has done to keys, in any order; range deletes come first. No key is in it twice, and the keys of a range delete
    /// that it has put besides stay.
    pub fn operations(&self) -> impl Iterator<Item = Operation<'_>> {
        self.batch.operations().map(|(name, operation)| {
            let (keyspace, key) = (name.unwrap_or(DEFAULT_NAME), operation.key);
            match operation.kind {
                Kind::Delete => Operation::Delete { keyspace, key },
                Kind::Merge => Operation::Merge { keyspace, key, operand: operation.value },
                Kind::RangeDelete => Operation::DeleteRange { keyspace, start: key, end: operation.range_end() },
                _ => Operation::Put { keyspace, key, value: operation.value },
            }
        })
    }

    /// Does to another store what this write has done: creates and drops keyspaces at once, and adds the operations to a batch.
    /// The caller adds the position of the follower to the batch, too, and writes it. So a follower that was stopped at any moment
    /// goes on after the last batch that it has written.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{ChangeRetention, Db, Options, WriteBatch};
    /// let options = Options::new().change_retention(ChangeRetention::new(1 << 30));
    /// let db = Db::open(directory.path().join("store"), options)?;
    /// let start = db.checkpoint(directory.path().join("copy"))?.number;
    /// let copy = Db::open(directory.path().join("copy"), Options::default())?;
    ///
    /// db.keyspace("rivers", Default::default())?.put("elbe", "North Sea")?;
    /// for write in db.changes(start)? {
    ///     let (write, mut batch) = (write?, WriteBatch::new());
    ///     write.apply_to(&copy, &mut batch)?;
    ///     batch.put("position", write.position().to_be_bytes());
    ///     copy.write(batch)?;
    /// }
    /// assert!(copy.keyspace("rivers", Default::default())?.contains_key("elbe")?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `Db::keyspace` and of `Keyspace::set_options`.
    pub fn apply_to(&self, follower: &Db, batch: &mut WriteBatch) -> Result<()> {
        for change in &self.keyspaces {
            match change {
                KeyspaceChange::Set { keyspace, options } => set_keyspace(follower, keyspace, options)?,
                // It may be dropped already: before the follower was stopped.
                KeyspaceChange::Dropped { keyspace } => drop(follower.drop_keyspace(keyspace)?),
            }
        }
        let is_dropped = |name: &str| {
            let mut dropped = self.keyspaces.iter();
            dropped.any(|change| matches!(change, KeyspaceChange::Dropped { keyspace } if keyspace == name))
        };
        let mut current: Option<super::keyspace::Keyspace> = None;
        for operation in self.operations() {
            let (Operation::Put { keyspace: name, .. }
            | Operation::Delete { keyspace: name, .. }
            | Operation::Merge { keyspace: name, .. }
            | Operation::DeleteRange { keyspace: name, .. }) = operation;
            if is_dropped(name) {
                continue;
            }
            if current.as_ref().is_none_or(|current| current.name() != name) {
                current = Some(follower.keyspace(name, KeyspaceOptions::new())?);
            }
            let Some(keyspace) = &current else { continue };
            let mut part = batch.within(keyspace);
            match operation {
                Operation::Put { key, value, .. } => part.put(key, value),
                Operation::Delete { key, .. } => part.delete(key),
                Operation::Merge { key, operand, .. } => part.merge(key, operand),
                Operation::DeleteRange { start, end: Some(end), .. } => part.delete_range(start..end),
                Operation::DeleteRange { start, end: None, .. } => part.delete_range(start..),
            };
        }
        Ok(())
    }
}

fn set_keyspace(follower: &Db, name: &str, options: &KeyspaceOptions) -> Result<()> {
    match follower.keyspace(name, options.clone()) {
        Err(Error::KeyspaceMismatch { .. }) => {
            follower.keyspace(name, KeyspaceOptions::new())?.set_options(options.clone()).map(drop)
        }
        opened => opened.map(drop),
    }
}
