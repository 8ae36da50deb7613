//! Layer 7: the asynchronous interface, for any executor (feature `async`).
//!
//! The polling thread never waits, except for short critical sections of other threads. What memory and cached pages
//! can answer is answered when a future is first polled. Everything else runs on the threads of the crate `blocking`,
//! which all its users in the process share.

mod scan;
mod snapshot;

use crate::db::Db;
use crate::db::transaction::{TransactOptions, Transaction};
use crate::engine::types::batch::WriteBatch;
use crate::engine::types::change::{Change, Swap};
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::options::{Options, WriteOptions};
use crate::io::Storage;
use crate::util::{Error, Result};
use blocking::unblock;
use std::path::Path;
use std::sync::Arc;

pub use scan::Scan;
pub use snapshot::AsyncSnapshot;

/// A store whose methods are futures. A clone is cheap. All clones, and the `Db` that an `AsyncDb` was made from, are
/// the same store.
///
/// The polling thread never reads the disk, never syncs, and never runs the caller's functions. A `get` that memory or
/// cached pages can answer is ready at once. A `get` that needs the disk, every scan, `update`, `transact`, `flush` and
/// `sync` run on other threads. A write runs on the polling thread if it is not expected to wait: it requests no sync,
/// its value needs no value file, writers are not slowed, and memory and log have space. Other threads may take that
/// space before the write. Then it waits like a `put`: for a switch of generations, or for up to two milliseconds of a
/// delay that has just ended.
///
/// A future may be dropped at any time. A read that has begun is then discarded. A write, `update` or `transact` may
/// have happened completely or not at all. A future that was never polled has done nothing.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{AsyncDb, Options};
/// use futures_lite::{StreamExt, future::block_on};
/// # let path = directory.path();
/// block_on(async {
///     let db = AsyncDb::open(path, Options::default()).await?;
///     db.put("river", "silt").await?;
///     assert_eq!(db.get("river").await?.as_deref(), Some(&b"silt"[..]));
///     let mut pairs = db.iter()?;
///     while let Some(pair) = pairs.next().await {
///         let (key, value) = pair?;
///         println!("{} bytes under {key:?}", value.len());
///     }
///     db.close().await
/// })?;
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AsyncDb {
    db: Db,
}

