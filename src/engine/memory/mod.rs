//! Memory: the stack of generations, its switches, and the split of idle memory between Memtables and page cache.

pub(crate) mod arbiter;
pub(crate) mod generations;
pub(crate) mod version_cleanup;
