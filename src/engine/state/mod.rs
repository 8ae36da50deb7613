//! State that all threads of an open store share. Each file states its own concurrency rules.

pub(crate) mod budget;
pub(crate) mod delays;
pub(crate) mod freeing;
pub(crate) mod generation;
pub(crate) mod health;
pub(crate) mod keyspaces;
pub(crate) mod latches;
pub(crate) mod quiet;
pub(crate) mod range_deletes;
pub(crate) mod shared_snapshot;
pub(crate) mod snapshot_registry;
pub(crate) mod snapshot_slots;
pub(crate) mod value_file_refs;
pub(crate) mod view;
