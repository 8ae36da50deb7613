//! All data of a tree, for reading it once (`runs/section.rs`). Any thread.

use crate::branch::Branch;
use crate::disk::runs::run;
use crate::disk::runs::section::Section;
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::tree::Tree;
use crate::util::sync::Arc;

impl Tree {
    /// One section for each leaf, in key order: everything that is active in its range on the path to it. The memory is
    /// the references of all paths.
    pub fn sections(&self) -> Vec<Section> {
        let mut sections = Vec::new();
        gather(self.root(), &mut Vec::new(), &mut sections);
        sections
    }
}

/// Adds the sections of the leaves of `node`. `above` is the path to it: nodes, root first, and the slots taken there.
fn gather<'t>(node: &'t Node, above: &mut Vec<(&'t Node, usize)>, sections: &mut Vec<Section>) {
    if node.is_leaf() {
        // What is active in a node is newer than everything below.
        let path = std::iter::once((node, 0)).chain(above.iter().rev().copied());
        let active = path.flat_map(|(node, slot)| &node.bundles[node.first_active(slot)..]);
        let is_inside = |branch: &&Arc<Branch>| run::overlaps(branch, &node.lower, node.upper.as_deref());
        let branches = active.flat_map(|bundle| &bundle.branches).filter(is_inside).cloned().collect();
        sections.push(Section { lower: Arc::clone(&node.lower), upper: node.upper.clone(), branches });
        return;
    }
    for (slot, pivot) in node.pivots.iter().enumerate() {
        above.push((node, slot));
        gather(&pivot.child, above, sections);
        above.pop();
    }
}
