//! The content of files.
//!
//! Content is at one of three places:
//! 1. in the record, if `is_inline`;
//! 2. as one item, the base of chunk 0, if the file is small and never had blocks: each write replaces it;
//! 3. in bases and blocks. The base of a chunk has its bytes from the beginning; bytes after its end are zeros. A block
//!    hides the 4 KiB of the base below it; bytes after its end are zeros, so an empty block is a hole.
//!
//! No block has bytes beyond the size of the file, and those of a base are hidden by empty blocks. So a file that grows
//! has zeros there.

mod allocate;
mod copy;
mod handles;
mod kept;
mod patch;
mod read;
mod resize;
mod seek;
mod write;

pub use copy::FilePlace;
pub use seek::SeekTo;
pub use write::WriteOptions;

pub(super) use resize::truncate;
