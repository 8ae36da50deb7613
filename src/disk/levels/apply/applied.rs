//! An applied change: a version and an edit that wait to be logged and published. One thread, which holds the edit mutex.

use crate::branch::Branch;
use crate::disk::levels::jobs::claim::Claim;
use crate::disk::levels::state::version::LevelsVersion;
use crate::disk::runs::jobs::claims::ClaimGuard;
use crate::format::manifest_edit::ManifestEdit;
use crate::util::sync::Arc;

/// A change that is ready: first to be logged, then published, then finished.
#[derive(Debug)]
#[must_use]
pub struct Applied {
    /// The edit to log. Empty if nothing changed.
    pub edit: ManifestEdit,
    /// The version to publish once the edit is durable.
    pub version: Arc<LevelsVersion>,
    /// Branches to which the version does not refer. Readers of older versions may still hold them.
    pub obsolete: Vec<Arc<Branch>>,
    /// The claim of the job.
    pub claim: Option<Arc<ClaimGuard<Claim>>>,
}

impl Applied {
    /// Whether there is nothing to log and nothing to publish.
    pub fn is_empty(&self) -> bool {
        self.edit == ManifestEdit::default()
    }

    /// Releases the files that the version does not use. Call it once the version is published. (If logging the edit
    /// failed and its fate is unknown, drop the value instead: then no file is touched.)
    pub fn finish(self) {
        self.obsolete.iter().for_each(|branch| branch.mark_obsolete());
        drop(self.claim);
    }
}
