//! Nodes whose merging found no room while the store took puts: they wait until there is as much as they are likely to need. Any
//! thread.
//!
//! *Else:* on a disk that is nearly full a merge fills it, fails, gives back what it had written, and the store takes puts again
//! and tries the same merge, without end.

use crate::format::manifest_edit::NodeId;
use crate::util::sync::{AtomicBool, Mutex, Ordering};
use std::collections::HashMap;

/// See the module.
#[derive(Debug, Default)]
pub(super) struct Starved {
    nodes: Mutex<HashMap<NodeId, Hunger>>,
    /// Whether any of them waits; changes under the lock of `nodes`.
    any: AtomicBool,
}

#[derive(Debug)]
struct Hunger {
    /// Bytes that must be free.
    wanted: u64,
    waits: bool,
}

impl Starved {
    /// A job that reads so many bytes at the node found no room. Where it had waited for what seemed enough, twice that.
    pub(super) fn note(&self, node: NodeId, bytes: u64) {
        let mut nodes = self.nodes.lock();
        let before = nodes.get(&node).map_or(0, |hunger| hunger.wanted);
        let wanted = (bytes + bytes / 8).max(before.saturating_mul(2)).max(1);
        nodes.insert(node, Hunger { wanted, waits: true });
        self.any.store(true, Ordering::Release);
    }

    /// So many bytes are free: those that need no more may try again.
    pub(super) fn feed(&self, available: u64) {
        let mut nodes = self.nodes.lock();
        nodes.values_mut().for_each(|hunger| hunger.waits &= hunger.wanted > available);
        self.any.store(nodes.values().any(|hunger| hunger.waits), Ordering::Release);
    }

    /// The node was merged.
    pub(super) fn forget(&self, node: NodeId) {
        self.nodes.lock().remove(&node);
    }

    /// Whether any node waits for room.
    pub(super) fn is_any(&self) -> bool {
        self.any.load(Ordering::Acquire)
    }

    /// Whether this one does.
    pub(super) fn waits(&self, node: NodeId) -> bool {
        self.is_any() && self.nodes.lock().get(&node).is_some_and(|hunger| hunger.waits)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_waits_for_the_room_that_it_lacked_and_then_for_twice_as_much() {
        let starved = Starved::default();
        starved.note(NodeId(1), 800);
        starved.note(NodeId(2), 80);
        assert!(starved.waits(NodeId(1)) && starved.waits(NodeId(2)) && !starved.waits(NodeId(3)));
        starved.feed(899);
        assert!(starved.waits(NodeId(1)) && !starved.waits(NodeId(2)));
        starved.feed(900);
        assert!(!starved.is_any());
        starved.note(NodeId(1), 800);
        starved.feed(1799);
        assert!(starved.waits(NodeId(1)), "what seemed enough was not");
        starved.feed(1800);
        starved.forget(NodeId(1));
        starved.note(NodeId(1), 800);
        starved.feed(900);
        assert!(!starved.is_any(), "it was merged in between");
    }
}
