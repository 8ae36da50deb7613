//! Turning outcomes into new versions and manifest edits, under the caller's edit mutex.

pub mod applied;
pub mod editor;
