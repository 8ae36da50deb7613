//! A piece of background work, from the choice to its end. A job may be run on any thread; its outcome is applied under the
//! edit mutex.
//!
//! Life: `Trunk::pick` makes a job, which claims what it works on; `Trunk::run` does the I/O; `Trunk::apply` turns the
//! outcome into an edit and a new tree; the caller logs the edit, publishes the tree and calls `Applied::finish`. Whichever
//! of job, outcome and applied change is dropped last gives the claim back, so the caller keeps the job, or the applied
//! change, until the tree is published.

use super::claims::{Claim, Ticket};
use super::compact::Merged;
use super::hollow::{Cuts, Hollow};
use super::join::Joined;
use super::node::{Key, Node};
use super::parts::NewParts;
use super::policy::{self, Choice};
use super::redundancy::Redundancy;
use super::slot::Load;
use crate::branch::{Branch, Maplet};
use crate::format::manifest_edit::{BundleId, NodeId};
use crate::util::SequenceNumber;
use crate::util::sync::Arc;
use std::fmt;
use std::ops::Range;

/// See the module.
#[derive(Debug)]
pub struct Job {
    pub(super) choice: Choice,
    pub(super) ticket: Arc<Ticket>,
    /// For the sake of scans alone.
    pub(super) for_scans: bool,
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.choice {
            Choice::Flush(node, at) => write!(f, "flush node {} to {}", node.id.0, node.pivots[*at].child.id.0),
            Choice::Map(node, at) => write!(f, "map slot {at} of node {}", node.id.0),
            Choice::SampleLeaf(leaf) => write!(f, "judge leaf {}", leaf.id.0),
            Choice::Part(leaf) => write!(f, "part leaf {}", leaf.id.0),
            Choice::RewriteLive(file) => write!(f, "squeeze file {}", file.branch.meta().file),
            Choice::Join(parent, range) => {
                let children: Vec<_> =
                    parent.pivots[range.clone()].iter().map(|pivot| pivot.child.id.0.to_string()).collect();
                write!(f, "join nodes {}", children.join(" "))
            }
            Choice::Merge(node, range) => {
                let bundles: Vec<_> =
                    node.bundles[range.clone()].iter().map(|bundle| bundle.id.0.to_string()).collect();
                write!(f, "merge at node {} bundles {}", node.id.0, bundles.join(" "))
            }
        }
    }
}

/// What kind of work a job is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobKind {
    /// References move from a node to a child.
    Flush,
    /// Bundles become one run.
    Merge,
    /// A leaf is looked at, and then split, rewritten or left.
    SampleLeaf,
    /// A leaf is split by reference.
    Split,
    /// A maplet is built.
    BuildMaplet,
    /// A file is written anew without what is dead in it.
    RewriteLive,
    /// Neighbouring nodes become one.
    Join,
}

/// What a job is about, for those who watch.
#[derive(Clone, Debug)]
pub struct JobScope {
    /// The work.
    pub kind: JobKind,
    /// The node.
    pub node: NodeId,
    /// Its distance from the leaves.
    pub height: u32,
    /// The node's range, as encoded keys.
    pub lower: Key,
    /// First key past it; `None` at the right edge.
    pub upper: Option<Key>,
    /// What is to be read.
    pub load: Load,
}

impl Job {
    /// What it is about.
    pub fn scope(&self) -> JobScope {
        let (kind, node, load) = match &self.choice {
            Choice::Flush(node, _) => (JobKind::Flush, node, Load::default()),
            Choice::SampleLeaf(leaf) => (JobKind::SampleLeaf, leaf, leaf.active),
            Choice::Part(leaf) => (JobKind::Split, leaf, Load::default()),
            Choice::Map(node, at) => (JobKind::BuildMaplet, node, node.slots[*at].pending),
            Choice::RewriteLive(file) => (JobKind::RewriteLive, &file.node, Load::of(&file.branch)),
            Choice::Join(parent, range) => return join_scope(parent, range.clone()),
            Choice::Merge(node, range) => (JobKind::Merge, node, policy::load(node, range.clone())),
        };
        JobScope {
            kind,
            node: node.id,
            height: node.height,
            lower: Arc::clone(&node.lower),
            upper: node.upper.clone(),
            load,
        }
    }
}

/// What the joining of these children of a node is about. Nodes in the middle of the tree are joined without reading.
fn join_scope(parent: &Node, range: Range<usize>) -> JobScope {
    let children = &parent.pivots[range.clone()];
    let mut load = Load::default();
    children.iter().filter(|pivot| pivot.child.is_leaf()).for_each(|pivot| load += pivot.child.active);
    JobScope {
        kind: JobKind::Join,
        node: children[0].child.id,
        height: children[0].child.height,
        lower: Arc::clone(parent.slot_lower(range.start)),
        upper: parent.slot_upper(range.end - 1).cloned(),
        load,
    }
}

