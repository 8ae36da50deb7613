//! Tools that work on a store from outside its read and write paths: checkpoint, backup, verify, repair, convert.

pub(crate) mod backup;
pub(crate) mod checkpoint;
pub(crate) mod convert;
pub(crate) mod offline;
pub(crate) mod repair;
pub(crate) mod verify;
