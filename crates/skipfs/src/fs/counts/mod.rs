//! What is counted for the whole file system: inode numbers, and what is used of its limits.

mod numbers;
mod usage;

pub(super) use numbers::Numbers;
pub(super) use usage::{Growth, UsageCount, count};
