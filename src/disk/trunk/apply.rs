//! Turning an outcome into a new tree and the edit that says the same to the manifest. The caller holds the edit mutex.
//!
//! Rules:
//! 1. Nodes on the path to a change are copied in memory; only nodes whose own content changed go into the edit, since
//!    children are referred to by id.
//! 2. Splits go bottom-up inside the same edit; an internal node with more than F pivots is parted evenly.
//! 3. A branch is dropped in the edit after which no node refers to it. Whether one does is looked up in the new tree, by
//!    key range, so no count can go wrong.
//! 4. The tree may have changed since the job looked at it. Meanwhile a pivot can only have been flushed (then none of the
//!    job's bundles is active for it any more) and a node can only have been split (then its bundles are in each part, with
//!    the parts' own pivots active as before) or joined with its neighbours (`join.rs`). A leaf that a job works on is not joined, nor is
//!    anything flushed to it while it is: their claims meet. An internal node may be, and then its bundles stand in the joined node, with its
//!    own pivots active as before and the others without; a merge that began on one of several nodes with the same bundles keeps these
//!    from being joined, so that its result cannot take the place of another's share. What is active for a key never becomes
//!    more. So a merge result takes the place of its bundles wherever they still are;
//!    files that nothing then refers to were never part of the store and go at once. A joining is dropped where its nodes no longer
//!    stand side by side under one parent, or cannot share what is active there.
//! 5. A root with one child and nothing active goes in the edit that made it so.

use super::bundle::Bundle;
use super::claims::Ticket;
use super::draft::Draft;
use super::hollow::{Cuts, Hollow};
use super::job::{Change, Outcome, Place};
use super::join;
use super::node::{Key, Node, Pivot};
use super::options::TrunkOptions;
use super::redundancy::Redundancy;
use super::run;
use super::tree::Tree;
use super::trunk::Trunk;
use crate::branch::{Branch, Maplet};
use crate::format::manifest_edit::{BundleId, ManifestEdit, NodeId};
use crate::util::planted::planted;
use crate::util::sync::Arc;
use crate::util::{FileNumber, SequenceNumber};
use std::collections::{BTreeMap, BTreeSet};

/// A change that is ready: to be logged, then published, then finished.
#[derive(Debug)]
#[must_use]
pub struct Applied {
    /// What to log. Empty where nothing changed.
    pub edit: ManifestEdit,
    /// What to publish once the edit is durable.
    pub tree: Arc<Tree>,
    /// Branches that the tree does not refer to; readers of older trees may still hold them.
    pub obsolete: Vec<Arc<Branch>>,
    /// Maplets that serve nothing in it.
    pub obsolete_maplets: Vec<Arc<Maplet>>,
    ticket: Option<Arc<Ticket>>,
}

impl Applied {
    /// Whether there is nothing to log and nothing to publish.
    pub fn is_empty(&self) -> bool {
        self.edit == ManifestEdit::default()
    }

    /// To be called once the tree is published: lets go of the files that it does not use. (If the edit's fate is unknown
    /// because logging it failed, drop the value instead: then no file is touched.)
    pub fn finish(self) {
        for branch in &self.obsolete {
            branch.mark_obsolete();
        }
        for maplet in &self.obsolete_maplets {
            maplet.mark_obsolete();
        }
        drop(self.ticket);
    }
}

/// See `Trunk::apply`.
pub fn apply(trunk: &Trunk, outcome: Outcome, tree: &Arc<Tree>) -> Applied {
    let mut editor = Editor::new(trunk, tree);
    let mut added = Vec::new();
    let mut incorporated = None;
    let root = match outcome.change {
        Change::Nothing => None,
        Change::Incorporate { parts, through } => {
            incorporated = Some(through);
            added = parts.take();
            editor.incorporate(&added)
        }
        Change::Flush { place, child, hollow } => {
            editor.change(&place, &mut |editor, node| editor.flush(node, child, &hollow))
        }
        Change::Merge { place, bundles, merged, measured } => {
            let (run, new) = merged.take();
            added = new;
            let merged = Bundle::new(trunk.new_bundle(), run);
            editor.change(&place, &mut |_, node| merge(node, (&bundles, &merged), measured))
        }
        Change::Map { place, maplet } => maplet.take().and_then(|maplet| {
            editor.candidate_maplets.insert(maplet.meta().file, Arc::clone(&maplet));
            editor.new_maplet = Some(maplet.meta().file);
            editor.change(&place, &mut |_, node| Some(vec![Draft::of(node).offered(std::slice::from_ref(&maplet))]))
        }),
        Change::RewriteLive { branch, parts } => {
            added = parts.take();
            editor.replace_branch(tree.root(), &branch, &added)
        }
        Change::Split { place, cuts } => editor.change(&place, &mut |editor, node| editor.split_leaf(node, &cuts)),
        Change::Join { place, mut joined } => {
            let (run, new) = joined.take_run();
            added = new;
            editor.change(&place, &mut |editor, node| editor.join(node, &joined.children, &run))
        }
    };
    editor.finish(root, added, incorporated, outcome.ticket)
}

