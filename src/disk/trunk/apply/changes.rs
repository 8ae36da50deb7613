//! What each kind of change does to the tree. One thread, which holds the edit mutex.
//!
//! The tree may have changed since the job saw it:
//! 1. A pivot may have been flushed. Then none of the job's bundles is active for it any more.
//! 2. A node may have been split. Then its bundles are in each part, and the pivots of the parts have them active as
//!    before.
//! 3. An internal node may have been joined with its neighbours (`tree/neighbours.rs`). Then its bundles are in the
//!    joined node; its own pivots have them active as before, and the other pivots do not have them active. A merge
//!    that began on one of several nodes with the same bundles prevents these from being joined, so that its result
//!    cannot replace the share of another.
//! 4. A leaf on which a job works is not joined, and nothing is flushed to it: the claims conflict.
//!
//! So nothing ever becomes active for a key. A merge result replaces its bundles wherever they still are. Files to
//! which nothing refers then were never part of the store and are removed at once. A join is dropped if its nodes are
//! no longer neighbours under one parent, or cannot share what is active there.

use super::applied::Applied;
use super::editor::{EditContext, Editor};
use crate::branch::Branch;
use crate::disk::runs::run::{self, Key};
use crate::disk::trunk::jobs::change::{Change, Outcome};
use crate::disk::trunk::tree::bundle::Bundle;
use crate::disk::trunk::tree::draft::Draft;
use crate::disk::trunk::tree::empty_overlaps::{EmptyOverlaps, SplitPlan};
use crate::disk::trunk::tree::merge_range;
use crate::disk::trunk::tree::neighbours;
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::overwrite_ratio::OverwriteRatio;
use crate::disk::trunk::tree::tree::Tree;
use crate::format::manifest_edit::{BundleId, NodeId};
use crate::util::planted::planted;
use crate::util::sync::Arc;

/// See `Trunk::apply`.
pub fn apply(context: EditContext<'_>, outcome: Outcome, tree: &Arc<Tree>) -> Applied {
    let mut editor = Editor::new(context, tree);
    editor.charge(outcome.charged);
    let mut added = Vec::new();
    let root = match outcome.change {
        Change::Nothing => None,
        Change::Incorporate { parts, through, user_bytes } => {
            editor.note_incorporated(through, user_bytes);
            added = parts.take();
            editor.incorporate(&added)
        }
        Change::Flush { range, child, empty_overlaps, runs_max } => {
            editor.change(&range, &mut |editor, node| editor.flush(node, child, (&empty_overlaps, runs_max)))
        }
        Change::Merge { range, bundles, merged, measured } => {
            let (run, new) = merged.take();
            added = new;
            let merged = Bundle::new(context.ids.new_bundle(), run);
            editor.change(&range, &mut |_, node| merge(node, (&bundles, &merged), measured))
        }
        Change::BuildMaplet { range, maplet } => maplet.take().and_then(|maplet| {
            editor.note_new_maplet(&maplet);
            editor
                .change(&range, &mut |_, node| Some(vec![Draft::of(node).with_maplets(std::slice::from_ref(&maplet))]))
        }),
        Change::RewriteLive { branch, parts } => {
            added = parts.take();
            editor.replace_branch(tree.root(), &branch, &added)
        }
        Change::Split { range, split } => editor.change(&range, &mut |editor, node| editor.split_leaf(node, &split)),
        Change::Join { range, mut joined } => {
            let (run, new) = joined.take_run();
            added = new;
            editor.change(&range, &mut |editor, node| editor.join(node, &joined.children, &run))
        }
    };
    editor.finish(root, added, outcome.claim)
}

/// Replaces bundles with the one that was made of them, as far as they are still there.
fn merge(
    node: &Node,
    (inputs, merged): (&[BundleId], &Arc<Bundle>),
    measured: Option<OverwriteRatio>,
) -> Option<Vec<Draft>> {
    let present = |bundle: &Arc<Bundle>| inputs.contains(&bundle.id);
    let from = node.bundles.iter().position(present)?;
    let to = from + node.bundles[from..].iter().take_while(|bundle| present(bundle)).count();
    assert!(!node.bundles[to..].iter().any(present), "merged bundles are adjacent");
    let mut draft = Draft::of(node);
    draft.replace_bundles(from, to, Arc::clone(merged), merge_range::load(node, from..to).bytes);
    if let Some(measured) = measured {
        draft.note_overwrite_ratio(measured);
    }
    Some(vec![draft])
}

