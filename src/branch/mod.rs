//! Branch files: immutable static B-trees, each with its fingerprints and its filter (SplinterDB §2; the byte layout
//! stands in `docs/format/branch.md`).
//!
//! A `BranchBuilder` belongs to one thread. A `Branch` may be read from any thread at once; a `BranchCursor` belongs to
//! one thread at a time.
//!
//! Invariants:
//! 1. A branch file never changes once `BranchBuilder::finish` has returned.
//! 2. Bytes enter the page cache only after their checksum and their structure were checked, or straight from the
//!    builder; so what comes from the cache is read without further doubt.
//! 3. A file number is trashed once, when its last `Branch` goes after `mark_obsolete`.

mod approximate;
#[allow(clippy::module_inception)]
mod branch;
mod build;
#[cfg(feature = "async")]
mod cache_only_pages;
mod context;
mod cursor;
mod extent;
mod extent_memory;
mod fingerprints;
mod index_build;
mod leaf_hold;
mod leaf_size;
mod maplet;
mod maplet_file;
mod page_read;
mod page_write;
mod pages;
mod pinned_pages;
mod pool;
mod range_tombstones;
mod salvage;
mod scan;
mod search;
mod verify;
mod window;

#[cfg(test)]
mod tests;

pub use crate::format::page::Compression;
pub use branch::{Branch, Purpose};
pub use build::BranchBuilder;
#[cfg(feature = "async")]
pub use cache_only_pages::CacheOnlyPages;
pub use context::{BranchContext, BranchForm, file_name, maplet_name, parse_file_name, parse_maplet_name};
pub use cursor::BranchCursor;
pub use extent_memory::ExtentMemory;
pub use maplet::Maplet;
pub use maplet_file::MapletPlan;
pub use pages::{BatchedPages, BlockingPages, Pages, Stopped};
pub use pinned_pages::PinnedPages;
pub use range_tombstones::salvage_range_tombstones;
pub use salvage::{LostStretch, SalvageCursor};
pub use search::{Target, search_together};
pub use verify::BranchReport;
