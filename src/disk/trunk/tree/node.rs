//! Trunk nodes (SplinterDB §2.1). Immutable; any thread. New nodes are made from drafts (`draft.rs`).
//!
//! Invariants (asserted by `Draft::finish`; `open.rs` checks nodes that come from the manifest):
//! 1. Pivots are in key order. The lower bound of the first is that of the node. The children tile the node's range.
//! 2. A leaf has height 0 and no pivots. The height of a child is one less than that of its parent.
//! 3. Bundles are in age order, oldest first. The active bundles of a pivot are those from `first_active` on, so what
//!    is active for a child is newer than everything below. Every bundle is active for some pivot and has branches
//!    there.
//! 4. `slots` has one element for each pivot, or one for the whole range of a leaf.

use super::bundle::Bundle;
use super::overwrite_ratio::OverwriteRatio;
use super::scan_cost::ScanCost;
use super::slot::Slot;
use crate::branch::Branch;
use crate::disk::runs::load::Load;
use crate::disk::runs::run::Key;
use crate::format::manifest_edit::{NodeId, NodeImage, PivotImage};
use crate::util::key::head;
use crate::util::sync::Arc;

/// A child of a node.
#[derive(Clone, Debug)]
pub struct Pivot {
    /// Smallest key of the child's range.
    pub lower: Key,
    /// The child.
    pub child: Arc<Node>,
    /// Index of the oldest bundle that is active for the child; the number of bundles if none is.
    pub first_active: usize,
}

/// Totals of a node and everything below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Live bytes: those active in nodes.
    pub bytes: u64,
    /// Entries, all versions counted.
    pub entries: u64,
    /// Bytes that are probably garbage, or newer versions that make some.
    pub garbage: u64,
    /// Bytes that wait to be flushed or merged.
    pub debt: u64,
    /// Range tombstones. Those of a branch that several nodes share count for each node.
    pub range_tombstones: u64,
}

/// See the module.
#[derive(Debug)]
pub struct Node {
    /// Its identity, which path copies preserve.
    pub id: NodeId,
    /// 0 for a leaf.
    pub height: u32,
    /// Smallest key of the range.
    pub lower: Key,
    /// First key past the range; `None` at the right edge.
    pub upper: Option<Key>,
    /// Children in key order; empty for a leaf.
    pub pivots: Vec<Pivot>,
    /// Oldest first.
    pub bundles: Vec<Arc<Bundle>>,
    /// One for each pivot; one for a leaf.
    pub slots: Vec<Arc<Slot>>,
    /// The heads of the pivots' lower bounds.
    pub heads: Vec<u64>,
    /// Active bytes of the node itself.
    pub active: Load,
    /// The node and all below.
    pub totals: Totals,
    /// The bundles that should be merged, by index (`merge_range.rs`).
    pub merge: Option<std::ops::Range<usize>>,
    /// For a leaf: what scans have paid for the runs on the path to it.
    pub scans: ScanCost,
    /// What merges of the leaf have measured; for an internal node the mean of its children.
    pub overwrite_ratio: OverwriteRatio,
}

impl Node {
    /// Whether it has no children.
    pub fn is_leaf(&self) -> bool {
        self.pivots.is_empty()
    }

    /// The index of the slot, and of the pivot if there are any, to which `key` belongs. Requires the key to be in
    /// range.
    pub fn slot_of(&self, key: &[u8]) -> usize {
        debug_assert!(*key >= *self.lower && self.upper.as_ref().is_none_or(|upper| *key < **upper));
        if self.pivots.len() <= 1 {
            return 0;
        }
        let head = head(key);
        let from = self.heads.partition_point(|pivot| *pivot < head);
        let ties = self.heads[from..].partition_point(|pivot| *pivot == head);
        let behind = from + self.pivots[from..from + ties].partition_point(|pivot| *pivot.lower <= *key);
        behind.saturating_sub(1)
    }

    /// First key past the range of the slot `at`.
    pub fn slot_upper(&self, at: usize) -> Option<&Key> {
        self.pivots.get(at + 1).map(|pivot| &pivot.lower).or(self.upper.as_ref())
    }

    /// Smallest key of the slot `at`.
    pub fn slot_lower(&self, at: usize) -> &Key {
        self.pivots.get(at).map_or(&self.lower, |pivot| &pivot.lower)
    }

    /// Index of the oldest bundle active for the slot `at`.
    pub fn first_active(&self, at: usize) -> usize {
        self.pivots.get(at).map_or(0, |pivot| pivot.first_active)
    }

    /// Live bytes of all nodes below.
    pub fn below(&self) -> u64 {
        self.totals.bytes - self.active.bytes
    }

    /// The most runs that a get may meet here.
    pub fn runs(&self) -> usize {
        self.slots.iter().map(|slot| slot.runs.len()).max().unwrap_or(0)
    }

    /// The branches of all bundles, oldest first.
    pub fn branches(&self) -> impl Iterator<Item = &Arc<Branch>> {
        self.bundles.iter().flat_map(|bundle| &bundle.branches)
    }

    /// Whether the ranges of the node and [lower, upper) meet.
    pub fn meets(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        self.upper.as_ref().is_none_or(|own| *lower < **own) && upper.is_none_or(|upper| *self.lower < *upper)
    }

    /// What the manifest stores of it.
    pub fn image(&self) -> NodeImage {
        let pivot = |pivot: &Pivot| PivotImage {
            lower: pivot.lower.to_vec(),
            child: pivot.child.id,
            first_active: pivot.first_active as u32,
        };
        let shares = self.slots.iter().map(|slot| slot.shares.clone());
        let any = self.slots.iter().any(|slot| !slot.shares.is_empty());
        NodeImage {
            id: self.id,
            height: self.height,
            lower: self.lower.to_vec(),
            upper: self.upper.as_ref().map(|upper| upper.to_vec()),
            pivots: self.pivots.iter().map(pivot).collect(),
            bundles: self.bundles.iter().map(|bundle| bundle.image()).collect(),
            shares: if any { shares.collect() } else { Vec::new() },
        }
    }
}
