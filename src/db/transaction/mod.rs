//! Optimistic transactions. Reads use a snapshot, writes are buffered, and the commit checks that no other write has
//! changed what was read (`docs/concurrency.md`, P).

mod iter;
mod keyspace;
#[cfg(feature = "async")]
mod nonblocking;
mod retry;

use super::iter::Pair;
use super::snapshot::Snapshot;
use crate::engine::read::pinned_value::Pinned;
use crate::engine::transaction::read_set::ReadSet;
use crate::engine::transaction::write_set::WriteSet;
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::keyspace_info::KeyspaceInfo;
#[cfg(test)]
use crate::engine::types::keyspace_info::OpeningId;
use crate::engine::types::options::WriteOptions;
use crate::engine::write::mode::WriteMode;
use crate::engine::write::write_path::WritePath;
use crate::util::sync::{Arc, Mutex};
use crate::util::{Error, KeyspaceId, Result};
pub use keyspace::TransactionKeyspace;
use std::ops::ControlFlow;

pub use crate::engine::transaction::write_set::Savepoint;
pub use iter::{TransactionIter, TransactionKeys};
pub use retry::TransactOptions;
pub(crate) use retry::transact;

/// A group of reads and writes that takes effect at one moment, that of the commit. Transactions are strictly
/// serializable: their order is serial and agrees with real time.
///
/// Reads see the store as it was when the transaction began, with the transaction's own writes on top. Other readers
/// see the writes only after the commit, and a crash leaves all of them or none. Nothing is locked. If another write
/// changes what was read, the commit fails with `Error::Conflict` and changes nothing; `Db::transact` retries
/// automatically. A transaction that only reads never conflicts, nor does one that only writes. Dropping a transaction
/// rolls it back.
///
/// The writes are buffered in memory until the commit, and must fit into one `WriteBatch`. The reads are recorded in
/// memory too: each key that was looked up, and each range that an iterator passed. To only read, use a `Snapshot`,
/// which records nothing. Like a snapshot, a live transaction retains old versions. It may move to other threads and
/// outlive the borrow of `Db`.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// use alluvium::Error;
/// db.put("on call", "Ada, Grace")?;
/// let transaction = db.transaction()?;
/// assert_eq!(transaction.get("on call")?.as_deref(), Some(&b"Ada, Grace"[..]));
/// transaction.put("on call", "Ada")?;
/// // Another write comes first.
/// db.put("on call", "Grace")?;
/// assert!(matches!(transaction.commit(), Err(Error::Conflict { key, .. }) if key == b"on call"));
/// # Ok::<(), alluvium::Error>(())
/// ```
pub struct Transaction {
    write: Arc<WritePath>,
    snapshot: Snapshot,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    writes: WriteSet,
    reads: ReadSet,
    /// The keyspaces that were entered, without the default one.
    keyspaces: Vec<Arc<KeyspaceInfo>>,
}

impl Transaction {
    pub(crate) fn begin(write: &Arc<WritePath>) -> Result<Self> {
        write.read.check_open()?;
        Ok(Self {
            write: Arc::clone(write),
            snapshot: Snapshot::take(&write.read, KeyspaceId::DEFAULT),
            state: Mutex::default(),
        })
    }

