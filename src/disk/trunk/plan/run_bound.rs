//! The bound on the runs of a node (SplinterDB, Appendix). Pure functions of nodes; any thread.
//!
//! Only two changes add runs to a node: an incorporation adds one to the root, and a flush adds those of a slot to the
//! child. Both wait where the node would have more than `TrunkOptions::runs_bound`, until a merge has made room; the
//! incorporation waits in the scheduler (`engine/background/priorities.rs`). So the bound does not hold where merges
//! cannot run: during a pause, on a full disk, and after failures of a disk.

use super::choice::Choice;
use crate::disk::trunk::options::TrunkOptions;
use crate::disk::trunk::tree::merge_range;
use crate::disk::trunk::tree::node::Node;
use crate::util::sync::Arc;

/// Runs that incorporations may add to a slot between the choice of its flush and the flush.
const MARGIN: usize = 2;

/// The merge that must come before a choice, so that no node has more runs than the bound. `None` if the choice is no
/// flush, or a flush for which there is room.
pub fn room_for(choice: &Choice, options: &TrunkOptions) -> Option<Choice> {
    let Choice::Flush(node, at) = choice else { return None };
    let child = &node.pivots[*at].child;
    let excess = (node.slots[*at].runs.len() + MARGIN + child.runs()).checked_sub(options.runs_bound + 1)? + 1;
    // What is merged in the child is not rewritten by its next flush, as what waits above it is.
    let is_enough = child.runs() > excess || child.runs() >= node.runs();
    let (first, second) = if is_enough { (child, node) } else { (node, child) };
    merge(first, excess, options).or_else(|| merge(second, excess, options))
}

/// The cheapest merge of a node that removes so many runs, or as many as it can.
fn merge(node: &Arc<Node>, wanted: usize, options: &TrunkOptions) -> Option<Choice> {
    let removable = node.runs().saturating_sub(1);
    let wanted = wanted.max(node.runs().saturating_sub(options.runs_max)).min(removable);
    merge_range::cheapest(node, wanted, options).map(|range| Choice::Merge(Arc::clone(node), range))
}

/// The choice, and after it the merge that makes room for it.
pub fn with_room(choice: Choice, options: &TrunkOptions) -> impl Iterator<Item = Choice> + use<> {
    let room = room_for(&choice, options);
    [Some(choice), room].into_iter().flatten()
}
