//! Reading single pages of a branch, and what needs no cursor: lookups, sizes, range tombstones, stored properties. Any
//! thread.
//!
//! A lookup is generic over where its pages come from (`pages::Pages`), so each page source compiles to code of its
//! own.

mod approximate;
mod batched_pages;
pub(in crate::branch) mod blocking_pages;
#[cfg(feature = "async")]
mod cache_only_pages;
pub(in crate::branch) mod fences;
mod get;
pub(in crate::branch) mod page_read;
pub(in crate::branch) mod pages;
mod pinned_pages;
mod properties;
pub(in crate::branch) mod range_tombstones;
mod valueless_pages;
mod whole_filter;

pub use batched_pages::BatchedPages;
pub use blocking_pages::BlockingPages;
#[cfg(feature = "async")]
pub use cache_only_pages::CacheOnlyPages;
pub use pages::{Pages, Stopped};
pub use pinned_pages::PinnedPages;
pub use valueless_pages::ValuelessPages;
pub use whole_filter::WholeFilter;
