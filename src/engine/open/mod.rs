//! Opening, closing and destroying a store.

mod assembly;
pub(crate) mod closing;
pub(crate) mod destroying;
pub(crate) mod host;
mod merge_operator;
pub(crate) mod opening;
pub(crate) mod read_only_store;
pub(crate) mod refill;
pub(crate) mod shared_steps;
