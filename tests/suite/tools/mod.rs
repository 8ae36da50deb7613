//! Damaged files, `verify` and repair.

mod bad_input;
pub mod corruption;
mod repair;
