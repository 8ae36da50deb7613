//! Edits the manifest state that a repair writes. Pure functions.

use crate::engine::types::options::COMPARATOR;
use crate::format::manifest_edit::{
    BranchMeta, BundleId, BundleImage, Identity, KeyspaceRecord, LogRecovered, NodeId, NodeImage, RunId,
};
use crate::manifest::{ManifestState, RunState};
use crate::util::{DatabaseId, FileNumber, KeyspaceId, SequenceNumber};
use std::collections::{BTreeMap, BTreeSet};

/// Replaces some branch files by other files, or removes them (`None`). A new file may have lost the first or last keys of
/// the old one, so a node refers to it only if its range still overlaps; in a run of a level it takes the old one's place.
/// Returns the new files to which nothing refers; they are not part of the state.
pub(crate) fn replace(
    state: &mut ManifestState,
    replaced: &BTreeMap<FileNumber, Option<BranchMeta>>,
) -> Vec<FileNumber> {
    for file in replaced.keys() {
        state.branches.remove(file);
    }
    let new: BTreeMap<FileNumber, &BranchMeta> = replaced.values().flatten().map(|meta| (meta.file, meta)).collect();
    let branches = &state.branches;
    let meta_of = |file: &FileNumber| new.get(file).copied().or_else(|| branches.get(file));
    for node in state.nodes.values_mut() {
        let bundles = std::mem::take(&mut node.bundles);
        node.bundles.reserve(bundles.len());
        for (at, mut bundle) in bundles.into_iter().enumerate() {
            let replacement = |file: &FileNumber| match replaced.get(file) {
                Some(new) => new.as_ref().filter(|meta| is_seen(node, at, meta)).map(|meta| meta.file),
                None => Some(*file),
            };
            if bundle.branches.iter().any(|file| replaced.contains_key(file)) {
                bundle.branches = bundle.branches.iter().filter_map(replacement).collect();
                bundle.compacted = is_run(&bundle.branches, meta_of);
            }
            node.bundles.push(bundle);
        }
        drop_empty_bundles(node);
    }
    for run in state.runs.values_mut() {
        let replacement = |file: &FileNumber| match replaced.get(file) {
            Some(new) => new.as_ref().map(|meta| meta.file),
            None => Some(*file),
        };
        run.branches = run.branches.iter().filter_map(replacement).collect();
    }
    state.runs.retain(|_, run| !run.branches.is_empty());
    let bundles = state.nodes.values().flat_map(|node| &node.bundles);
    let in_nodes = bundles.flat_map(|bundle| bundle.branches.iter().copied());
    let in_runs = state.runs.values().flat_map(|run| run.branches.iter().copied());
    let named: BTreeSet<FileNumber> = in_nodes.chain(in_runs).collect();
    let (used, unused): (Vec<_>, Vec<_>) =
        replaced.values().flatten().cloned().partition(|meta| named.contains(&meta.file));
    state.branches.extend(used.into_iter().map(|meta| (meta.file, meta)));
    unused.into_iter().map(|meta| meta.file).collect()
}

/// Puts branch files in the places of buffered branches, or removes these (`None`). Returns the branch files that no longer
/// belong to the state: the new ones to which nothing refers, and the parents that nobody needs any more.
pub(crate) fn replace_buffered(
    state: &mut ManifestState,
    replaced: &BTreeMap<FileNumber, Option<BranchMeta>>,
) -> Vec<FileNumber> {
    let parents = state.parents();
    for run in state.runs.values_mut() {
        let replacement = |file: &FileNumber| match replaced.get(file) {
            Some(new) => new.as_ref().map(|meta| meta.file),
            None => Some(*file),
        };
        run.branches = run.branches.iter().filter_map(replacement).collect();
    }
    state.runs.retain(|_, run| !run.branches.is_empty());
    state.buffered.retain(|file, _| !replaced.contains_key(file));
    state.branches.extend(replaced.values().flatten().map(|meta| (meta.file, meta.clone())));
    let needed = state.parents();
    let released: Vec<FileNumber> = parents.difference(&needed).copied().collect();
    released.iter().for_each(|file| drop(state.branches.remove(file)));
    released
}

/// Whether these branches are one run: no key of one is among the keys of another.
fn is_run<'a>(branches: &[FileNumber], meta_of: impl Fn(&FileNumber) -> Option<&'a BranchMeta>) -> bool {
    branches.array_windows().all(|[one, next]| {
        let metas = meta_of(one).zip(meta_of(next));
        metas.is_some_and(|(one, next)| one.ends_before(&next.key_min))
    })
}

