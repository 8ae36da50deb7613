//! The state by itself: edits that fit, edits that do not, and the check of the whole tree.

use super::generator::{first_edit, next_edit};
use crate::format::manifest_edit::testing::Random;
use crate::format::manifest_edit::{BranchMeta, BundleId, BundleImage, KeyspaceRecord, LogRecovered};
use crate::format::manifest_edit::{ManifestEdit, NodeId, NodeImage, PivotImage};
use crate::manifest::ManifestState;
use crate::util::{FileNumber, KeyspaceId, SequenceNumber};

fn grown(seed: u64, edits: u64) -> ManifestState {
    let mut state = ManifestState::default();
    state.apply(&first_edit()).unwrap();
    let mut random = Random(seed);
    for _ in 0..edits {
        state.apply(&next_edit(&state, &mut random)).unwrap();
    }
    state
}

#[test]
fn random_edits_keep_the_tree_consistent_and_snapshots_restore_it() {
    let (mut branches, mut nodes, mut recovered) = (0, 0, 0);
    for seed in 0..40 {
        let mut state = ManifestState::default();
        assert_eq!(state.check(), Ok(()));
        state.apply(&first_edit()).unwrap();
        let mut random = Random(seed);
        for _ in 0..60 {
            let edit = next_edit(&state, &mut random);
            assert_eq!(state.apply(&edit), Ok(()), "seed {seed}: {edit:#?}");
            assert_eq!(state.check(), Ok(()), "seed {seed}");
        }
        let mut again = ManifestState::default();
        assert_eq!(again.apply(&state.snapshot_edit()), Ok(()), "seed {seed}");
        assert_eq!(again, state, "seed {seed}");
        branches = branches.max(state.branches.len());
        nodes = nodes.max(state.nodes.len());
        recovered = recovered.max(state.recovered.len());
    }
    assert!(branches > 3 && nodes > 3 && recovered > 2, "{branches} branches, {nodes} nodes, {recovered} recoveries");
}

/// The root, 1, above the leaves 2 (below "m") and 3; one bundle with one branch at the root.
fn small() -> ManifestState {
    let leaf = |id, lower: &[u8], upper: Option<&[u8]>| NodeImage {
        id: NodeId(id),
        lower: lower.to_vec(),
        upper: upper.map(<[u8]>::to_vec),
        ..NodeImage::default()
    };
    let pivot = |lower: &[u8], child| PivotImage { lower: lower.to_vec(), child: NodeId(child), first_active: 0 };
    let mut state = ManifestState::default();
    let edit = ManifestEdit {
        branches_added: vec![branch(7)],
        nodes: vec![
            NodeImage {
                id: NodeId(1),
                height: 1,
                pivots: vec![pivot(b"", 2), pivot(b"m", 3)],
                bundles: vec![BundleImage { id: BundleId(0), compacted: false, branches: vec![FileNumber(7)] }],
                ..NodeImage::default()
            },
            leaf(2, b"", Some(b"m")),
            leaf(3, b"m", None),
        ],
        root: Some(NodeId(1)),
        incorporated: Some(SequenceNumber(10)),
        log_recovered: Some(recovery(3)),
        log_epochs_from: Some(2),
        keyspaces: vec![KeyspaceRecord {
            id: KeyspaceId(0),
            name: "default".into(),
            comparator: "bytewise".into(),
            ..Default::default()
        }],
        ..ManifestEdit::default()
    };
    state.apply(&edit).unwrap();
    assert_eq!(state.check(), Ok(()));
    state
}

fn branch(file: u64) -> BranchMeta {
    BranchMeta { file: FileNumber(file), entries: 2, distinct_keys: 1, ..BranchMeta::default() }
}

fn recovery(epoch: u64) -> LogRecovered {
    let skipped = vec![(SequenceNumber(4), SequenceNumber(5))];
    LogRecovered { epoch, cut: SequenceNumber(12), skipped, next_number: SequenceNumber(20) }
}

