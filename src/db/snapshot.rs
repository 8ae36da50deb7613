//! A moment of the store, kept as long as the value lives.

use super::iter::Iter;
use crate::engine::read::pinned_value::Pinned;
use crate::engine::read::read_path::ReadPath;
use crate::engine::state::snapshot_registry::SnapshotPin;
use crate::engine::types::bounds::Bounds;
use crate::util::Result;
use crate::util::sync::Arc;
use std::ops::RangeBounds;
use std::time::Duration;

/// The store as it was at one moment. Owned: it may move to other threads and outlive the borrow of `Db`. Cloning is
/// cheap and gives the same moment.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// db.put("key", "old")?;
/// let snapshot = db.snapshot()?;
/// db.put("key", "new")?;
/// assert_eq!(snapshot.get("key")?.as_deref(), Some(&b"old"[..]));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Snapshot {
    read: Arc<ReadPath>,
    pin: Arc<SnapshotPin>,
}

impl Snapshot {
    pub(crate) fn take(read: &Arc<ReadPath>) -> Self {
        Self { read: Arc::clone(read), pin: Arc::new(read.snapshots.take(&read.sequencer)) }
    }

    /// A snapshot that was taken at most `age` ago (FloDB §4.4, piggybacking scans: one that lives is shared, a past number is
    /// never pinned again).
    pub(crate) fn share(read: &Arc<ReadPath>, age: Duration) -> Self {
        let pin = read.shared_snapshot.share(read.snapshots.now(), age, || read.snapshots.take(&read.sequencer));
        Self { read: Arc::clone(read), pin }
    }

    #[cfg(feature = "async")]
    pub(crate) fn read_path(&self) -> &ReadPath {
        &self.read
    }

    pub(crate) fn pin(&self) -> &SnapshotPin {
        &self.pin
    }

    /// The sequence number that the snapshot stands at.
    pub fn number(&self) -> u64 {
        self.pin.number().0
    }

    /// The value of a key at the snapshot.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let _inside = self.pin.begin_read()?;
        let mut value = Vec::new();
        Ok(self.read.get_at(key.as_ref(), self.pin.number(), &mut value)?.then_some(value))
    }

    /// The value of a key at the snapshot without a copy, where it lies in a cached page: see `Pinned`.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        let _inside = self.pin.begin_read()?;
        self.read.get_pinned_at(key.as_ref(), self.pin.number())
    }

    /// The values of many keys at the snapshot, in their order; see `Db::multi_get`.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let _inside = self.pin.begin_read()?;
        self.read.multi_get_at(keys, self.pin.number())
    }

    /// All pairs.
    pub fn iter(&self) -> Result<Iter> {
        self.iterate(Bounds::all())
    }

    /// The pairs of a key range.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Iter> {
        self.iterate(Bounds::of_range(range))
    }

    /// The pairs whose keys begin with a prefix.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Iter> {
        self.iterate(Bounds::of_prefix(prefix.as_ref()))
    }

    pub(crate) fn iterate(&self, bounds: Bounds) -> Result<Iter> {
        Iter::new(Arc::clone(&self.read), Arc::clone(&self.pin), bounds)
    }
}
