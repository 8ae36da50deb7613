//! The memory, the threads and the write limit that several stores share.

pub(crate) mod default_budget;
pub(crate) mod process_default;
pub(crate) mod rate_limit;
#[allow(clippy::module_inception)]
pub(crate) mod resources;
pub(crate) mod shared_memory;
pub(crate) mod write_limits;
