//! The state of the levels as readers see it: versions, and the key ranges of their files.

pub mod key_range;
pub mod open;
pub mod version;
