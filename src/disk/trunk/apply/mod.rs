//! Turning outcomes into new trees and manifest edits, under the caller's edit mutex.

pub mod applied;
pub mod changes;
pub mod editor;
pub mod ids;
mod unreferenced;
