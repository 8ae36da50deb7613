//! Background work: the choice of what to do next, the threads that do it, and waiting for it.

#[allow(clippy::module_inception)]
pub(crate) mod background;
pub(crate) mod compaction;
pub(crate) mod idle;
pub(crate) mod incorporation;
pub(crate) mod log_rest;
pub(crate) mod log_threads;
pub(crate) mod priorities;
pub(crate) mod task_control;
pub(crate) mod workers;
