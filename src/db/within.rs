//! Keyspaces within snapshots, transactions and batches.

use super::keyspace::Keyspace;
use super::snapshot::Snapshot;
use super::transaction::{Transaction, TransactionKeyspace};
use crate::engine::types::batch::WriteBatch;
use crate::engine::types::bounds::UserRange;
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::user_key::UserKey;
use crate::util::{KeyspaceId, Result};

impl Snapshot {
    /// The same moment in another keyspace. It is empty if the keyspace was created later, and has the old contents if it
    /// was dropped or emptied later.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let users = db.keyspace("users", Default::default())?;
    /// users.put("7", "Ada")?;
    /// let snapshot = db.snapshot();
    /// users.clear()?;
    /// assert_eq!(snapshot.within(&users)?.get("7")?.as_deref(), Some(&b"Ada"[..]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if the keyspace is that of another store, or of an earlier opening of this one.
    pub fn within(&self, keyspace: &Keyspace) -> Result<Self> {
        keyspace.info.check_opening(self.opening())?;
        Ok(self.of_keyspace(keyspace.info.id))
    }
}

impl Transaction {
    /// The part of the transaction in a keyspace. See [`TransactionKeyspace`].
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let users = db.keyspace("users", Default::default())?;
    /// let emails = db.keyspace("emails", Default::default())?;
    /// let transaction = db.transaction()?;
    /// if transaction.within(&emails)?.get("ada@example.org")?.is_none() {
    ///     transaction.within(&users)?.put("7", "Ada")?;
    ///     transaction.within(&emails)?.put("ada@example.org", "7")?;
    /// }
    /// transaction.commit()?;
    /// assert!(users.contains_key("7")? && emails.contains_key("ada@example.org")?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `KeyspaceDropped`; `InvalidArgument` if the keyspace is that of another store, or of an earlier opening of this one.
    pub fn within(&self, keyspace: &Keyspace) -> Result<TransactionKeyspace<'_>> {
        self.enter(&keyspace.info)
    }
}

impl WriteBatch {
    /// The part of the batch in a keyspace: adds operations to it.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let words = db.keyspace("words", Default::default())?;
    /// let counts = db.keyspace("counts", Default::default())?;
    /// let mut batch = alluvium::WriteBatch::new();
    /// batch.within(&words).put("river", "a stream of water").put("silt", "what it leaves");
    /// batch.within(&counts).put("words", "2");
    /// db.write(batch)?;
    /// assert_eq!(words.iter()?.count(), 2);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn within(&mut self, keyspace: &Keyspace) -> BatchKeyspace<'_> {
        self.add_keyspace(&keyspace.info);
        BatchKeyspace { batch: self, keyspace: keyspace.info.id }
    }
}

/// The part of a [`WriteBatch`] in one keyspace: the result of `WriteBatch::within`. Its methods are those of the batch,
/// which itself has the part in the default keyspace.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// let users = db.keyspace("users", Default::default())?;
/// let mut batch = alluvium::WriteBatch::new();
/// let mut part = batch.within(&users);
/// part.delete_prefix("7").put("7/name", "Ada").delete("8/name");
/// part.extend([("9/name", "Grace"), ("9/email", "grace@example.org")]);
/// db.write(batch)?;
/// assert_eq!(users.iter()?.count(), 3);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Debug)]
pub struct BatchKeyspace<'b> {
    batch: &'b mut WriteBatch,
    keyspace: KeyspaceId,
}

impl BatchKeyspace<'_> {
    fn change(&mut self, key: &[u8], change: KeyChange<&[u8]>) -> &mut Self {
        self.batch.change(UserKey::new(self.keyspace, key), change);
        self
    }

    /// See `WriteBatch::put`.
    pub fn put(&mut self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> &mut Self {
        self.change(key.as_ref(), KeyChange::Put(value.as_ref()))
    }

    /// See `WriteBatch::delete`.
    pub fn delete(&mut self, key: impl AsRef<[u8]>) -> &mut Self {
        self.change(key.as_ref(), KeyChange::Delete)
    }

    /// See `WriteBatch::merge`.
    pub fn merge(&mut self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> &mut Self {
        self.change(key.as_ref(), KeyChange::Merge(operand.as_ref()))
    }

    /// See `WriteBatch::delete_range`.
    pub fn delete_range(&mut self, range: impl KeyRange) -> &mut Self {
        self.batch.delete_keys(&UserRange::of_range(self.keyspace, range));
        self
    }

    /// See `WriteBatch::delete_prefix`.
    pub fn delete_prefix(&mut self, prefix: impl AsRef<[u8]>) -> &mut Self {
        self.batch.delete_keys(&UserRange::of_prefix(self.keyspace, prefix.as_ref()));
        self
    }
}

impl<K: AsRef<[u8]>, V: AsRef<[u8]>> Extend<(K, V)> for BatchKeyspace<'_> {
    fn extend<P: IntoIterator<Item = (K, V)>>(&mut self, pairs: P) {
        pairs.into_iter().for_each(|(key, value)| {
            self.put(key, value);
        });
    }
}
