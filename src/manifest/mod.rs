//! Layer 4: the manifest, the one file that says which files and nodes the store consists of
//! (`docs/format/manifest.md`).
//!
//! `ManifestState` is the result of all edits so far. `Manifest` is the file that contains them. The thread that holds
//! the edit mutex owns both (`docs/concurrency.md`, T1); methods of one value must not run concurrently.

mod check;
mod file;
mod replay;
mod state;
#[cfg(test)]
mod tests;
mod validate;
mod validate_buffered;
mod validate_runs;

pub use file::{Manifest, image, read_identity, read_state, replace};
pub use replay::replay;
pub use state::{ManifestState, RunState};

/// The manifest's file name.
pub const MANIFEST_NAME: &str = "MANIFEST";
/// Its temporary name while it is being written.
pub const MANIFEST_NEW_NAME: &str = "MANIFEST.new";
