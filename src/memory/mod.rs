//! Layer 4: the memory component. A *Memtable* is a skiplist over the distinct keys, each with a chain of versions, and a hash index in
//! front of it, all in one arena.
//!
//! | folder | what |
//! | --- | --- |
//! | `entry` | the meaning of bytes in the arena: nodes, versions, skiplist, hash index |
//! | `buffer` | the Membuffer: nodes that are not ordered yet, by partition |
//! | `table` | the Memtable: writes, drains, version cleanup; the pool that recycles memory |
//! | `read` | one key, cursors in order, estimates |

mod buffer;
mod entry;
mod read;
mod table;
#[cfg(test)]
mod tests;

pub use buffer::component::MemoryComponent;
pub use table::bulk::{BulkFill, FillSpace};
pub use table::memtable::{BatchState, Memtable, Prepared};
pub use table::pool::MemtablePool;
pub use table::writer::MemtableWriter;
