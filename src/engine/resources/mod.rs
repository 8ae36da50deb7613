//! The memory and the threads that several stores share.

pub(crate) mod default_budget;
pub(crate) mod process_default;
#[allow(clippy::module_inception)]
pub(crate) mod resources;
pub(crate) mod shared_memory;
