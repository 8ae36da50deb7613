//! Jobs: pieces of background work, from the choice to the outcome. A job may run on any thread.
//!
//! Life: a `pick` function of `Trunk` makes a job, which claims what it works on. `Trunk::run` does the I/O.
//! `Trunk::apply` turns the outcome into an edit and a new tree. The caller logs the edit, publishes the tree and calls
//! `Applied::finish`. The claim is released when the last of job, outcome and applied change is dropped, so the caller
//! keeps the job, or the applied change, until the tree is published.

use super::change::{Change, Outcome};
use super::claim::Claim;
use crate::disk::runs::jobs::claims::ClaimGuard;
use crate::disk::runs::jobs::job_scope::{JobKind, JobScope};
use crate::disk::runs::load::Load;
use crate::disk::trunk::plan::choice::Choice;
use crate::disk::trunk::plan::quiet::QuietCost;
use crate::disk::trunk::tree::merge_range;
use crate::disk::trunk::tree::node::Node;
use crate::util::sync::Arc;
use std::fmt;
use std::ops::Range;

/// See the module.
#[derive(Debug)]
pub struct Job {
    pub choice: Choice,
    pub claim: Arc<ClaimGuard<Claim>>,
    pub purpose: Purpose,
}

/// Why a job is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// It is due, or was requested.
    Needed,
    /// It only makes scans cheaper, which have paid for it.
    Scans,
    /// It makes reads cheaper and was chosen in a quiet time.
    Quiet(QuietCost),
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.choice {
            Choice::Flush(node, at) => write!(f, "flush node {} to {}", node.id.0, node.pivots[*at].child.id.0),
            Choice::BuildMaplet(node, at) => write!(f, "build maplet of slot {at} of node {}", node.id.0),
            Choice::SampleLeaf(leaf) => write!(f, "sample leaf {}", leaf.id.0),
            Choice::Split(leaf) => write!(f, "split leaf {}", leaf.id.0),
            Choice::RewriteLive(file) => write!(f, "rewrite live data of file {}", file.branch.meta().file),
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

impl Job {
    /// What must be applied before the job begins: the charge of a merge in a quiet time. A flush writes no data, so its
    /// own edit has the charge.
    pub fn charge(&self) -> Option<Outcome> {
        let Purpose::Quiet(cost) = self.purpose else { return None };
        let is_merge = matches!(self.choice, Choice::Merge(..));
        is_merge.then(|| Outcome { charged: signed(cost.own), ..Outcome::of(Change::Nothing, None) })
    }

    /// The charge that goes with the change that the job has made, after that before it began.
    pub fn rest_of_charge(&self, change: &Change) -> i64 {
        let Purpose::Quiet(cost) = self.purpose else { return 0 };
        match change {
            Change::Flush { .. } => signed(cost.own),
            Change::Merge { merged, .. } => {
                signed(merged.parts.load().bytes.saturating_add(cost.maplet)).saturating_sub(signed(cost.own))
            }
            // It was ended. What it wrote is not known, so nothing is given back.
            _ => 0,
        }
    }

    /// The free space on the disk that a job for quiet times and what must follow it need; 0 for other jobs.
    pub fn space_when_quiet(&self) -> u64 {
        if let Purpose::Quiet(cost) = self.purpose { cost.path } else { 0 }
    }

    /// What it works on.
    pub fn scope(&self) -> JobScope {
        let (kind, node, load) = match &self.choice {
            Choice::Flush(node, _) => (JobKind::Flush, node, Load::default()),
            Choice::SampleLeaf(leaf) => (JobKind::SampleLeaf, leaf, leaf.active),
            Choice::Split(leaf) => (JobKind::Split, leaf, Load::default()),
            Choice::BuildMaplet(node, at) => (JobKind::BuildMaplet, node, node.slots[*at].pending),
            Choice::RewriteLive(file) => (JobKind::RewriteLive, &file.node, Load::of(&file.branch)),
            Choice::Join(parent, range) => return join_scope(parent, range.clone()),
            Choice::Merge(node, range) => (JobKind::Merge, node, merge_range::load(node, range.clone())),
        };
        JobScope {
            kind,
            node: Some(node.id),
            height: node.height,
            lower: Arc::clone(&node.lower),
            upper: node.upper.clone(),
            load,
        }
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

/// What the join of these children of a node works on. Internal nodes are joined without reading.
fn join_scope(parent: &Node, range: Range<usize>) -> JobScope {
    let children = &parent.pivots[range.clone()];
    let mut load = Load::default();
    children.iter().filter(|pivot| pivot.child.is_leaf()).for_each(|pivot| load += pivot.child.active);
    JobScope {
        kind: JobKind::Join,
        node: Some(children[0].child.id),
        height: children[0].child.height,
        lower: Arc::clone(parent.slot_lower(range.start)),
        upper: parent.slot_upper(range.end - 1).cloned(),
        load,
    }
}
