//! An applied change: a tree and an edit that wait to be logged and published. One thread, which holds the edit mutex.

use crate::branch::{Branch, Maplet};
use crate::disk::runs::jobs::claims::ClaimGuard;
use crate::disk::trunk::jobs::claim::Claim;
use crate::disk::trunk::tree::tree::Tree;
use crate::format::manifest_edit::ManifestEdit;
use crate::util::sync::Arc;

/// A change that is ready: first to be logged, then published, then finished.
#[derive(Debug)]
#[must_use]
pub struct Applied {
    /// The edit to log. Empty if nothing changed.
    pub edit: ManifestEdit,
    /// The tree to publish once the edit is durable.
    pub tree: Arc<Tree>,
    /// Branches to which the tree does not refer. Readers of older trees may still hold them.
    pub obsolete: Vec<Arc<Branch>>,
    /// Maplets that serve no slot of the tree.
    pub obsolete_maplets: Vec<Arc<Maplet>>,
    /// The claim of the job.
    pub claim: Option<Arc<ClaimGuard<Claim>>>,
}

impl Applied {
    /// Whether there is nothing to log and nothing to publish.
    pub fn is_empty(&self) -> bool {
        self.edit == ManifestEdit::default()
    }

    /// Releases the files that the tree does not use. Call it once the tree is published. (If logging the edit failed
    /// and its fate is unknown, drop the value instead: then no file is touched.)
    pub fn finish(self) {
        for branch in &self.obsolete {
            branch.mark_obsolete();
        }
        for maplet in &self.obsolete_maplets {
            maplet.mark_obsolete();
        }
        drop(self.claim);
    }
}
