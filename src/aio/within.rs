//! Keyspaces within snapshots, for asynchronous callers.

use super::keyspace::AsyncKeyspace;
use super::snapshot::AsyncSnapshot;
use crate::util::Result;

impl AsyncSnapshot {
    /// `Snapshot::within`. Not a future: it reads nothing.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// # let db = alluvium::AsyncDb::new(db);
    /// # futures_lite::future::block_on(async {
    /// let users = db.keyspace("users", Default::default()).await?;
    /// users.put("7", "Ada").await?;
    /// let snapshot = db.snapshot();
    /// users.clear().await?;
    /// assert_eq!(snapshot.within(&users)?.get("7").await?.as_deref(), Some(&b"Ada"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// # })?;
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn within(&self, keyspace: &AsyncKeyspace) -> Result<Self> {
        self.snapshot().within(keyspace.keyspace()).map(Self::new)
    }
}
