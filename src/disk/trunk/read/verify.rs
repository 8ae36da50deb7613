//! Checks of a whole tree: whether it is what the manifest says, whether its maplets belong to it, and whether newer
//! versions are where reads look first. Any thread.

use crate::branch::BranchContext;
use crate::disk::runs::run::{self, Run};
use crate::disk::runs::run_cursor::version_order;
use crate::disk::trunk::options::TrunkOptions;
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::open;
use crate::disk::trunk::tree::tree::Tree;
use crate::format::manifest_edit::{BranchMeta, MapletMeta, NodeImage};
use crate::manifest::{MANIFEST_NAME, ManifestState};
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, Result};
use std::collections::BTreeMap;

/// Whether every node has what reads rely on: its children tile its range, and it refers to no branch that none of its
/// slots sees. Only an internal error could break this, because opening checks what comes from disk. The manifest would
/// then say the same.
pub fn check_structure(tree: &Tree) -> Result<(), String> {
    let mut found = Ok(());
    tree.visit(&mut |node| {
        if found.is_ok() {
            found = check_node(node);
        }
    });
    found
}

fn check_node(node: &Node) -> Result<(), String> {
    for (at, bundle) in node.bundles.iter().enumerate() {
        for branch in &bundle.branches {
            let sees = |slot: usize| {
                let upper = node.slot_upper(slot).map(|upper| &**upper);
                node.first_active(slot) <= at && run::overlaps(branch, node.slot_lower(slot), upper)
            };
            if !(0..node.slots.len()).any(sees) {
                return Err(format!(
                    "node {} refers to branch {}, which none of its slots sees",
                    node.id.0,
                    branch.meta().file
                ));
            }
        }
    }
    for (slot, pivot) in node.pivots.iter().enumerate() {
        let child = &pivot.child;
        let is_in_place = child.height + 1 == node.height
            && child.lower == pivot.lower
            && (slot > 0 || child.lower == node.lower)
            && child.upper.as_ref() == node.slot_upper(slot);
        if !is_in_place {
            return Err(format!("node {} has child {}, whose range is not that of slot {slot}", node.id.0, child.id.0));
        }
    }
    Ok(())
}

/// Whether a tree is what the manifest says, node by node: the same children, bundles, part files and active bundles.
/// So no node refers to a file in which none of its keys can be, and each bundle that is called compacted is one sorted
/// run.
pub fn check_nodes(tree: &Tree, state: &ManifestState) -> Result<(), String> {
    // Shares are estimates, and older manifests lack them.
    let of = |image: NodeImage| NodeImage { shares: Vec::new(), ..image };
    let (mut count, mut differing) = (0, None);
    tree.visit(&mut |node| {
        count += 1;
        let (made, stored) = (of(node.image()), state.nodes.get(&node.id).cloned().map(of));
        if stored.as_ref() != Some(&made) && differing.is_none() {
            differing = Some(format!("{made:?} is stored as {stored:?}"));
        }
    });
    match differing {
        Some(differing) => Err(differing),
        None if count == state.nodes.len() => Ok(()),
        None => Err(format!("a tree of {count} nodes, of which {} are stored", state.nodes.len())),
    }
}

/// Whether every maplet that the manifest names is of use: some slot inside its range refers to a branch in one of its
/// columns. (Other branches of the column may be gone; their keys cost a lookup.) And whether the remaining branches of
/// a column can be parts of one run, because a read looks into only one of them.
pub fn check_maplets(tree: &Tree, state: &ManifestState) -> Result<(), String> {
    let mut unused: BTreeMap<FileNumber, &MapletMeta> =
        state.maplets.iter().map(|(file, meta)| (*file, meta)).collect();
    tree.visit(&mut |node| {
        for (at, slot) in node.slots.iter().enumerate() {
            let (lower, upper) = (node.slot_lower(at), node.slot_upper(at).map(|upper| &**upper));
            let refers =
                |file: &FileNumber| slot.runs.iter().flat_map(|run| run.parts()).any(|part| part.meta().file == *file);
            unused.retain(|_, maplet| {
                let is_inside = maplet.lower[..] <= **lower && ends_within(upper, maplet.upper.as_deref());
                !(is_inside && maplet.columns.iter().flat_map(|column| &column.branches).any(refers))
            });
        }
    });
    if let Some(file) = unused.keys().next() {
        return Err(format!("maplet {file} covers no branch to which a slot inside its range refers"));
    }
    for (file, maplet) in &state.maplets {
        for column in &maplet.columns {
            let mut live: Vec<&BranchMeta> =
                column.branches.iter().filter_map(|file| state.branches.get(file)).collect();
            live.sort_by(|one, other| one.key_min.cmp(&other.key_min));
            if let Some([one, other]) = live.array_windows().find(|[one, other]| !one.ends_before(&other.key_min)) {
                return Err(format!(
                    "a column of maplet {file} has branches {} and {}, which overlap",
                    one.file, other.file
                ));
            }
        }
    }
    Ok(())
}

/// Whether a range that ends at `upper` ends inside one that ends at `outer`; `None` is the end of all keys.
fn ends_within(upper: Option<&[u8]>, outer: Option<&[u8]>) -> bool {
    outer.is_none_or(|outer| upper.is_some_and(|upper| upper <= outer))
}

/// Checks the tree that a consistent manifest (`ManifestState::check`) describes: `check_nodes`, `check_maplets`, and
/// with `deep` the order of versions. Calls `report` with each result; an error from `report` ends the check.
pub fn check_tree(
    context: &Arc<BranchContext>,
    state: &ManifestState,
    deep: bool,
    report: &mut dyn FnMut(Result<()>) -> Result<()>,
) -> Result<()> {
    let tree = match open::tree(context, &Arc::new(TrunkOptions::new(0)), state) {
        Ok((tree, _)) => tree,
        Err(error) => return report(Err(error)),
    };
    let manifest = context.storage.path_of(MANIFEST_NAME);
    report(
        check_nodes(&tree, state)
            .map_err(|found| Error::corruption(&manifest, 0, "trunk node", "the tree that its branches make", found)),
    )?;
    report(check_maplets(&tree, state).map_err(|found| {
        Error::corruption(&manifest, 0, "maplet of the tree", "one for branches that its slots refer to", found)
    }))?;
    if deep { check_order(tree.root(), &mut Vec::new(), context, report) } else { Ok(()) }
}

/// Checks for each leaf that the newer versions of every key are in the newer runs, which reads visit first (`node.rs`,
/// 3). `path` has the runs on the path to the node, newest first. Runs of which the newer has only newer numbers, as in
/// most cases, need not be read.
fn check_order(
    node: &Node,
    path: &mut Vec<Arc<Run>>,
    context: &BranchContext,
    report: &mut dyn FnMut(Result<()>) -> Result<()>,
) -> Result<()> {
    for (at, slot) in node.slots.iter().enumerate() {
        let above = path.len();
        path.extend(slot.runs.iter().cloned());
        match node.pivots.get(at) {
            Some(pivot) => check_order(&pivot.child, path, context, report)?,
            None => {
                let (lower, upper) = (&node.lower, node.upper.as_deref());
                if !version_order::is_ordered_by_numbers(path, lower, upper) {
                    report(version_order::check_versions(path, lower, upper, context))?;
                }
            }
        }
        path.truncate(above);
    }
    Ok(())
}
