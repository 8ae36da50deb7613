//! Jobs: what runs, what it claims, and its I/O.

pub mod claims;
pub mod history;
pub mod job;
pub mod outcome;
pub mod pass;
