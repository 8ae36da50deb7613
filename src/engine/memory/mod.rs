//! Memory: the stack of generations, its switches, and the split of idle memory between Memtables and page cache.

pub(crate) mod arbiter;
pub(crate) mod generations;
#[cfg(test)]
mod generations_tests;
pub(crate) mod version_cleanup;
pub(crate) mod write_space;
