//! Joining neighbouring leaves into one run (SplinterDB §4; the rules are in `tree/neighbours.rs`). Heavy I/O, no lock;
//! one thread for each join.

use super::pass::Pass;
use crate::branch::Branch;
use crate::disk::runs::merged_run::MergedRun;
use crate::disk::trunk::tree::neighbours;
use crate::disk::trunk::tree::node::Node;
use crate::util::Result;
use crate::util::sync::Arc;

impl Pass<'_> {
    /// Merges all that neighbouring leaves hold into one run, each leaf's part of it from its own bundles and its own
    /// range alone. `None` if `progress` ended it.
    pub fn join(&self, leaves: &[Arc<Node>]) -> Result<Option<MergedRun>> {
        let reused = neighbours::reusable(leaves, self.options);
        let mut output = self.output(&[], self.options.part_bytes, true);
        reused.iter().for_each(|branch| output.add_reused(branch));
        for leaf in leaves {
            let is_reused = |branch: &Arc<Branch>| reused.iter().any(|reused| Arc::ptr_eq(reused, branch));
            let rest = leaf.branches().filter(|branch| !is_reused(branch)).collect();
            if !output.copy_branches(rest, (&leaf.lower, leaf.upper.as_ref()), true)? {
                return Ok(None);
            }
        }
        let reused = reused.into_iter().cloned().collect();
        Ok(Some(MergedRun { parts: output.finish()?, reused }))
    }
}
