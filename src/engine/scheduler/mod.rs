//! The scheduler: what its threads share, the tasks that run, and how callers wait for them. What runs next is chosen
//! in `background`.

pub(crate) mod compaction_request;
pub(crate) mod driver;
pub(crate) mod open_request;
pub(crate) mod pause;
pub(crate) mod running_tasks;
#[allow(clippy::module_inception)]
pub(crate) mod scheduler;
pub(crate) mod task;

pub(crate) use driver::{Driver, RunNext};
pub(crate) use scheduler::{Scheduler, SchedulerState};