/// Whether some child for which bundle `at` is active, or the leaf itself, may have keys of the branch.
fn is_seen(node: &NodeImage, at: usize, meta: &BranchMeta) -> bool {
    let overlaps = |lower: &[u8], upper: Option<&[u8]>| {
        !meta.ends_before(lower) && upper.is_none_or(|upper| meta.key_min[..] < *upper)
    };
    let upper = |pivot: usize| node.pivots.get(pivot + 1).map(|next| &next.lower).or(node.upper.as_ref());
    let mut pivots = node.pivots.iter().enumerate();
    let child_sees = pivots.any(|(slot, pivot)| {
        pivot.first_active as usize <= at && overlaps(&pivot.lower, upper(slot).map(|upper| &upper[..]))
    });
    child_sees || (node.pivots.is_empty() && overlaps(&node.lower, node.upper.as_deref()))
}

/// Removes bundles without branches and adjusts the pivots' `first_active`.
fn drop_empty_bundles(node: &mut NodeImage) {
    for pivot in &mut node.pivots {
        let before = &node.bundles[..(pivot.first_active as usize).min(node.bundles.len())];
        pivot.first_active -= before.iter().filter(|bundle| bundle.branches.is_empty()).count() as u32;
    }
    node.bundles.retain(|bundle| !bundle.branches.is_empty());
}

