//! A snapshot for asynchronous callers.

use super::multi_get::multi_get;
use super::scan::Scan;
use crate::db::snapshot::Snapshot;
use crate::engine::types::key_range::KeyRange;
use crate::util::Result;
use blocking::unblock;

/// A `Snapshot` whose methods are futures. They block no polling thread; see `AsyncDb`.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// # let db = alluvium::AsyncDb::new(db);
/// # futures_lite::future::block_on(async {
/// db.put("key", "old").await?;
/// let snapshot = db.snapshot();
/// db.put("key", "new").await?;
/// db.put("other", "new").await?;
/// assert_eq!(snapshot.get("key").await?.as_deref(), Some(&b"old"[..]));
/// assert_eq!(snapshot.multi_get(&["key", "other"]).await?, [Some(b"old".to_vec()), None]);
/// assert_eq!(snapshot.last().await?, Some((b"key".to_vec(), b"old".to_vec())));
/// assert!(!snapshot.contains_key("other").await?);
/// # Ok::<(), alluvium::Error>(())
/// # })?;
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct AsyncSnapshot {
    snapshot: Snapshot,
}

impl AsyncSnapshot {
    /// Creates the asynchronous interface of a snapshot.
    pub fn new(snapshot: Snapshot) -> Self {
        Self { snapshot }
    }

    /// The snapshot itself, whose methods block the calling thread.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// `Snapshot::number`. Not a future.
    pub fn number(&self) -> u64 {
        self.snapshot.number()
    }

    /// `Snapshot::keyspace`, on another thread.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// let users = db.keyspace("users", Default::default()).await?;
    /// users.put("7", "Ada").await?;
    /// let snapshot = db.snapshot();
    /// db.drop_keyspace("users").await?;
    /// let users = snapshot.keyspace("users").await?.expect("it was there");
    /// assert_eq!(users.get("7").await?.as_deref(), Some(&b"Ada"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub async fn keyspace(&self, name: &str) -> Result<Option<Self>> {
        let name = name.to_owned();
        let found = self.run_blocking(move |snapshot| snapshot.keyspace(&name)).await?;
        Ok(found.map(Self::new))
    }

    /// `Snapshot::keyspace_names`, on another thread.
    pub async fn keyspace_names(&self) -> Result<Vec<String>> {
        self.run_blocking(Snapshot::keyspace_names).await
    }

    /// Runs reads that may block on another thread.
    async fn run_blocking<T: Send + 'static>(&self, read: impl FnOnce(&Snapshot) -> T + Send + 'static) -> T {
        let snapshot = self.snapshot.clone();
        unblock(move || read(&snapshot)).await
    }

    /// `Snapshot::get`.
    pub async fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        match self.snapshot.get_nonblocking(key)? {
            Some(value) => Ok(value),
            None => {
                let key = key.to_vec();
                self.run_blocking(move |snapshot| snapshot.get(key)).await
            }
        }
    }

    /// `Snapshot::multi_get`. Keys that need the disk are read together.
    pub async fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let later = async |missing: Vec<_>| self.run_blocking(move |snapshot| snapshot.multi_get(&missing)).await;
        multi_get(keys, |key| self.snapshot.get_nonblocking(key), later).await
    }

    /// `Snapshot::iter`, as a stream.
    pub fn iter(&self) -> Result<Scan> {
        self.snapshot.iter().map(Scan::new)
    }

    /// `Snapshot::range`, as a stream.
    pub fn range(&self, range: impl KeyRange) -> Result<Scan> {
        self.snapshot.range(range).map(Scan::new)
    }

    /// `Snapshot::prefix`, as a stream.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Scan> {
        self.snapshot.prefix(prefix).map(Scan::new)
    }

    /// `Snapshot::contains_key`.
    pub async fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        match self.snapshot.contains_key_nonblocking(key)? {
            Some(found) => Ok(found),
            None => {
                let key = key.to_vec();
                self.run_blocking(move |snapshot| snapshot.contains_key(key)).await
            }
        }
    }

    /// `Snapshot::first`.
    pub async fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.run_blocking(Snapshot::first).await
    }

    /// `Snapshot::last`.
    pub async fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>> {
        self.run_blocking(Snapshot::last).await
    }

    /// `Snapshot::is_empty`.
    pub async fn is_empty(&self) -> Result<bool> {
        self.run_blocking(Snapshot::is_empty).await
    }
}
