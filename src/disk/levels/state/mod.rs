//! The state of the levels as readers see it: versions, the sizes that their levels may have, and
//! the key ranges of their files.

pub mod key_range;
pub mod open;
pub mod targets;
pub mod version;
