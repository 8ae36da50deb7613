//! A staged batch's reads and writes of one keyspace.

use super::{StagedBatch, StagedIter};
use crate::engine::staging::staged_writes::StagedWrites;
use crate::engine::types::bounds::{Bounds, UserRange};
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::keyspace_info::KeyspaceInfo;
use crate::engine::types::user_key::UserKey;
use crate::util::sync::Arc;
use crate::util::{KeyspaceId, Result};

/// The part of a [`StagedBatch`] in one keyspace: the result of `StagedBatch::within`. Its methods are those of the batch, which
/// itself has the part in the default keyspace.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// let users = db.keyspace("users", Default::default())?;
/// let mut batch = db.staged_batch()?;
/// let mut part = batch.within(&users)?;
/// part.put("7/name", "Ada")?;
/// part.put("8/name", "Grace")?;
/// part.delete_prefix("7")?;
/// assert_eq!(part.iter()?.count(), 1);
/// batch.commit()?;
/// assert!(users.contains_key("8/name")?);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Debug)]
pub struct StagedKeyspace<'b> {
    pub(super) batch: &'b mut StagedBatch,
    pub(super) keyspace: KeyspaceId,
    /// `None`: the default keyspace.
    pub(super) info: Option<Arc<KeyspaceInfo>>,
}

impl StagedKeyspace<'_> {
    pub(super) fn key<'k, K: AsRef<[u8]> + ?Sized>(&self, key: &'k K) -> UserKey<&'k [u8]> {
        UserKey::new(self.keyspace, key)
    }

    /// The batch, which is going to write the keyspace.
    fn writes(&mut self) -> Result<&mut StagedWrites> {
        let writes = &mut self.batch.writes;
        match &self.info {
            Some(info) => writes.enter(info)?,
            None => writes.enter_default(),
        }
        Ok(writes)
    }

    /// See `StagedBatch::put`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let key = UserKey::new(self.keyspace, &key);
        self.writes()?.write(key, Some(value.as_ref()))
    }

    /// See `StagedBatch::delete`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = UserKey::new(self.keyspace, &key);
        self.writes()?.write(key, None)
    }

    /// See `StagedBatch::merge`.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let key = UserKey::new(self.keyspace, &key);
        self.writes()?.merge(key, operand.as_ref())
    }

    /// See `StagedBatch::delete_range`.
    pub fn delete_range(&mut self, range: impl KeyRange) -> Result<()> {
        let range = UserRange::of_range(self.keyspace, range);
        self.writes()?.delete_range(&range)
    }

    /// See `StagedBatch::delete_prefix`.
    pub fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let range = UserRange::of_prefix(self.keyspace, prefix.as_ref());
        self.writes()?.delete_range(&range)
    }

    /// See `StagedBatch::get`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.batch.value(self.key(&key))
    }

    /// See `StagedBatch::contains_key`.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.batch.has_value(self.key(&key))
    }

    /// See `StagedBatch::iter`.
    pub fn iter(&self) -> Result<StagedIter<'_>> {
        self.batch.iterate(Bounds::all(self.keyspace))
    }

    /// See `StagedBatch::range`.
    pub fn range(&self, range: impl KeyRange) -> Result<StagedIter<'_>> {
        self.batch.iterate(Bounds::of_range(self.keyspace, range))
    }

    /// See `StagedBatch::prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<StagedIter<'_>> {
        self.batch.iterate(Bounds::of_prefix(self.keyspace, prefix.as_ref()))
    }
}
