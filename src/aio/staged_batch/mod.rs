//! A staged batch for asynchronous callers.
//!
//! What memory can answer or take is done when a future is first polled. Everything else runs on other threads, which share the
//! batch; a lock keeps them apart. It is held by another thread only while the batch waits for the disk, so the polling thread
//! tries it, and leaves the work to another thread if it is not free.

mod keyspace;
mod scan;

use super::AsyncDb;
use super::keyspace::AsyncKeyspace;
use crate::db::{Keyspace, StagedBatch, StagedKeyspace};
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::options::WriteOptions;
use crate::util::sync::{Arc, Mutex};
use crate::util::{Error, Result};
use blocking::unblock;

pub use keyspace::AsyncStagedKeyspace;
pub use scan::StagedScan;

/// A [`StagedBatch`] whose reads and writes are futures: the result of `AsyncDb::staged_batch`. They block no polling thread; see
/// [`AsyncDb`].
///
/// A write that fits into memory happens when it is first polled. A write whose future is dropped later takes effect or not; if it
/// does, then before what is done to the batch afterwards. After a dropped `commit` all writes have happened or none.
///
/// Dropping the batch removes its files, on the dropping thread.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// # let db = alluvium::AsyncDb::new(db);
/// # futures_lite::future::block_on(async {
/// use futures_lite::StreamExt;
/// db.put("elbe", "1094 km").await?;
/// let mut batch = db.staged_batch()?;
/// batch.put("oder", "840 km").await?;
/// batch.delete("elbe").await?;
/// assert_eq!(batch.get("oder").await?.as_deref(), Some(&b"840 km"[..]));
/// assert_eq!(batch.iter().count().await, 1);
/// assert!(!db.contains_key("oder").await?);
/// batch.commit().await?;
/// assert!(db.contains_key("oder").await? && !db.contains_key("elbe").await?);
/// # Ok::<(), alluvium::Error>(())
/// # })?;
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct AsyncStagedBatch {
    /// In the default keyspace.
    part: Part,
}

/// A batch that other threads use, and a keyspace of it.
#[derive(Clone)]
struct Part {
    /// `None` once the commit has begun. Only work whose future was dropped can find that.
    batch: Arc<Mutex<Option<StagedBatch>>>,
    keyspace: Keyspace,
}

impl Part {
    /// Does work in the keyspace. It blocks if the work does, or another thread's.
    fn with<T>(&self, work: impl FnOnce(StagedKeyspace<'_>) -> Result<T>) -> Result<T> {
        let mut batch = self.batch.lock();
        work(batch.as_mut().ok_or(Error::Closed)?.within(&self.keyspace)?)
    }

    /// The same, unless another thread uses the batch. For work that does not block, and is `None` if it would have to.
    fn at_once<T>(&self, work: impl FnOnce(StagedKeyspace<'_>) -> Result<Option<T>>) -> Result<Option<T>> {
        let Some(mut batch) = self.batch.try_lock() else { return Ok(None) };
        work(batch.as_mut().ok_or(Error::Closed)?.within(&self.keyspace)?)
    }
}

/// Staged batches.
impl AsyncDb {
    /// `Db::staged_batch`. Not a future. See [`AsyncStagedBatch`].
    ///
    /// # Errors
    /// `Closed`.
    pub fn staged_batch(&self) -> Result<AsyncStagedBatch> {
        // Like a snapshot, it only waits for writes that are in progress.
        let batch = Arc::new(Mutex::new(Some(self.db.staged_batch()?)));
        Ok(AsyncStagedBatch { part: Part { batch, keyspace: Keyspace::clone(&self.db) } })
    }
}

impl AsyncStagedBatch {
    fn default_keyspace(&self) -> AsyncStagedKeyspace<'_> {
        AsyncStagedKeyspace::new(self.part.clone())
    }

    /// Calls a function that does not block. It waits if a future was dropped whose work another thread still does.
    fn with_batch<T>(&self, work: impl FnOnce(&mut StagedBatch) -> T) -> T {
        match &mut *self.part.batch.lock() {
            Some(batch) => work(batch),
            None => unreachable!("the commit takes the handle, too"),
        }
    }

    /// `StagedBatch::with_memory`. Not a future.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// let mut batch = db.staged_batch()?.with_memory(1 << 20);
    /// for number in 0..20_000_u32 {
    ///     batch.put(number.to_be_bytes(), [7; 100]).await?;
    /// }
    /// assert!(batch.spilled_bytes() > 1 << 20);
    /// batch.commit().await?;
    /// assert!(db.contains_key(19_999_u32.to_be_bytes()).await?);
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn with_memory(self, bytes: usize) -> Self {
        self.with_batch(|batch| batch.set_memory(bytes));
        self
    }

    /// `StagedBatch::within`. Not a future: it reads nothing. See [`AsyncStagedKeyspace`].
    pub fn within(&mut self, keyspace: &AsyncKeyspace) -> Result<AsyncStagedKeyspace<'_>> {
        let part = Part { keyspace: keyspace.keyspace().clone(), ..self.part.clone() };
        self.with_batch(|batch| batch.within(keyspace.keyspace()).map(|_| ()))?;
        Ok(AsyncStagedKeyspace::new(part))
    }

