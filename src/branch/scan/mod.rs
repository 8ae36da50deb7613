//! Cursors over a branch: their searches, their leaves, and reading ahead. A cursor belongs to one thread at a time.

pub(in crate::branch) mod current_leaf;
mod cursor;
pub(in crate::branch) mod extent_reader;
mod search;
mod window;

pub use cursor::{BranchCursor, Target};
pub use extent_reader::Purpose;
pub use search::search_together;
