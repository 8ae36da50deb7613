//! Which neighbouring nodes that deletes have left with little data are worth joining (SplinterDB §4). Pure functions
//! of nodes; any thread.
//!
//! Rules 1 to 3 of `tree/neighbours.rs` say when nodes can be joined at all. Further:
//!
//! 4. No join is undone by a split that only the join caused: a node cannot cross the distance between the two bounds
//!    by itself.
//! 5. A join costs next to nothing. A growing store has leaves from when its target was smaller, where nothing was
//!    deleted. To rewrite them would be to write a sequential load twice.

use super::choice::Choice;
use crate::branch::Branch;
use crate::disk::trunk::options::TrunkOptions;
use crate::disk::trunk::tree::neighbours::{first_active, reusable};
use crate::disk::trunk::tree::node::Node;
use crate::util::sync::Arc;
use std::ops::Range;

/// Leaves are joined if together they have at most this share of a leaf's target. A leaf above its target is split into
/// parts of more than half of it (`SPLIT_FILL_PERCENT`). So a joined leaf must more than double before it is split, and
/// the parts of a split leaf must lose more than half before they are joined.
const JOIN_LEAVES_PERCENT: u64 = 40;

/// A join rewrites at most this share of the smallest target.
const REWRITTEN_PERCENT: u64 = JOIN_LEAVES_PERCENT;

/// Internal nodes are joined if together they have at most this share of F children. A node with more than F is split.
const JOIN_CHILDREN_PERCENT: usize = 75;

/// The worthwhile joins in a tree of these nodes with this target for leaves, or what must be done before: the topmost
/// nodes first, and of leaves those with the least data.
pub fn choices(nodes: &[&Arc<Node>], target: u64, options: &TrunkOptions) -> impl Iterator<Item = Choice> + use<> {
    let root = nodes.first().filter(|root| root.pivots.len() == 1);
    // A root with one child is removed once nothing waits in it (`apply/editor.rs`).
    let root = root.map(|root| Choice::Flush(Arc::clone(root), 0));
    let mut found: Vec<(u64, Choice)> = root.map(|flush| (0, flush)).into_iter().collect();
    for parent in nodes.iter().filter(|node| node.pivots.len() > 1) {
        let is_over_leaves = parent.height == 1;
        let range = if is_over_leaves { leaves(parent, target, options) } else { internal(parent, options.fanout) };
        if let Some(range) = range {
            let weight = if is_over_leaves { range.clone().map(|at| leaf_bytes(parent, at)).sum() } else { 0 };
            found.push((weight, next_step(parent, range)));
        }
    }
    found.sort_by_key(|(weight, _)| *weight);
    found.into_iter().map(|(_, choice)| choice)
}

/// The leaves under a node that should be joined.
fn leaves(parent: &Node, target: u64, options: &TrunkOptions) -> Option<Range<usize>> {
    let limit = target / 100 * JOIN_LEAVES_PERCENT;
    let rewritten_max = options.leaf_bytes_min / 100 * REWRITTEN_PERCENT;
    longest(parent.pivots.len(), |range| {
        let bytes: u64 = range.clone().map(|at| leaf_bytes(parent, at)).sum();
        bytes <= limit && rewritten_bytes(parent, range, options) <= rewritten_max
    })
}

/// About how many bytes the join of these leaves rewrites.
fn rewritten_bytes(parent: &Node, range: Range<usize>, options: &TrunkOptions) -> u64 {
    let leaves: Vec<Arc<Node>> = parent.pivots[range].iter().map(|pivot| Arc::clone(&pivot.child)).collect();
    let reused = reusable(&leaves, options);
    let is_reused = |branch: &Arc<Branch>| reused.iter().any(|reused| Arc::ptr_eq(reused, branch));
    let of_leaf = |leaf: &Arc<Node>| -> u64 {
        let bytes = |branch: &Arc<Branch>| leaf.slots[0].bytes_of(branch);
        leaf.branches().filter(|branch| !is_reused(branch)).map(bytes).sum()
    };
    leaves.iter().map(of_leaf).sum()
}

/// The bytes of a leaf, and those that wait for it at its parent.
fn leaf_bytes(parent: &Node, at: usize) -> u64 {
    parent.pivots[at].child.active.bytes + parent.slots[at].pending.bytes
}

/// The internal nodes under a node that should be joined.
fn internal(parent: &Node, fanout: usize) -> Option<Range<usize>> {
    let children = |at: usize| parent.pivots[at].child.pivots.len();
    let limit = (fanout * JOIN_CHILDREN_PERCENT / 100).max(2);
    let joined = longest(parent.pivots.len(), |range| range.map(children).sum::<usize>() <= limit);
    // A node with one child is useless. It is joined with a neighbour. If that has too many children, the result is
    // split again, so that both have several; that takes at least three children.
    let lonely = || (0..parent.pivots.len()).find(|at| children(*at) == 1).filter(|_| fanout >= 3);
    joined.or_else(|| lonely().map(|at| at.saturating_sub(1)..at.max(1) + 1))
}

/// The longest range of neighbours that fits; at least two, and of equal ranges the first.
fn longest(count: usize, fits: impl Fn(Range<usize>) -> bool) -> Option<Range<usize>> {
    let from = |from: usize| from..from + (from..count).take_while(|at| fits(from..at + 1)).count();
    (0..count).map(from).filter(|range| range.len() > 1).rev().max_by_key(|range| range.len())
}

/// The join of these children, or the first flush that must come before it.
fn next_step(parent: &Arc<Node>, range: Range<usize>) -> Choice {
    if first_active(parent, range.clone()).is_none()
        && let Some(at) = range.clone().find(|at| !parent.slots[*at].runs.is_empty())
    {
        return Choice::Flush(Arc::clone(parent), at);
    }
    let children = parent.pivots[range.clone()].iter().map(|pivot| &pivot.child).filter(|child| !child.is_leaf());
    let mut with_bundles: Vec<_> = children.filter(|child| !child.bundles.is_empty()).collect();
    with_bundles.sort_by_key(|child| child.active.bytes);
    with_bundles.pop();
    for child in with_bundles {
        if let Some(at) = child.slots.iter().position(|slot| !slot.runs.is_empty()) {
            return Choice::Flush(Arc::clone(child), at);
        }
    }
    Choice::Join(Arc::clone(parent), range)
}
