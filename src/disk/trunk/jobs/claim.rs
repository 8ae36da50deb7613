//! Which part of the tree a job works on. Plain data; any thread.
//!
//! A claim names bundles of a key range and not a node. A node may be split while one of its bundles is merged, and
//! then neither half may merge its share of the bundle again.

use crate::disk::runs::jobs::claims;
use crate::disk::runs::run::Key;
use crate::disk::trunk::plan::choice::Choice;
use crate::disk::trunk::tree::node::Node;
use crate::format::manifest_edit::{BundleId, NodeId};
use crate::util::sync::Arc;
use std::ops::Range;

/// What a job works on.
#[derive(Clone, Debug)]
pub struct Claim {
    /// `None` for bundles of any height.
    height: Option<u32>,
    lower: Key,
    upper: Option<Key>,
    /// The bundles that it will replace.
    bundles: Vec<BundleId>,
    /// The node that it flushes.
    flush: Option<NodeId>,
    /// The nodes that it joins, or the one to which it flushes. No two jobs may do either with the same node.
    nodes: Vec<NodeId>,
    /// It builds a maplet of the bundles and replaces nothing, so others may replace them.
    builds_maplet_only: bool,
}

impl Claim {
    /// The claim of a choice.
    pub fn of(choice: &Choice) -> Self {
        match choice {
            Choice::Flush(node, at) => {
                Self { flush: Some(node.id), nodes: vec![node.pivots[*at].child.id], ..Self::of_bundles(node, 0..0) }
            }
            Choice::SampleLeaf(leaf) | Choice::Split(leaf) => Self::of_bundles(leaf, 0..leaf.bundles.len()),
            Choice::Merge(node, range) => Self::of_bundles(node, range.clone()),
            Choice::BuildMaplet(node, at) => Self {
                lower: Arc::clone(node.slot_lower(*at)),
                upper: node.slot_upper(*at).cloned(),
                builds_maplet_only: true,
                ..Self::of_bundles(node, node.first_active(*at)..node.bundles.len())
            },
            Choice::RewriteLive(file) => Self {
                height: None,
                lower: Key::from(&file.branch.meta().key_min[..]),
                upper: None,
                bundles: file.bundles.clone(),
                flush: None,
                nodes: Vec::new(),
                builds_maplet_only: false,
            },
            Choice::Join(parent, range) => {
                let children = parent.pivots[range.clone()].iter().map(|pivot| &pivot.child);
                Self {
                    height: Some(parent.height.saturating_sub(1)),
                    lower: Arc::clone(parent.slot_lower(range.start)),
                    upper: parent.slot_upper(range.end - 1).cloned(),
                    bundles: children.clone().flat_map(|child| bundle_ids(child, 0..child.bundles.len())).collect(),
                    flush: None,
                    nodes: children.map(|child| child.id).collect(),
                    builds_maplet_only: false,
                }
            }
        }
    }

    /// A claim on bundles of a node.
    fn of_bundles(node: &Node, range: Range<usize>) -> Self {
        Self {
            height: Some(node.height),
            lower: Arc::clone(&node.lower),
            upper: node.upper.clone(),
            bundles: bundle_ids(node, range),
            flush: None,
            nodes: Vec::new(),
            builds_maplet_only: false,
        }
    }

    fn is_at_height_of(&self, other: &Claim) -> bool {
        self.height.zip(other.height).is_none_or(|(own, other)| own == other)
    }
}

impl claims::Claim for Claim {
    fn conflicts(&self, other: &Claim) -> bool {
        if self.builds_maplet_only && !other.builds_maplet_only {
            return false;
        }
        let meets = |lower: &Key, upper: &Option<Key>| upper.as_ref().is_none_or(|upper| **lower < **upper);
        (self.flush.is_some() && self.flush == other.flush)
            || self.nodes.iter().any(|node| other.nodes.contains(node))
            || (self.is_at_height_of(other)
                && meets(&self.lower, &other.upper)
                && meets(&other.lower, &self.upper)
                && self.bundles.iter().any(|bundle| other.bundles.contains(bundle)))
    }
}

/// The ids of the bundles `range` of a node.
pub fn bundle_ids(node: &Node, range: Range<usize>) -> Vec<BundleId> {
    node.bundles[range].iter().map(|bundle| bundle.id).collect()
}
