//! What the comparison needs of the machine: memory limits, other load, and what to write down about it.

pub mod about;
pub mod cgroup;
pub mod load;
pub mod stale;
