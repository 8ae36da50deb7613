//! Options and result of a checkpoint.

use crate::engine::types::compaction::Cancellation;

/// Options of `Db::checkpoint_with`.
///
/// ```
/// use alluvium::CheckpointOptions;
/// // An error, not a copy, if the directory turns out to be on another file system.
/// let options = CheckpointOptions::new().links_only(true);
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CheckpointOptions {
    /// Whether a file that cannot be linked is an error. If not, it is copied.
    pub links_only: bool,
    /// Cancels the checkpoint from another thread.
    pub cancellation: Option<Cancellation>,
}

impl CheckpointOptions {
    /// The default options: files are copied if they cannot be linked.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the field `links_only`.
    #[must_use]
    pub fn links_only(self, links_only: bool) -> Self {
        Self { links_only, ..self }
    }

    /// Sets the field `cancellation`.
    #[must_use]
    pub fn cancellation(self, cancellation: impl Into<Option<Cancellation>>) -> Self {
        Self { cancellation: cancellation.into(), ..self }
    }
}

/// Result of `Db::checkpoint`. The manifest of the checkpoint, and small files beside it, do not count.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckpointReport {
    /// The sequence number of the checkpoint: it has every write up to this one, and none above. What is written to the checkpoint
    /// itself gets numbers far above.
    pub number: u64,
    /// Files that both stores share.
    pub files_linked: u64,
    /// Bytes of the files that both stores share.
    pub bytes_linked: u64,
    /// Files that were copied, because they could not be linked.
    pub files_copied: u64,
    /// Bytes of the files that were copied.
    pub bytes_copied: u64,
}
