//! Bundles: branches that came to a node together. Immutable; any thread.
//!
//! Invariants:
//! 1. `branches` stand oldest first; parts of one run stand side by side in key order.
//! 2. A bundle's id names what is in it: a bundle that is merged gets a new id; a flush makes a new bundle at the child.
//!    Both halves of a split node keep the id, each with the branches that reach into its range.

use super::run;
use crate::branch::Branch;
use crate::format::manifest_edit::{BundleId, BundleImage};
use crate::util::sync::Arc;

/// See the module.
#[derive(Debug)]
pub struct Bundle {
    /// Its identity.
    pub id: BundleId,
    /// Oldest first.
    pub branches: Vec<Arc<Branch>>,
    /// Runs that the branches make.
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

    /// What the manifest keeps of it.
    pub fn image(&self) -> BundleImage {
        BundleImage {
            id: self.id,
            compacted: self.is_compacted(),
            branches: self.branches.iter().map(|branch| branch.meta().file).collect(),
        }
    }
}
