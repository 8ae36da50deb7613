//! Layer 8: the asynchronous interface, for any executor (feature `async`).
//!
//! The polling thread never waits, except for short critical sections of other threads. What memory and cached pages
//! can answer is answered when a future is first polled. Everything else runs on the threads of the crate `blocking`,
//! which all its users in the process share.

mod changes;
mod keyspace;
mod multi_get;
mod range_scan;
mod rounds;
mod scan;
mod snapshot;
mod staged_batch;
mod transaction;
mod within;

use crate::db::transaction::{TransactOptions, Transaction};
use crate::db::{BackupOptions, BackupReport, CheckpointOptions, CheckpointReport, Db, Keyspace, KeyspaceOptions};
use crate::engine::types::batch::WriteBatch;
use crate::engine::types::options::{Options, WriteOptions};
use crate::io::Storage;
use crate::util::{Error, Result};
use blocking::unblock;
use std::ops::Deref;
use std::path::Path;
use std::sync::Arc;

pub use changes::AsyncChanges;
pub use keyspace::AsyncKeyspace;
pub use scan::Scan;
pub use snapshot::AsyncSnapshot;
pub use staged_batch::{AsyncStagedBatch, AsyncStagedKeyspace, StagedScan};
pub use transaction::{AsyncTransaction, AsyncTransactionKeyspace, TransactionScan};

