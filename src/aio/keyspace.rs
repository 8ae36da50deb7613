//! A keyspace for asynchronous callers.

use super::scan::Scan;
use super::snapshot::AsyncSnapshot;
use crate::db::{Keyspace, KeyspaceOptions};
use crate::engine::types::change::{Change, Swap};
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::options::WriteOptions;
use crate::util::Result;
use blocking::unblock;
use std::ops::Bound;
use std::time::Duration;

/// A [`Keyspace`] whose methods are futures: the result of `AsyncDb::keyspace`. They block no polling thread; see
/// [`AsyncDb`](crate::AsyncDb). A clone is cheap, and is the same keyspace.
///
/// An `AsyncDb` is its store's default keyspace, and has the methods of this type. Batches, snapshots and transactions go
/// into a keyspace by their `within`; that of a batch takes the result of [`AsyncKeyspace::keyspace`].
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// # let db = alluvium::AsyncDb::new(db);
/// # futures_lite::future::block_on(async {
/// use alluvium::{KeyspaceOptions, WriteBatch};
/// let users = db.keyspace("users", KeyspaceOptions::default()).await?;
/// let emails = db.keyspace("emails", KeyspaceOptions::default()).await?;
/// let mut batch = WriteBatch::new();
/// batch.within(users.keyspace()).put("7", "Ada");
/// batch.within(emails.keyspace()).put("ada@example.org", "7");
/// db.write(batch).await?;
/// assert_eq!(users.get("7").await?.as_deref(), Some(&b"Ada"[..]));
/// assert_eq!((emails.get("7").await?, db.get("7").await?), (None, None));
///
/// assert!(!users.put_if_absent("7", "Grace").await?);
/// assert_eq!(users.take("7").await?.as_deref(), Some(&b"Ada"[..]));
/// emails.delete_prefix("ada@").await?;
/// assert!(users.is_empty().await? && emails.first().await?.is_none());
/// # Ok::<(), alluvium::Error>(())
/// # })?;
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AsyncKeyspace {
    keyspace: Keyspace,
}

/// A range that another thread may own.
pub(super) fn owned(range: &impl KeyRange) -> (Bound<Vec<u8>>, Bound<Vec<u8>>) {
    (range.lower().map(<[u8]>::to_vec), range.upper().map(<[u8]>::to_vec))
}

impl AsyncKeyspace {
    /// Creates the asynchronous interface of a keyspace that is open.
    pub fn new(keyspace: Keyspace) -> Self {
        Self { keyspace }
    }

    /// The keyspace itself, whose methods block the calling thread. For that of an `AsyncDb`, use `AsyncDb::db`.
    pub fn keyspace(&self) -> &Keyspace {
        &self.keyspace
    }

    /// `Keyspace::name`. Not a future.
    pub fn name(&self) -> &str {
        self.keyspace.name()
    }

