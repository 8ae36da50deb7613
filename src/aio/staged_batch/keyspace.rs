//! An asynchronous staged batch's reads and writes of one keyspace.

use super::{AsyncStagedBatch, Part, StagedScan};
use crate::aio::keyspace::owned;
use crate::db::StagedKeyspace;
use crate::engine::types::key_range::KeyRange;
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use blocking::unblock;
use std::marker::PhantomData;

/// The part of an [`AsyncStagedBatch`] in one keyspace: the result of `AsyncStagedBatch::within`. Its methods are those of the
/// batch, which itself has the part in the default keyspace.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// # let db = alluvium::AsyncDb::new(db);
/// # futures_lite::future::block_on(async {
/// let users = db.keyspace("users", Default::default()).await?;
/// let mut batch = db.staged_batch()?;
/// let mut part = batch.within(&users)?;
/// part.put("7/name", "Ada").await?;
/// part.put("8/name", "Grace").await?;
/// part.delete_prefix("7").await?;
/// assert!(!part.contains_key("7/name").await?);
/// batch.commit().await?;
/// assert!(users.contains_key("8/name").await?);
/// # Ok::<(), alluvium::Error>(())
/// # })?;
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct AsyncStagedKeyspace<'b> {
    part: Part,
    /// Only it changes the batch.
    batch: PhantomData<&'b mut AsyncStagedBatch>,
}

impl AsyncStagedKeyspace<'_> {
    /// Requires that `part` is one of a batch that lives for the lifetime of the keyspace.
    pub(super) fn new(part: Part) -> Self {
        Self { part, batch: PhantomData }
    }

    /// Does work that may block on another thread.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(StagedKeyspace<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let part = self.part.clone();
        // Dropped with the future. The work checks it under the lock: either it comes before what is done to the batch later,
        // or it does nothing.
        let wanted = Arc::new(());
        let is_wanted = Arc::downgrade(&wanted);
        let work = move |within: StagedKeyspace<'_>| match is_wanted.upgrade() {
            Some(_) => work(within),
            None => Err(Error::Closed),
        };
        unblock(move || part.with(work)).await
    }

    /// Does a write if it fits into memory; otherwise `None`.
    fn write_at_once(&self, write: impl FnOnce(&mut StagedKeyspace<'_>) -> Result<()>) -> Result<Option<()>> {
        let write = |mut within: StagedKeyspace<'_>| within.has_room().then(|| write(&mut within)).transpose();
        self.part.at_once(write)
    }

    /// See `AsyncStagedBatch::put`.
    pub async fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.write_at_once(|within| within.put(key, value))?.is_some() {
            return Ok(());
        }
        let (key, value) = (key.to_vec(), value.to_vec());
        self.run_blocking(move |mut within| within.put(key, value)).await
    }

    /// See `AsyncStagedBatch::delete`.
    pub async fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        if self.write_at_once(|within| within.delete(key))?.is_some() {
            return Ok(());
        }
        let key = key.to_vec();
        self.run_blocking(move |mut within| within.delete(key)).await
    }

    /// See `AsyncStagedBatch::merge`.
    pub async fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand) = (key.as_ref().to_vec(), operand.as_ref().to_vec());
        self.run_blocking(move |mut within| within.merge(key, operand)).await
    }

    /// See `AsyncStagedBatch::delete_range`.
    pub async fn delete_range(&mut self, range: impl KeyRange) -> Result<()> {
        let range = owned(&range);
        if self.write_at_once(|within| within.delete_range(&range))?.is_some() {
            return Ok(());
        }
        self.run_blocking(move |mut within| within.delete_range(&range)).await
    }

    /// See `AsyncStagedBatch::delete_prefix`.
    pub async fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let prefix = prefix.as_ref();
        if self.write_at_once(|within| within.delete_prefix(prefix))?.is_some() {
            return Ok(());
        }
        let prefix = prefix.to_vec();
        self.run_blocking(move |mut within| within.delete_prefix(prefix)).await
    }

    /// See `AsyncStagedBatch::get`.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        match self.part.at_once(|within| within.get_nonblocking(key))? {
            Some(value) => Ok(value),
            None => {
                let key = key.to_vec();
                self.run_blocking(move |within| within.get(key)).await
            }
        }
    }

    /// See `AsyncStagedBatch::contains_key`.
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        match self.part.at_once(|within| within.contains_key_nonblocking(key))? {
            Some(found) => Ok(found),
            None => {
                let key = key.to_vec();
                self.run_blocking(move |within| within.contains_key(key)).await
            }
        }
    }

    /// See `AsyncStagedBatch::iter`.
    pub fn iter(&self) -> StagedScan<'_> {
        self.range(..)
    }

    /// See `AsyncStagedBatch::range`.
    pub fn range(&self, range: impl KeyRange) -> StagedScan<'_> {
        StagedScan::of_range(self.part.clone(), &range)
    }

    /// See `AsyncStagedBatch::prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> StagedScan<'_> {
        StagedScan::of_prefix(self.part.clone(), prefix.as_ref())
    }
}

impl std::fmt::Debug for AsyncStagedKeyspace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncStagedKeyspace").field("keyspace", &self.part.keyspace.name()).finish_non_exhaustive()
    }
}
