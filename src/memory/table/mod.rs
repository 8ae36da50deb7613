//! The Memtable: writes, drains and version cleanup; its parts other than the entries; the pool that recycles its
//! memory.

pub(crate) mod bulk;
pub(crate) mod draining;
pub(crate) mod folding;
pub(crate) mod key_range;
pub(crate) mod memtable;
pub(crate) mod order;
pub(crate) mod placing;
pub(crate) mod pool;
pub(crate) mod range_tombstones;
pub(crate) mod retained_versions;
pub(crate) mod version_cleanup;
pub(crate) mod writer;