/// Adds a run to the root as its newest bundle, or to level 0 as its newest run.
pub(crate) fn add_newest_run(state: &mut ManifestState, parts: &[BranchMeta]) {
    if state.levels.is_some() && !parts.is_empty() {
        let id = state.next_run;
        state.next_run = RunId(id.0 + 1);
        let mut parts: Vec<&BranchMeta> = parts.iter().collect();
        parts.sort_by(|one, other| one.key_min.cmp(&other.key_min));
        let branches = parts.iter().map(|meta| meta.file).collect();
        state.runs.insert(id, RunState { level: 0, branches });
        state.branches.extend(parts.into_iter().map(|meta| (meta.file, meta.clone())));
        return;
    }
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
            ..KeyspaceRecord::default()
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
    use crate::format::manifest_edit::{LevelsShape, PivotImage};

    fn bundle(id: u64, branches: &[u64]) -> BundleImage {
        let branches = branches.iter().map(|file| FileNumber(*file)).collect();
        BundleImage { id: BundleId(id), compacted: true, branches }
    }

    fn meta(file: u64, first: &str, last: &str) -> BranchMeta {
        BranchMeta { file: FileNumber(file), key_min: first.into(), key_max: last.into(), ..BranchMeta::default() }
    }

    fn pivot(lower: &str, first_active: u32) -> PivotImage {
        PivotImage { lower: lower.into(), first_active, ..PivotImage::default() }
    }

    #[test]
    fn replacing_branches_removes_empty_bundles_and_adjusts_pivots() {
        let mut state = empty(DatabaseId(1));
        state.branches.insert(FileNumber(11), meta(11, "", "A"));
        let root = state.nodes.get_mut(&NodeId(1)).unwrap();
        root.height = 1;
        root.bundles = vec![bundle(1, &[10]), bundle(2, &[11, 12]), bundle(3, &[13])];
        root.pivots = vec![pivot("", 0), pivot("b", 1), pivot("c", 2), pivot("d", 3)];
        let new = meta(20, "a", "c");
        let replaced = [(FileNumber(10), None), (FileNumber(12), Some(new)), (FileNumber(13), None)].into();
        assert_eq!(replace(&mut state, &replaced), []);
        let root = &state.nodes[&NodeId(1)];
        assert_eq!(root.bundles, [bundle(2, &[11, 20])]);
        assert_eq!(root.pivots.iter().map(|pivot| pivot.first_active).collect::<Vec<_>>(), [0, 0, 1, 1]);
        assert!(state.branches.contains_key(&FileNumber(20)));
    }

    #[test]
    fn a_replaced_branch_stays_where_its_keys_are_seen() {
        let mut state = empty(DatabaseId(1));
        let node = |id, lower: &str, upper: Option<&str>, pivots: Vec<PivotImage>| NodeImage {
            id: NodeId(id),
            height: u32::from(!pivots.is_empty()),
            lower: lower.into(),
            upper: upper.map(Into::into),
            pivots,
            bundles: vec![bundle(id, &[10, 11, 12])],
            shares: Vec::new(),
        };
        let nodes = [
            node(1, "", None, vec![pivot("", 1), pivot("f", 0), pivot("m", 1)]),
            node(2, "", Some("f"), Vec::new()),
            node(3, "f", Some("m"), Vec::new()),
            node(4, "m", None, Vec::new()),
        ];
        state.nodes = nodes.into_iter().map(|node| (node.id, node)).collect();
        // The third one has a range tombstone that ends before "m".
        let third = BranchMeta { open_ended: true, ..meta(22, "g", "m") };
        let new = [Some(meta(20, "a", "e")), Some(meta(21, "l", "m")), Some(third)];
        let replaced = [10, 11, 12].map(FileNumber).into_iter().zip(new).collect();
        assert_eq!(replace(&mut state, &replaced), []);
        let of_node = |id: u64| {
            let bundles = &state.nodes[&NodeId(id)].bundles;
            bundles.iter().flat_map(|bundle| &bundle.branches).map(|file| file.0).collect::<Vec<_>>()
        };
        assert_eq!([1, 2, 3, 4].map(of_node), [vec![21, 22], vec![20], vec![21, 22], vec![21]]);
    }

    #[test]
    fn in_levels_a_new_file_takes_the_place_of_the_old_one_and_a_new_run_is_the_newest() {
        let run =
            |level, files: &[u64]| RunState { level, branches: files.iter().map(|file| FileNumber(*file)).collect() };
        let mut state = ManifestState {
            levels: Some(LevelsShape::default()),
            runs: [(RunId(1), run(1, &[10, 11])), (RunId(2), run(0, &[12]))].into(),
            next_run: RunId(3),
            ..ManifestState::default()
        };
        let replaced = [(FileNumber(11), Some(meta(20, "c", "d"))), (FileNumber(12), None)].into();
        assert_eq!(replace(&mut state, &replaced), []);
        assert_eq!(state.runs, [(RunId(1), run(1, &[10, 20]))].into());
        add_newest_run(&mut state, &[meta(22, "e", "f"), meta(21, "a", "b")]);
        assert_eq!(state.runs[&RunId(3)], run(0, &[21, 22]));
        assert_eq!(state.next_run, RunId(4));
        assert!([20, 21, 22].iter().all(|file| state.branches.contains_key(&FileNumber(*file))));
    }

    /// A regression test: a bundle that had become one run was still stored as several, so `verify` found damage after the
    /// repair.
    #[test]
    fn a_bundle_that_becomes_one_run_is_stored_as_one() {
        let replaced_by = |new: Option<BranchMeta>| {
            let mut state = empty(DatabaseId(1));
            let known = [meta(10, "a", "m"), meta(11, "f", "z")];
            state.branches = known.into_iter().map(|meta| (meta.file, meta)).collect();
            let leaf = state.nodes.get_mut(&NodeId(1)).unwrap();
            leaf.bundles = vec![BundleImage { compacted: false, ..bundle(1, &[10, 11]) }];
            assert_eq!(replace(&mut state, &[(FileNumber(10), new)].into()), []);
            let left = &state.nodes[&NodeId(1)].bundles[0];
            (left.branches.len(), left.compacted)
        };
        assert_eq!(replaced_by(None), (1, true));
        assert_eq!(replaced_by(Some(meta(20, "a", "e"))), (2, true));
        assert_eq!(replaced_by(Some(meta(20, "a", "f"))), (2, false));
        assert_eq!(replaced_by(Some(BranchMeta { open_ended: true, ..meta(20, "a", "f") })), (2, true));
    }

    #[test]
    fn a_replaced_branch_that_no_node_sees_is_not_part_of_the_state() {
        let mut state = empty(DatabaseId(1));
        let leaf = state.nodes.get_mut(&NodeId(1)).unwrap();
        (leaf.lower, leaf.bundles) = (b"f".to_vec(), vec![bundle(1, &[10])]);
        let replaced = [(FileNumber(10), Some(meta(20, "a", "e")))].into();
        assert_eq!(replace(&mut state, &replaced), [FileNumber(20)]);
        assert!(state.branches.is_empty() && state.nodes[&NodeId(1)].bundles.is_empty());
    }
}
