//! Branch files: immutable static B-trees, each with its fingerprints and its filter (SplinterDB §2; byte layout in
//! `docs/format/branch.md`).
//!
//! `branch` and `context` are the base, `buffered` and `origins` belong to branches that are in memory only. `read` reads single pages and looks keys up, `scan` has the cursors, `write`
//! builds files, `maplet` has the maplets of key ranges, and `check` verifies and salvages files.
//!
//! A `BranchBuilder` belongs to one thread. A `Branch` may be read by any number of threads at once. A `BranchCursor`
//! belongs to one thread at a time.
//!
//! Invariants:
//! 1. A branch file never changes after `BranchBuilder::finish` has returned, except that an ingested file gets the number
//!    of its entries before it becomes part of the store (`write/common_number.rs`).
//! 2. The page cache contains only pages whose checksum and structure were checked, or that came straight from the
//!    builder. So a cached page is read without further checks.
//! 3. A file number is queued for removal exactly once: when its last `Branch` is dropped after `mark_obsolete`.
//! 4. The file of a *buffered* branch (`buffered.rs`) is in memory only. It is read as others are; nothing is removed.

#[allow(clippy::module_inception)]
mod branch;
mod buffer_pool;
mod buffered;
mod check;
mod context;
mod extent_memory;
mod fingerprints;
mod maplet;
mod origins;
mod read;
mod read_counters;
mod scan;
mod write;

#[cfg(test)]
mod tests;

pub use crate::format::page::Compression;
pub use branch::Branch;
pub use buffered::{Buffered, write_out};
pub use check::{BranchReport, LostRange, SalvageCursor, salvage_range_tombstones};
pub use context::{
    BranchContext, BranchForm, BranchResources, file_name, maplet_name, parse_file_name, parse_maplet_name,
};
pub use extent_memory::ExtentMemory;
pub use maplet::{Maplet, MapletPlan};
pub use origins::{Origin, Origins};
#[cfg(feature = "async")]
pub use read::CacheOnlyPages;
pub use read::{BatchedPages, BlockingPages, Pages, PinnedPages, Stopped, ValuelessPages, WholeFilter};
pub use scan::{BranchCursor, Purpose, Target, search_together};
pub use write::{BranchBuilder, WriteBehind, set_common_number, sync_common_number};