/// A store whose methods are futures. A clone is cheap. All clones, and the `Db` that an `AsyncDb` was made from, are
/// the same store.
///
/// As a `Db`, it is the store's default keyspace: [`AsyncKeyspace`] has the methods that read and write single keys and
/// ranges. What is listed here is about the store as a whole, or about several keys at once.
///
/// The polling thread never reads the disk, never syncs, and never runs the caller's functions. A `get`, `multi_get` or
/// `contains_key` that memory or cached pages can answer is ready at once, in a transaction, too. One that needs the disk
/// or a merge operator, every scan, `update`, `transact`, the commit of a transaction, `keyspace`, `flush` and `sync` run
/// on other threads. A write runs on the polling thread if it is not expected to wait: it requests no sync, its value
/// needs no value file, writers are not slowed, and memory and log have space. Other threads may take that space before
/// the write. Then it waits like a `put`: for a switch of generations, or for up to two milliseconds of a
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
    default: AsyncKeyspace,
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
    ///
    /// ```
    /// use alluvium::{AsyncDb, Options, storage::MemoryStorage};
    /// futures_lite::future::block_on(async {
    ///     let db = AsyncDb::open_with(std::sync::Arc::new(MemoryStorage::new()), Options::default()).await?;
    ///     db.put("river", "silt").await?;
    ///     db.close().await
    /// })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub async fn open_with(storage: Arc<dyn Storage>, options: Options) -> Result<Self> {
        unblock(move || Db::open_with(storage, options)).await.map(Self::new)
    }

    /// Creates the asynchronous interface of a store that is open.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{AsyncDb, Db, Options};
    /// let db = Db::open(directory.path(), Options::default())?;
    /// let future = async {
    ///     let asynchronous = AsyncDb::new(db.clone()); // both are the same store
    ///     asynchronous.put("river", "silt").await
    /// };
    /// futures_lite::future::block_on(future)?;
    /// assert!(db.contains_key("river")?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn new(db: Db) -> Self {
        let default = AsyncKeyspace::new(Keyspace::clone(&db));
        Self { db, default }
    }

    /// The store itself, whose methods block the calling thread.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// db.put("river", "silt").await?;
    /// println!("{}", db.db().stats()); // what has no future
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// Runs work that may block on another thread.
    async fn run_blocking<T: Send + 'static>(&self, work: impl FnOnce(&Db) -> T + Send + 'static) -> T {
        let db = self.db.clone();
        unblock(move || work(&db)).await
    }

    /// `Db::keyspace`, on another thread.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// use alluvium::{KeyspaceOptions, merge_operators::Add};
    /// let visits = db.keyspace("visits", KeyspaceOptions::new().merge_operator(Add)).await?;
    /// visits.merge("home", 1_i64.to_le_bytes()).await?;
    /// assert_eq!(visits.get("home").await?, Some(1_i64.to_le_bytes().to_vec()));
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub async fn keyspace(&self, name: &str, options: KeyspaceOptions) -> Result<AsyncKeyspace> {
        let name = name.to_owned();
        self.run_blocking(move |db| db.keyspace(&name, options)).await.map(AsyncKeyspace::new)
    }

    /// `Db::drop_keyspace`, on another thread.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// db.keyspace("emails", Default::default()).await?;
    /// db.keyspace("users", Default::default()).await?;
    /// assert!(db.drop_keyspace("emails").await?);
    /// assert_eq!(db.keyspace_names().await?, ["users"]);
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub async fn drop_keyspace(&self, name: &str) -> Result<bool> {
        let name = name.to_owned();
        self.run_blocking(move |db| db.drop_keyspace(&name)).await
    }

    /// `Db::keyspace_names`, on another thread.
    pub async fn keyspace_names(&self) -> Result<Vec<String>> {
        self.run_blocking(Db::keyspace_names).await
    }

    /// `Db::write`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// let mut batch = alluvium::WriteBatch::new();
    /// batch.put("from", "90").put("to", "110").delete("pending");
    /// db.write(batch).await?;
    /// assert!(db.contains_key("to").await?);
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub async fn write(&self, batch: WriteBatch) -> Result<()> {
        self.write_with(batch, WriteOptions::default()).await
    }

    /// `Db::write_with`.
    pub async fn write_with(&self, batch: WriteBatch, options: WriteOptions) -> Result<()> {
        // Its keyspaces may ask for a sync.
        let write = &self.db.engine.write;
        let own = options.durability(write.durability_of(options.durability, batch.is_in_default(), batch.keyspaces()));
        // Range deletes take turns, and merges may read.
        if !batch.deletes_ranges()
            && !batch.merges()
            && self.db.writes_without_waiting(batch.bytes(), batch.bytes(), own)
        {
            return self.db.write_with(batch, options);
        }
        self.run_blocking(move |db| db.write_with(batch, options)).await
    }

    /// `Db::transaction`. See [`AsyncTransaction`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// db.put("stock", [3]).await?;
    /// let transaction = db.transaction().await?;
    /// let stock = transaction.get("stock").await?.map_or(0, |stock| stock[0]);
    /// transaction.put("stock", [stock - 1])?;
    /// transaction.commit().await?;
    /// assert_eq!(db.get("stock").await?, Some(vec![2]));
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub async fn transaction(&self) -> Result<AsyncTransaction> {
        // Like a snapshot, it only waits for writes that are in progress.
        Ok(AsyncTransaction::new(self.db.transaction()?, Keyspace::clone(&self.db)))
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

    /// `Db::compact`.
    pub async fn compact(&self) -> Result<()> {
        self.run_blocking(Db::compact).await
    }

    /// `Db::flush`.
    pub async fn flush(&self) -> Result<()> {
        self.run_blocking(Db::flush).await
    }

    /// `Db::checkpoint`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (path, copy) = (directory.path().join("store"), directory.path().join("copy"));
    /// # let db = alluvium::Db::open(path, alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// db.put("river", "silt").await?;
    /// let report = db.checkpoint(&copy).await?;
    /// assert_eq!(report.number, 1);
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub async fn checkpoint(&self, path: impl AsRef<Path>) -> Result<CheckpointReport> {
        let path = path.as_ref().to_path_buf();
        self.run_blocking(move |db| db.checkpoint(path)).await
    }

    /// `Db::checkpoint_with`, without the progress.
    pub async fn checkpoint_with(
        &self,
        path: impl AsRef<Path>,
        options: CheckpointOptions,
    ) -> Result<CheckpointReport> {
        let path = path.as_ref().to_path_buf();
        self.run_blocking(move |db| db.checkpoint_with(path, &options, &mut |_| ())).await
    }

    /// `Db::backup`. If the future is dropped, the backup may still be made.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let (path, safe) = (directory.path().join("store"), directory.path().join("safe"));
    /// # let db = alluvium::Db::open(path, alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// db.put("river", "silt").await?;
    /// let first = db.backup(&safe).await?;
    /// let second = db.backup(&safe).await?;
    /// assert_eq!((second.id, second.files_new, second.files_shared), (2, 0, first.files_new));
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of `Db::backup`.
    pub async fn backup(&self, directory: impl AsRef<Path>) -> Result<BackupReport> {
        self.backup_with(directory, BackupOptions::default()).await
    }

    /// `Db::backup_with`, without the progress.
    ///
    /// # Errors
    /// Those of `Db::backup`.
    pub async fn backup_with(&self, directory: impl AsRef<Path>, options: BackupOptions) -> Result<BackupReport> {
        let directory = directory.as_ref().to_path_buf();
        self.run_blocking(move |db| db.backup_with(directory, &options, &mut |_| ())).await
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

/// Its default keyspace: what an `AsyncKeyspace` can do, an `AsyncDb` can.
impl Deref for AsyncDb {
    type Target = AsyncKeyspace;

    fn deref(&self) -> &AsyncKeyspace {
        &self.default
    }
}