    /// The part of the transaction in a keyspace.
    pub(super) fn enter(&self, keyspace: &Arc<KeyspaceInfo>) -> Result<TransactionKeyspace<'_>> {
        keyspace.check_opening(self.write.read.opening)?;
        keyspace.check()?;
        let entered = &mut self.state.lock().keyspaces;
        if keyspace.id != KeyspaceId::DEFAULT && !entered.contains(keyspace) {
            entered.push(Arc::clone(keyspace));
        }
        Ok(TransactionKeyspace { transaction: self, keyspace: keyspace.id })
    }

    #[cfg(test)]
    pub(super) fn opening(&self) -> OpeningId {
        self.write.read.opening
    }

    fn default_keyspace(&self) -> TransactionKeyspace<'_> {
        TransactionKeyspace { transaction: self, keyspace: KeyspaceId::DEFAULT }
    }

    /// Returns the value of a key: the transaction's own write, or else the value when the transaction began. The
    /// latter counts as read.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("river", "silt")?;
    /// let transaction = db.transaction()?;
    /// assert_eq!(transaction.get("river")?.as_deref(), Some(&b"silt"[..]));
    /// transaction.put("river", "sand")?;
    /// assert_eq!(transaction.get("river")?.as_deref(), Some(&b"sand"[..])); // its own write
    /// db.put("river", "gravel")?;
    /// assert!(transaction.commit().is_err()); // what it read has changed
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.default_keyspace().get(key)
    }

    /// Like `get`, into `out`, whose contents it replaces. Returns false if the key is absent.
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        self.default_keyspace().get_into(key, out)
    }

    /// Like `get`, but without a copy if the value is in a cached page; see `Pinned`.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        self.default_keyspace().get_pinned(key)
    }

    /// Whether a key has a value. The key counts as read, but not what its value was: a commit also conflicts with a
    /// write that only replaces the value.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let transaction = db.transaction()?;
    /// if !transaction.contains_key("user/ada")? {
    ///     transaction.put("user/ada", "new here")?;
    /// }
    /// transaction.commit()?; // a conflict if another writer has taken the name meanwhile
    /// assert!(db.contains_key("user/ada")?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        self.default_keyspace().contains_key(key)
    }

    /// Returns the values of several keys, in the order of the keys; see `Db::multi_get`.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        self.default_keyspace().multi_get(keys)
    }

    /// Sets a key when the transaction commits.
    ///
    /// # Errors
    /// `InvalidArgument` if the key is over 64 KiB or the value over 1 GiB.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().put(key, value)
    }

    /// Deletes a key when the transaction commits. It is not an error if the key is absent.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("elbe", "North Sea")?;
    /// let transaction = db.transaction()?;
    /// transaction.delete("elbe")?;
    /// assert_eq!((transaction.get("elbe")?, db.contains_key("elbe")?), (None, true));
    /// transaction.commit()?;
    /// assert!(!db.contains_key("elbe")?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().delete(key)
    }

    /// Merges an operand into the value of a key when the transaction commits; see `Db::merge`. This reads nothing, so
    /// transactions that only merge into a key do not conflict. (If the operator cannot join two operands, the second merge
    /// of a key counts as a read.)
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// use alluvium::{Db, Options, merge_operators::Add};
    ///
    /// let db = Db::open(directory.path(), Options::new().merge_operator(Add))?;
    /// let transaction = db.transaction()?;
    /// transaction.merge("sold", 2_i64.to_le_bytes())?;
    /// db.merge("sold", 1_i64.to_le_bytes())?;
    /// transaction.commit()?;
    /// assert_eq!(db.get("sold")?, Some(3_i64.to_le_bytes().to_vec()));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Like `Db::merge`. `MergeOperands` if the operator refuses the operand for a value that the transaction has put.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().merge(key, operand)
    }

    /// Returns the value of a key, and deletes the key when the transaction commits.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("old name", "silt")?;
    /// let transaction = db.transaction()?;
    /// if let Some(value) = transaction.take("old name")? {
    ///     transaction.put("new name", value)?;
    /// }
    /// transaction.commit()?;
    /// assert_eq!((db.get("old name")?, db.contains_key("new name")?), (None, true));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        self.default_keyspace().take(key)
    }

    /// Returns the first pair, and deletes its key when the transaction commits. What is before the key counts as read, so
    /// that it is the first one at the commit, too.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("2", "two")?;
    /// let transaction = db.transaction()?;
    /// transaction.put("1", "one")?;
    /// assert_eq!(transaction.pop_first()?, Some((b"1".to_vec(), b"one".to_vec())));
    /// assert_eq!(transaction.pop_last()?, Some((b"2".to_vec(), b"two".to_vec())));
    /// assert_eq!(transaction.pop_first()?, None);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn pop_first(&self) -> Result<Option<Pair>> {
        self.default_keyspace().pop_first()
    }

    /// Returns the last pair, and deletes its key when the transaction commits. See `pop_first`.
    pub fn pop_last(&self) -> Result<Option<Pair>> {
        self.default_keyspace().pop_last()
    }

    /// Deletes all keys of a range when the transaction commits: those that the store has by then, too.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// db.put("list/1", "old")?;
    /// let transaction = db.transaction()?;
    /// transaction.delete_prefix("list/")?;
    /// transaction.put("list/0", "new")?;
    /// assert_eq!((transaction.get("list/1")?, transaction.prefix("list/")?.count()), (None, 1));
    /// transaction.commit()?;
    /// assert_eq!(db.prefix("list/")?.count(), 1);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` if a bound is over 64 KiB.
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.default_keyspace().delete_range(range)
    }

    /// Deletes all keys that start with a prefix, as `delete_range` does.
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.default_keyspace().delete_prefix(prefix)
    }

    /// Iterates over all pairs.
    pub fn iter(&self) -> Result<TransactionIter<'_>> {
        self.default_keyspace().iter()
    }

    /// Iterates over the pairs in a key range.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::Error;
    /// db.put("shift/monday", "Ada")?;
    /// let transaction = db.transaction()?;
    /// let staffed = transaction.range("shift/".."shift0")?.count();
    /// transaction.put("staffed", staffed.to_string())?;
    /// db.put("shift/tuesday", "Grace")?; // a new key in the range that was read
    /// assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn range(&self, range: impl KeyRange) -> Result<TransactionIter<'_>> {
        self.default_keyspace().range(range)
    }

    /// Iterates over the pairs whose keys start with a prefix.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<TransactionIter<'_>> {
        self.default_keyspace().prefix(prefix)
    }

    /// Returns the pair with the smallest key; `None` if there is none. What is before it counts as read.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::Error;
    /// db.put("job/2", "wash")?;
    /// let transaction = db.transaction()?;
    /// let (job, _) = transaction.first()?.expect("a job");
    /// transaction.put("next", job)?;
    /// db.put("job/1", "urgent")?; // before what was the first
    /// assert!(matches!(transaction.commit(), Err(Error::Conflict { .. })));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn first(&self) -> Result<Option<Pair>> {
        self.default_keyspace().first()
    }

    /// Returns the pair with the greatest key; `None` if there is none. What is after it counts as read.
    pub fn last(&self) -> Result<Option<Pair>> {
        self.default_keyspace().last()
    }

    /// Whether there are no keys. Like `first`, it reads up to the first key.
    pub fn is_empty(&self) -> Result<bool> {
        self.default_keyspace().is_empty()
    }

    /// Calls `visit` with each pair of a key range in order, until it breaks. The pairs that it is called with, and what is
    /// between them, count as read. See `Db::for_each`.
    pub fn for_each(&self, range: impl KeyRange, visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()> {
        self.default_keyspace().for_each(range, visit)
    }

    /// Marks the current state of the transaction's writes, for `rollback_to`.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let transaction = db.transaction()?;
    /// transaction.put("a", "1")?;
    /// let savepoint = transaction.savepoint();
    /// transaction.put("a", "2")?;
    /// transaction.put("b", "2")?;
    /// transaction.rollback_to(&savepoint)?;
    /// transaction.commit()?;
    /// assert_eq!((db.get("a")?.as_deref(), db.get("b")?), (Some(&b"1"[..]), None));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn savepoint(&self) -> Savepoint {
        self.state.lock().writes.savepoint()
    }

    /// Undoes the writes since a savepoint, which stays valid for another rollback. Reads since the savepoint still
    /// count as read, since the caller has seen their results.
    ///
    /// # Errors
    /// `InvalidArgument` if the savepoint belongs to another transaction, or was made after a savepoint that was rolled
    /// back to or released since.
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        self.state.lock().writes.rollback_to(savepoint)
    }

    /// Removes a savepoint and those made after it, and keeps the writes. While a transaction has savepoints, it stores
    /// the writes of its keys as of each savepoint.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// let transaction = db.transaction()?;
    /// let savepoint = transaction.savepoint();
    /// transaction.put("a", "1")?;
    /// transaction.release(savepoint)?; // keeps the put
    /// transaction.commit()?;
    /// assert!(db.contains_key("a")?);
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// Like `rollback_to`.
    pub fn release(&self, savepoint: Savepoint) -> Result<()> {
        self.state.lock().writes.release(&savepoint)
    }

    /// Commits: applies all writes atomically if no other write has changed what was read.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::Error;
    /// let (one, other) = (db.transaction()?, db.transaction()?);
    /// for transaction in [&one, &other] {
    ///     let visits = transaction.get("visits")?.map_or(0, |visits| visits[0]);
    ///     transaction.put("visits", [visits + 1])?;
    /// }
    /// one.commit()?;
    /// assert!(matches!(other.commit(), Err(Error::Conflict { key, .. }) if key == b"visits"));
    /// assert_eq!(db.get("visits")?, Some(vec![1]));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// - `Conflict` if another write has. Nothing was changed, and the transaction may be run again.
    /// - `InvalidArgument` if the writes do not fit into one batch.
    /// - `SnapshotExpired` if the transaction has read and is older than `Options::snapshot_age_limit`.
    /// - `Closed` after the store was closed.
    ///
    /// Otherwise like `Db::write`.
    pub fn commit(self) -> Result<()> {
        self.commit_with(WriteOptions::default())
    }

    /// Like `commit`, with options.
    ///
    /// ```
    /// # let directory = tempfile::tempdir().unwrap();
    /// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
    /// use alluvium::WriteOptions;
    /// let transaction = db.transaction()?;
    /// transaction.put("order/7", "paid")?;
    /// transaction.commit_with(WriteOptions::sync())?; // on disk when it returns
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    pub fn commit_with(self, options: WriteOptions) -> Result<()> {
        let Self { write, snapshot, state } = self;
        let State { writes, reads, keyspaces } = state.into_inner();
        // Before the lock: in a forked child a thread that is not there may hold it.
        write.read.check_open()?;
        // Closing the store waits for this.
        let _commit = write.begin_call()?;
        let effects = writes.into_effects();
        let durability = write.durability_of(options.durability, effects.is_in_default(), &keyspaces);
        let mode = WriteMode::with(options, durability, &keyspaces);
        let committed = write.commit_transaction(snapshot.pin(), &effects, &reads, mode);
        if let Err(Error::Conflict { .. }) = &committed {
            write.note_conflict();
        }
        committed
    }

    /// Discards the transaction, like dropping it.
    pub fn rollback(self) {}
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("at", &self.snapshot.number()).finish_non_exhaustive()
    }
}
