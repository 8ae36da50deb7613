//! A transaction for asynchronous callers.
//!
//! Gets answer from the transaction's own writes, memory and cached pages if they can. Other reads, merges and the commit
//! run on other threads; writes are only buffered, and need none. A read whose future was dropped may still run. So the
//! threads share the transaction, and the commit takes it out of there once no thread reads it.

mod keyspace;
mod scan;

use super::keyspace::AsyncKeyspace;
use crate::db::Keyspace;
use crate::db::transaction::{Savepoint, Transaction, TransactionKeyspace};
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::options::WriteOptions;
use crate::util::sync::{Arc, RwLock};
use crate::util::{Error, Result};
use blocking::unblock;

pub use keyspace::AsyncTransactionKeyspace;
pub use scan::TransactionScan;

/// A [`Transaction`] whose reads and whose commit are futures: the result of `AsyncDb::transaction`. They block no polling
/// thread; see [`AsyncDb`](crate::AsyncDb). `AsyncDb::transact` retries after conflicts; a loop around an `AsyncTransaction`
/// does so where the work between its reads awaits other futures.
///
/// Puts, deletes and savepoints are not futures: they happen in memory, at once. A future that is dropped after it was
/// polled may have read, and its keys then count as read. A dropped `merge` takes effect or not. After a dropped `commit` all
/// writes have happened or none.
///
/// It is a handle of the store, which stays open for it. Dropping it rolls it back.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// # let db = alluvium::AsyncDb::new(db);
/// # futures_lite::future::block_on(async {
/// use alluvium::Error;
/// db.put("on call", "Ada, Grace").await?;
/// loop {
///     let transaction = db.transaction().await?;
///     let Some(names) = transaction.get("on call").await? else { break };
///     // Other futures may be awaited here.
///     transaction.put("on call", &names[..3])?;
///     match transaction.commit().await {
///         Err(Error::Conflict { .. }) => continue,
///         committed => break committed?,
///     }
/// }
/// assert_eq!(db.get("on call").await?.as_deref(), Some(&b"Ada"[..]));
/// # Ok::<(), alluvium::Error>(())
/// # })?;
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct AsyncTransaction {
    /// In the default keyspace.
    part: Part,
}

/// A transaction that other threads read, and a keyspace of it.
#[derive(Clone)]
struct Part {
    /// `None` once the commit has begun. Only work whose future was dropped can find that.
    transaction: Arc<RwLock<Option<Transaction>>>,
    keyspace: Keyspace,
}

impl Part {
    /// Does work in the keyspace. It blocks if the work does.
    fn with<T>(&self, work: impl FnOnce(TransactionKeyspace<'_>) -> Result<T>) -> Result<T> {
        let transaction = self.transaction.read();
        work(transaction.as_ref().ok_or(Error::Closed)?.within(&self.keyspace)?)
    }
}

impl AsyncTransaction {
    pub(super) fn new(transaction: Transaction, default: Keyspace) -> Self {
        Self { part: Part { transaction: Arc::new(RwLock::new(Some(transaction))), keyspace: default } }
    }

    fn default_keyspace(&self) -> AsyncTransactionKeyspace<'_> {
        AsyncTransactionKeyspace::new(self.part.clone())
    }

    /// Calls a function that does not block.
    fn at_once<T>(&self, work: impl FnOnce(&Transaction) -> T) -> T {
        match &*self.part.transaction.read() {
            Some(transaction) => work(transaction),
            None => unreachable!("the commit takes the handle, too"),
        }
    }

