//! One operation of a write, in the form that log and memory take.

use crate::engine::types::bounds::{EncodedRange, UserRange};
use crate::format::log_record::Operation;
use crate::format::value_file::ValueReference;
use crate::merge::{RangeTombstone, RangeTombstones};
use crate::util::{KeyspaceId, Kind, SequenceNumber, key};
use std::borrow::Cow;

/// A put, a delete or a reference to a value file.
pub(crate) struct Entry<'a> {
    pub(crate) keyspace: KeyspaceId,
    pub(crate) key: &'a [u8],
    pub(crate) hash: u64,
    pub(crate) kind: Kind,
    pub(crate) value: Cow<'a, [u8]>,
    /// The value file that was written for it. This write holds a reference to the file until its generation takes it
    /// over.
    pub(crate) file: Option<ValueReference>,
}

impl Entry<'_> {
    /// The part of the entry that the log stores.
    pub(crate) fn operation(&self) -> Operation<'_> {
        Operation { kind: self.kind, keyspace: self.keyspace, key: self.key, value: &self.value }
    }
}

/// A range delete.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RangeDelete<'a> {
    pub(crate) keyspace: KeyspaceId,
    /// Not empty.
    pub(crate) range: &'a UserRange,
}

impl RangeDelete<'_> {
    /// The part of the range delete that the log stores.
    pub(crate) fn operation(&self) -> Operation<'_> {
        let UserRange { start, end } = self.range;
        let end = end.as_deref().unwrap_or_default();
        Operation { kind: Kind::RangeDelete, keyspace: self.keyspace, key: start, value: end }
    }

    /// Its encoded keys.
    pub(crate) fn encoded(&self) -> EncodedRange {
        let UserRange { start, end } = self.range;
        let (start, end) = key::encoded_range(self.keyspace, start, end.as_deref());
        (start, Some(end))
    }
}

/// The tombstones of range deletes, which get their number later.
pub(crate) fn tombstones(deleted: &[RangeDelete<'_>]) -> RangeTombstones {
    RangeTombstones::new(deleted.iter().map(|deleted| {
        let UserRange { start, end } = deleted.range;
        RangeTombstone::of_user_keys(deleted.keyspace, start, end.as_deref(), SequenceNumber::ZERO)
    }))
}
