//! A transaction's reads and writes of one keyspace. Any thread.

use super::{Transaction, TransactionIter};
use crate::db::iter::Pair;
use crate::engine::read::pinned_value::Pinned;
use crate::engine::types::bounds::{Bounds, UserRange};
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::key_range::KeyRange;
use crate::engine::types::user_key::UserKey;
use crate::engine::write::sizes::{check_operand, check_range, check_sizes};
use crate::util::{KeyspaceId, Result};
use std::ops::ControlFlow;

/// The part of a transaction in one keyspace: the result of `Transaction::within`. Its methods are those of
/// [`Transaction`], which itself has the part in the default keyspace.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// let jobs = db.keyspace("jobs", Default::default())?;
/// let done = db.keyspace("done", Default::default())?;
/// jobs.put("1", "wash")?;
/// db.transact(|transaction| -> alluvium::Result<()> {
///     if let Some((job, what)) = transaction.within(&jobs)?.pop_first()? {
///         transaction.within(&done)?.put(job, what)?;
///     }
///     Ok(())
/// })?;
/// assert!(jobs.is_empty()? && done.contains_key("1")?);
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct TransactionKeyspace<'t> {
    pub(super) transaction: &'t Transaction,
    pub(super) keyspace: KeyspaceId,
}

impl<'t> TransactionKeyspace<'t> {
    pub(super) fn key<'k>(&self, key: &'k [u8]) -> UserKey<&'k [u8]> {
        UserKey::new(self.keyspace, key)
    }

    /// See `Transaction::get`.
    pub fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        match self.own_value(key)? {
            Some(written) => Ok(written),
            None => self.stored(key),
        }
    }

    /// See `Transaction::get_into`.
    pub fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
        let key = key.as_ref();
        match self.own_value(key)? {
            Some(written) => {
                out.clear();
                out.extend_from_slice(written.as_deref().unwrap_or_default());
                Ok(written.is_some())
            }
            None => self.transaction.snapshot.value_into(self.key(key), out),
        }
    }

    /// See `Transaction::get_pinned`.
    pub fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
        let key = key.as_ref();
        match self.own_value(key)? {
            Some(written) => Ok(written.map(|value| Pinned::new(None, value))),
            None => self.transaction.snapshot.pinned_value(self.key(key)),
        }
    }

    /// See `Transaction::contains_key`.
    pub fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
        let key = key.as_ref();
        match self.own(key) {
            Some(written) => Ok(!matches!(written, KeyChange::Delete)),
            None => self.transaction.snapshot.has_value(self.key(key)),
        }
    }

    /// See `Transaction::multi_get`.
    pub fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
        let own: Vec<Option<KeyChange<Vec<u8>>>> = keys.iter().map(|key| self.own(key.as_ref())).collect();
        let is_read = |own: &Option<_>| matches!(own, None | Some(KeyChange::Merge(_)));
        let missing: Vec<&[u8]> =
            keys.iter().zip(&own).filter(|(_, own)| is_read(own)).map(|(key, _)| key.as_ref()).collect();
        let mut read = self.transaction.snapshot.values_of(self.keyspace, &missing)?.into_iter();
        let value = |(key, own): (&K, Option<_>)| {
            Ok(match own {
                Some(KeyChange::Put(value)) => Some(value),
                Some(KeyChange::Delete) => None,
                Some(KeyChange::Merge(operand)) => Some(self.folded(key.as_ref(), read.next().flatten(), operand)?),
                None => read.next().flatten(),
            })
        };
        keys.iter().zip(own).map(value).collect()
    }

    /// The value of the snapshot.
    fn stored(&self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.transaction.snapshot.value_into(self.key(key), &mut value)?.then_some(value))
    }

    /// The value that the transaction's own write gives a key: `Some(None)` if it deletes the key, `None` if there is
    /// none, and then the key is recorded as read.
    fn own_value(&self, key: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        Ok(match self.own(key) {
            Some(KeyChange::Put(value)) => Some(Some(value)),
            Some(KeyChange::Delete) => Some(None),
            Some(KeyChange::Merge(operand)) => Some(Some(self.folded(key, self.stored(key)?, operand)?)),
            None => None,
        })
    }

    /// The transaction's own write to a key. If it does not say what the value is, the key is recorded as read.
    pub(super) fn own(&self, key: &[u8]) -> Option<KeyChange<Vec<u8>>> {
        let mut state = self.transaction.state.lock();
        let own = state.writes.get(self.key(key)).map(KeyChange::to_owned);
        if matches!(own, None | Some(KeyChange::Merge(_))) {
            state.reads.add_key(self.key(key));
        }
        own
    }

    /// The value that an operand of the transaction makes of that of the snapshot.
    fn folded(&self, key: &[u8], base: Option<Vec<u8>>, operand: Vec<u8>) -> Result<Vec<u8>> {
        let has_base = base.is_some();
        let mut value = base.unwrap_or_default();
        self.transaction.write.read.fold(self.key(key), has_base, &[operand], &mut value)?;
        Ok(value)
    }

    /// See `Transaction::put`.
    pub fn put(&self, key: impl AsRef<[u8]>, value: impl AsRef<[u8]>) -> Result<()> {
        let (key, value) = (key.as_ref(), value.as_ref());
        check_sizes(key, Some(value))?;
        self.transaction.state.lock().writes.write(self.key(key), KeyChange::Put(value.to_vec()));
        Ok(())
    }

    /// See `Transaction::delete`.
    pub fn delete(&self, key: impl AsRef<[u8]>) -> Result<()> {
        let key = key.as_ref();
        check_sizes(key, None)?;
        self.transaction.state.lock().writes.write(self.key(key), KeyChange::Delete);
        Ok(())
    }

    /// See `Transaction::merge`.
    pub fn merge(&self, key: impl AsRef<[u8]>, operand: impl AsRef<[u8]>) -> Result<()> {
        let (key, operand) = (key.as_ref(), operand.as_ref());
        let operator = &*self.transaction.write.merge_operator(self.keyspace)?;
        check_operand(operator, key, operand)?;
        loop {
            // The operator runs without the lock. Another thread may write the key meanwhile.
            let own = self.transaction.state.lock().writes.get(self.key(key)).map(KeyChange::to_owned);
            let joined = match &own {
                None => Some(KeyChange::Merge(operand.to_vec())),
                Some(own) => own.as_bytes().followed_by(key, operand, operator)?,
            };
            let change = match joined {
                Some(change) => change,
                None => {
                    let value = self.get(key)?;
                    KeyChange::Put(self.folded(key, value, operand.to_vec())?)
                }
            };
            let writes = &mut self.transaction.state.lock().writes;
            if writes.get(self.key(key)) == own.as_ref().map(KeyChange::as_bytes) {
                writes.write(self.key(key), change);
                return Ok(());
            }
        }
    }

    /// See `Transaction::take`.
    pub fn take(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
        let key = key.as_ref();
        let value = self.get(key)?;
        if value.is_some() {
            self.delete(key)?;
        }
        Ok(value)
    }

    /// See `Transaction::pop_first`.
    pub fn pop_first(&self) -> Result<Option<Pair>> {
        self.pop(self.range(..)?.next().transpose()?)
    }

    /// See `Transaction::pop_last`.
    pub fn pop_last(&self) -> Result<Option<Pair>> {
        self.pop(self.range(..)?.next_back().transpose()?)
    }

    fn pop(&self, pair: Option<Pair>) -> Result<Option<Pair>> {
        if let Some((key, _)) = &pair {
            self.delete(key)?;
        }
        Ok(pair)
    }

    /// See `Transaction::delete_range`.
    pub fn delete_range(&self, range: impl KeyRange) -> Result<()> {
        self.write_range(UserRange::of_range(self.keyspace, range))
    }

    /// See `Transaction::delete_prefix`.
    pub fn delete_prefix(&self, prefix: impl AsRef<[u8]>) -> Result<()> {
        self.write_range(UserRange::of_prefix(self.keyspace, prefix.as_ref()))
    }

    fn write_range(&self, range: UserRange) -> Result<()> {
        check_range(&range)?;
        self.transaction.state.lock().writes.delete_range(range);
        Ok(())
    }

    /// See `Transaction::range`.
    pub fn range(&self, range: impl KeyRange) -> Result<TransactionIter<'t>> {
        TransactionIter::new(self.transaction, Bounds::of_range(self.keyspace, range))
    }

    /// See `Transaction::prefix`.
    pub fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<TransactionIter<'t>> {
        TransactionIter::new(self.transaction, Bounds::of_prefix(self.keyspace, prefix.as_ref()))
    }

    /// See `Transaction::iter`.
    pub fn iter(&self) -> Result<TransactionIter<'t>> {
        self.range(..)
    }

    /// See `Transaction::first`.
    pub fn first(&self) -> Result<Option<Pair>> {
        self.iter()?.next().transpose()
    }

    /// See `Transaction::last`.
    pub fn last(&self) -> Result<Option<Pair>> {
        self.iter()?.next_back().transpose()
    }

    /// See `Transaction::is_empty`.
    pub fn is_empty(&self) -> Result<bool> {
        Ok(self.iter()?.keys().next().transpose()?.is_none())
    }

    /// See `Transaction::for_each`.
    pub fn for_each(&self, range: impl KeyRange, visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()> {
        self.range(range)?.visit(visit)
    }
}
