//! Layer 3: pages of files in memory, and open files; both bounded.

mod clock;
pub mod file_table;
pub mod page;
pub mod page_cache;
mod page_table;

pub use file_table::FileTable;
pub use page::{Page, PageBuffer};
pub use page_cache::PageCache;
pub use page_table::{PageRef, PageTable};

#[cfg(test)]
mod tests;
