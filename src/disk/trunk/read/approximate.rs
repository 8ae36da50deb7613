//! The approximate size of a key range. Any thread.

use crate::disk::runs::run;
use crate::disk::trunk::tree::bundle::Bundle;
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::slot::Slot;
use crate::disk::trunk::tree::tree::Tree;
use crate::util::Result;
use crate::util::sync::Arc;

impl Tree {
    /// Bytes of branch files that the keys from `lower` to below `upper` (`None`: to the end) take, garbage included.
    /// Slots inside the range know theirs; where a bound cuts a slot, the indexes of its branches give an estimate.
    /// O(nodes in the range).
    pub fn approximate_bytes(&self, lower: &[u8], upper: Option<&[u8]>) -> Result<u64> {
        node_bytes(self.root(), lower, upper)
    }
}

fn node_bytes(node: &Node, lower: &[u8], upper: Option<&[u8]>) -> Result<u64> {
    let mut bytes = 0;
    for (at, slot) in node.slots.iter().enumerate() {
        let (slot_lower, slot_upper) = (node.slot_lower(at), node.slot_upper(at).map(|key| &key[..]));
        let begins_behind = upper.is_some_and(|upper| upper <= &slot_lower[..]);
        let ends_before = slot_upper.is_some_and(|slot_upper| slot_upper <= lower);
        if begins_behind || ends_before {
            continue;
        }
        let low = lower.max(slot_lower);
        let high = [upper, slot_upper].into_iter().flatten().min();
        bytes += if low == &slot_lower[..] && high == slot_upper {
            slot.pending.bytes
        } else {
            part_of_slot(slot, &node.bundles[node.first_active(at)..], low, high)?
        };
        if let Some(pivot) = node.pivots.get(at) {
            bytes += node_bytes(&pivot.child, lower, upper)?;
        }
    }
    Ok(bytes)
}

/// Bytes that a slot has in a part of its range.
fn part_of_slot(slot: &Slot, active: &[Arc<Bundle>], lower: &[u8], upper: Option<&[u8]>) -> Result<u64> {
    let mut bytes = 0;
    for branch in active.iter().flat_map(|bundle| &bundle.branches) {
        if run::overlaps(branch, lower, upper) {
            bytes += branch.approximate_bytes(lower, upper)?.min(slot.bytes_of(branch));
        }
    }
    Ok(bytes)
}
