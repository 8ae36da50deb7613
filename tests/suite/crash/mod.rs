//! Kills, power cuts, I/O errors, and recovery from them.

pub mod kill;
pub mod power_cut;
pub mod real_errors;
mod recovery;
pub mod shadow;
mod shortened_manifest;
mod simulated;
