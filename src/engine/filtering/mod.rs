//! What compaction filters need of the engine (`docs/concurrency.md`, F). `merge/compaction_filter` has the filters.

pub(crate) mod filter_counters;
pub(crate) mod filter_gate;
