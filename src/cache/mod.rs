//! Layer 3: bounded caches of pages, single values and open files.

mod cache_memory;
mod clock;
pub mod file_table;
mod item_cache;
mod item_shard;
pub mod page;
pub mod page_cache;
mod page_table;

pub use cache_memory::{CacheMemory, CountedBuffer, CountedMetadata, ReservedBuffers};
pub use file_table::FileTable;
pub use item_cache::ItemCache;
pub use item_shard::Item;
pub use page::{Page, PageBuffer};
pub use page_cache::PageCache;
pub use page_table::{PageRef, PageTable};

#[cfg(test)]
mod item_tests;
#[cfg(test)]
mod tests;
