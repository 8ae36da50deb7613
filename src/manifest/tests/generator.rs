//! Random edits that fit a state, as the trunk makes them: incorporate, flush, compact, split, recover.

use crate::format::manifest_edit::testing::Random;
use crate::format::manifest_edit::{BranchMeta, BundleId, BundleImage, KeyspaceRecord, LogRecovered};
use crate::format::manifest_edit::{ManifestEdit, MapletColumn, MapletMeta, NodeId, NodeImage, PivotImage};
use crate::manifest::ManifestState;
use crate::util::{FileNumber, KeyspaceId, SequenceNumber};
use std::collections::{BTreeMap, BTreeSet};

/// The first edit of a store: one leaf that spans all keys, and the default keyspace.
pub fn first_edit() -> ManifestEdit {
    ManifestEdit {
        nodes: vec![NodeImage { id: NodeId(1), ..NodeImage::default() }],
        root: Some(NodeId(1)),
        keyspaces: vec![keyspace(0)],
        ..ManifestEdit::default()
    }
}

fn keyspace(id: u32) -> KeyspaceRecord {
    KeyspaceRecord {
        id: KeyspaceId(id),
        name: format!("keyspace {id}"),
        comparator: "bytewise".into(),
        ..Default::default()
    }
}

/// A random edit that fits `state`.
pub fn next_edit(state: &ManifestState, random: &mut Random) -> ManifestEdit {
    let mut edit = ManifestEdit::default();
    match random.below(14) {
        0..=3 => incorporate(state, random, &mut edit),
        4..=6 => flush(state, random, &mut edit),
        7 => compact(state, random, &mut edit),
        8..=9 => split(state, random, &mut edit),
        10 => recover(state, random, &mut edit),
        11 => log_segments(state, random, &mut edit),
        12 => maplets(state, random, &mut edit),
        _ => edit.keyspaces.push(keyspace(random.below(20) as u32)),
    }
    if random.once_in(4) {
        edit.next_file = Some(FileNumber(state.next_file.0 + random.below(5)));
    }
    drop_unused(state, &mut edit);
    edit
}

fn branch(state: &ManifestState, random: &mut Random, edit: &ManifestEdit) -> BranchMeta {
    let file = FileNumber(state.next_file.0 + edit.branches_added.len() as u64);
    let mut keys = [random.bytes(), random.bytes()];
    keys.sort();
    let [key_min, key_max] = keys;
    let entries = random.below(1000);
    let number_min = SequenceNumber(state.incorporated.0 + 1);
    let number_max = SequenceNumber(number_min.0 + entries);
    let (tombstones, distinct_keys) = (random.below(entries + 1), random.below(entries + 1));
    let value_files = (0..random.below(3)).map(FileNumber).collect();
    let bytes = random.number();
    BranchMeta {
        file,
        bytes,
        key_min,
        key_max,
        number_min,
        number_max,
        entries,
        tombstones,
        distinct_keys,
        range_tombstones: random.below(3),
        open_ended: false,
        value_files,
    }
}

fn root(state: &ManifestState) -> &NodeImage {
    &state.nodes[&state.root.unwrap()]
}

fn any_node(state: &ManifestState, random: &mut Random) -> NodeImage {
    let at = random.below(state.nodes.len() as u64) as usize;
    state.nodes.values().nth(at).unwrap().clone()
}

fn incorporate(state: &ManifestState, random: &mut Random, edit: &mut ManifestEdit) {
    let added = branch(state, random, edit);
    let mut node = root(state).clone();
    node.bundles.push(BundleImage { id: state.next_bundle, compacted: false, branches: vec![added.file] });
    edit.incorporated = Some(added.number_max);
    edit.branches_added.push(added);
    edit.nodes.push(node);
}

/// The active bundles of one child move to it; bundles that are active for no child are dropped.
fn flush(state: &ManifestState, random: &mut Random, edit: &mut ManifestEdit) {
    let mut node = any_node(state, random);
    if node.height == 0 || node.bundles.is_empty() {
        return;
    }
    let at = random.below(node.pivots.len() as u64) as usize;
    let count = node.bundles.len() as u32;
    let first = std::mem::replace(&mut node.pivots[at].first_active, count);
    let mut child = state.nodes[&node.pivots[at].child].clone();
    let branches = node.bundles[first as usize..].iter().flat_map(|bundle| bundle.branches.clone()).collect();
    child.bundles.push(BundleImage { id: state.next_bundle, compacted: false, branches });
    let spent = node.pivots.iter().map(|pivot| pivot.first_active).min().unwrap();
    node.bundles.drain(..spent as usize);
    node.pivots.iter_mut().for_each(|pivot| pivot.first_active -= spent);
    edit.nodes.extend([node, child]);
}

