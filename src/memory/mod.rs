//! Layer 4: the memory component. A *Memtable* is a skiplist of the distinct keys, each with a chain of versions, and a
//! hash index in front of it, all in one arena.
//!
//! Any thread may read at any time. Writers hold the latches of their keys. The rules are M1 to M10 of
//! `docs/concurrency.md`.
//!
//! | folder | what |
//! | --- | --- |
//! | `entry` | the layout of bytes in the arena: nodes, versions, skiplist, hash index |
//! | `buffer` | the Membuffer: nodes that are not in sorted order yet, by partition |
//! | `table` | the Memtable: writes, drains, version cleanup; the pool that recycles memory |
//! | `read` | lookups of single keys, cursors, size estimates |

mod buffer;
mod entry;
mod read;
mod table;
#[cfg(test)]
mod tests;

pub use buffer::component::MemoryComponent;
pub use read::lookup::Operands;
pub use table::bulk::{BulkFill, FillSpace};
pub use table::folding::{FOLD_BYTES_MAX, Fold};
pub use table::memtable::{BatchState, Memtable, Prepared, entry_bytes};
pub use table::pool::{MEMTABLE_SOFT_BYTES_MAX, MemtablePool, SLACK_BYTES_MAX, memtable_bytes, memtables_bytes};
pub use table::writer::MemtableWriter;
