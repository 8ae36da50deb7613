//! Background work: the choice of what to do next, what a pool's threads do for a store, and waiting for it.

#[allow(clippy::module_inception)]
pub(crate) mod background;
pub(crate) mod compaction;
mod deleted_values;
pub(crate) mod expiry;
pub(crate) mod freeing;
mod idle;
pub(crate) mod incorporation;
pub(crate) mod log_rest;
pub(crate) mod log_work;
mod pool_client;
pub(crate) mod priorities;
pub(crate) mod task_control;
pub(crate) mod upkeep;
pub(crate) mod workers;
