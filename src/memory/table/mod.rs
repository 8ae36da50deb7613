//! The Memtable: writes, drains, the cleanup of versions, and what it is made of besides its entries.

pub(crate) mod bulk;
pub(crate) mod draining;
pub(crate) mod key_range;
pub(crate) mod memtable;
pub(crate) mod order;
pub(crate) mod pool;
pub(crate) mod range_tombstones;
pub(crate) mod retained_versions;
pub(crate) mod version_cleanup;
pub(crate) mod writer;
