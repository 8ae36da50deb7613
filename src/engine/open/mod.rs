//! Opening and closing a store.

pub(crate) mod closing;
pub(crate) mod opening;
pub(crate) mod refill;
