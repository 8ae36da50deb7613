//! The bound on the runs of a node (SplinterDB, Appendix). Pure functions of nodes; any thread.
//!
//! An incorporation adds a run to the root, and a flush adds those of a slot to the child. Where the node would have more
//! than `TrunkOptions::runs_bound`, both wait for a merge that makes room: a flush is refused (`Trunk::pick_bounded`), and an
//! incorporation waits in the scheduler (`engine/background/priorities.rs`). They do not wait where nothing can be
//! merged, during a pause, on a full disk, and while the store closes. Ingests and joins of leaves do not wait at all.

use super::choice::Choice;
use crate::disk::trunk::options::TrunkOptions;
use crate::disk::trunk::tree::merge_range;
use crate::disk::trunk::tree::node::Node;
use crate::util::sync::Arc;

/// Runs that may come to a slot between the choice of its flush and the flush. If there are more, the flush moves nothing.
pub const MARGIN: usize = 2;

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

/// The cheapest merge of a node that removes so many runs, or more, so that only `TrunkOptions::runs_max` are left.
pub fn merge(node: &Arc<Node>, wanted: usize, options: &TrunkOptions) -> Option<Choice> {
    let removable = node.runs().saturating_sub(1);
    let wanted = wanted.max(node.runs().saturating_sub(options.runs_max)).min(removable);
    merge_range::cheapest(node, wanted, options).map(|range| Choice::Merge(Arc::clone(node), range))
}

/// The choice, and after it the merge that makes room for it. A choice for which there is no room will be refused.
pub fn with_room(choice: Choice, options: &TrunkOptions) -> impl Iterator<Item = Choice> + use<> {
    let room = room_for(&choice, options);
    [Some(choice), room].into_iter().flatten()
}
