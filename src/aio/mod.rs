//! Layer 7: the store for asynchronous programs, on whatever executor they run (feature `async`).
//!
//! Nothing here waits on the calling thread but for other threads' memory: what memory and cached pages can answer is answered when a
//! future is polled first, and what cannot goes to the threads of the crate `blocking`, which every user of it in the process shares.

mod scan;
mod snapshot;

use crate::db::Db;
use crate::db::transaction::Transaction;
use crate::engine::types::batch::WriteBatch;
use crate::engine::types::change::{Change, Swap};
use crate::engine::types::options::WriteOptions;
use crate::util::{Error, Result};
use blocking::unblock;
use std::ops::RangeBounds;
use std::sync::Arc;

pub use scan::Scan;
pub use snapshot::AsyncSnapshot;

/// A store, its methods as futures. Cheap to clone; all clones, and the `Db` that it was made from, are one store.
///
/// What is promised of the thread that polls: it never reads the disk, never syncs, never runs the caller's functions. A `get` that finds
/// its answer in memory or in cached pages is ready at once; one that needs the disk, every scan, `update` and `transact`, `flush` and
/// `sync` run on other threads. A write is done at once where nothing says that it would wait: it asks for no sync, its value needs no
/// file, nothing slows writers, memory and log have room. Between that look and the write other threads may take the room; then it
/// waits as a `put` does, for a switch of memory or for up to two milliseconds of a delay that has just ended.
///
/// Futures may be dropped at any time. A read that has begun then ends unseen; a write, `update` or `transact` may have happened, wholly,
/// or not at all, and nothing else is harmed. A future that was never polled has done nothing.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{AsyncDb, Db, Options};
/// use futures_lite::{StreamExt, future::block_on};
/// # let path = directory.path();
/// let db = AsyncDb::new(Db::open(path, Options::default())?.into());
/// block_on(async {
///     db.put("river", "silt").await?;
///     assert_eq!(db.get("river").await?.as_deref(), Some(&b"silt"[..]));
///     let mut pairs = db.scan::<&str>(..)?;
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
    db: Arc<Db>,
}

impl AsyncDb {
    /// The same store, for asynchronous callers.
    pub fn new(db: Arc<Db>) -> Self {
        Self { db }
    }

    /// The store itself, whose methods wait on the calling thread.
    pub fn db(&self) -> &Arc<Db> {
        &self.db
    }

    /// Does work that may wait, elsewhere.
    async fn elsewhere<T: Send + 'static>(&self, work: impl FnOnce(&Db) -> T + Send + 'static) -> T {
        let db = Arc::clone(&self.db);
        unblock(move || work(&db)).await
    }

    /// `Db::get`.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        match self.db.get_nonblocking(key)? {
            Some(value) => Ok(value),
            None => {
                let key = key.to_vec();
                self.elsewhere(move |db| db.get(key)).await
            }
        }
    }

    /// `Db::multi_get`: those keys that need the disk are read together.
    pub async fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.snapshot()?.multi_get(keys).await
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
        self.elsewhere(move |db| db.put_with(key, value, options)).await
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
        self.elsewhere(move |db| db.delete_with(key, options)).await
    }

    /// `Db::write`.
    pub async fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::default()).await
    }

    /// `Db::write_with`.
    pub async fn write_with(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        if self.db.writes_without_waiting(batch.bytes(), batch.bytes(), options) {
            return self.db.write_with(batch, options);
        }
        self.elsewhere(move |db| db.write_with(batch, options)).await
    }

    /// `Db::update`; the function runs on another thread.
    pub async fn update(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>> + Send + 'static,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref().to_vec();
        self.elsewhere(move |db| db.update(key, change)).await
    }

    /// `Db::update_with`; the function runs on another thread.
    pub async fn update_with(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        change: impl FnMut(Option<&[u8]>) -> Change + Send + 'static,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref().to_vec();
        self.elsewhere(move |db| db.update_with(key, options, change)).await
    }

    /// `Db::compare_and_swap`.
    pub async fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Swap> {
        let (key, expected, new) = (key.as_ref().to_vec(), expected.map(<[u8]>::to_vec), new.map(<[u8]>::to_vec));
        self.elsewhere(move |db| db.compare_and_swap(key, expected.as_deref(), new.as_deref())).await
    }

    /// `Db::put_if_absent`.
    pub async fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        self.elsewhere(move |db| db.put_if_absent(key, value)).await
    }

    /// `Db::transact`: the work, with all its reads, runs on another thread, as often as it takes.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db.into());
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
        self.elsewhere(move |db| db.transact(work)).await
    }

    /// `Db::snapshot`. It waits for nothing but writes that other threads are in the middle of, so it is no future.
    pub fn snapshot(&self) -> Result<AsyncSnapshot> {
        Ok(AsyncSnapshot::new(self.db.snapshot()?))
    }

    /// The pairs of a key range at a snapshot of their own, in order.
    pub fn scan<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<Scan> {
        self.snapshot()?.scan(range)
    }

    /// The pairs whose keys begin with a prefix, at a snapshot of their own, in order.
    pub fn scan_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        self.snapshot()?.scan_prefix(prefix)
    }

    /// `Db::flush`.
    pub async fn flush(&self) -> Result<()> {
        self.elsewhere(Db::flush).await
    }

    /// `Db::sync`.
    pub async fn sync(&self) -> Result<()> {
        self.elsewhere(Db::sync).await
    }

    /// Lets this handle go; where it is the last one of the store, the store is closed (`Db::close`). To drop the last handle closes it
    /// too, but on the thread that drops it, which waits.
    pub async fn close(self) -> Result<()> {
        unblock(move || Arc::into_inner(self.db).map_or(Ok(()), Db::close)).await
    }
}
