//! What is worth doing: pure functions of versions. `jobs/` does it.

mod candidates;
pub mod checkpoint;
pub mod compaction;
pub mod free_space;
mod overlaps;
pub mod policy;
pub mod requested;
mod score;
mod skipped;