impl AsyncDb {
    /// `Db::open`, on another thread.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let path = directory.path();
    /// use alluvium::{AsyncDb, Options};
    /// futures_lite::future::block_on(async {
    ///     let db = AsyncDb::open(path, Options::default()).await?;
    ///     db.put("river", "silt").await?;
    ///     db.close().await
    /// })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub async fn open(path: impl AsRef<Path>, options: Options) -> Result<Self> {
        let path = path.as_ref().to_path_buf();
        unblock(move || Db::open(path, options)).await.map(Self::new)
    }

    /// `Db::open_with`, on another thread.
    pub async fn open_with(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        unblock(move || Db::open_with(storage, options)).await.map(Self::new)
    }

    /// Creates the asynchronous interface of a store that is open.
    pub fn new(db: Db) -> Self {
        Self { db }
    }

    /// The store itself, whose methods block the calling thread.
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Runs work that may block on another thread.
    async fn run_blocking<T: Send + 'static>(&self, work: impl FnOnce(&Db) -> T + Send + 'static) -> T {
        let db = self.db.clone();
        unblock(move || work(&db)).await
    }

    /// `Db::get`.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        match self.db.get_nonblocking(key)? {
            Some(value) => Ok(value),
            None => {
                let key = key.to_vec();
                self.run_blocking(move |db| db.get(key)).await
            }
        }
    }

    /// `Db::multi_get`. Keys that need the disk are read together.
    pub async fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.snapshot().multi_get(keys).await
    }

    /// `Db::put`.
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default()).await
    }

    /// `Db::put_with`.
    pub async fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.db.writes_without_waiting(key.len() + value.len(), value.len(), options) {
            return self.db.put_with(key, value, options);
        }
        let (key, value) = (key.to_vec(), value.to_vec());
        self.run_blocking(move |db| db.put_with(key, value, options)).await
    }

    /// `Db::delete`.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default()).await
    }

    /// `Db::delete_with`.
    pub async fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let key = key.as_ref();
        if self.db.writes_without_waiting(key.len(), 0, options) {
            return self.db.delete_with(key, options);
        }
        let key = key.to_vec();
        self.run_blocking(move |db| db.delete_with(key, options)).await
    }

    /// `Db::delete_range`. It runs on another thread.
    pub async fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_range(range);
        self.write(batch).await
    }

    /// `Db::delete_prefix`. It runs on another thread.
    pub async fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let mut batch = WriteBatch::new();
        batch.delete_prefix(prefix);
        self.write(batch).await
    }

    /// `Db::merge`. It runs on another thread, because it may read the key's value to shorten a long chain of operands.
    pub async fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key, operand, WriteOptions::default()).await
    }

    /// `Db::merge_with`.
    pub async fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref().to_vec(), operand.as_ref().to_vec());
        self.run_blocking(move |db| db.merge_with(key, operand, options)).await
    }

    /// `Db::write`.
    pub async fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::default()).await
    }

    /// `Db::write_with`.
    pub async fn write_with(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        // Range deletes take turns, and merges may read.
        if !batch.deletes_ranges()
            && !batch.merges()
            && self.db.writes_without_waiting(batch.bytes(), batch.bytes(), options)
        {
            return self.db.write_with(batch, options);
        }
        self.run_blocking(move |db| db.write_with(batch, options)).await
    }

    /// `Db::update`. The function runs on another thread.
    pub async fn update(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>> + Send + 'static,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref().to_vec();
        self.run_blocking(move |db| db.update(key, change)).await
    }

    /// `Db::update_with`. The function runs on another thread.
    pub async fn update_with(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        change: impl FnMut(Option<&[u8]>) -> Change + Send + 'static,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref().to_vec();
        self.run_blocking(move |db| db.update_with(key, options, change)).await
    }

    /// `Db::compare_and_swap`.
    pub async fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Swap> {
        let (key, expected, new) = (key.as_ref().to_vec(), expected.map(<[u8]>::to_vec), new.map(<[u8]>::to_vec));
        self.run_blocking(move |db| db.compare_and_swap(key, expected.as_deref(), new.as_deref())).await
    }

    /// `Db::put_if_absent`.
    pub async fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        self.run_blocking(move |db| db.put_if_absent(key, value)).await
    }

    /// `Db::transact`. All attempts, with their reads, run on another thread.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// let had = db.transact(|transaction| -> alluvium::Result<_> {
    ///     let had = transaction.get("from")?;
    ///     transaction.put("to", had.clone().unwrap_or_default())?;
    ///     Ok(had)
    /// });
    /// assert_eq!(had.await?, None);
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub async fn transact<T: Send + 'static, E: From<Error> + Send + 'static>(
        &self,
        work: impl FnMut(&Transaction) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        self.run_blocking(move |db| db.transact(work)).await
    }

    /// `Db::transact_with`. All attempts, with their reads, run on another thread.
    pub async fn transact_with<T: Send + 'static, E: From<Error> + Send + 'static>(
        &self,
        options: TransactOptions,
        work: impl FnMut(&Transaction) -> Result<T, E> + Send + 'static,
    ) -> Result<T, E> {
        self.run_blocking(move |db| db.transact_with(&options, work)).await
    }

    /// `Db::snapshot`. Not a future, since it only waits for writes that are in progress.
    pub fn snapshot(&self) -> AsyncSnapshot {
        AsyncSnapshot::new(self.db.snapshot())
    }

    /// `Db::iter`, as a stream. Not a future: the stream reads when it is polled. `Scan::backward` has the other order.
    pub fn iter(&self) -> Result<Scan> {
        self.snapshot().iter()
    }

    /// `Db::range`, as a stream.
    pub fn range(&self, range: impl KeyRange) -> Result<Scan> {
        self.snapshot().range(range)
    }

    /// `Db::prefix`, as a stream.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        self.snapshot().prefix(prefix)
    }

    /// `Db::contains_key`.
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref().to_vec();
        self.run_blocking(move |db| db.contains_key(key)).await
    }

    /// `Db::first`.
    pub async fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.run_blocking(|db| db.first()).await
    }

    /// `Db::last`.
    pub async fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.run_blocking(|db| db.last()).await
    }

    /// `Db::is_empty`.
    pub async fn is_empty(&self) -> Result<bool> {
        self.run_blocking(|db| db.is_empty()).await
    }

    /// `Db::take`.
    pub async fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref().to_vec();
        self.run_blocking(move |db| db.take(key)).await
    }

    /// `Db::pop_first`.
    pub async fn pop_first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.run_blocking(|db| db.pop_first()).await
    }

    /// `Db::pop_last`.
    pub async fn pop_last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.run_blocking(|db| db.pop_last()).await
    }

    /// `Db::compact`.
    pub async fn compact(&self) -> Result<()> {
        self.run_blocking(Db::compact).await
    }

    /// `Db::flush`.
    pub async fn flush(&self) -> Result<()> {
        self.run_blocking(Db::flush).await
    }

    /// `Db::sync`.
    pub async fn sync(&self) -> Result<()> {
        self.run_blocking(Db::sync).await
    }

    /// `Db::close`, on another thread: closes the store for all clones. Dropping the last one without this closes the
    /// store too, but blocks the dropping thread.
    pub async fn close(&self) -> Result<()> {
        self.run_blocking(Db::close).await
    }
}
