//! Layer 4: the memory component. A *Memtable* is a skiplist over the distinct keys, each with a chain of versions,
//! and a hash index in front of it, all in one arena.
//!
//! Files from the bottom up: `version` and `node` give bytes of the arena their meaning, `skiplist` orders nodes,
//! `hash_index` finds them, `memtable` joins these, `bulk` fills one at once, `cursor` reads one in order, `pool` recycles memory.

mod bulk;
mod cursor;
mod hash_index;
mod memtable;
mod node;
mod pool;
mod skiplist;
#[cfg(test)]
mod tests;
mod version;

pub use bulk::{BulkFill, FillSpace};
pub use memtable::{BatchState, Memtable, Prepared};
pub use pool::MemtablePool;
