//! How many bytes of a merge would be reused files (`runs/reuse.rs`), for choosing the bundles to merge. Pure functions
//! of a node; any thread.

use super::node::Node;
use crate::branch::Branch;
use crate::disk::runs::reuse::is_reusable;
use crate::disk::runs::{garbage, run};
use crate::disk::trunk::options::TrunkOptions;
use crate::util::sync::Arc;
use std::ops::Range;

/// The reusable files of a node, for merges of any of its neighbouring bundles. An estimate where pivots have different
/// bundles active.
pub struct ReuseSavings(Vec<Candidate>);

struct Candidate {
    bytes: u64,
    bundle: usize,
    /// The nearest bundle on either side of its own that has a branch overlapping it.
    older: Option<usize>,
    newer: usize,
    is_clean: bool,
}

impl ReuseSavings {
    /// Those of the node.
    pub fn of(node: &Node, options: &TrunkOptions) -> Self {
        let sizes = options.reused_bytes();
        let bounds = (&*node.lower, node.upper.as_deref());
        let mut candidates = Vec::new();
        for (at, bundle) in node.bundles.iter().enumerate() {
            let large = bundle.branches.iter().filter(|branch| is_reusable(branch, bounds, &sizes));
            candidates.extend(large.filter_map(|branch| Candidate::of(node, at, branch)));
        }
        Self(candidates)
    }

    /// The bytes of reused files if the bundles `range` are merged.
    pub fn bytes(&self, range: &Range<usize>, is_leaf: bool) -> u64 {
        let bottom = is_leaf && range.start == 0;
        let is_reused = |candidate: &&Candidate| {
            range.contains(&candidate.bundle)
                && candidate.older.is_none_or(|older| older < range.start)
                && candidate.newer >= range.end
                && (candidate.is_clean || !bottom)
        };
        self.0.iter().filter(is_reused).map(|candidate| candidate.bytes).sum()
    }
}

impl Candidate {
    fn of(node: &Node, at: usize, branch: &Arc<Branch>) -> Option<Self> {
        let meets = |other: &Arc<Branch>| {
            other.meta().file != branch.meta().file && !run::follows(other, branch) && !run::follows(branch, other)
        };
        let meets_any = |at: &usize| node.bundles[*at].branches.iter().any(meets);
        if meets_any(&at) {
            return None;
        }
        let count = node.bundles.len();
        let newer = (at + 1..count).find(meets_any).unwrap_or(count);
        let older = (0..at).rev().find(meets_any);
        let (bytes, is_clean) = (branch.meta().bytes, !garbage::may_have_garbage(branch));
        Some(Self { bytes, bundle: at, older, newer, is_clean })
    }
}
