//! One operation of a write, in the form that log and memory take.

use crate::engine::types::bounds::UserRange;
use crate::engine::types::key_change::KeyChange;
use crate::engine::types::user_key::UserKey;
use crate::format::log_record::Operation;
use crate::format::value_file::ValueReference;
use crate::merge::{RangeTombstone, RangeTombstones};
use crate::util::{KeyspaceId, Kind, SequenceNumber, limits};
use std::borrow::Cow;

/// A put, a delete or a reference to a value file.
pub(crate) struct Entry<'a> {
    pub(crate) key: UserKey<&'a [u8]>,
    pub(crate) hash: u64,
    pub(crate) kind: Kind,
    pub(crate) value: Cow<'a, [u8]>,
    /// The value file that was written for it. This write holds a reference to the file until its generation takes it
    /// over.
    pub(crate) file: Option<ValueReference>,
}

impl<'a> Entry<'a> {
    /// The entry of a change. A large value has no file yet (`WritePath::complete`).
    #[inline]
    pub(crate) fn new(key: UserKey<&'a [u8]>, change: KeyChange<&'a [u8]>) -> Self {
        let (kind, value) = match change {
            KeyChange::Put(value) => (Kind::Put, value),
            KeyChange::Delete => (Kind::Delete, &[][..]),
            KeyChange::Merge(operand) => (Kind::Merge, operand),
        };
        Self { key, hash: key.hash(), kind, value: Cow::Borrowed(value), file: None }
    }

    /// What its change takes in memory before it is written; 0 for a delete.
    pub(crate) fn put_bytes(&self) -> usize {
        match self.kind {
            Kind::Delete => 0,
            _ => limits::OPERATION_MEMORY_BYTES + self.key.bytes.len() + self.value.len(),
        }
    }

    /// The key and its hash, as a Memtable takes them.
    pub(crate) fn hashed_key(&self) -> (KeyspaceId, &[u8], u64) {
        (self.key.keyspace, self.key.bytes, self.hash)
    }

    /// The part of the entry that the log stores.
    pub(crate) fn operation(&self) -> Operation<'_> {
        let UserKey { keyspace, bytes: key } = self.key;
        Operation { kind: self.kind, keyspace, key, value: &self.value }
    }
}

/// The part of a range delete that the log stores.
pub(crate) fn range_delete(range: &UserRange) -> Operation<'_> {
    let UserRange { keyspace, start, end } = range;
    let value = end.as_deref().unwrap_or_default();
    Operation { kind: Kind::RangeDelete, keyspace: *keyspace, key: start, value }
}

/// The tombstones of range deletes, which get their number later. No range is empty.
#[inline]
pub(crate) fn tombstones(deleted: &[UserRange]) -> RangeTombstones {
    if deleted.is_empty() {
        return RangeTombstones::default();
    }
    RangeTombstones::new(deleted.iter().map(|UserRange { keyspace, start, end }| {
        RangeTombstone::of_user_keys(*keyspace, start, end.as_deref(), SequenceNumber::ZERO)
    }))
}