/// How a node of the place is to change: the nodes that come in its stead, or nothing.
type NodeChange<'f> = dyn FnMut(&mut Editor<'_>, &Node) -> Option<Vec<Draft>> + 'f;

struct Editor<'a> {
    trunk: &'a Trunk,
    tree: &'a Arc<Tree>,
    options: &'a TrunkOptions,
    edit: ManifestEdit,
    /// Branches that some changed node referred to before.
    candidates: BTreeMap<FileNumber, Arc<Branch>>,
    /// Maplets that served some changed node before, and the new one.
    candidate_maplets: BTreeMap<FileNumber, Arc<Maplet>>,
    new_maplet: Option<FileNumber>,
}

impl<'a> Editor<'a> {
    fn new(trunk: &'a Trunk, tree: &'a Arc<Tree>) -> Self {
        Self {
            trunk,
            tree,
            options: trunk.options(),
            edit: ManifestEdit::default(),
            candidates: BTreeMap::new(),
            candidate_maplets: BTreeMap::new(),
            new_maplet: None,
        }
    }

    /// Changes the nodes that the place has become; gives the new root if anything changed.
    fn change(&mut self, place: &Place, change: &mut NodeChange<'_>) -> Option<Arc<Node>> {
        let nodes = self.rewrite(self.tree.root(), place, change)?;
        let root = self.grow(nodes);
        Some(self.shrink(root))
    }

    fn rewrite(&mut self, node: &Arc<Node>, place: &Place, change: &mut NodeChange<'_>) -> Option<Vec<Arc<Node>>> {
        if !node.meets(&place.lower, place.upper.as_deref()) || node.height < place.height {
            return None;
        }
        if node.height == place.height {
            let drafts = change(self, node)?;
            self.note_candidates(node);
            return Some(drafts.into_iter().map(|draft| self.write(draft)).collect());
        }
        let mut draft = Draft::of(node);
        // From the right, so that the indices in front stay.
        for at in (0..node.pivots.len()).rev() {
            if let Some(children) = self.rewrite(&node.pivots[at].child, place, change) {
                draft.replace_child(at, children);
            }
        }
        let is_same = draft.pivots.len() == node.pivots.len();
        if is_same && draft.pivots.iter().zip(&node.pivots).all(|(new, old)| Arc::ptr_eq(&new.child, &old.child)) {
            return None;
        }
        if is_same {
            return Some(vec![draft.finish(self.options)]);
        }
        self.note_candidates(node);
        Some(self.write_within_fanout(draft))
    }

    fn note_candidates(&mut self, node: &Node) {
        self.candidates.extend(node.branches().map(|branch| (branch.meta().file, Arc::clone(branch))));
        let maplets = node.slots.iter().flat_map(|slot| slot.cover.maplets());
        self.candidate_maplets.extend(maplets.map(|maplet| (maplet.meta().file, Arc::clone(maplet))));
    }

    /// Makes the node, and puts its image into the edit.
    fn write(&mut self, draft: Draft) -> Arc<Node> {
        let node = draft.finish(self.options);
        self.edit.nodes.push(node.image());
        node
    }

    /// Makes one node of a draft, or as many as the fanout asks for.
    fn write_within_fanout(&mut self, draft: Draft) -> Vec<Arc<Node>> {
        let count = draft.pivots.len();
        let parts = count.div_ceil(self.options.fanout).max(1);
        let keys: Vec<Key> = (1..parts).map(|at| Arc::clone(&draft.pivots[count * at / parts].lower)).collect();
        let trunk = self.trunk;
        draft.split(&keys, || trunk.new_node()).into_iter().map(|draft| self.write(draft)).collect()
    }

    /// Puts new roots over `nodes` until there is one.
    fn grow(&mut self, mut nodes: Vec<Arc<Node>>) -> Arc<Node> {
        while nodes.len() > 1 {
            let height = nodes[0].height + 1;
            let pivot = |child: Arc<Node>| Pivot { lower: Arc::clone(&child.lower), child, first_active: 0 };
            let pivots: Vec<_> = nodes.into_iter().map(pivot).collect();
            let root = Draft::of_parts(self.trunk.new_node(), height, (Arc::from([]), None), pivots, Vec::new());
            nodes = self.write_within_fanout(root);
        }
        nodes.swap_remove(0)
    }

