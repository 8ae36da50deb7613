//! Layer 4: the memory component. A *Memtable* is a skiplist over the distinct keys, each with a chain of versions,
//! and a hash index in front of it, all in one arena.
//!
//! Files from the bottom up: `class`, `version` and `node` give bytes of the arena their meaning, `skiplist` orders nodes,
//! `hash_index` finds them, `key_range` knows between which keys they lie, `queue` and `boundaries` serve the `membuffer`, whose nodes are not
//! ordered yet; `writer` is one thread's part, `memtable` joins these and writes, `lookup` reads a key, `range_tombstones` are kept
//! beside the entries, `reclaim` takes out what
//! snapshots no longer need, `order` sorts, `bulk` fills a Memtable at once, `cursor` and `sealed_cursor` read one in order, `pool`
//! recycles memory, `approximate` estimates.

mod approximate;
mod boundaries;
mod bulk;
mod class;
mod component;
mod cursor;
mod draining;
mod hash_index;
mod insert_queue;
mod key_range;
mod lookup;
mod membuffer;
mod memtable;
mod node;
mod order;
mod pool;
mod range_tombstones;
mod retained_versions;
mod sealed_cursor;
mod skiplist;
#[cfg(test)]
mod tests;
mod version;
mod version_cleanup;
mod writer;

pub use bulk::{BulkFill, FillSpace};
pub use component::MemoryComponent;
pub use memtable::{BatchState, Memtable, Prepared};
pub use pool::MemtablePool;
pub use writer::MemtableWriter;
