//! The branch files of a whole tree, for checking. Any thread.

use super::node::Node;
use super::run;
use super::tree::Tree;
use crate::base::FileNumber;
use crate::base::sync::Arc;
use crate::branch::{Branch, Maplet};
use std::collections::BTreeMap;

/// Every branch that the tree refers to, once, by file number.
pub fn branches(tree: &Tree) -> Vec<&Arc<Branch>> {
    let mut branches: BTreeMap<FileNumber, &Arc<Branch>> = BTreeMap::new();
    tree.visit(&mut |node| {
        assert_structure(node);
        branches.extend(node.branches().map(|branch| (branch.meta().file, branch)));
    });
    branches.into_values().collect()
}

/// Every maplet that serves some slot of the tree, once, by file number.
pub fn maplets(tree: &Tree) -> Vec<&Arc<Maplet>> {
    let mut maplets: BTreeMap<FileNumber, &Arc<Maplet>> = BTreeMap::new();
    tree.visit(&mut |node| {
        let served = node.slots.iter().flat_map(|slot| slot.cover.maplets());
        maplets.extend(served.map(|maplet| (maplet.meta().file, maplet)));
    });
    maplets.into_values().collect()
}

/// What every node keeps to; only an internal error could break it, since `open` checks what comes from disk.
fn assert_structure(node: &Node) {
    for (at, bundle) in node.bundles.iter().enumerate() {
        for branch in &bundle.branches {
            let sees = |slot: usize| {
                let upper = node.slot_upper(slot).map(|upper| &**upper);
                node.first_active(slot) <= at && run::overlaps(branch, node.slot_lower(slot), upper)
            };
            assert!((0..node.slots.len()).any(sees), "node {} holds a branch that nothing sees", node.id.0);
        }
    }
    for (slot, pivot) in node.pivots.iter().enumerate() {
        assert!(pivot.child.height + 1 == node.height && pivot.child.upper.as_ref() == node.slot_upper(slot));
        assert_eq!(pivot.child.lower, pivot.lower);
    }
}
