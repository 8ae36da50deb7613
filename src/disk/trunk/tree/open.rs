//! Opening: makes the tree from the images in the manifest. Every image is checked before it is used. Any thread.

use super::bundle::Bundle;
use super::draft::Draft;
use super::node::{Node, Pivot};
use super::tree::Tree;
use crate::branch::{Branch, BranchContext, Maplet};
use crate::disk::runs::run::Key;
use crate::disk::trunk::options::TrunkOptions;
use crate::disk::trunk::quiet_credit::QuietCredit;
use crate::format::manifest_edit::{NodeId, NodeImage};
use crate::manifest::{MANIFEST_NAME, ManifestState};
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, Result};
use std::collections::{BTreeMap, HashSet};

/// The id of the first node of a store.
pub const FIRST_NODE: NodeId = NodeId(1);

/// The tree that the manifest describes, or one empty leaf if it describes none yet; and the maplets that serve no
/// slot.
pub fn tree(
    context: &Arc<BranchContext>,
    options: &Arc<TrunkOptions>,
    state: &ManifestState,
) -> Result<(Arc<Tree>, Vec<Arc<Maplet>>)> {
    let maplets = state.maplets.values().map(|meta| Maplet::new(context, meta.clone()));
    let mut maplets: Vec<Arc<Maplet>> = maplets.collect();
    let root = match state.root {
        Some(root) => node(context, options, state, root, &maplets)?,
        None => empty_leaf().finish(options),
    };
    let tree = Tree::new(root, Arc::clone(options), Arc::default(), QuietCredit::of(state));
    let used: HashSet<FileNumber> = tree.maplets().iter().map(|maplet| maplet.meta().file).collect();
    maplets.retain(|maplet| !used.contains(&maplet.meta().file));
    Ok((tree, maplets))
}

/// The first node of a store.
pub fn empty_leaf() -> Draft {
    Draft::leaf(FIRST_NODE, Arc::from([]), None)
}

/// The root, with everything below it.
fn node(
    context: &Arc<BranchContext>,
    options: &TrunkOptions,
    state: &ManifestState,
    root: NodeId,
    maplets: &[Arc<Maplet>],
) -> Result<Arc<Node>> {
    let maplets = if options.maplets { maplets } else { &[] };
    let mut opener = Opener { context, options, state, maplets, branches: BTreeMap::new() };
    let image = opener.image(root)?;
    if !image.lower.is_empty() || image.upper.is_some() {
        return Err(opener.corruption("root's range", "all keys", format!("{image:?}")));
    }
    opener.node(image)
}

struct Opener<'a> {
    context: &'a Arc<BranchContext>,
    options: &'a TrunkOptions,
    state: &'a ManifestState,
    /// All of them. Each slot takes those that serve it.
    maplets: &'a [Arc<Maplet>],
    /// The branches opened so far. Nodes that share a branch file share its `Branch`.
    branches: BTreeMap<FileNumber, Arc<Branch>>,
}

impl<'a> Opener<'a> {
    fn corruption(&self, what: &'static str, expected: impl ToString, found: impl ToString) -> Error {
        Error::corruption(&self.context.storage.path_of(MANIFEST_NAME), 0, what, expected, found)
    }

    fn image(&self, id: NodeId) -> Result<&'a NodeImage> {
        match self.state.nodes.get(&id) {
            Some(image) => Ok(image),
            None => Err(self.corruption("trunk node", format!("node {}", id.0), "none")),
        }
    }

    /// The node, built from the leaves up. It ends because the height of a child is checked to be one less.
    fn node(&mut self, image: &NodeImage) -> Result<Arc<Node>> {
        self.check(image)?;
        let mut pivots = Vec::with_capacity(image.pivots.len());
        for (at, pivot) in image.pivots.iter().enumerate() {
            let child = self.image(pivot.child)?;
            let upper = image.pivots.get(at + 1).map(|next| &next.lower).or(image.upper.as_ref());
            if child.height.checked_add(1) != Some(image.height)
                || child.lower != pivot.lower
                || child.upper.as_ref() != upper
            {
                return Err(self.corruption("trunk child", format!("pivot {at} of {image:?}"), format!("{child:?}")));
            }
            let child = self.node(child)?;
            pivots.push(Pivot { lower: Arc::clone(&child.lower), child, first_active: pivot.first_active as usize });
        }
        let mut bundles = Vec::with_capacity(image.bundles.len());
        for bundle in &image.bundles {
            let branches: Result<Vec<_>> = bundle.branches.iter().map(|file| self.branch(*file)).collect();
            bundles.push(Bundle::new(bundle.id, branches?));
        }
        let bounds: (Key, Option<Key>) = (image.lower[..].into(), image.upper.as_deref().map(Key::from));
        let draft = Draft::new(image.id, image.height, bounds, pivots, bundles);
        Ok(draft.with_stored_shares(&image.shares).with_maplets(self.maplets).finish(self.options))
    }

    fn check(&self, image: &NodeImage) -> Result<()> {
        let has_range = image.upper.as_ref().is_none_or(|upper| image.lower < *upper);
        let is_leaf = image.pivots.is_empty();
        let starts = image.pivots.first().is_none_or(|pivot| pivot.lower == image.lower);
        let ascends = image.pivots.is_sorted_by(|left, right| left.lower < right.lower);
        let active = image.pivots.iter().all(|pivot| pivot.first_active as usize <= image.bundles.len());
        if has_range && is_leaf == (image.height == 0) && starts && ascends && active {
            return Ok(());
        }
        Err(self.corruption("trunk node", "a consistent node", format!("{image:?}")))
    }

    fn branch(&mut self, file: FileNumber) -> Result<Arc<Branch>> {
        if let Some(branch) = self.branches.get(&file) {
            return Ok(Arc::clone(branch));
        }
        let Some(meta) = self.state.branches.get(&file) else {
            return Err(self.corruption("branch of a trunk node", format!("branch {file}"), "none"));
        };
        let branch = Branch::new(self.context, meta.clone());
        self.branches.insert(file, Arc::clone(&branch));
        Ok(branch)
    }
}