fn compact(state: &ManifestState, random: &mut Random, edit: &mut ManifestEdit) {
    let mut node = any_node(state, random);
    if node.bundles.is_empty() {
        return;
    }
    let at = random.below(node.bundles.len() as u64) as usize;
    node.bundles[at].compacted = true;
    node.bundles[at].branches.clear();
    for _ in 0..random.below(3) {
        let part = branch(state, random, edit);
        node.bundles[at].branches.push(part.file);
        edit.branches_added.push(part);
    }
    edit.nodes.push(node);
}

/// A leaf splits. Its parent gets one more pivot, or there is a new root.
fn split(state: &ManifestState, random: &mut Random, edit: &mut ManifestEdit) {
    let mut left = any_node(state, random);
    let middle = random.bytes();
    let inside = left.lower < middle && left.upper.as_ref().is_none_or(|upper| middle < *upper);
    if left.height > 0 || !inside {
        return;
    }
    let mut right = left.clone();
    right.id = state.next_node;
    right.lower.clone_from(&middle);
    left.upper = Some(middle.clone());
    let mut parent = match state.nodes.values().find(|node| node.pivots.iter().any(|pivot| pivot.child == left.id)) {
        Some(parent) => parent.clone(),
        None => {
            let id = NodeId(state.next_node.0 + 1);
            edit.root = Some(id);
            let pivots = vec![PivotImage { lower: vec![], child: left.id, first_active: 0 }];
            NodeImage { id, height: 1, pivots, ..NodeImage::default() }
        }
    };
    let at = parent.pivots.iter().position(|pivot| pivot.child == left.id).unwrap();
    let pivot = PivotImage { lower: middle, child: right.id, first_active: parent.pivots[at].first_active };
    parent.pivots.insert(at + 1, pivot);
    edit.next_bundle = Some(BundleId(state.next_bundle.0 + 1));
    edit.nodes.extend([left, right, parent]);
}

/// A log segment is added; half of the others are dropped.
fn log_segments(state: &ManifestState, random: &mut Random, edit: &mut ManifestEdit) {
    edit.log_segments_added.push(state.next_file);
    edit.log_segments_dropped = state.log_segments.iter().copied().filter(|_| random.once_in(2)).collect();
    // Sometimes one that is older than what is known already.
    edit.log_synced = Some(SequenceNumber(state.incorporated.0 + random.below(30)));
    edit.ingested = Some(SequenceNumber(state.incorporated.0 + random.below(30)));
}

/// A maplet is added; half of the others are dropped.
fn maplets(state: &ManifestState, random: &mut Random, edit: &mut ManifestEdit) {
    let (lower, pages) = (random.bytes(), 1 + random.below(100) as u32);
    let columns = random.list(3, |random| MapletColumn { entries: random.below(1000), branches: Vec::new() });
    edit.maplets_added.push(MapletMeta { file: state.next_file, pages, lower, upper: None, columns });
    edit.maplets_dropped = state.maplets.keys().copied().filter(|_| random.once_in(2)).collect();
}

fn recover(state: &ManifestState, random: &mut Random, edit: &mut ManifestEdit) {
    let (epoch, free) = match state.recovered.last() {
        Some(last) => (last.epoch + 1, last.next_number),
        None => (0, SequenceNumber(1)),
    };
    let free = SequenceNumber(free.0.max(state.incorporated.0));
    let cut = SequenceNumber(free.0 + 20);
    let skipped = vec![(free, free), (SequenceNumber(free.0 + 2), SequenceNumber(free.0 + 4))];
    let next_number = SequenceNumber(cut.0 + 1 + random.below(9));
    edit.log_recovered = Some(LogRecovered { epoch, cut, skipped, next_number });
    if random.once_in(3) {
        let from = epoch.saturating_sub(random.below(3));
        edit.log_epochs_from = Some(from.max(state.log_epochs_from));
    }
}

/// Drops the branches that no node refers to after the edit.
fn drop_unused(state: &ManifestState, edit: &mut ManifestEdit) {
    let mut nodes: BTreeMap<NodeId, &NodeImage> = state.nodes.iter().map(|(id, node)| (*id, node)).collect();
    nodes.extend(edit.nodes.iter().map(|node| (node.id, node)));
    let used: BTreeSet<FileNumber> =
        nodes.values().flat_map(|node| &node.bundles).flat_map(|bundle| bundle.branches.iter().copied()).collect();
    edit.branches_dropped = state.branches.keys().filter(|file| !used.contains(file)).copied().collect();
}