    /// `StagedBatch::put`.
    pub async fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().put(key, value).await
    }

    /// `StagedBatch::delete`.
    pub async fn delete(&mut self, key: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().delete(key).await
    }

    /// `StagedBatch::merge`. The operator runs on another thread.
    pub async fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().merge(key, operand).await
    }

    /// `StagedBatch::delete_range`.
    pub async fn delete_range(&mut self, range: impl KeyRange) -> Result<()> {
        self.default_keyspace().delete_range(range).await
    }

    /// `StagedBatch::delete_prefix`.
    pub async fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().delete_prefix(prefix).await
    }

    /// `StagedBatch::get`.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.default_keyspace().get(key).await
    }

    /// `StagedBatch::contains_key`.
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.default_keyspace().contains_key(key).await
    }

    /// `StagedBatch::iter`, as a stream. See [`StagedScan`].
    pub fn iter(&self) -> StagedScan<'_> {
        self.range(..)
    }

    /// `StagedBatch::range`, as a stream.
    pub fn range(&self, range: impl KeyRange) -> StagedScan<'_> {
        StagedScan::of_range(self.part.clone(), &range)
    }

    /// `StagedBatch::prefix`, as a stream.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> StagedScan<'_> {
        StagedScan::of_prefix(self.part.clone(), prefix.as_ref())
    }

    /// `StagedBatch::refresh`. Not a future.
    pub fn refresh(&mut self) {
        self.with_batch(StagedBatch::refresh);
    }

    /// `StagedBatch::memory_bytes`. Not a future.
    pub fn memory_bytes(&self) -> usize {
        self.with_batch(|batch| batch.memory_bytes())
    }

    /// `StagedBatch::spilled_bytes`. Not a future.
    pub fn spilled_bytes(&self) -> u64 {
        self.with_batch(|batch| batch.spilled_bytes())
    }

    /// `StagedBatch::is_empty`. Not a future.
    pub fn is_empty(&self) -> bool {
        self.with_batch(|batch| batch.is_empty())
    }

    /// `StagedBatch::commit`, on another thread. If the future was never polled, nothing of the batch takes effect.
    pub async fn commit(self) -> Result<()> {
        self.commit_with(WriteOptions::default()).await
    }

    /// `StagedBatch::commit_with`, on another thread.
    pub async fn commit_with(self, options: WriteOptions) -> Result<()> {
        let shared = Arc::clone(&self.part.batch);
        let commit = move || {
            // Waits for work whose futures were dropped.
            let batch = shared.lock().take();
            batch.ok_or(Error::Closed)?.commit_with(options)
        };
        unblock(commit).await
    }
}

impl std::fmt::Debug for AsyncStagedBatch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AsyncStagedBatch").field(&*self.part.batch.lock()).finish()
    }
}
