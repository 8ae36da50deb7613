//! Tools that work on a store from outside its read and write paths: verify, repair, statistics for other processes.

pub(crate) mod offline;
pub(crate) mod repair;
pub(crate) mod verify;
