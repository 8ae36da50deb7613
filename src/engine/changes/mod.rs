//! The change stream: committed writes in the order of their numbers, kept for followers (`docs/concurrency.md`, J).

pub(crate) mod change_log;
pub(crate) mod follower;
pub(crate) mod foreign;
pub(crate) mod ingest_changes;
mod kept_files;
mod paused;
mod resuming;
mod source;
mod writes;
