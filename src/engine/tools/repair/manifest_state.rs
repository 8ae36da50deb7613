//! Edits the manifest state that a repair writes. Pure functions.

use crate::engine::types::options::COMPARATOR;
use crate::format::manifest_edit::{
    BranchMeta, BundleId, BundleImage, Identity, KeyspaceRecord, LogRecovered, NodeId, NodeImage,
};
use crate::manifest::ManifestState;
use crate::util::{DatabaseId, FileNumber, KeyspaceId, SequenceNumber};
use std::collections::BTreeMap;

/// Replaces some branch files of the tree by other files, or removes them (`None`).
pub(crate) fn replace(state: &mut ManifestState, replaced: &BTreeMap<FileNumber, Option<BranchMeta>>) {
    for (old, new) in replaced {
        state.branches.remove(old);
        state.branches.extend(new.iter().map(|meta| (meta.file, meta.clone())));
    }
    for node in state.nodes.values_mut() {
        for bundle in &mut node.bundles {
            let replacement = |file: &FileNumber| match replaced.get(file) {
                Some(new) => new.as_ref().map(|meta| meta.file),
                None => Some(*file),
            };
            bundle.branches = bundle.branches.iter().filter_map(replacement).collect();
        }
        drop_empty_bundles(node);
    }
}

/// Removes bundles without branches and adjusts the pivots' `first_active`.
fn drop_empty_bundles(node: &mut NodeImage) {
    for pivot in &mut node.pivots {
        let before = &node.bundles[..(pivot.first_active as usize).min(node.bundles.len())];
        pivot.first_active -= before.iter().filter(|bundle| bundle.branches.is_empty()).count() as u32;
    }
    node.bundles.retain(|bundle| !bundle.branches.is_empty());
}

/// Adds a run to the root as its newest bundle.
pub(crate) fn add_newest_run(state: &mut ManifestState, parts: &[BranchMeta]) {
    let Some(root) = state.root.and_then(|root| state.nodes.get_mut(&root)) else { return };
    if parts.is_empty() {
        return;
    }
    let id = state.next_bundle;
    state.next_bundle = BundleId(id.0 + 1);
    let branches = parts.iter().map(|meta| meta.file).collect();
    root.bundles.push(BundleImage { id, compacted: true, branches });
    state.branches.extend(parts.iter().map(|meta| (meta.file, meta.clone())));
}

/// A state without files. The tree is one empty leaf.
pub(crate) fn empty(database: DatabaseId) -> ManifestState {
    let root = NodeId(1);
    ManifestState {
        identity: Identity { database },
        nodes: [(root, NodeImage { id: root, ..NodeImage::default() })].into(),
        root: Some(root),
        keyspaces: vec![KeyspaceRecord {
            id: KeyspaceId::DEFAULT,
            name: "default".into(),
            comparator: COMPARATOR.into(),
        }],
        next_node: NodeId(2),
        next_bundle: BundleId(1),
        ..ManifestState::default()
    }
}

/// Records that no earlier log epoch is needed any more.
pub(crate) fn discard_log(
    state: &mut ManifestState,
    incorporated: SequenceNumber,
    recovered: LogRecovered,
    next_file: FileNumber,
) {
    state.incorporated = state.incorporated.max(incorporated);
    state.log_epochs_from = state.log_epochs_from.max(recovered.epoch + 1);
    state.log_files_from = next_file;
    state.recovered = vec![recovered];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::manifest_edit::PivotImage;

    fn bundle(id: u64, branches: &[u64]) -> BundleImage {
        let branches = branches.iter().map(|file| FileNumber(*file)).collect();
        BundleImage { id: BundleId(id), compacted: true, branches }
    }

    #[test]
    fn replacing_branches_removes_empty_bundles_and_adjusts_pivots() {
        let mut state = empty(DatabaseId(1));
        let root = state.nodes.get_mut(&NodeId(1)).unwrap();
        root.height = 1;
        root.bundles = vec![bundle(1, &[10]), bundle(2, &[11, 12]), bundle(3, &[13])];
        root.pivots = [0, 1, 2, 3].map(|first_active| PivotImage { first_active, ..PivotImage::default() }).into();
        let new = BranchMeta { file: FileNumber(20), ..BranchMeta::default() };
        let replaced = [(FileNumber(10), None), (FileNumber(12), Some(new)), (FileNumber(13), None)].into();
        replace(&mut state, &replaced);
        let root = &state.nodes[&NodeId(1)];
        assert_eq!(root.bundles, [bundle(2, &[11, 20])]);
        assert_eq!(root.pivots.iter().map(|pivot| pivot.first_active).collect::<Vec<_>>(), [0, 0, 1, 1]);
    }
}
