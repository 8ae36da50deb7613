//! Opening, closing and destroying a store.

pub(crate) mod closing;
pub(crate) mod destroying;
pub(crate) mod opening;
pub(crate) mod parts;
pub(crate) mod reading;
pub(crate) mod refill;
