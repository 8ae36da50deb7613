//! The run that a merge produces: new part files, and input files that it reuses. One thread.

use super::output::NewParts;
use crate::branch::Branch;
use crate::util::sync::Arc;

/// A merged run.
#[derive(Debug)]
pub struct MergedRun {
    /// The files that the merge wrote.
    pub parts: NewParts,
    /// Inputs to which the run refers unchanged.
    pub reused: Vec<Arc<Branch>>,
}

impl MergedRun {
    /// Entries of the run.
    pub fn entries(&self) -> u64 {
        let reused = self.reused.iter().map(|branch| branch.meta().entries);
        reused.chain([self.parts.load().entries]).sum()
    }

    /// Bytes of the reused files.
    pub fn reused_bytes(&self) -> u64 {
        self.reused.iter().map(|branch| branch.meta().bytes).sum()
    }

    /// The run in key order, and its new files. From here on the caller is responsible for the new files.
    pub fn take(self) -> (Vec<Arc<Branch>>, Vec<Arc<Branch>>) {
        let added = self.parts.take();
        let mut all = self.reused;
        all.extend(added.iter().cloned());
        all.sort_by(|left, right| left.meta().key_min.cmp(&right.meta().key_min));
        (all, added)
    }
}
