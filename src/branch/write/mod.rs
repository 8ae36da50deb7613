//! Building branch files. One thread per file.

mod builder;
mod common_number;
mod index_builder;
mod leaf_size;
mod packer;
pub(in crate::branch) mod page_writer;
mod range_tombstones;
mod write_behind;

pub use builder::BranchBuilder;
pub use common_number::{set_common_number, sync_common_number};
pub use write_behind::WriteBehind;
