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

/// The part of a transaction in one keyspace. See `Transaction` for its methods.
#[derive(Clone, Copy)]
pub(crate) struct TransactionKeyspace<'t> {
    pub(crate) transaction: &'t Transaction,
    pub(crate) keyspace: KeyspaceId,
}

impl<'t> TransactionKeyspace<'t> {
    fn key(self, key: &[u8]) -> UserKey<&[u8]> {
        UserKey::new(self.keyspace, key)
    }

    pub(crate) fn get(self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        match self.own_value(key)? {
            Some(written) => Ok(written),
            None => self.stored(key),
        }
    }

    pub(crate) fn get_into(self, key: &[u8], out: &mut Vec<u8>) -> Result<bool> {
        match self.own_value(key)? {
            Some(written) => {
                out.clear();
                out.extend_from_slice(written.as_deref().unwrap_or_default());
                Ok(written.is_some())
            }
            None => self.transaction.snapshot.value_into(self.key(key), out),
        }
    }

    pub(crate) fn get_pinned(self, key: &[u8]) -> Result<Option<Pinned>> {
        match self.own_value(key)? {
            Some(written) => Ok(written.map(|value| Pinned::new(None, value))),
            None => self.transaction.snapshot.pinned_value(self.key(key)),
        }
    }

    pub(crate) fn contains_key(self, key: &[u8]) -> Result<bool> {
        match self.own(key) {
            Some(written) => Ok(!matches!(written, KeyChange::Delete)),
            None => self.transaction.snapshot.has_value(self.key(key)),
        }
    }

    pub(crate) fn multi_get<K: AsRef<[u8]>>(self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
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
    fn stored(self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let mut value = Vec::new();
        Ok(self.transaction.snapshot.value_into(self.key(key), &mut value)?.then_some(value))
    }

    /// The value that the transaction's own write gives a key: `Some(None)` if it deletes the key, `None` if there is
    /// none, and then the key is recorded as read.
    fn own_value(self, key: &[u8]) -> Result<Option<Option<Vec<u8>>>> {
        Ok(match self.own(key) {
            Some(KeyChange::Put(value)) => Some(Some(value)),
            Some(KeyChange::Delete) => Some(None),
            Some(KeyChange::Merge(operand)) => Some(Some(self.folded(key, self.stored(key)?, operand)?)),
            None => None,
        })
    }

    /// The transaction's own write to a key. If it does not say what the value is, the key is recorded as read.
    fn own(self, key: &[u8]) -> Option<KeyChange<Vec<u8>>> {
        let mut state = self.transaction.state.lock();
        let own = state.writes.get(self.key(key)).map(KeyChange::to_owned);
        if matches!(own, None | Some(KeyChange::Merge(_))) {
            state.reads.add_key(self.key(key));
        }
        own
    }

    /// The value that an operand of the transaction makes of that of the snapshot.
    fn folded(self, key: &[u8], base: Option<Vec<u8>>, operand: Vec<u8>) -> Result<Vec<u8>> {
        let has_base = base.is_some();
        let mut value = base.unwrap_or_default();
        self.transaction.write.read.fold(self.key(key), has_base, &[operand], &mut value)?;
        Ok(value)
    }

    pub(crate) fn put(self, key: &[u8], value: &[u8]) -> Result<()> {
        check_sizes(key, Some(value))?;
        self.transaction.state.lock().writes.write(self.key(key), KeyChange::Put(value.to_vec()));
        Ok(())
    }

    pub(crate) fn delete(self, key: &[u8]) -> Result<()> {
        check_sizes(key, None)?;
        self.transaction.state.lock().writes.write(self.key(key), KeyChange::Delete);
        Ok(())
    }

    pub(crate) fn merge(self, key: &[u8], operand: &[u8]) -> Result<()> {
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

    pub(crate) fn take(self, key: &[u8]) -> Result<Option<Vec<u8>>> {
        let value = self.get(key)?;
        if value.is_some() {
            self.delete(key)?;
        }
        Ok(value)
    }

    pub(crate) fn pop_first(self) -> Result<Option<Pair>> {
        self.pop(self.range(..)?.next().transpose()?)
    }

    pub(crate) fn pop_last(self) -> Result<Option<Pair>> {
        self.pop(self.range(..)?.next_back().transpose()?)
    }

    fn pop(self, pair: Option<Pair>) -> Result<Option<Pair>> {
        if let Some((key, _)) = &pair {
            self.delete(key)?;
        }
        Ok(pair)
    }

    pub(crate) fn delete_range(self, range: impl KeyRange) -> Result<()> {
        self.write_range(UserRange::of_range(self.keyspace, range))
    }

    pub(crate) fn delete_prefix(self, prefix: &[u8]) -> Result<()> {
        self.write_range(UserRange::of_prefix(self.keyspace, prefix))
    }

    fn write_range(self, range: UserRange) -> Result<()> {
        check_range(&range)?;
        self.transaction.state.lock().writes.delete_range(range);
        Ok(())
    }

    pub(crate) fn range(self, range: impl KeyRange) -> Result<TransactionIter<'t>> {
        TransactionIter::new(self.transaction, Bounds::of_range(self.keyspace, range))
    }

    pub(crate) fn prefix(self, prefix: &[u8]) -> Result<TransactionIter<'t>> {
        TransactionIter::new(self.transaction, Bounds::of_prefix(self.keyspace, prefix))
    }
}
