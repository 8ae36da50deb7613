//! What must hold for neighbouring nodes to be joined (SplinterDB §4). Pure functions of nodes; any thread.
//!
//! Rules:
//! 1. Data that was not active for a key never becomes active. A file that extends from one leaf into another may have
//!    versions there that never were active, or are no longer, and that were hidden by a tombstone that is gone since.
//!    So a joined leaf holds one run that is made of each leaf's own range alone (`jobs/join.rs`). A file is reused if
//!    every leaf into which it extends refers to it and nothing else overlaps it (`reusable`); the rest is rewritten.
//! 2. For the same reason, the first active bundle of the joined pivot is the newest of the pivots' first active
//!    bundles, and the other pivots must have nothing in the bundles before it (`first_active`). What they have there
//!    is flushed first. It is the newest and never an older one, even if the pivots see nothing of a bundle: a running
//!    merge may have read the bundle when it was active.
//! 3. Of internal nodes at most one has bundles: the pivots of the others have none of them active. The lighter ones
//!    are flushed first.
//!
//! *Rejected:* to refer to all bundles of both leaves in the joined one. It would take no writing, but every node would
//! need each file's live ranges. *Otherwise:* deleted keys come back.

use super::node::Node;
use crate::branch::Branch;
use crate::disk::runs::{reuse, run};
use crate::disk::trunk::options::{PART_BYTES_MIN, TrunkOptions};
use crate::util::planted::planted;
use crate::util::sync::Arc;
use std::ops::Range;

/// Files of neighbouring leaves that are reused when these are joined (rule 1), in key order.
pub fn reusable<'a>(leaves: &'a [Arc<Node>], options: &TrunkOptions) -> Vec<&'a Arc<Branch>> {
    let [first, .., last] = leaves else { return Vec::new() };
    let mut inputs: Vec<&Arc<Branch>> = leaves.iter().flat_map(|leaf| leaf.branches()).collect();
    inputs.sort_by_key(|branch| branch.meta().file);
    inputs.dedup_by_key(|branch| branch.meta().file);
    // Smaller files are mostly overhead: each leaf of a store that is emptied has one such file.
    let sizes = options.part_bytes_min.max(PART_BYTES_MIN)..=u64::MAX;
    let mut reused = reuse::choose(&inputs, (&first.lower, last.upper.as_deref()), true, &sizes, None);
    let refers = |leaf: &Node, branch: &Arc<Branch>| leaf.branches().any(|own| Arc::ptr_eq(own, branch));
    let meets = |leaf: &Node, branch: &Branch| run::overlaps(branch, &leaf.lower, leaf.upper.as_deref());
    planted!(Bug::JoinRevivesDeletes => { return reused });
    reused.retain(|branch| leaves.iter().all(|leaf| !meets(leaf, branch) || refers(leaf, branch)));
    reused
}

/// The first active bundle of the pivot that replaces the pivots `range` (rule 2); `None` if some child would lose
/// data.
pub fn first_active(parent: &Node, range: Range<usize>) -> Option<usize> {
    let newest = parent.pivots[range.clone()].iter().map(|pivot| pivot.first_active).max()?;
    let sees = |at: usize| {
        let upper = parent.slot_upper(at).map(|upper| &**upper);
        let before = parent.bundles[parent.pivots[at].first_active..newest].iter();
        before.flat_map(|bundle| &bundle.branches).any(|branch| run::overlaps(branch, parent.slot_lower(at), upper))
    };
    (!{ range }.any(sees)).then_some(newest)
}

/// The pivots of these nodes, if they are neighbours under `parent` as a job saw them, leaves with the same bundles;
/// `None` if not.
pub fn find(parent: &Node, seen: &[Arc<Node>]) -> Option<Range<usize>> {
    let first = seen.first()?;
    let from = parent.pivots.iter().position(|pivot| pivot.child.id == first.id)?;
    let range = from..from + seen.len();
    let children = parent.pivots.get(range.clone())?.iter().map(|pivot| &pivot.child);
    let bundles = |node: &Node| node.bundles.iter().map(|bundle| bundle.id).collect::<Vec<_>>();
    let is_same = |(now, seen): (&Arc<Node>, &Arc<Node>)| {
        now.id == seen.id && now.upper == seen.upper && (!seen.is_leaf() || bundles(now) == bundles(seen))
    };
    children.zip(seen).all(is_same).then_some(range)
}