/// Every edit here must be rejected for the given reason and change nothing.
#[test]
fn inconsistent_edits_are_rejected_and_change_nothing() {
    let state = small();
    let node = |id: u64| state.nodes[&NodeId(id)].clone();
    let changed = |id: u64, change: &dyn Fn(&mut NodeImage)| {
        let mut node = node(id);
        change(&mut node);
        ManifestEdit { nodes: vec![node], ..ManifestEdit::default() }
    };
    let recovered = |change: &dyn Fn(&mut LogRecovered)| {
        let mut recovery = recovery(4);
        change(&mut recovery);
        ManifestEdit { log_recovered: Some(recovery), ..ManifestEdit::default() }
    };
    let added = |change: &dyn Fn(&mut BranchMeta)| {
        let mut branch = branch(8);
        change(&mut branch);
        ManifestEdit { branches_added: vec![branch], ..ManifestEdit::default() }
    };
    let edit = ManifestEdit::default;
    let cases: Vec<(ManifestEdit, &str)> = vec![
        (added(&|branch| branch.file = FileNumber(7)), "already exists"),
        (added(&|branch| branch.file = FileNumber(u64::MAX)), "not a valid file number"),
        (added(&|branch| branch.key_min = b"z".to_vec()), "keys in the wrong order"),
        (added(&|branch| branch.open_ended = true), "no range tombstone"),
        (added(&|branch| branch.number_min = SequenceNumber(9)), "numbers in the wrong order"),
        (added(&|branch| branch.tombstones = 3), "more tombstones"),
        (added(&|branch| branch.distinct_keys = 3), "more keys"),
        (added(&|branch| branch.value_files = vec![FileNumber(2), FileNumber(2)]), "value files"),
        (ManifestEdit { branches_added: vec![branch(8), branch(8)], ..edit() }, "already exists"),
        (ManifestEdit { branches_dropped: vec![FileNumber(8)], ..edit() }, "does not exist"),
        (ManifestEdit { branches_dropped: vec![FileNumber(7)], ..edit() }, "is dropped but in node 1"),
        (ManifestEdit { branches_dropped: vec![FileNumber(7)], ..changed(1, &|_| ()) }, "which does not exist"),
        (changed(1, &|node| node.bundles[0].branches.push(FileNumber(99))), "branch 000099, which does not exist"),
        (changed(1, &|node| node.pivots[0].child = NodeId(9)), "child 9, which does not exist"),
        (changed(1, &|node| node.pivots[1].lower = b"n".to_vec()), "does not fill its place"),
        (changed(1, &|node| node.pivots[1].lower = vec![]), "in the wrong order"),
        (changed(1, &|node| node.pivots[0].lower = b"a".to_vec()), "not its lower bound"),
        (changed(1, &|node| node.upper = Some(b"b".to_vec())), "exceeds its range"),
        (changed(1, &|node| node.pivots.clear()), "no children"),
        (changed(1, &|node| node.height = 2), "of height 0 is under"),
        (changed(1, &|node| node.height = 0), "or is a leaf with children"),
        (changed(1, &|node| node.pivots[1].first_active = 2), "first active bundle 2"),
        (changed(1, &|node| node.bundles[0].id = BundleId(u64::MAX)), "bundle with an invalid number"),
        (changed(3, &|node| node.upper = Some(b"m".to_vec())), "empty range"),
        (changed(3, &|node| node.id = NodeId(u64::MAX)), "not a valid node number"),
        (ManifestEdit { nodes: vec![node(2), node(2)], ..edit() }, "occurs twice"),
        (ManifestEdit { nodes_dropped: vec![NodeId(2)], ..edit() }, "is dropped but under 1"),
        (ManifestEdit { nodes_dropped: vec![NodeId(2)], ..changed(2, &|_| ()) }, "both written and dropped"),
        (ManifestEdit { nodes_dropped: vec![NodeId(9)], ..edit() }, "does not exist"),
        (ManifestEdit { nodes_dropped: vec![NodeId(1)], ..edit() }, "root 1 does not exist"),
        (ManifestEdit { root: Some(NodeId(5)), ..edit() }, "root 5 does not exist"),
        (ManifestEdit { incorporated: Some(SequenceNumber(9)), ..edit() }, "goes back"),
        (ManifestEdit { incorporated: Some(SequenceNumber(u64::MAX)), ..edit() }, "not a valid sequence number"),
        (ManifestEdit { log_epochs_from: Some(1), ..edit() }, "go back"),
        (recovered(&|recovery| recovery.epoch = 3), "recovered after 3"),
        (recovered(&|recovery| recovery.next_number = SequenceNumber(19)), "reuses numbers"),
        (recovered(&|recovery| recovery.cut = SequenceNumber(20)), "below its cut"),
        (recovered(&|recovery| recovery.next_number = SequenceNumber(u64::MAX)), "above all numbers"),
        (recovered(&|recovery| recovery.skipped[0].1 = SequenceNumber(13)), "above its cut"),
        (recovered(&|recovery| recovery.skipped[0].1 = SequenceNumber(3)), "out of order"),
        (recovered(&|recovery| recovery.skipped.push((SequenceNumber(5), SequenceNumber(6)))), "out of order"),
        (
            ManifestEdit {
                keyspaces: vec![KeyspaceRecord { id: KeyspaceId(1), name: "default".into(), ..Default::default() }],
                ..edit()
            },
            "the same name",
        ),
    ];
    for (edit, reason) in cases {
        let mut after = state.clone();
        let error = after.apply(&edit).expect_err(reason);
        assert!(error.contains(reason), "{error:?} instead of {reason:?}");
        assert_eq!(after, state, "{reason}");
    }
}