    /// Takes away roots that have one child and nothing that waits for it.
    fn shrink(&mut self, mut root: Arc<Node>) -> Arc<Node> {
        while root.pivots.len() == 1 && root.bundles.is_empty() {
            self.drop_node(root.id);
            root = Arc::clone(&root.pivots[0].child);
        }
        root
    }

    /// The manifest forgets a node that it knows.
    fn drop_node(&mut self, id: NodeId) {
        self.edit.nodes.retain(|image| image.id != id);
        self.edit.nodes_dropped.push(id);
    }

    /// A new bundle at the root, one sorted run as it comes from memory.
    fn incorporate(&mut self, parts: &[Arc<Branch>]) -> Option<Arc<Node>> {
        if parts.is_empty() {
            return None;
        }
        let mut draft = Draft::of(self.tree.root());
        draft.bundles.push(Bundle::new(self.trunk.new_bundle(), parts.to_vec()));
        Some(self.write(draft))
    }

    /// References move from `node` to its child (SplinterDB §3); nothing where nothing is active for the child.
    fn flush(&mut self, node: &Node, child: NodeId, hollow: &Hollow) -> Option<Vec<Draft>> {
        let at = node.pivots.iter().position(|pivot| pivot.child.id == child)?;
        let pivot = &node.pivots[at];
        let active = &node.bundles[pivot.first_active..];
        if active.is_empty() {
            return None;
        }
        let upper = node.slot_upper(at).map(|upper| &**upper);
        let branches = active.iter().flat_map(|bundle| &bundle.branches);
        let has_keys = |branch: &&Arc<Branch>| run::overlaps(branch, &pivot.lower, upper) && !hollow.holds(branch);
        let moved: Vec<_> = branches.filter(has_keys).cloned().collect();
        let mut draft = Draft::of(node);
        draft.pivots[at].first_active = node.bundles.len();
        planted!(Bug::FlushedForNeighbour => {
            if let Some(next) = draft.pivots.get_mut(at + 1) {
                next.first_active = node.bundles.len();
            }
        });
        if !moved.is_empty() {
            let mut below = Draft::of(&pivot.child).offered(&draft.maplets[at]);
            // What serves the child was not looked at as part of a changed node.
            self.note_candidates(&pivot.child);
            below.bundles.push(Bundle::new(self.trunk.new_bundle(), moved));
            let below = self.write(below);
            draft.replace_child(at, vec![below]);
        }
        Some(vec![draft])
    }

