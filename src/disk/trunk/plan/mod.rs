//! What is worth doing: pure functions of nodes and trees. `jobs/` does it.

pub mod choice;
pub mod for_scans;
pub mod free_space;
mod join;
pub mod policy;
pub mod quiet;
pub mod requested;
pub mod rewrite_live;
pub mod run_bound;
mod small_bundles;
