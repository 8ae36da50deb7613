//! Making one node of neighbouring ones that deletes have left with little (SplinterDB §4): which, and what stands in the way. Pure
//! functions of nodes. Any thread.
//!
//! Rules:
//! 1. What is active for a key never becomes more. A file that reaches from one leaf into another may have versions there that were
//!    active never, or are no longer, and that a tombstone which has gone since had hidden. So what a joined leaf holds is one run that
//!    is made of each leaf's own range alone (`Pass::join`): files stay as they are if all leaves that they reach into refer to
//!    them and nothing else lies beside them (`kept`), the rest is written anew.
//! 2. For the same reason the joined pivot's first active bundle is the newest of theirs, and the others must have nothing in the
//!    bundles before that (`first_active`); else what waits for them is flushed first. The newest, never an older one, though nothing
//!    of a bundle may be seen there: a merge that is running may have read it when it was.
//! 3. Of internal nodes at most one has bundles: the other's pivots have none of them active. Else the lighter ones are flushed first.
//! 4. No joining is undone by a split that only the joining caused: between the two bounds lies more than a node can change by itself.
//!
//! 5. Joining costs next to nothing. A store that grows has leaves from when its target was smaller, beside which nothing was deleted:
//!    to write them anew would be to write a sequential load twice.
//!
//! *Rejected:* refer to all bundles of both leaves in the joined one. It takes no writing at all, and would need each file's live ranges
//! in the node, or bring deleted keys back.

use super::compact::Merged;
use super::kept;
use super::node::Node;
use super::options::{PART_BYTES_MIN, TrunkOptions};
use super::policy::Choice;
use super::run;
use crate::branch::Branch;
use crate::util::planted::planted;
use crate::util::sync::Arc;
use std::ops::Range;

/// Leaves are joined that have at most this share of a leaf's target together. A leaf is split above its target into parts of
/// more than half of it (`SPLIT_FILL_PERCENT`), so a joined one must more than double before it is split, and the parts of
/// a split one must lose more than half before they are joined.
const JOIN_LEAVES_PERCENT: u64 = 40;

/// At most this share of the smallest target is written anew for it.
const REWRITTEN_PERCENT: u64 = JOIN_LEAVES_PERCENT;

/// Internal nodes are joined that have at most this share of F children together. A node is split with more than F.
const JOIN_CHILDREN_PERCENT: usize = 75;

/// What takes the place of several nodes.
#[derive(Debug)]
pub struct Joined {
    /// The nodes, as they were.
    pub children: Vec<Arc<Node>>,
    /// For leaves: all that they hold.
    pub run: Option<Merged>,
}

impl Joined {
    /// The run in key order, and which of it is new; from here on whoever took them decides their fate.
    pub fn take_run(&mut self) -> (Vec<Arc<Branch>>, Vec<Arc<Branch>>) {
        self.run.take().map(Merged::take).unwrap_or_default()
    }
}

/// The joinings that are worthwhile in a tree of these nodes with this target for leaves, or what must be done before: the topmost
/// nodes first, of leaves those that have least.
pub fn choices(nodes: &[&Arc<Node>], target: u64, options: &TrunkOptions) -> impl Iterator<Item = Choice> + use<> {
    let root = nodes.first().filter(|root| root.pivots.len() == 1);
    // A root with one child goes once nothing waits for it (`apply.rs`).
    let root = root.map(|root| Choice::Flush(Arc::clone(root), 0));
    let mut found: Vec<(u64, Choice)> = root.map(|flush| (0, flush)).into_iter().collect();
    for parent in nodes.iter().filter(|node| node.pivots.len() > 1) {
        let is_over_leaves = parent.height == 1;
        let range = if is_over_leaves { leaves(parent, target, options) } else { internal(parent, options.fanout) };
        if let Some(range) = range {
            let weight = if is_over_leaves { range.clone().map(|at| waiting(parent, at)).sum() } else { 0 };
            found.push((weight, next(parent, range)));
        }
    }
    found.sort_by_key(|(weight, _)| *weight);
    found.into_iter().map(|(_, choice)| choice)
}

/// The leaves under a node to be joined.
fn leaves(parent: &Node, target: u64, options: &TrunkOptions) -> Option<Range<usize>> {
    let limit = target / 100 * JOIN_LEAVES_PERCENT;
    let rewritten_max = options.leaf_bytes_min / 100 * REWRITTEN_PERCENT;
    stretch(parent.pivots.len(), |range| {
        let bytes: u64 = range.clone().map(|at| waiting(parent, at)).sum();
        bytes <= limit && rewritten(parent, range, options) <= rewritten_max
    })
}

