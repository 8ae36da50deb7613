//! Optimistic transactions: reads at a snapshot, writes kept aside, and at the commit a look at whether anything that was read has
//! been written since (`docs/concurrency.md`, P).

mod iter;

mod retry;

use super::snapshot::Snapshot;
use crate::engine::transaction::read_set::ReadSet;
use crate::engine::transaction::write_set::WriteSet;
use crate::engine::types::bounds::Bounds;
use crate::engine::types::options::WriteOptions;
use crate::engine::write::write_path::{WritePath, check_sizes};
use crate::util::sync::{Arc, Mutex};
use crate::util::{Error, Result};
use std::ops::RangeBounds;

pub use crate::engine::transaction::write_set::Savepoint;
pub use iter::{TransactionIter, TransactionKeys};
pub use retry::TransactOptions;
pub(crate) use retry::transact;

/// Several reads and writes that happen at one instant, that of the commit: serializable, and in the order of real time.
///
/// Reads see the store as it was when the transaction began, and the transaction's own writes on top. Nobody else sees the writes before
/// the commit; a crash leaves all of them or none. Nothing is locked meanwhile: others may write what was read, and the commit then
/// fails with `Error::Conflict`, having changed nothing; `Db::transact` tries again by itself. A transaction that only reads never
/// conflicts, nor does one that only writes. Dropped, it is rolled back.
///
/// What it writes is kept in memory until the commit, and must fit into one `WriteBatch`. What it reads is noted there too: each key that
/// was asked for, each stretch that an iterator walked over; who only reads takes a `Snapshot`, which notes nothing. As long as it lives it
/// keeps old versions as a `Snapshot` does. Owned: it may move to other threads and outlive the borrow of `Db`.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// use alluvium::Error;
/// db.put("on call", "Ada, Grace")?;
/// let transaction = db.transaction()?;
/// assert_eq!(transaction.get("on call")?.as_deref(), Some(&b"Ada, Grace"[..]));
/// transaction.put("on call", "Ada")?;
/// // Somebody else is quicker.
/// db.put("on call", "Grace")?;
/// assert!(matches!(transaction.commit(), Err(Error::Conflict { key }) if key == b"on call"));
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
}

impl Transaction {
    pub(crate) fn begin(write: &Arc<WritePath>) -> Result<Self> {
        write.read.check_open()?;
        Ok(Self { write: Arc::clone(write), snapshot: Snapshot::take(&write.read), state: Mutex::default() })
    }

    /// The value of a key: what the transaction has written to it, or else what it was when the transaction began. That counts as read.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        match self.own(key) {
            Some(written) => Ok(written),
            None => self.snapshot.get(key),
        }
    }

    /// The values of many keys, in their order; see `Db::multi_get`.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let mut values: Vec<Option<Option<Vec<u8>>>> = keys.iter().map(|key| self.own(key.as_ref())).collect();
        let others = |value: &Option<_>| value.is_none();
        let asked: Vec<&[u8]> =
            keys.iter().zip(&values).filter(|(_, own)| others(own)).map(|(key, _)| key.as_ref()).collect();
        let read = self.snapshot.multi_get(&asked)?;
        values.iter_mut().filter(|value| others(value)).zip(read).for_each(|(value, read)| *value = Some(read));
        Ok(values.into_iter().map(Option::flatten).collect())
    }

    /// What the transaction has written to a key; where it has not, the key is noted as read.
    fn own(&self, key: &[u8]) -> Option<Option<Vec<u8>>> {
        let mut state = self.state.lock();
        let own = state.writes.get(key).map(|value| value.map(<[u8]>::to_vec));
        if own.is_none() {
            state.reads.add_key(key);
        }
        own
    }

    /// Sets a key, once the transaction commits.
    ///
    /// # Errors
    /// `InvalidArgument` for a key over 64 KiB or a value over 1 GiB.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        self.write(key.as_ref(), Some(value.as_ref()))
    }

    /// Removes a key, once the transaction commits; no error where it is absent.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        self.write(key.as_ref(), None)
    }

    fn write(&self, key: &[u8], value: Option<&[u8]>) -> Result<()> {
        check_sizes(key, value)?;
        self.state.lock().writes.write(key, value);
        Ok(())
    }

    /// All pairs.
    pub fn iter(&self) -> Result<TransactionIter<'_>> {
        TransactionIter::new(self, Bounds::all())
    }

    /// The pairs of a key range.
    pub fn range<K: AsRef<[u8]>>(&self, range: impl RangeBounds<K>) -> Result<TransactionIter<'_>> {
        TransactionIter::new(self, Bounds::of_range(range))
    }

    /// The pairs whose keys begin with a prefix.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<TransactionIter<'_>> {
        TransactionIter::new(self, Bounds::of_prefix(prefix.as_ref()))
    }

    /// This moment of the transaction, for `rollback_to`.
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

    /// Takes back what was written since a savepoint, which stays good for another time. What was read still counts as read, since the
    /// caller knows it.
    ///
    /// # Errors
    /// `InvalidArgument` for a savepoint of another transaction, or one that was made after a savepoint gone back to or released since.
    pub fn rollback_to(&self, savepoint: &Savepoint) -> Result<()> {
        self.state.lock().writes.rollback_to(savepoint)
    }

    /// Forgets a savepoint, and those made since; what was written stays. As long as a transaction has savepoints it keeps, for going back,
    /// what each made of its keys.
    ///
    /// # Errors
    /// As `rollback_to`.
    pub fn release(&self, savepoint: Savepoint) -> Result<()> {
        self.state.lock().writes.release(&savepoint)
    }

    /// Makes all writes happen at once, if nothing that was read has been written by others since.
    ///
    /// # Errors
    /// `Conflict` where something has; nothing was changed then, and the transaction may be run again. `InvalidArgument` where it writes
    /// more than fits into a batch, `SnapshotExpired` where it has read and is older than `Options::snapshot_age_limit`, `Closed`. Else as
    /// `Db::write`.
    pub fn commit(self) -> Result<()> {
        self.commit_with(WriteOptions::default())
    }

    /// Commits, with options.
    pub fn commit_with(self, options: WriteOptions) -> Result<()> {
        let Self { write, snapshot, state } = self;
        let State { writes, reads } = state.into_inner();
        // Before the lock: in a forked child a thread that is not there may hold it.
        write.read.check_open()?;
        // Closing the store waits for this.
        let Some(_commit) = write.begin_commit() else { return Err(Error::Closed) };
        let durability = options.durability.unwrap_or(write.durability);
        let committed = write.commit_transaction(snapshot.pin(), &writes.into_operations(), &reads, durability);
        if let Err(Error::Conflict { .. }) = &committed {
            write.note_conflict();
        }
        committed
    }

    /// Forgets all writes, as dropping does.
    pub fn rollback(self) {}
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Transaction").field("at", &self.snapshot.number()).finish_non_exhaustive()
    }
}
