//! Jobs: what runs, what it claims, and its I/O.

pub mod claim;
pub mod history;
pub mod job;
pub mod outcome;
pub mod pass;
