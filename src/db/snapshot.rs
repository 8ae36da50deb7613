//! A consistent view of the store at one moment.

use super::iter::{Iter, Pair};
use crate::engine::read::pinned_value::Pinned;
use crate::engine::read::position::Scope;
use crate::engine::read::read_path::ReadPath;
use crate::engine::state::snapshot_registry::SnapshotPin;
use crate::engine::types::bounds::Bounds;
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::keyspace_info::OpeningId;
use crate::engine::types::user_key::UserKey;
use crate::merge::Values;
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Result};
use std::ops::ControlFlow;
use std::time::Duration;

/// A consistent view of the store at one moment. A `Snapshot` may move to other threads and outlive the borrow of `Db`.
/// A clone is cheap and refers to the same moment.
///
/// As long as a snapshot or one of its iterators lives, the store retains the versions that it can read. Reads fail
/// with `SnapshotExpired` once it is older than `Options::snapshot_age_limit`, and with `Closed` after the store was
/// closed.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// db.put("key", "old")?;
/// let snapshot = db.snapshot();
/// db.put("key", "new")?;
/// db.put("other", "new")?;
/// assert_eq!(snapshot.get("key")?.as_deref(), Some(&b"old"[..]));
/// assert_eq!(snapshot.multi_get(&["key", "other"])?, [Some(b"old".to_vec()), None]);
/// assert!(!snapshot.contains_key("other")? && !snapshot.is_empty()?);
/// assert_eq!(snapshot.last()?, Some((b"key".to_vec(), b"old".to_vec())));
/// assert_eq!((snapshot.iter()?.count(), snapshot.range("l"..)?.count(), snapshot.prefix("k")?.count()), (1, 0, 1));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    read: Arc<ReadPath>,
    pin: Arc<SnapshotPin>,
    /// The keyspace that its methods read.
    pub(super) keyspace: KeyspaceId,
}

impl Snapshot {
    pub(crate) fn take(read: &Arc<ReadPath>, keyspace: KeyspaceId) -> Self {
        if read.check_open().is_err() {
            return Self::unreadable(read, keyspace);
        }
        Self { read: Arc::clone(read), pin: Arc::new(read.snapshots.take(&read.sequencer)), keyspace }
    }

    /// A snapshot whose reads return the error of `ReadPath::check_open`.
    fn unreadable(read: &Arc<ReadPath>, keyspace: KeyspaceId) -> Self {
        Self { read: Arc::clone(read), pin: Arc::new(read.snapshots.unreadable(&read.sequencer)), keyspace }
    }

    /// A snapshot that was taken at most `age` ago (FloDB §4.4, piggybacking scans). A live snapshot is shared; a past
    /// number is never pinned again.
    pub(crate) fn share(read: &Arc<ReadPath>, keyspace: KeyspaceId, age: Duration) -> Self {
        if read.check_open().is_err() {
            return Self::unreadable(read, keyspace);
        }
        let pin = read.shared_snapshot.share(read.snapshots.now(), age, || read.snapshots.take(&read.sequencer));
        Self { read: Arc::clone(read), pin, keyspace }
    }

    pub(crate) fn read_path(&self) -> &ReadPath {
        &self.read
    }

    /// The store as it is now, in the same keyspace.
    pub(super) fn newest(&self) -> Self {
        Self::take(&self.read, self.keyspace)
    }

    /// Pairs of this moment, for a cursor.
    pub(super) fn scope(&self, bounds: Bounds, values: Values) -> Result<Scope> {
        self.read.check_open()?;
        Ok(Scope { read: Arc::clone(&self.read), pin: Arc::clone(&self.pin), bounds, values })
    }

    pub(crate) fn pin(&self) -> &SnapshotPin {
        &self.pin
    }

    /// The same moment in another keyspace.
    pub(super) fn of_keyspace(&self, keyspace: KeyspaceId) -> Self {
        Self { keyspace, ..self.clone() }
    }

    /// The opening of the store that it reads.
    pub(super) fn opening(&self) -> OpeningId {
        self.read.opening
    }

    /// A key of the snapshot's keyspace.
    pub(super) fn key<'k, K: AsRef<[u8]> + ?Sized>(&self, key: &'k K) -> UserKey<&'k [u8]> {
        UserKey::new(self.keyspace, key)
    }

    /// The sequence number of the snapshot. It contains every write with this number or a smaller one.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let before = db.snapshot();
    /// db.put("river", "silt")?;
    /// assert!(db.snapshot().number() > before.number());
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn number(&self) -> u64 {
        self.pin.number().0
    }

    /// Returns the value of a key at the snapshot; `None` if the key is absent.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.get_into(key, &mut value)?.then_some(value))
    }

    /// Reads the value of a key at the snapshot into `out` and replaces its contents. Returns false if the key is absent.
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        self.value_into(self.key(&key), out)
    }

    /// Like `get`, but without a copy if the value is in a cached page; see `Pinned`.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        self.pinned_value(self.key(&key))
    }

    /// Returns the values of several keys at the snapshot, in the order of the keys; see `Db::multi_get`.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.values_of(self.keyspace, keys)
    }

    /// Iterates over all pairs.
    pub fn iter(&self) -> Result<Iter> {
        self.iterate(Bounds::all(self.keyspace))
    }

    /// Iterates over the pairs in a key range.
    pub fn range(&self, range: impl KeyRange) -> Result<Iter> {
        self.iterate(Bounds::of_range(self.keyspace, range))
    }

    /// Iterates over the pairs whose keys start with a prefix.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.iterate(Bounds::of_prefix(self.keyspace, prefix.as_ref()))
    }

    /// Whether a key has a value at the snapshot. See `Db::contains_key`.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.has_value(self.key(&key))
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

    /// `get_into` for a key of any keyspace.
    pub(crate) fn value_into(&self, key: UserKey<&[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        let _inside = self.pin.begin_read()?;
        self.read.get_at(key, self.pin.number(), out)
    }

    /// `get_pinned` for a key of any keyspace.
    pub(crate) fn pinned_value(&self, key: UserKey<&[u8]>) -> Result<Option<Pinned>> {
        let _inside = self.pin.begin_read()?;
        self.read.get_pinned_at(key, self.pin.number())
    }

    /// `contains_key` for a key of any keyspace.
    pub(crate) fn has_value(&self, key: UserKey<&[u8]>) -> Result<bool> {
        let _inside = self.pin.begin_read()?;
        self.read.contains_at(key, self.pin.number())
    }

    /// `multi_get` for keys of any keyspace.
    pub(crate) fn values_of<K: AsRef<[u8]>>(&self, keyspace: KeyspaceId, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let _inside = self.pin.begin_read()?;
        self.read.multi_get_at(keyspace, keys, self.pin.number())
    }

    /// Iterates within bounds of any keyspace.
    pub(crate) fn iterate(&self, bounds: Bounds) -> Result<Iter> {
        self.clone().into_iter_within(bounds)
    }

    /// Makes an iterator of a snapshot that only this iterator reads.
    pub(crate) fn into_iter_within(self, bounds: Bounds) -> Result<Iter> {
        Iter::new(self.read, self.pin, bounds)
    }
}
