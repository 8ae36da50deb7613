//! Writes: the put path, conditional writes, read-modify-write, merges, and backpressure.

pub(crate) mod backpressure;
pub(crate) mod commit;
mod distinct;
pub(crate) mod entry;
pub(crate) mod ingest;
pub(crate) mod merging;
pub(crate) mod mode;
pub(crate) mod precondition;
pub(crate) mod range_conflicts;
pub(crate) mod sizes;
pub(crate) mod throttle;
pub(crate) mod update;
pub(crate) mod write_path;
pub(crate) mod writer_threads;
