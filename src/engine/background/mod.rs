//! Background work: what to do next, the threads that do it, and how its results become part of the store.

pub(crate) mod compaction_request;
pub(crate) mod idle;
pub(crate) mod log_threads;
pub(crate) mod memory_arbiter;
pub(crate) mod pause;
pub(crate) mod publish;
pub(crate) mod task_control;
pub(crate) mod tasks;
pub(crate) mod version_cleanup;
pub(crate) mod workers;
