//! Which branches and maplets a tree refers to. They are looked up in the tree by key range, so no count can be wrong.
//! Pure functions of nodes; any thread.

use crate::branch::{Branch, Maplet};
use crate::disk::runs::run;
use crate::disk::trunk::tree::node::Node;
use crate::util::FileNumber;
use crate::util::sync::Arc;
use std::collections::{BTreeMap, BTreeSet};

/// The candidates to which some node refers. Only nodes that meet a candidate's key range can.
pub fn used_branches(root: &Arc<Node>, candidates: &BTreeMap<FileNumber, Arc<Branch>>) -> BTreeSet<FileNumber> {
    let mut used = BTreeSet::new();
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        let files = node.branches().map(|branch| branch.meta().file);
        used.extend(files.filter(|file| candidates.contains_key(file)));
        let is_open = |node: &Node| {
            let meets = |branch: &Branch| run::overlaps(branch, &node.lower, node.upper.as_deref());
            candidates.values().any(|branch| !used.contains(&branch.meta().file) && meets(branch))
        };
        waiting.extend(node.pivots.iter().map(|pivot| &pivot.child).filter(|child| is_open(child)));
    }
    used
}

/// The candidates that serve some slot. Only nodes that meet a candidate's range can have one.
pub fn used_maplets(root: &Arc<Node>, candidates: &BTreeMap<FileNumber, Arc<Maplet>>) -> BTreeSet<FileNumber> {
    let mut used = BTreeSet::new();
    if candidates.is_empty() {
        return used;
    }
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        let files = node.slots.iter().flat_map(|slot| slot.maplet_index.maplets()).map(|maplet| maplet.meta().file);
        used.extend(files.filter(|file| candidates.contains_key(file)));
        let is_open = |node: &Node| {
            let meets = |maplet: &Maplet| node.meets(&maplet.meta().lower, maplet.meta().upper.as_deref());
            candidates.values().any(|maplet| !used.contains(&maplet.meta().file) && meets(maplet))
        };
        waiting.extend(node.pivots.iter().map(|pivot| &pivot.child).filter(|child| is_open(child)));
    }
    used
}
