//! What the comparison needs from the machine: memory limits, the load of other programs, and its description.

pub mod about;
pub mod cgroup;
pub mod load;
pub mod stale;
