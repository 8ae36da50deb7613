//! Shadows: copies of log segments in shared memory, which writers write first (`docs/recovery.md`, H).

pub(crate) mod copy;
pub(crate) mod reader;
pub(crate) mod writeback;

pub use copy::remove_all;