/// About how many bytes joining these leaves writes anew.
fn rewritten(parent: &Node, range: Range<usize>, options: &TrunkOptions) -> u64 {
    let leaves: Vec<Arc<Node>> = parent.pivots[range].iter().map(|pivot| Arc::clone(&pivot.child)).collect();
    let kept = kept(&leaves, options);
    let is_kept = |branch: &Arc<Branch>| kept.iter().any(|kept| Arc::ptr_eq(kept, branch));
    let of_leaf = |leaf: &Arc<Node>| -> u64 {
        let bytes = |branch: &Arc<Branch>| leaf.slots[0].bytes_of(branch);
        leaf.branches().filter(|branch| !is_kept(branch)).map(bytes).sum()
    };
    leaves.iter().map(of_leaf).sum()
}

/// Files of neighbouring leaves that stay as they are when these are joined, in key order.
pub fn kept<'a>(leaves: &'a [Arc<Node>], options: &TrunkOptions) -> Vec<&'a Arc<Branch>> {
    let [first, .., last] = leaves else { return Vec::new() };
    let mut inputs: Vec<&Arc<Branch>> = leaves.iter().flat_map(|leaf| leaf.branches()).collect();
    inputs.sort_by_key(|branch| branch.meta().file);
    inputs.dedup_by_key(|branch| branch.meta().file);
    // What is smaller is mostly overhead: the leaves of a store that is emptied have one such file each.
    let sizes = options.part_bytes_min.max(PART_BYTES_MIN)..=u64::MAX;
    let mut kept = kept::choose(&inputs, (&first.lower, last.upper.as_deref()), true, &sizes);
    let refers = |leaf: &Node, branch: &Arc<Branch>| leaf.branches().any(|own| Arc::ptr_eq(own, branch));
    let reaches = |leaf: &Node, branch: &Branch| run::overlaps(branch, &leaf.lower, leaf.upper.as_deref());
    planted!(Bug::JoinRevivesDeletes => { return kept });
    kept.retain(|branch| leaves.iter().all(|leaf| !reaches(leaf, branch) || refers(leaf, branch)));
    kept
}

/// What a leaf holds, and what waits for it at its parent.
fn waiting(parent: &Node, at: usize) -> u64 {
    parent.pivots[at].child.active.bytes + parent.slots[at].pending.bytes
}

/// The internal nodes under a node to be joined.
fn internal(parent: &Node, fanout: usize) -> Option<Range<usize>> {
    let children = |at: usize| parent.pivots[at].child.pivots.len();
    let limit = (fanout * JOIN_CHILDREN_PERCENT / 100).max(2);
    let joined = stretch(parent.pivots.len(), |range| range.map(children).sum::<usize>() <= limit);
    // An only child is of no use; it comes under the neighbour, or, where that is full, some of the neighbour's come to it, so that
    // both have several: three, at least, have to be shared out.
    let lonely = || (0..parent.pivots.len()).find(|at| children(*at) == 1).filter(|_| fanout >= 3);
    joined.or_else(|| lonely().map(|at| at.saturating_sub(1)..at.max(1) + 1))
}

/// Most neighbours that fit together; at least two, of equals the first.
fn stretch(count: usize, fits: impl Fn(Range<usize>) -> bool) -> Option<Range<usize>> {
    let from = |from: usize| from..from + (from..count).take_while(|at| fits(from..at + 1)).count();
    (0..count).map(from).filter(|range| range.len() > 1).rev().max_by_key(|range| range.len())
}

/// The joining of these children, or the first of what stands in its way.
fn next(parent: &Arc<Node>, range: Range<usize>) -> Choice {
    if first_active(parent, range.clone()).is_none()
        && let Some(at) = range.clone().find(|at| !parent.slots[*at].runs.is_empty())
    {
        return Choice::Flush(Arc::clone(parent), at);
    }
    let children = parent.pivots[range.clone()].iter().map(|pivot| &pivot.child).filter(|child| !child.is_leaf());
    let mut waiting: Vec<_> = children.filter(|child| !child.bundles.is_empty()).collect();
    waiting.sort_by_key(|child| child.active.bytes);
    waiting.pop();
    for child in waiting {
        if let Some(at) = child.slots.iter().position(|slot| !slot.runs.is_empty()) {
            return Choice::Flush(Arc::clone(child), at);
        }
    }
    Choice::Join(Arc::clone(parent), range)
}

/// The first bundle that can be active for all of these children in the place of each one's own; `None` where some child would
/// lose something (rule 2).
pub fn first_active(parent: &Node, range: Range<usize>) -> Option<usize> {
    let newest = parent.pivots[range.clone()].iter().map(|pivot| pivot.first_active).max()?;
    let sees = |at: usize| {
        let upper = parent.slot_upper(at).map(|upper| &**upper);
        let before = parent.bundles[parent.pivots[at].first_active..newest].iter();
        before.flat_map(|bundle| &bundle.branches).any(|branch| run::overlaps(branch, parent.slot_lower(at), upper))
    };
    (!{ range }.any(sees)).then_some(newest)
}

/// Where these nodes stand side by side under `parent`, leaves with the bundles that they had; `None` where they do not.
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