    /// Puts `parts`, which hold what is live of a branch, in its place, wherever it is. The nodes stay the same, and what is active.
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
        (!is_same).then(|| draft.finish(self.options))
    }

    fn split_leaf(&mut self, node: &Node, cuts: &Cuts) -> Option<Vec<Draft>> {
        let is_inside = |key: &Key| **key > *node.lower && node.upper.as_ref().is_none_or(|upper| **key < **upper);
        let keys: Vec<Key> = cuts.keys.iter().filter(|key| is_inside(key)).cloned().collect();
        if keys.is_empty() {
            return None;
        }
        let trunk = self.trunk;
        let mut parts = Draft::of(node).split(&keys, || trunk.new_node());
        for part in &mut parts {
            // The node may be a part by now of what was looked at: what is hollow there is hollow here.
            if let Some((_, hollow)) = cuts.hollow.iter().find(|(lower, _)| *lower == part.lower) {
                part.leave_out(hollow);
            }
        }
        Some(parts)
    }

    /// One node in the place of these children, if they are there as the job saw them; leaves hold `run` then.
    fn join(&mut self, node: &Node, seen: &[Arc<Node>], run: &[Arc<Branch>]) -> Option<Vec<Draft>> {
        let range = join::find(node, seen)?;
        let first_active = join::first_active(node, range.clone())?;
        let children: Vec<Arc<Node>> =
            node.pivots[range.clone()].iter().map(|pivot| Arc::clone(&pivot.child)).collect();
        let [first, rest @ ..] = &children[..] else { return None };
        let joined = if first.is_leaf() {
            let mut leaf = Draft::leaf(first.id, Arc::clone(&first.lower), node.slot_upper(range.end - 1).cloned());
            leaf.bundles.extend((!run.is_empty()).then(|| Bundle::new(self.trunk.new_bundle(), run.to_vec())));
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

    /// The edit, complete, and what goes with it.
    fn finish(
        mut self,
        root: Option<Arc<Node>>,
        added: Vec<Arc<Branch>>,
        incorporated: Option<SequenceNumber>,
        ticket: Option<Arc<Ticket>>,
    ) -> Applied {
        self.edit.incorporated = incorporated;
        let (mut obsolete, mut obsolete_maplets) = (Vec::new(), Vec::new());
        let tree = match root {
            Some(root) => {
                self.candidates.extend(added.iter().map(|branch| (branch.meta().file, Arc::clone(branch))));
                let used = used(&root, &self.candidates);
                for branch in &added {
                    if used.contains(&branch.meta().file) {
                        self.edit.branches_added.push(branch.meta().clone());
                    }
                }
                let fresh: BTreeSet<FileNumber> = added.iter().map(|branch| branch.meta().file).collect();
                for (file, branch) in std::mem::take(&mut self.candidates) {
                    if !used.contains(&file) {
                        obsolete.push(branch);
                        if !fresh.contains(&file) {
                            self.edit.branches_dropped.push(file);
                        }
                    }
                }
                obsolete_maplets = self.settle_maplets(&root);
                if root.id != self.tree.root().id {
                    self.edit.root = Some(root.id);
                }
                let (node, bundle) = self.trunk.next_ids();
                self.edit.next_file = Some(self.trunk.next_file());
                self.edit.next_node = Some(node);
                self.edit.next_bundle = Some(bundle);
                self.tree.followed_by(root)
            }
            None => {
                obsolete = added;
                obsolete_maplets.extend(self.new_maplet.and_then(|file| self.candidate_maplets.remove(&file)));
                Arc::clone(self.tree)
            }
        };
        Applied { edit: self.edit, tree, obsolete, obsolete_maplets, ticket }
    }

    /// Says in the edit which maplets come and go; gives those that go.
    fn settle_maplets(&mut self, root: &Arc<Node>) -> Vec<Arc<Maplet>> {
        let mut candidates = std::mem::take(&mut self.candidate_maplets);
        // Only here, where there is an edit: one that is empty drops nothing.
        candidates.extend(self.trunk.take_unused_maplets());
        let used = used_maplets(root, &candidates);
        if let Some(new) = self.new_maplet.filter(|new| used.contains(new)) {
            self.edit.maplets_added.extend(candidates.get(&new).map(|maplet| maplet.meta().clone()));
        }
        candidates.retain(|file, _| !used.contains(file));
        let known = candidates.keys().filter(|file| Some(**file) != self.new_maplet);
        self.edit.maplets_dropped.extend(known);
        candidates.into_values().collect()
    }
}

/// Puts a merged bundle in the place of those that it was made of, as far as they are still there.
fn merge(
    node: &Node,
    (inputs, merged): (&[BundleId], &Arc<Bundle>),
    measured: Option<Redundancy>,
) -> Option<Vec<Draft>> {
    let present = |bundle: &Arc<Bundle>| inputs.contains(&bundle.id);
    let from = node.bundles.iter().position(present)?;
    let to = from + node.bundles[from..].iter().take_while(|bundle| present(bundle)).count();
    assert!(!node.bundles[to..].iter().any(present), "merged bundles stand side by side");
    let mut draft = Draft::of(node);
    draft.replace_bundles(from, to, Arc::clone(merged));
    if let Some(measured) = measured {
        draft.note_redundancy(measured);
    }
    Some(vec![draft])
}

/// Which of the candidates some node refers to. Only nodes that meet a candidate's key range can.
fn used(root: &Arc<Node>, candidates: &BTreeMap<FileNumber, Arc<Branch>>) -> BTreeSet<FileNumber> {
    let mut used = BTreeSet::new();
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        let files = node.branches().map(|branch| branch.meta().file);
        used.extend(files.filter(|file| candidates.contains_key(file)));
        let open = |node: &Node| {
            let meets = |branch: &Branch| run::overlaps(branch, &node.lower, node.upper.as_deref());
            candidates.values().any(|branch| !used.contains(&branch.meta().file) && meets(branch))
        };
        waiting.extend(node.pivots.iter().map(|pivot| &pivot.child).filter(|child| open(child)));
    }
    used
}

/// Which of the candidates serve some slot. Only nodes that meet a candidate's range can have one.
fn used_maplets(root: &Arc<Node>, candidates: &BTreeMap<FileNumber, Arc<Maplet>>) -> BTreeSet<FileNumber> {
    let mut used = BTreeSet::new();
    if candidates.is_empty() {
        return used;
    }
    let mut waiting = vec![root];
    while let Some(node) = waiting.pop() {
        let files = node.slots.iter().flat_map(|slot| slot.cover.maplets()).map(|maplet| maplet.meta().file);
        used.extend(files.filter(|file| candidates.contains_key(file)));
        let open = |node: &Node| {
            let meets = |maplet: &Maplet| node.meets(&maplet.meta().lower, maplet.meta().upper.as_deref());
            candidates.values().any(|maplet| !used.contains(&maplet.meta().file) && meets(maplet))
        };
        waiting.extend(node.pivots.iter().map(|pivot| &pivot.child).filter(|child| open(child)));
    }
    used
}
