//! Merges that make scans cheaper (`tree/scan_cost.rs`). Pure functions of trees; any thread.

use super::choice::Choice;
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::tree::Tree;
use crate::util::sync::Arc;

/// The next step for a leaf whose path scans have paid to merge. First everything on the path is flushed down to the
/// leaf, then the leaf is merged into one run. The leaf for which scans have paid most goes first.
pub fn choose(tree: &Tree, mut accepts: impl FnMut(&Choice) -> bool) -> Option<Choice> {
    let mut found = Vec::new();
    gather(tree.root(), (0, None), &mut found);
    found.sort_by_key(|(units, _)| std::cmp::Reverse(*units));
    found.into_iter().map(|(_, choice)| choice).find(|choice| accepts(choice))
}

/// The merge of a whole leaf, if scans have paid for it. Where some of the leaf's runs would be merged, or get a maplet,
/// this goes first: those runs are about to go.
pub fn paid_merge(leaf: &Arc<Node>) -> Option<Choice> {
    let is_paid = leaf.is_leaf() && leaf.runs() > 1 && leaf.scans.exceeds(leaf.active.bytes);
    is_paid.then(|| Choice::Merge(Arc::clone(leaf), 0..leaf.bundles.len()))
}

/// Gathers the choices at and below a node. `above`: the bytes that wait in its ancestors for its range, and the
/// topmost flush of them.
fn gather(node: &Arc<Node>, above: (u64, Option<Choice>), found: &mut Vec<(u64, Choice)>) {
    let (bytes, flush) = above;
    if node.is_leaf() {
        let is_split = flush.is_some() || node.runs() > 1;
        if is_split && node.scans.exceeds(node.active.bytes + bytes) {
            let merge = || Choice::Merge(Arc::clone(node), 0..node.bundles.len());
            found.push((node.scans.units(), flush.unwrap_or_else(merge)));
        }
        return;
    }
    for (at, pivot) in node.pivots.iter().enumerate() {
        let slot = &node.slots[at];
        let own = || (!slot.runs.is_empty()).then(|| Choice::Flush(Arc::clone(node), at));
        gather(&pivot.child, (bytes + slot.pending.bytes, flush.clone().or_else(own)), found);
    }
}
