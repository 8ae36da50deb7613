//! Statistics: gathered from the components of a store, and published for other processes.

pub(crate) mod gather;
pub(crate) mod live_stats;