/// The claim of a choice.
pub fn claim(choice: &Choice) -> Claim {
    if let Choice::Map(node, at) = choice {
        return Claim {
            height: Some(node.height),
            lower: Arc::clone(node.slot_lower(*at)),
            upper: node.slot_upper(*at).cloned(),
            bundles: bundle_ids(node, node.first_active(*at)..node.bundles.len()),
            flush: None,
            nodes: Vec::new(),
            only_maps: true,
        };
    }
    if let Choice::Join(parent, range) = choice {
        let children = parent.pivots[range.clone()].iter().map(|pivot| &pivot.child);
        return Claim {
            height: Some(parent.height.saturating_sub(1)),
            lower: Arc::clone(parent.slot_lower(range.start)),
            upper: parent.slot_upper(range.end - 1).cloned(),
            bundles: children.clone().flat_map(|child| bundle_ids(child, 0..child.bundles.len())).collect(),
            flush: None,
            nodes: children.map(|child| child.id).collect(),
            only_maps: false,
        };
    }
    let (node, range) = match choice {
        Choice::RewriteLive(file) => {
            let meta = file.branch.meta();
            let (height, lower, upper) = (None, Key::from(&meta.key_min[..]), None);
            let (bundles, nodes) = (file.bundles.clone(), Vec::new());
            return Claim { height, lower, upper, bundles, flush: None, nodes, only_maps: false };
        }
        Choice::Flush(node, _) => (node, 0..0),
        Choice::SampleLeaf(leaf) | Choice::Part(leaf) => (leaf, 0..leaf.bundles.len()),
        Choice::Merge(node, range) => (node, range.clone()),
        Choice::Map(node, _) | Choice::Join(node, _) => (node, 0..0),
    };
    let flushed = if let Choice::Flush(node, at) = choice { Some((node.id, node.pivots[*at].child.id)) } else { None };
    Claim {
        height: Some(node.height),
        lower: Arc::clone(&node.lower),
        upper: node.upper.clone(),
        bundles: bundle_ids(node, range),
        flush: flushed.map(|(node, _)| node),
        nodes: flushed.map(|(_, child)| child).into_iter().collect(),
        only_maps: false,
    }
}

/// The ids of a node's bundles `range`.
pub fn bundle_ids(node: &Node, range: Range<usize>) -> Vec<BundleId> {
    node.bundles[range].iter().map(|bundle| bundle.id).collect()
}

/// A range of the tree at one height: where a node was when a job looked at it.
#[derive(Clone, Debug)]
pub struct Place {
    pub height: u32,
    pub lower: Key,
    pub upper: Option<Key>,
}

impl Place {
    /// The place of a node.
    pub fn of(node: &Node) -> Self {
        Self { height: node.height, lower: Arc::clone(&node.lower), upper: node.upper.clone() }
    }
}

/// What a job or an incorporation came to. Dropped without being applied, it gives the claim back and makes its files
/// obsolete.
#[derive(Debug)]
pub struct Outcome {
    pub(super) change: Change,
    pub(super) ticket: Option<Arc<Ticket>>,
}

/// A maplet that no tree refers to yet; made obsolete when dropped.
#[derive(Debug)]
pub struct NewMaplet(Option<Arc<Maplet>>);

impl NewMaplet {
    /// Of a maplet that was just written.
    pub fn new(maplet: Arc<Maplet>) -> Self {
        Self(Some(maplet))
    }

    /// The maplet; from here on whoever took it decides its fate.
    pub fn take(mut self) -> Option<Arc<Maplet>> {
        self.0.take()
    }
}

impl Drop for NewMaplet {
    fn drop(&mut self) {
        if let Some(maplet) = &self.0 {
            maplet.mark_obsolete();
        }
    }
}

/// How the tree is to change.
#[derive(Debug)]
pub enum Change {
    /// Nothing to do.
    Nothing,
    /// A new bundle at the root.
    Incorporate { parts: NewParts, through: SequenceNumber },
    /// What is active for the child goes to the child.
    Flush { place: Place, child: NodeId, hollow: Hollow },
    /// The run takes the place of the bundles, wherever these are in the place's range. What the merge of a whole leaf measured is
    /// noted there.
    Merge { place: Place, bundles: Vec<BundleId>, merged: Merged, measured: Option<Redundancy> },
    /// The maplet may serve the slots of the place.
    Map { place: Place, maplet: NewMaplet },
    /// The parts take the place of a file, wherever it is.
    RewriteLive { branch: Arc<Branch>, parts: NewParts },
    /// The leaf is split at the keys.
    Split { place: Place, cuts: Cuts },
    /// The nodes of the place become one, if they are as they were.
    Join { place: Place, joined: Joined },
}
