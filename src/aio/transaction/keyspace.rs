//! An asynchronous transaction's reads and writes of one keyspace.

use super::{AsyncTransaction, Part, TransactionScan};
use crate::aio::multi_get::multi_get;
use crate::db::transaction::TransactionKeyspace;
use crate::engine::types::key_range::KeyRange;
use crate::util::Result;
use blocking::unblock;
use std::marker::PhantomData;

/// The part of an [`AsyncTransaction`] in one keyspace: the result of `AsyncTransaction::within`. Its methods are those of the
/// transaction, which itself has the part in the default keyspace.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// # let db = alluvium::AsyncDb::new(db);
/// # futures_lite::future::block_on(async {
/// let jobs = db.keyspace("jobs", Default::default()).await?;
/// let done = db.keyspace("done", Default::default()).await?;
/// jobs.put("1", "wash").await?;
/// let transaction = db.transaction().await?;
/// if let Some((job, what)) = transaction.within(&jobs)?.pop_first().await? {
///     transaction.within(&done)?.put(job, what)?;
/// }
/// transaction.commit().await?;
/// assert!(jobs.is_empty().await? && done.contains_key("1").await?);
/// # Ok::<(), alluvium::Error>(())
/// # })?;
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone)]
pub struct AsyncTransactionKeyspace<'t> {
    part: Part,
    /// The transaction cannot be committed as long as there is a part of it.
    transaction: PhantomData<&'t AsyncTransaction>,
}

impl<'t> AsyncTransactionKeyspace<'t> {
    /// Requires that `part` is one of a transaction that lives for `'t`.
    pub(super) fn new(part: Part) -> Self {
        Self { part, transaction: PhantomData }
    }

    /// Does work that may block on another thread.
    async fn run_blocking<T: Send + 'static>(
        &self,
        work: impl FnOnce(TransactionKeyspace<'_>) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let part = self.part.clone();
        unblock(move || part.with(work)).await
    }

    /// See `AsyncTransaction::get`.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        match self.part.with(|within| within.get_nonblocking(key))? {
            Some(value) => Ok(value),
            None => {
                let key = key.to_vec();
                self.run_blocking(move |within| within.get(key)).await
            }
        }
    }

    /// See `AsyncTransaction::multi_get`.
    pub async fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let at_once = |key: &[u8]| self.part.with(|within| within.get_nonblocking(key));
        let later = async |missing: Vec<_>| self.run_blocking(move |within| within.multi_get(&missing)).await;
        multi_get(keys, at_once, later).await
    }

    /// See `AsyncTransaction::contains_key`.
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        match self.part.with(|within| within.contains_key_nonblocking(key))? {
            Some(found) => Ok(found),
            None => {
                let key = key.to_vec();
                self.run_blocking(move |within| within.contains_key(key)).await
            }
        }
    }

    /// See `AsyncTransaction::first`.
    pub async fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.run_blocking(|within| within.first()).await
    }

    /// See `AsyncTransaction::last`.
    pub async fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.run_blocking(|within| within.last()).await
    }

    /// See `AsyncTransaction::is_empty`.
    pub async fn is_empty(&self) -> Result<bool> {
        self.run_blocking(|within| within.is_empty()).await
    }

    /// See `AsyncTransaction::put`.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.part.with(|within| within.put(key, value))
    }

    /// See `AsyncTransaction::delete`.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.part.with(|within| within.delete(key))
    }

    /// See `AsyncTransaction::merge`.
    pub async fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand) = (key.as_ref().to_vec(), operand.as_ref().to_vec());
        self.run_blocking(move |within| within.merge(key, operand)).await
    }

    /// See `AsyncTransaction::take`.
    pub async fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        let value = self.get(key).await?;
        // Here and not on the other thread: there it could come after later writes, if the future was dropped.
        if value.is_some() {
            self.delete(key)?;
        }
        Ok(value)
    }

    /// See `AsyncTransaction::pop_first`.
    pub async fn pop_first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(self.first().await?)
    }

    /// See `AsyncTransaction::pop_last`.
    pub async fn pop_last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.pop(self.last().await?)
    }

    fn pop(&self, pair: Option<(Vec<u8>, Vec<u8>)>) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        if let Some((key, _)) = &pair {
            self.delete(key)?;
        }
        Ok(pair)
    }

    /// See `AsyncTransaction::delete_range`.
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.part.with(|within| within.delete_range(range))
    }

    /// See `AsyncTransaction::delete_prefix`.
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.part.with(|within| within.delete_prefix(prefix))
    }

    /// See `AsyncTransaction::iter`.
    pub fn iter(&self) -> TransactionScan<'t> {
        self.range(..)
    }

    /// See `AsyncTransaction::range`.
    pub fn range(&self, range: impl KeyRange) -> TransactionScan<'t> {
        TransactionScan::of_range(self.part.clone(), &range)
    }

    /// See `AsyncTransaction::prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> TransactionScan<'t> {
        TransactionScan::of_prefix(self.part.clone(), prefix.as_ref())
    }
}

impl std::fmt::Debug for AsyncTransactionKeyspace<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("AsyncTransactionKeyspace").field("keyspace", &self.part.keyspace.name()).finish_non_exhaustive()
    }
}
