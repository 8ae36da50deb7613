//! The data of a node that may be newer versions of older data. Pure functions of a node; any thread.

use super::node::Node;
use crate::disk::runs::load::Load;

/// The oldest run of a leaf.
pub fn oldest(node: &Node) -> Load {
    let is_run = node.is_leaf() && node.bundles.first().is_some_and(|bundle| bundle.is_compacted());
    if is_run { node.slots[0].loads[0] } else { Load::default() }
}

/// Everything else in a node: it may be newer versions of what is in that run, or below.
pub fn newer(node: &Node) -> Load {
    let oldest = oldest(node);
    Load {
        bytes: node.active.bytes - oldest.bytes,
        entries: node.active.entries - oldest.entries,
        tombstones: node.active.tombstones - oldest.tombstones,
        range_tombstones: node.active.range_tombstones - oldest.range_tombstones,
    }
}

/// How many bytes of a node are probably garbage, or make some.
pub fn garbage(node: &Node) -> u64 {
    if node.is_leaf() {
        return node.overwrite_ratio.of(newer(node).bytes);
    }
    let of_slot = |at: usize| node.pivots[at].child.overwrite_ratio.of(node.slots[at].pending.bytes);
    (0..node.pivots.len()).map(of_slot).sum()
}
