//! Reads: the get path and the cursors of iterators.

pub(crate) mod cached_cursors;
pub(crate) mod get;
pub(crate) mod item_invalidation;
pub(crate) mod multi_get;
#[cfg(feature = "async")]
pub(crate) mod nonblocking;
pub(crate) mod pinned_value;
pub(crate) mod position;
pub(crate) mod read_path;