    /// Runs work that may block on another thread.
    async fn run_blocking<T: Send + 'static>(&self, work: impl FnOnce(&Keyspace) -> T + Send + 'static) -> T {
        let keyspace = self.keyspace.clone();
        unblock(move || work(&keyspace)).await
    }

    /// `Keyspace::get`.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        match self.keyspace.get_nonblocking(key)? {
            Some(value) => {
                self.keyspace.info.check()?;
                Ok(value)
            }
            None => {
                let key = key.to_vec();
                self.run_blocking(move |keyspace| keyspace.get(key)).await
            }
        }
    }

    /// `Keyspace::multi_get`. Keys that need the disk are read together.
    pub async fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let snapshot = self.snapshot();
        self.keyspace.info.check()?;
        snapshot.multi_get(keys).await
    }

    /// `Keyspace::put`.
    pub async fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.put_with(key, value, WriteOptions::default()).await
    }

    /// `Keyspace::put_with`.
    pub async fn put_with(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        if self.keyspace.writes_without_waiting(key.len() + value.len(), value.len(), options) {
            return self.keyspace.put_with(key, value, options);
        }
        let (key, value) = (key.to_vec(), value.to_vec());
        self.run_blocking(move |keyspace| keyspace.put_with(key, value, options)).await
    }

    /// `Keyspace::delete`.
    pub async fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.delete_with(key, WriteOptions::default()).await
    }

    /// `Keyspace::delete_with`.
    pub async fn delete_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<()> {
        let key = key.as_ref();
        if self.keyspace.writes_without_waiting(key.len(), 0, options) {
            return self.keyspace.delete_with(key, options);
        }
        let key = key.to_vec();
        self.run_blocking(move |keyspace| keyspace.delete_with(key, options)).await
    }

    /// `Keyspace::delete_range`. It runs on another thread, because range deletes take turns.
    pub async fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.delete_range_with(range, WriteOptions::default()).await
    }

    /// `Keyspace::delete_range_with`. It runs on another thread.
    pub async fn delete_range_with(&self, range: impl KeyRange, options: WriteOptions) -> Result<()> {
        let range = owned(&range);
        self.run_blocking(move |keyspace| keyspace.delete_range_with(range, options)).await
    }

    /// `Keyspace::delete_prefix`. It runs on another thread.
    pub async fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        let prefix = prefix.as_ref().to_vec();
        self.run_blocking(move |keyspace| keyspace.delete_prefix(prefix)).await
    }

    /// `Keyspace::clear`. It runs on another thread.
    pub async fn clear(&self) -> Result<()> {
        self.run_blocking(Keyspace::clear).await
    }

    /// `Keyspace::merge`. It runs on another thread, because it may read the key's value to shorten a long chain of
    /// operands.
    pub async fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.merge_with(key, operand, WriteOptions::default()).await
    }

    /// `Keyspace::merge_with`.
    pub async fn merge_with(
        &self,
        key: impl AsRef<[u8]>,
        operand: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<()> {
        let (key, operand) = (key.as_ref().to_vec(), operand.as_ref().to_vec());
        self.run_blocking(move |keyspace| keyspace.merge_with(key, operand, options)).await
    }

    /// `Keyspace::update`. The function runs on another thread.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// let add_one = |old: Option<&[u8]>| Some(vec![old.map_or(0, |old| old[0]) + 1]);
    /// db.update("visits", add_one).await?;
    /// assert_eq!(db.update("visits", add_one).await?, Some(vec![2]));
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub async fn update(
        &self,
        key: impl AsRef<[u8]>,
        change: impl FnMut(Option<&[u8]>) -> Option<Vec<u8>> + Send + 'static,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref().to_vec();
        self.run_blocking(move |keyspace| keyspace.update(key, change)).await
    }

    /// `Keyspace::update_with`. The function runs on another thread.
    pub async fn update_with(
        &self,
        key: impl AsRef<[u8]>,
        options: WriteOptions,
        change: impl FnMut(Option<&[u8]>) -> Change + Send + 'static,
    ) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref().to_vec();
        self.run_blocking(move |keyspace| keyspace.update_with(key, options, change)).await
    }

    /// `Keyspace::compare_and_swap`.
    pub async fn compare_and_swap(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
    ) -> Result<Swap> {
        self.compare_and_swap_with(key, expected, new, WriteOptions::default()).await
    }

    /// `Keyspace::compare_and_swap_with`.
    pub async fn compare_and_swap_with(
        &self,
        key: impl AsRef<[u8]>,
        expected: Option<&[u8]>,
        new: Option<&[u8]>,
        options: WriteOptions,
    ) -> Result<Swap> {
        let (key, expected, new) = (key.as_ref().to_vec(), expected.map(<[u8]>::to_vec), new.map(<[u8]>::to_vec));
        self.run_blocking(move |keyspace| {
            keyspace.compare_and_swap_with(key, expected.as_deref(), new.as_deref(), options)
        })
        .await
    }

    /// `Keyspace::put_if_absent`.
    pub async fn put_if_absent(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<bool> {
        self.put_if_absent_with(key, value, WriteOptions::default()).await
    }

    /// `Keyspace::put_if_absent_with`.
    pub async fn put_if_absent_with(
        &self,
        key: impl AsRef<[u8]>,
        value: impl AsRef<[u8]>,
        options: WriteOptions,
    ) -> Result<bool> {
        let (key, value) = (key.as_ref().to_vec(), value.as_ref().to_vec());
        self.run_blocking(move |keyspace| keyspace.put_if_absent_with(key, value, options)).await
    }

    /// `Keyspace::take`.
    pub async fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.take_with(key, WriteOptions::default()).await
    }

    /// `Keyspace::take_with`.
    pub async fn take_with(&self, key: impl AsRef<[u8]>, options: WriteOptions) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref().to_vec();
        self.run_blocking(move |keyspace| keyspace.take_with(key, options)).await
    }

    /// `Keyspace::pop_first`.
    pub async fn pop_first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.run_blocking(|keyspace| keyspace.pop_first()).await
    }

    /// `Keyspace::pop_last`.
    pub async fn pop_last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.run_blocking(|keyspace| keyspace.pop_last()).await
    }

    /// `Keyspace::snapshot`. Not a future, since it only waits for writes that are in progress.
    pub fn snapshot(&self) -> AsyncSnapshot {
        AsyncSnapshot::new(self.keyspace.snapshot())
    }

    /// `Keyspace::relaxed_snapshot`. Not a future.
    pub fn relaxed_snapshot(&self, age: Duration) -> AsyncSnapshot {
        AsyncSnapshot::new(self.keyspace.relaxed_snapshot(age))
    }

    /// `Keyspace::iter`, as a stream. Not a future: the stream reads when it is polled. `Scan::backward` has the other
    /// order.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// use futures_lite::StreamExt;
    /// db.put("elbe", "North Sea").await?;
    /// let mut pairs = db.iter()?;
    /// while let Some(pair) = pairs.next().await {
    ///     let (river, sea) = pair?;
    ///     println!("{} flows to the {}", river.escape_ascii(), sea.escape_ascii());
    /// }
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn iter(&self) -> Result<Scan> {
        self.keyspace.iter().map(Scan::new)
    }

    /// `Keyspace::range`, as a stream.
    pub fn range(&self, range: impl KeyRange) -> Result<Scan> {
        self.keyspace.range(range).map(Scan::new)
    }

    /// `Keyspace::prefix`, as a stream.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        self.keyspace.prefix(prefix).map(Scan::new)
    }

    /// `Keyspace::contains_key`.
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        match self.keyspace.contains_key_nonblocking(key)? {
            Some(found) => Ok(found),
            None => {
                let key = key.to_vec();
                self.run_blocking(move |keyspace| keyspace.contains_key(key)).await
            }
        }
    }

    /// `Keyspace::first`.
    pub async fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.run_blocking(|keyspace| keyspace.first()).await
    }

    /// `Keyspace::last`.
    pub async fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.run_blocking(|keyspace| keyspace.last()).await
    }

    /// `Keyspace::is_empty`.
    pub async fn is_empty(&self) -> Result<bool> {
        self.run_blocking(|keyspace| keyspace.is_empty()).await
    }

    /// `Keyspace::options`.
    pub async fn options(&self) -> Result<KeyspaceOptions> {
        self.run_blocking(|keyspace| keyspace.options()).await
    }

    /// `Keyspace::set_options`.
    pub async fn set_options(&self, options: KeyspaceOptions) -> Result<()> {
        self.run_blocking(move |keyspace| keyspace.set_options(options)).await
    }
}
