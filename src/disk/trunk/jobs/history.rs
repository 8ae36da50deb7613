//! What the trunk remembers of its jobs while the store is open: which leaves were sampled and left, which jobs found
//! no disk space, and under which snapshots files were written. Pickers consult it. Any thread.

use crate::branch::Branch;
use crate::disk::runs::garbage::Garbage;
use crate::disk::runs::jobs::job_scope::JobScope;
use crate::disk::runs::jobs::space_backoff::{Failed, FullDiskFailures, SpaceBackoff};
use crate::disk::trunk::plan::choice::Choice;
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::tree::Tree;
use crate::format::manifest_edit::{BundleId, NodeId};
use crate::merge::Retention;
use crate::util::SequenceNumber;
use crate::util::sync::{Arc, Mutex};
use std::collections::{BTreeSet, HashMap, HashSet};

/// See the module.
#[derive(Debug, Default)]
pub struct History {
    /// Leaves that were sampled and left as they are.
    sampled: Mutex<HashMap<NodeId, Sampled>>,
    pub failures: FullDiskFailures<FailedAt>,
    pub backoff: SpaceBackoff<NodeId>,
    pub garbage: Garbage,
}

/// What failed on a full disk. A merge that finds no space does not rule out a flush of the same node, which needs next to
/// none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailedAt {
    Merge(NodeId),
    Flush(NodeId),
}

/// When a leaf was sampled. A new sample would show the same until the leaf has a newer bundle, or the snapshot is
/// gone.
#[derive(Clone, Copy, Debug)]
struct Sampled {
    newest: BundleId,
    /// The oldest snapshot of the time, if the leaf was left because of snapshots.
    held_for: Option<SequenceNumber>,
}

impl History {
    /// Whether ordinary work may be picked: it has enough disk space and may change something.
    pub fn allows(&self, choice: &Choice, retention: &Retention) -> bool {
        !self.is_backed_off(choice) && !self.is_settled(choice, retention)
    }

    /// Whether the choice waits for disk space.
    pub fn is_backed_off(&self, choice: &Choice) -> bool {
        match choice {
            Choice::Merge(node, _) | Choice::SampleLeaf(node) | Choice::BuildMaplet(node, _) => {
                self.backoff.waits(node.id)
            }
            Choice::Join(parent, range) => self.backoff.waits(parent.pivots[range.start].child.id),
            // They need next to no space.
            Choice::Flush(..) | Choice::Split(_) | Choice::RewriteLive(_) => false,
        }
    }

    /// Whether the choice is to sample a leaf that was left as it is, and that has not changed since.
    pub fn is_settled(&self, choice: &Choice, retention: &Retention) -> bool {
        let Choice::SampleLeaf(leaf) = choice else { return false };
        let Some(sampled) = self.sampled.lock().get(&leaf.id).copied() else { return false };
        leaf.bundles.last().is_some_and(|newest| newest.id == sampled.newest)
            && sampled.held_for.is_none_or(|snapshot| retention.has(snapshot))
    }

    /// The leaf was sampled and left as it is, if `held_for` is given because of snapshots.
    pub fn note_sampled(&self, leaf: &Node, held_for: Option<SequenceNumber>) {
        if let Some(newest) = leaf.bundles.last() {
            self.sampled.lock().insert(leaf.id, Sampled { newest: newest.id, held_for });
        }
    }

    /// Whether the oldest run of a leaf may have data that only snapshots needed that are gone.
    pub fn is_released(&self, leaf: &Node, retention: &Retention) -> bool {
        let oldest = leaf.bundles.first().filter(|bundle| bundle.is_compacted());
        let may_be_in = |branch: &Arc<Branch>| self.garbage.is_released_in(branch, retention, SequenceNumber::MAX);
        oldest.is_some_and(|oldest| oldest.branches.iter().any(may_be_in))
    }

    /// Whether the choice failed on the full disk, or would gain nothing there.
    pub fn has_failed(&self, choice: &Choice) -> bool {
        match choice {
            Choice::Merge(node, _) | Choice::SampleLeaf(node) => self.failures.of(FailedAt::Merge(node.id)).is_some(),
            Choice::Flush(node, _) => self.failures.of(FailedAt::Flush(node.id)).is_some(),
            Choice::BuildMaplet(..) | Choice::Join(..) => false,
            Choice::RewriteLive(file) => self.failures.has_file(file.branch.meta().file, file.live_places()),
            Choice::Split(leaf) => self.failures.of(FailedAt::Merge(leaf.id)) != Some(Failed::Whole),
        }
    }

    /// The choice found no space while the disk was known to be full.
    pub fn note_failed_on_full_disk(&self, choice: &Choice) {
        match choice {
            Choice::Merge(node, _) | Choice::SampleLeaf(node) => {
                self.failures.note(FailedAt::Merge(node.id), Failed::Whole);
            }
            Choice::Flush(node, _) => self.failures.note(FailedAt::Flush(node.id), Failed::Whole),
            Choice::BuildMaplet(..) | Choice::Join(..) => {}
            Choice::RewriteLive(file) => self.failures.note_file(file.branch.meta().file),
            Choice::Split(leaf) => self.failures.note(FailedAt::Merge(leaf.id), Failed::Pieces),
        }
    }

    /// A job found no space, and the disk was not known to be full.
    pub fn note_found_no_space(&self, scope: &JobScope) {
        if let Some(node) = scope.node {
            self.backoff.note(node, scope.load.bytes);
        }
    }

    /// Removes files and nodes to which the tree does not refer.
    pub fn forget_unreferenced(&self, tree: &Tree) {
        let (mut files, mut nodes) = (BTreeSet::new(), HashSet::new());
        tree.visit(&mut |node| {
            files.extend(node.branches().map(|branch| branch.meta().file));
            nodes.insert(node.id);
        });
        self.sampled.lock().retain(|node, _| nodes.contains(node));
        self.failures.retain_files(&files);
        self.garbage.retain_files(&files);
    }
}
