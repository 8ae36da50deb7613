//! Bundles: branches that came to a node together (SplinterDB §2.1). Immutable; any thread.
//!
//! Invariants:
//! 1. `branches` are in age order, oldest first. The parts of one run are next to each other, in key order.
//! 2. The id of a bundle names its contents: a merged bundle gets a new id, and a flush makes a new bundle at the
//!    child. Both halves of a split node keep the id, each with the branches that extend into its range.

use crate::branch::Branch;
use crate::disk::runs::run;
use crate::format::manifest_edit::{BundleId, BundleImage};
use crate::util::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct Bundle {
    /// Its identity.
    pub id: BundleId,
    /// Oldest first.
    pub branches: Vec<Arc<Branch>>,
    /// The number of runs that the branches make.
    pub runs: usize,
}

impl Bundle {
    /// A bundle of these branches, oldest first.
    pub fn new(id: BundleId, branches: Vec<Arc<Branch>>) -> Arc<Self> {
        let runs = run::count(&branches);
        Arc::new(Self { id, branches, runs })
    }

    /// Whether it is one sorted run.
    pub fn is_compacted(&self) -> bool {
        self.runs <= 1
    }

    /// What the manifest stores of it.
    pub fn image(&self) -> BundleImage {
        BundleImage {
            id: self.id,
            compacted: self.is_compacted(),
            branches: self.branches.iter().map(|branch| branch.meta().file).collect(),
        }
    }
}
