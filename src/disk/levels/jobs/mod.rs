//! Jobs: what runs, what it claims, and its I/O.

mod absence;
pub mod claim;
pub mod history;
pub mod job;
pub mod outcome;
pub mod pass;
pub mod skip_writer;
