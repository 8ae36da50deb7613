//! Verifying branch files, and salvaging what is intact in damaged ones.

mod page_scan;
mod salvage_cursor;
mod salvage_range_tombstones;
mod verify;

pub use salvage_cursor::{LostRange, SalvageCursor};
pub use salvage_range_tombstones::salvage_range_tombstones;
pub use verify::BranchReport;