    /// `Transaction::within`. Not a future: it reads nothing. See [`AsyncTransactionKeyspace`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// let users = db.keyspace("users", Default::default()).await?;
    /// let transaction = db.transaction().await?;
    /// transaction.within(&users)?.put("7", "Ada")?;
    /// transaction.put("users", "1")?; // in the default keyspace
    /// transaction.commit().await?;
    /// assert!(users.contains_key("7").await?);
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn within(&self, keyspace: &AsyncKeyspace) -> Result<AsyncTransactionKeyspace<'_>> {
        let part = Part { keyspace: keyspace.keyspace().clone(), ..self.part.clone() };
        part.with(|_| Ok(()))?;
        Ok(AsyncTransactionKeyspace::new(part))
    }

    /// `Transaction::get`.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.default_keyspace().get(key).await
    }

    /// `Transaction::multi_get`.
    pub async fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.default_keyspace().multi_get(keys).await
    }

    /// `Transaction::contains_key`.
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.default_keyspace().contains_key(key).await
    }

    /// `Transaction::first`.
    pub async fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.default_keyspace().first().await
    }

    /// `Transaction::last`.
    pub async fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.default_keyspace().last().await
    }

    /// `Transaction::is_empty`.
    pub async fn is_empty(&self) -> Result<bool> {
        self.default_keyspace().is_empty().await
    }

    /// `Transaction::put`. Not a future.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.part.with(|within| within.put(key, value))
    }

    /// `Transaction::delete`. Not a future.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.part.with(|within| within.delete(key))
    }

    /// `Transaction::merge`. The operator runs on another thread.
    pub async fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().merge(key, operand).await
    }

    /// `Transaction::take`. A dropped future deletes nothing.
    pub async fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.default_keyspace().take(key).await
    }

    /// `Transaction::pop_first`. A dropped future deletes nothing.
    pub async fn pop_first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.default_keyspace().pop_first().await
    }

    /// `Transaction::pop_last`. A dropped future deletes nothing.
    pub async fn pop_last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.default_keyspace().pop_last().await
    }

    /// `Transaction::delete_range`. Not a future.
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.part.with(|within| within.delete_range(range))
    }

    /// `Transaction::delete_prefix`. Not a future.
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.part.with(|within| within.delete_prefix(prefix))
    }

    /// `Transaction::iter`, as a stream. See [`TransactionScan`].
    pub fn iter(&self) -> TransactionScan<'_> {
        self.range(..)
    }

    /// `Transaction::range`, as a stream.
    pub fn range(&self, range: impl KeyRange) -> TransactionScan<'_> {
        self.default_keyspace().range(range)
    }

    /// `Transaction::prefix`, as a stream.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> TransactionScan<'_> {
        self.default_keyspace().prefix(prefix)
    }

    /// `Transaction::savepoint`. Not a future.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// let transaction = db.transaction().await?;
    /// transaction.put("a", "1")?;
    /// let savepoint = transaction.savepoint();
    /// transaction.put("b", "2")?;
    /// transaction.rollback_to(&savepoint)?;
    /// transaction.commit().await?;
    /// assert!(db.contains_key("a").await? && !db.contains_key("b").await?);
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn savepoint(&self) -> Savepoint {
        self.at_once(Transaction::savepoint)
    }

    /// `Transaction::rollback_to`. Not a future.
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        self.at_once(|transaction| transaction.rollback_to(savepoint))
    }

    /// `Transaction::release`. Not a future.
    pub fn release(&self, savepoint: Savepoint) -> Result<()> {
        self.at_once(|transaction| transaction.release(savepoint))
    }

    /// `Transaction::commit`, on another thread. If the future was never polled, the transaction is rolled back.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// use alluvium::Error;
    /// let (one, other) = (db.transaction().await?, db.transaction().await?);
    /// for transaction in [&one, &other] {
    ///     let visits = transaction.get("visits").await?.map_or(0, |visits| visits[0]);
    ///     transaction.put("visits", [visits + 1])?;
    /// }
    /// one.commit().await?;
    /// assert!(matches!(other.commit().await, Err(Error::Conflict { .. })));
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub async fn commit(self) -> Result<()> {
        self.commit_with(WriteOptions::default()).await
    }

    /// `Transaction::commit_with`, on another thread.
    pub async fn commit_with(self, options: WriteOptions) -> Result<()> {
        let shared = Arc::clone(&self.part.transaction);
        let commit = move || {
            // Waits for reads whose futures were dropped.
            let transaction = shared.write().take();
            transaction.ok_or(Error::Closed)?.commit_with(options)
        };
        unblock(commit).await
    }

    /// `Transaction::rollback`. Not a future.
    pub fn rollback(self) {}
}

impl std::fmt::Debug for AsyncTransaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("AsyncTransaction").field(&*self.part.transaction.read()).finish()
    }
}
