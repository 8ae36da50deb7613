//! Layer 3: pages of files in memory, and open files; both bounded.

mod clock;
pub mod file_table;
pub mod page;
pub mod page_cache;

pub use file_table::FileTable;
pub use page::{Page, PageBuffer, PageKey, Priority};
pub use page_cache::PageCache;

#[cfg(test)]
mod tests;
