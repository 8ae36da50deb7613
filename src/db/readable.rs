//! `Readable`: the reads that keyspaces, snapshots, read-only stores and transactions have in common.

use super::db::Db;
use super::iter::{Iter, Pair};
use super::keyspace::Keyspace;
use super::read_only::ReadOnlyDb;
use super::snapshot::Snapshot;
use super::transaction::{Transaction, TransactionIter, TransactionKeyspace};
use crate::engine::read::pinned_value::Pinned;
use crate::engine::types::key_range::KeyRange;
use crate::util::Result;
use std::iter::FusedIterator;
use std::ops::ControlFlow;

/// The reads of [`Db`], [`Keyspace`], [`Snapshot`], [`ReadOnlyDb`], [`Transaction`] and [`TransactionKeyspace`], for
/// functions that work on any of them. Each of
/// these types has the same methods itself, so that other code need not import the trait; there it says what a read
/// sees, and whether it is recorded.
///
/// There is no `len`: the number of keys is not stored anywhere, and to count them is a scan. Only the crate implements
/// the trait, which may get more methods.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// use alluvium::{Readable, Result};
///
/// fn newest_entry(store: &impl Readable, journal: &str) -> Result<Option<Vec<u8>>> {
///     let newest = store.prefix(journal)?.next_back().transpose()?;
///     Ok(newest.map(|(_, entry)| entry))
/// }
///
/// db.put("log/1", "opened")?;
/// let snapshot = db.snapshot();
/// let closes = |store: &alluvium::Transaction| {
///     store.put("log/2", "closed")?;
///     newest_entry(store, "log/")
/// };
/// assert_eq!(db.transact(closes)?.as_deref(), Some(&b"closed"[..]));
/// assert_eq!(newest_entry(&snapshot, "log/")?.as_deref(), Some(&b"opened"[..]));
/// # Ok::<(), alluvium::Error>(())
/// ```
pub trait Readable: sealed::Sealed {
    /// The iterator over pairs: [`Iter`], or [`TransactionIter`] for a transaction.
    type Iter<'r>: DoubleEndedIterator<Item = Result<(Vec<u8>, Vec<u8>)>> + FusedIterator
    where
        Self: 'r;

    /// Returns the value of a key; `None` if the key is absent.
    fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>>;

    /// Reads the value of a key into `out` and replaces its contents. Returns false if the key is absent.
    fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool>;

    /// Like `get`, but without a copy if the value is in a cached page.
    fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>>;

    /// Returns the values of several keys at one moment, in the order of the keys.
    fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>>;

    /// Whether a key has a value.
    fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool>;

    /// Returns the pair with the smallest key; `None` if there is none.
    fn first(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>>;

    /// Returns the pair with the greatest key; `None` if there is none.
    fn last(&self) -> Result<Option<(Vec<u8>, Vec<u8>)>>;

    /// Whether there are no keys.
    fn is_empty(&self) -> Result<bool>;

    /// Iterates over all pairs.
    fn iter(&self) -> Result<Self::Iter<'_>>;

    /// Iterates over the pairs in a key range.
    fn range(&self, range: impl KeyRange) -> Result<Self::Iter<'_>>;

    /// Iterates over the pairs whose keys start with a prefix.
    fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Self::Iter<'_>>;

    /// Calls `visit` with each pair of a key range in order, until it breaks.
    fn for_each(&self, range: impl KeyRange, visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()>;
}

mod sealed {
    pub trait Sealed {}
}

/// Implements the trait by the methods of the same names that a type has itself, or those of what it derefs to.
macro_rules! readable {
    ($reader:ty, $iter:ty) => {
        readable!($reader, $iter, $reader);
    };
    ($reader:ty, $iter:ty, $methods:ty $(, $life:lifetime)?) => {
        impl $(<$life>)? sealed::Sealed for $reader {}

        impl $(<$life>)? Readable for $reader {
            type Iter<'r>
                = $iter
            where
                Self: 'r;

            fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Vec<u8>>> {
                <$methods>::get(self, key)
            }

            fn get_into(&self, key: impl AsRef<[u8]>, out: &mut Vec<u8>) -> Result<bool> {
                <$methods>::get_into(self, key, out)
            }

            fn get_pinned(&self, key: impl AsRef<[u8]>) -> Result<Option<Pinned>> {
                <$methods>::get_pinned(self, key)
            }

            fn multi_get<K: AsRef<[u8]>>(&self, keys: &[K]) -> Result<Vec<Option<Vec<u8>>>> {
                <$methods>::multi_get(self, keys)
            }

            fn contains_key(&self, key: impl AsRef<[u8]>) -> Result<bool> {
                <$methods>::contains_key(self, key)
            }

            fn first(&self) -> Result<Option<Pair>> {
                <$methods>::first(self)
            }

            fn last(&self) -> Result<Option<Pair>> {
                <$methods>::last(self)
            }

            fn is_empty(&self) -> Result<bool> {
                <$methods>::is_empty(self)
            }

            fn iter(&self) -> Result<Self::Iter<'_>> {
                <$methods>::iter(self)
            }

            fn range(&self, range: impl KeyRange) -> Result<Self::Iter<'_>> {
                <$methods>::range(self, range)
            }

            fn prefix(&self, prefix: impl AsRef<[u8]>) -> Result<Self::Iter<'_>> {
                <$methods>::prefix(self, prefix)
            }

            fn for_each(&self, range: impl KeyRange, visit: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>) -> Result<()> {
                <$methods>::for_each(self, range, visit)
            }
        }
    };
}

readable!(Keyspace, Iter);
readable!(Snapshot, Iter);
readable!(ReadOnlyDb, Iter);
readable!(Transaction, TransactionIter<'r>);
readable!(TransactionKeyspace<'t>, TransactionIter<'t>, TransactionKeyspace<'t>, 't);
readable!(Db, Iter, Keyspace);
