//! Changes: what an outcome makes of the tree. Plain data, moved from the thread that runs a job to the one that
//! applies it. `apply/` carries the changes out.

use super::claim::Claim;
use crate::branch::{Branch, Maplet};
use crate::disk::runs::jobs::claims::ClaimGuard;
use crate::disk::runs::merged_run::MergedRun;
use crate::disk::runs::output::NewParts;
use crate::disk::runs::run::Key;
use crate::disk::trunk::tree::empty_overlaps::{EmptyOverlaps, SplitPlan};
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::overwrite_ratio::OverwriteRatio;
use crate::format::manifest_edit::{BundleId, NodeId};
use crate::util::SequenceNumber;
use crate::util::sync::Arc;

/// The result of a job or an incorporation. If it is dropped without being applied, its claim is released and its files
/// become obsolete.
#[derive(Debug)]
pub struct Outcome {
    pub change: Change,
    pub claim: Option<Arc<ClaimGuard<Claim>>>,
    /// Bytes with which the credit for quiet times is charged; less than 0 if some are given back.
    pub charged: i64,
}

impl Outcome {
    /// The change that a job has made.
    pub fn of(change: Change, claim: Option<Arc<ClaimGuard<Claim>>>) -> Self {
        Self { change, claim, charged: 0 }
    }

    /// Whether it is a merge.
    pub fn is_merge(&self) -> bool {
        matches!(self.change, Change::Merge { .. })
    }
}

/// The change of the tree.
#[derive(Debug)]
pub enum Change {
    /// No change.
    Nothing,
    /// A new bundle at the root, of so many bytes of users' keys and values. `through`: all of memory up to this number is
    /// in the tree then; `None` if it does not come from memory.
    Incorporate { parts: NewParts, through: Option<SequenceNumber>, user_bytes: u64 },
    /// The references that are active for the child move to the child, if there are no more than `runs_max` runs.
    Flush { range: NodeRange, child: NodeId, empty_overlaps: EmptyOverlaps, runs_max: usize },
    /// The run replaces the bundles, wherever these are in the range. If the merge was of a whole leaf, the overwrite
    /// ratio that it measured is stored there.
    Merge { range: NodeRange, bundles: Vec<BundleId>, merged: MergedRun, measured: Option<OverwriteRatio> },
    /// The maplet may serve the slots of the range.
    BuildMaplet { range: NodeRange, maplet: NewMaplet },
    /// The parts replace a file, wherever it is.
    RewriteLive { branch: Arc<Branch>, parts: NewParts },
    /// The leaf is split.
    Split { range: NodeRange, split: SplitPlan },
    /// The nodes of the range become one, if they are as the job saw them.
    Join { range: NodeRange, joined: Joined },
}

/// A range of the tree at one height: where a node was when a job saw it. Meanwhile the node may have been split or
/// joined.
#[derive(Clone, Debug)]
pub struct NodeRange {
    pub height: u32,
    pub lower: Key,
    pub upper: Option<Key>,
}

impl NodeRange {
    /// The range of a node.
    pub fn of(node: &Node) -> Self {
        Self { height: node.height, lower: Arc::clone(&node.lower), upper: node.upper.clone() }
    }
}

/// What replaces several nodes.
#[derive(Debug)]
pub struct Joined {
    /// The nodes, as the job saw them.
    pub children: Vec<Arc<Node>>,
    /// For leaves: all that the joined leaf holds.
    pub run: Option<MergedRun>,
}

impl Joined {
    /// The run in key order, and its new files. From here on the caller is responsible for the new files.
    pub fn take_run(&mut self) -> (Vec<Arc<Branch>>, Vec<Arc<Branch>>) {
        self.run.take().map(MergedRun::take).unwrap_or_default()
    }
}

/// A maplet to which no tree refers yet. It becomes obsolete when dropped.
#[derive(Debug)]
pub struct NewMaplet(Option<Arc<Maplet>>);

impl NewMaplet {
    /// Of a maplet that was just written.
    pub fn new(maplet: Arc<Maplet>) -> Self {
        Self(Some(maplet))
    }

    /// The maplet. From here on the caller is responsible for it.
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
