//! The pieces of the simulated machine's shared memory.

use super::directory::FileId;
use std::collections::BTreeMap;

/// The pieces by their numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    pub(super) files: BTreeMap<u64, FileId>,
    /// Whether the shared memory certainly outlives the process.
    pub(super) outlives: bool,
}

impl Pieces {
    pub(super) fn holds(&self, id: FileId) -> bool {
        self.files.values().any(|piece| *piece == id)
    }
}
