//! One operation of a write, in the form that log and memory take.

use crate::format::log_record::Operation;
use crate::format::value_file::ValueReference;
use crate::util::{KeyspaceId, Kind};
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