#[test]
fn old_recoveries_are_dropped_but_the_newest_stays() {
    let mut state = small();
    let next = ManifestEdit { log_recovered: Some(recovery(4)), ..ManifestEdit::default() };
    state.apply(&next).unwrap();
    assert_eq!(state.recovered.iter().map(|known| known.epoch).collect::<Vec<_>>(), [3, 4]);
    state.apply(&ManifestEdit { log_epochs_from: Some(5), ..ManifestEdit::default() }).unwrap();
    assert_eq!(state.recovered, [recovery(4)]);
    assert_eq!(state.log_epochs_from, 5);
}

#[test]
fn numbers_in_use_are_never_assigned() {
    let state = small();
    assert_eq!((state.next_file, state.next_node, state.next_bundle), (FileNumber(8), NodeId(4), BundleId(1)));
    let mut later = state.clone();
    later.apply(&ManifestEdit { next_file: Some(FileNumber(3)), ..ManifestEdit::default() }).unwrap();
    assert_eq!(later.next_file, FileNumber(8));
}

/// Damage that no edit can cause, made by hand: `check` finds each.
#[test]
fn the_check_of_the_tree_finds_damage() {
    type Damage = dyn Fn(&mut ManifestState);
    fn at(state: &mut ManifestState, id: u64) -> &mut NodeImage {
        state.nodes.get_mut(&NodeId(id)).unwrap()
    }
    let cases: Vec<(Box<Damage>, &str)> = vec![
        (Box::new(|state| state.root = None), "cannot be reached"),
        (Box::new(|state| state.root = Some(NodeId(8))), "does not exist"),
        (Box::new(|state| state.root = Some(NodeId(3))), "does not span all keys"),
        (Box::new(|state| at(state, 1).pivots.truncate(1)), "does not fill its place"),
        (Box::new(|state| at(state, 1).pivots[1].child = NodeId(2)), "does not fill its place"),
        (Box::new(|state| at(state, 1).pivots[1].child = NodeId(5)), "child 5 of node 1 does not exist"),
        (Box::new(|state| at(state, 2).upper = Some(b"l".to_vec())), "does not fill its place"),
        (Box::new(|state| at(state, 1).pivots[0].first_active = 2), "first active bundle 2"),
        (Box::new(|state| at(state, 1).shares.resize_with(3, Vec::new)), "shares of branches for 3 ranges"),
        (Box::new(|state| at(state, 2).id = NodeId(3)), "listed under another number"),
        (Box::new(|state| at(state, 2).height = 1), "of height 1 is under"),
        (Box::new(|state| at(state, 1).bundles.clear()), "branch 000007 is in no node"),
        (Box::new(|state| state.branches.clear()), "branch 000007 of node 1 does not exist"),
        (Box::new(|state| state.next_file = FileNumber(7)), "next file number"),
        (Box::new(|state| state.next_node = NodeId(2)), "next node number"),
        (Box::new(|state| state.next_bundle = BundleId(0)), "next bundle number"),
    ];
    for (damage, reason) in cases {
        let mut state = small();
        damage(&mut state);
        let found = state.check().expect_err(reason);
        assert!(found.contains(reason), "{found:?} instead of {reason:?}");
    }
    let mut lost = grown(3, 80);
    let orphan = NodeId(lost.next_node.0 - 1);
    lost.nodes.insert(NodeId(1 << 20), NodeImage { id: NodeId(1 << 20), ..lost.nodes[&orphan].clone() });
    assert!(lost.check().expect_err("orphan").contains("cannot be reached"));
}

/// A node that is its own ancestor ends the check and does not make it run for ever.
#[test]
fn a_cycle_is_found() {
    let mut state = small();
    let first = state.nodes.get_mut(&NodeId(1)).unwrap();
    first.pivots = vec![PivotImage { lower: vec![], child: NodeId(1), first_active: 0 }];
    assert!(state.check().is_err());
}
