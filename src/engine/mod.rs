//! Layer 6: the implementation of the public types of `db`. It joins memory, log, manifest and disk component into a
//! store.
//!
//! The folders, each of which imports only those above it:
//!
//! | folder | what |
//! | --- | --- |
//! | `pool` | threads that run the background work of any number of stores |
//! | `resources` | memory and threads that several stores share |
//! | `types` | plain data of the public interface: options, statistics, batches |
//! | `directory` | the files of a store's directory: their names, locks and owners |
//! | `latency` | how long calls take |
//! | `filtering` | what compaction filters need: the gate for snapshots, counters |
//! | `state` | what every thread shares: view, latches, snapshot registry, health, budget |
//! | `expiry` | keyspaces whose pairs expire |
//! | `read` | the get path and the cursors of iterators |
//! | `scheduler` | the state of background work, and waiting for it |
//! | `memory` | the stack of generations, version cleanup, the memory arbiter |
//! | `changes` | the change stream for followers |
//! | `space` | the ballast, the full disk, the removal of obsolete files |
//! | `write` | the put path and read-modify-write |
//! | `transaction` | optimistic transactions |
//! | `statistics` | gathering statistics and publishing them for other processes |
//! | `background` | the choice of tasks, and what the pool's threads run |
//! | `ingest` | sorted pairs that become part of the tree without going through memory |
//! | `staging` | batches of any size, which their owner reads before the commit |
//! | `open` | opening and closing |
//! | `tools` | checkpoint, backup, verify, repair and convert |
//!
//! The rules are in `docs/concurrency.md` and `docs/recovery.md`.

pub(crate) mod background;
pub(crate) mod changes;
pub(crate) mod directory;
pub(crate) mod durable_log;
#[allow(clippy::module_inception)]
pub(crate) mod engine;
pub(crate) mod events;
pub(crate) mod expiry;
pub(crate) mod filtering;
pub(crate) mod ingest;
pub(crate) mod latency;
pub(crate) mod memory;
#[cfg(all(test, feature = "model-checking"))]
mod model_tests;
pub(crate) mod open;
pub(crate) mod pool;
pub(crate) mod read;
pub(crate) mod resources;
pub(crate) mod scheduler;
pub(crate) mod shared_components;
pub(crate) mod space;
pub(crate) mod staging;
pub(crate) mod state;
pub(crate) mod statistics;
pub(crate) mod tools;
pub(crate) mod transaction;
pub(crate) mod tree_publisher;
pub(crate) mod types;
pub(crate) mod write;
