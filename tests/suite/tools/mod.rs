//! Damaged files, `verify`, repair, conversion, checkpoints, and backups.

mod backup;
mod bad_input;
mod checkpoint;
mod convert;
pub mod corruption;
mod repair;