impl Editor<'_> {
    /// Adds a bundle at the root: one sorted run, as it comes from memory.
    fn incorporate(&mut self, parts: &[Arc<Branch>]) -> Option<Arc<Node>> {
        if parts.is_empty() {
            return None;
        }
        // A maplet whose runs are no longer among the newest `RUNS_MAX` becomes unused.
        self.note_candidates(self.tree.root());
        let mut draft = Draft::of(self.tree.root());
        draft.bundles.push(Bundle::new(self.context.ids.new_bundle(), parts.to_vec()));
        Some(self.write(draft))
    }

    /// Moves references from `node` to its child (SplinterDB §3), if anything is active for the child, and no more runs
    /// than the job allowed for. *Otherwise:* if flushes into the node came meanwhile, the child may have too many then.
    fn flush(&mut self, node: &Node, child: NodeId, (empty, runs_max): (&EmptyOverlaps, usize)) -> Option<Vec<Draft>> {
        let at = node.pivots.iter().position(|pivot| pivot.child.id == child)?;
        let pivot = &node.pivots[at];
        if node.slots[at].runs.len() > runs_max {
            return None;
        }
        let active = &node.bundles[pivot.first_active..];
        if active.is_empty() {
            return None;
        }
        let upper = node.slot_upper(at).map(|upper| &**upper);
        let branches = active.iter().flat_map(|bundle| &bundle.branches);
        let has_keys = |branch: &&Arc<Branch>| run::overlaps(branch, &pivot.lower, upper) && !empty.contains(branch);
        let moved: Vec<_> = branches.filter(has_keys).cloned().collect();
        let mut draft = Draft::of(node);
        draft.pivots[at].first_active = node.bundles.len();
        planted!(Bug::FlushedForNeighbour => {
            if let Some(next) = draft.pivots.get_mut(at + 1) {
                next.first_active = node.bundles.len();
            }
        });
        if !moved.is_empty() {
            let mut below = Draft::of(&pivot.child).with_maplets(&draft.maplets[at]);
            // The maplets of the child may become unused, and the child is not the changed node.
            self.note_candidates(&pivot.child);
            below.bundles.push(Bundle::new(self.context.ids.new_bundle(), moved));
            let below = self.write(below);
            draft.replace_child(at, vec![below]);
        }
        Some(vec![draft])
    }

    /// Replaces a branch, wherever it is, with `parts`, which hold its live data. Nodes and what is active stay the
    /// same.
    fn replace_branch(&mut self, node: &Arc<Node>, branch: &Arc<Branch>, parts: &[Arc<Branch>]) -> Option<Arc<Node>> {
        if !run::overlaps(branch, &node.lower, node.upper.as_deref()) {
            return None;
        }
        let file = branch.meta().file;
        let mut draft = Draft::of(node);
        for at in 0..node.pivots.len() {
            if let Some(child) = self.replace_branch(&node.pivots[at].child, branch, parts) {
                draft.replace_child(at, vec![child]);
            }
        }
        let is_own = node.branches().any(|own| own.meta().file == file);
        if is_own {
            self.note_candidates(node);
            draft.replace_branch(file, parts);
            return Some(self.write(draft));
        }
        let is_same = draft.pivots.iter().zip(&node.pivots).all(|(new, old)| Arc::ptr_eq(&new.child, &old.child));
        (!is_same).then(|| draft.finish(self.context.options))
    }

    /// Splits a leaf at those keys of the plan that lie inside it.
    fn split_leaf(&mut self, node: &Node, split: &SplitPlan) -> Option<Vec<Draft>> {
        let is_inside = |key: &Key| **key > *node.lower && node.upper.as_ref().is_none_or(|upper| **key < **upper);
        let keys: Vec<Key> = split.keys.iter().filter(|key| is_inside(key)).cloned().collect();
        if keys.is_empty() {
            return None;
        }
        let ids = self.context.ids;
        let mut parts = Draft::of(node).split(&keys, || ids.new_node());
        for part in &mut parts {
            // The part may be smaller than the one that the job saw. A branch without a key in that has none in this.
            if let Some((_, empty)) = split.empty_overlaps.iter().find(|(lower, _)| *lower == part.lower) {
                part.drop_empty_overlaps(empty);
            }
        }
        Some(parts)
    }

    /// Replaces these children with one node, if they are there as the job saw them. A joined leaf holds `run`.
    fn join(&mut self, node: &Node, seen: &[Arc<Node>], run: &[Arc<Branch>]) -> Option<Vec<Draft>> {
        let range = neighbours::find(node, seen)?;
        let first_active = neighbours::first_active(node, range.clone())?;
        let children: Vec<Arc<Node>> =
            node.pivots[range.clone()].iter().map(|pivot| Arc::clone(&pivot.child)).collect();
        let [first, rest @ ..] = &children[..] else { return None };
        let joined = if first.is_leaf() {
            let mut leaf = Draft::leaf(first.id, Arc::clone(&first.lower), node.slot_upper(range.end - 1).cloned());
            leaf.bundles.extend((!run.is_empty()).then(|| Bundle::new(self.context.ids.new_bundle(), run.to_vec())));
            leaf
        } else {
            if children.iter().filter(|child| !child.bundles.is_empty()).count() > 1 {
                return None;
            }
            let mut joined = Draft::of(first);
            rest.iter().for_each(|next| joined.append(Draft::of(next)));
            joined
        };
        children.iter().for_each(|child| self.note_candidates(child));
        rest.iter().for_each(|next| self.drop_node(next.id));
        let joined = self.write_within_fanout(joined);
        let mut draft = Draft::of(node);
        draft.join_children(range, joined, first_active);
        Some(vec![draft])
    }
}
