//! Layer 4: the manifest, the one file that says what the store consists of (`design.md`; `docs/format/manifest.md`).
//!
//! `ManifestState` is what all edits so far add up to; `Manifest` is the file that holds them. Both belong to whoever
//! holds the edit mutex (`docs/concurrency.md`, T1): no method may run beside another on the same value.

mod check;
mod file;
mod replay;
mod state;
#[cfg(test)]
mod tests;
mod validate;

pub use file::{Manifest, read_identity, read_state, replace};
#[cfg(any(test, feature = "testing"))]
pub use replay::replay;
pub use state::ManifestState;

/// The manifest's file name.
pub const MANIFEST_NAME: &str = "MANIFEST";
/// Its name while it is being made.
pub const MANIFEST_NEW_NAME: &str = "MANIFEST.new";
