//! What is worth doing: pure functions of nodes and trees. `jobs/` does it.

pub mod choice;
pub mod for_scans;
pub mod free_space;
mod join;
pub mod policy;
pub mod quiet;
pub mod requested;
pub mod rewrite_live;
mod small_bundles;
