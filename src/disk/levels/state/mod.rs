//! The state of the levels as readers see it: versions, the sizes that their levels may have, the
//! key ranges of their files, and the files that are kept for what is in memory only.

pub mod key_range;
pub mod open;
pub mod parents;
pub mod rebuild;
pub mod targets;
pub mod version;
