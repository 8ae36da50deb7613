//! Damaged files, `verify`, repair, conversion, and checkpoints.

mod bad_input;
mod checkpoint;
mod convert;
pub mod corruption;
mod repair;
