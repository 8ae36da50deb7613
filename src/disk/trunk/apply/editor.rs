//! The editor: makes a new tree out of an old one, and the edit that says the same to the manifest. One thread, which
//! holds the edit mutex. `changes.rs` says what each kind of change does.
//!
//! Rules:
//! 1. Nodes on the path to a change are copied in memory. Only nodes whose own content changed go into the edit,
//!    because children are referred to by id.
//! 2. Splits go bottom-up inside the same edit. An internal node with more than F pivots is split evenly.
//! 3. A branch is dropped in the edit after which no node refers to it (`unreferenced.rs`).
//! 4. A root with one child and nothing active is removed in the edit that made it so.

use super::applied::Applied;
use super::ids::Ids;
use super::unreferenced::{used_branches, used_maplets};
use crate::branch::{Branch, Maplet};
use crate::disk::runs::jobs::claims::ClaimGuard;
use crate::disk::runs::run::Key;
use crate::disk::trunk::jobs::change::NodeRange;
use crate::disk::trunk::jobs::claim::Claim;
use crate::disk::trunk::options::TrunkOptions;
use crate::disk::trunk::quiet_credit::QuietCredit;
use crate::disk::trunk::tree::draft::Draft;
use crate::disk::trunk::tree::node::{Node, Pivot};
use crate::disk::trunk::tree::tree::Tree;
use crate::format::manifest_edit::{ManifestEdit, NodeId};
use crate::util::sync::{Arc, Mutex};
use crate::util::{FileNumber, FileNumbers, SequenceNumber};
use std::collections::{BTreeMap, BTreeSet};

/// What the editor needs of the trunk.
#[derive(Clone, Copy)]
pub struct EditContext<'a> {
    pub options: &'a TrunkOptions,
    pub ids: &'a Ids,
    pub files: &'a FileNumbers,
    /// Maplets that the manifest names and that serve no slot. The next edit drops them.
    pub unused_maplets: &'a Mutex<Vec<Arc<Maplet>>>,
}

/// How a node of the range is to change: the nodes that replace it, or nothing.
pub type NodeChange<'f> = dyn FnMut(&mut Editor<'_>, &Node) -> Option<Vec<Draft>> + 'f;

/// See the module.
pub struct Editor<'a> {
    pub context: EditContext<'a>,
    pub tree: &'a Arc<Tree>,
    edit: ManifestEdit,
    /// Branches to which some changed node referred before.
    candidates: BTreeMap<FileNumber, Arc<Branch>>,
    /// Maplets that served some changed node before, and the new one.
    candidate_maplets: BTreeMap<FileNumber, Arc<Maplet>>,
    new_maplet: Option<FileNumber>,
    credit: QuietCredit,
}

impl<'a> Editor<'a> {
    /// An editor of `tree`, which is the newest tree.
    pub fn new(context: EditContext<'a>, tree: &'a Arc<Tree>) -> Self {
        Self {
            context,
            tree,
            edit: ManifestEdit::default(),
            candidates: BTreeMap::new(),
            candidate_maplets: BTreeMap::new(),
            new_maplet: None,
            credit: tree.credit(),
        }
    }

    /// Changes the nodes that are now in the range. Returns the new root if anything changed.
    pub fn change(&mut self, range: &NodeRange, change: &mut NodeChange<'_>) -> Option<Arc<Node>> {
        let nodes = self.rewrite(self.tree.root(), range, change)?;
        let root = self.grow(nodes);
        Some(self.shrink(root))
    }

    fn rewrite(&mut self, node: &Arc<Node>, range: &NodeRange, change: &mut NodeChange<'_>) -> Option<Vec<Arc<Node>>> {
        if !node.meets(&range.lower, range.upper.as_deref()) || node.height < range.height {
            return None;
        }
        if node.height == range.height {
            let drafts = change(self, node)?;
            self.note_candidates(node);
            return Some(drafts.into_iter().map(|draft| self.write(draft)).collect());
        }
        let mut draft = Draft::of(node);
        // From the right, so that the indices on the left stay valid.
        for at in (0..node.pivots.len()).rev() {
            if let Some(children) = self.rewrite(&node.pivots[at].child, range, change) {
                draft.replace_child(at, children);
            }
        }
        let is_same = draft.pivots.len() == node.pivots.len();
        if is_same && draft.pivots.iter().zip(&node.pivots).all(|(new, old)| Arc::ptr_eq(&new.child, &old.child)) {
            return None;
        }
        if is_same {
            return Some(vec![draft.finish(self.context.options)]);
        }
        self.note_candidates(node);
        Some(self.write_within_fanout(draft))
    }

    /// The node is about to change: what it refers to may become unreferenced.
    pub fn note_candidates(&mut self, node: &Node) {
        self.candidates.extend(node.branches().map(|branch| (branch.meta().file, Arc::clone(branch))));
        let maplets = node.slots.iter().flat_map(|slot| slot.maplet_index.maplets());
        self.candidate_maplets.extend(maplets.map(|maplet| (maplet.meta().file, Arc::clone(maplet))));
    }

    /// The edit adds this maplet, if it serves some slot.
    pub fn note_new_maplet(&mut self, maplet: &Arc<Maplet>) {
        self.candidate_maplets.insert(maplet.meta().file, Arc::clone(maplet));
        self.new_maplet = Some(maplet.meta().file);
    }

