//! Staged batches: writes of any number that their owner reads before they take effect all at once. They are in memory and,
//! beyond that, in branch files that are not part of the store yet. A commit is an ordinary batch, or else an ingest of
//! all layers (`docs/concurrency.md`, I7).

mod commit;
pub(crate) mod cursor;
mod memory_layer;
mod newest_cursor;
#[cfg(feature = "async")]
pub(crate) mod nonblocking;
mod spilled_layers;
pub(crate) mod staged_writes;
