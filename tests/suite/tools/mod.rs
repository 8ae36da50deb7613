//! Damaged files, `verify`, repair, and conversion.

mod bad_input;
mod convert;
pub mod corruption;
mod repair;