    /// Makes the node and puts its image into the edit.
    pub fn write(&mut self, draft: Draft) -> Arc<Node> {
        let node = draft.finish(self.context.options);
        self.edit.nodes.push(node.image());
        node
    }

    /// Makes a node of a draft, or as many as the fanout requires.
    pub fn write_within_fanout(&mut self, draft: Draft) -> Vec<Arc<Node>> {
        let count = draft.pivots.len();
        let parts = count.div_ceil(self.context.options.fanout).max(1);
        let keys: Vec<Key> = (1..parts).map(|at| Arc::clone(&draft.pivots[count * at / parts].lower)).collect();
        let ids = self.context.ids;
        draft.split(&keys, || ids.new_node()).into_iter().map(|draft| self.write(draft)).collect()
    }

    /// Puts new roots over `nodes` until there is one.
    fn grow(&mut self, mut nodes: Vec<Arc<Node>>) -> Arc<Node> {
        while nodes.len() > 1 {
            let height = nodes[0].height + 1;
            let pivot = |child: Arc<Node>| Pivot { lower: Arc::clone(&child.lower), child, first_active: 0 };
            let pivots: Vec<_> = nodes.into_iter().map(pivot).collect();
            let id = self.context.ids.new_node();
            let root = Draft::new(id, height, (Arc::from([]), None), pivots, Vec::new());
            nodes = self.write_within_fanout(root);
        }
        nodes.swap_remove(0)
    }

    /// Removes roots that have one child and nothing that waits for it.
    fn shrink(&mut self, mut root: Arc<Node>) -> Arc<Node> {
        while root.pivots.len() == 1 && root.bundles.is_empty() {
            self.drop_node(root.id);
            root = Arc::clone(&root.pivots[0].child);
        }
        root
    }

    /// The edit drops a node from the manifest.
    pub fn drop_node(&mut self, id: NodeId) {
        self.edit.nodes.retain(|image| image.id != id);
        self.edit.nodes_dropped.push(id);
    }

    /// Completes the change. `root` is the new root, if anything changed; `added` are the new branches.
    pub fn finish(
        mut self,
        root: Option<Arc<Node>>,
        added: Vec<Arc<Branch>>,
        claim: Option<Arc<ClaimGuard<Claim>>>,
    ) -> Applied {
        let (mut obsolete, mut obsolete_maplets) = (Vec::new(), Vec::new());
        let tree = match root {
            Some(root) => {
                obsolete = self.settle_branches(&root, &added);
                obsolete_maplets = self.settle_maplets(&root);
                if root.id != self.tree.root().id {
                    self.edit.root = Some(root.id);
                }
                let (node, bundle) = self.context.ids.next();
                self.edit.next_file = Some(self.context.files.next());
                self.edit.next_node = Some(node);
                self.edit.next_bundle = Some(bundle);
                self.tree.followed_by(root, self.credit)
            }
            None => {
                obsolete.extend(added);
                obsolete_maplets.extend(self.new_maplet.and_then(|file| self.candidate_maplets.remove(&file)));
                if self.credit == self.tree.credit() {
                    Arc::clone(self.tree)
                } else {
                    self.tree.followed_by(Arc::clone(self.tree.root()), self.credit)
                }
            }
        };
        let (QuietCredit { user_bytes, quiet_bytes }, before) = (self.credit, self.tree.credit());
        self.edit.user_bytes = (user_bytes != before.user_bytes).then_some(user_bytes);
        self.edit.quiet_bytes = (quiet_bytes != before.quiet_bytes).then_some(quiet_bytes);
        Applied { edit: self.edit, tree, obsolete, obsolete_maplets, claim }
    }

    /// So many bytes of users' keys and values come in, and the edit says that all of memory up to this number has.
    pub fn note_incorporated(&mut self, through: Option<SequenceNumber>, user_bytes: u64) {
        self.edit.incorporated = through;
        self.credit = self.credit.incorporated(user_bytes);
    }

    /// The edit charges the credit for quiet times.
    pub fn charge(&mut self, bytes: i64) {
        self.credit = self.credit.charged(bytes);
    }

    /// Adds the changes of the set of branches to the edit. Returns the branches that are removed.
    fn settle_branches(&mut self, root: &Arc<Node>, added: &[Arc<Branch>]) -> Vec<Arc<Branch>> {
        self.candidates.extend(added.iter().map(|branch| (branch.meta().file, Arc::clone(branch))));
        let used = used_branches(root, &self.candidates);
        for branch in added {
            if used.contains(&branch.meta().file) {
                self.edit.branches_added.push(branch.meta().clone());
            }
        }
        let fresh: BTreeSet<FileNumber> = added.iter().map(|branch| branch.meta().file).collect();
        let mut obsolete = Vec::new();
        for (file, branch) in std::mem::take(&mut self.candidates) {
            if !used.contains(&file) {
                obsolete.push(branch);
                if !fresh.contains(&file) {
                    self.edit.branches_dropped.push(file);
                }
            }
        }
        obsolete
    }

    /// Adds the changes of the set of maplets to the edit. Returns the maplets that are removed.
    fn settle_maplets(&mut self, root: &Arc<Node>) -> Vec<Arc<Maplet>> {
        let mut candidates = std::mem::take(&mut self.candidate_maplets);
        // Only here, where there is an edit: an empty edit drops nothing.
        let unused = std::mem::take(&mut *self.context.unused_maplets.lock());
        candidates.extend(unused.into_iter().map(|maplet| (maplet.meta().file, maplet)));
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
