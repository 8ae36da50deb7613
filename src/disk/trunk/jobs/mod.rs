//! Background work of the trunk: what a job claims, what it does, and its outcome.

pub mod change;
pub mod claim;
pub mod execute;
pub mod history;
mod incorporate;
pub mod job;
mod join;
mod merge;
pub mod pass;
mod rewrite_live;
mod sample_leaf;
mod split_keys;
