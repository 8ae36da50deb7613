//! What `check_tree` and `check_nodes` find. Each test breaks one thing in the manifest that `ManifestState::check`
//! does not find. (All tests of the trunk check that they find nothing wrong with a consistent tree.)

use super::rig::{AnyWrite, Random, Rig, Write, number_key, small_options};
use crate::disk::runs::load::Load;
use crate::disk::runs::run::Key;
use crate::disk::trunk::quiet_credit::QuietCredit;
use crate::disk::trunk::tree::node::{Node, Pivot};
use crate::disk::trunk::tree::overwrite_ratio::OverwriteRatio;
use crate::disk::trunk::tree::scan_cost::ScanCost;
use crate::disk::trunk::tree::slot::Slot;
use crate::disk::trunk::{Tree, check_nodes, check_structure, check_tree};
use crate::format::manifest_edit::{MapletMeta, NodeId, NodeImage};
use crate::util::FileNumber;
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};

fn writes(keys: std::ops::Range<u64>, value: u8) -> Vec<Write> {
    keys.map(|number| (number_key(number), Some(vec![value; 40]))).collect()
}

fn found(rig: &Rig, change: impl FnOnce(&mut NodeImage)) -> Vec<String> {
    let mut state = rig.state.clone();
    let root = state.root.unwrap();
    change(state.nodes.get_mut(&root).unwrap());
    state.check().unwrap();
    let mut found = Vec::new();
    let mut report = |result: Result<()>| {
        found.extend(result.err().map(|error| error.to_string()));
        Ok(())
    };
    check_tree(&rig.context, &state, true, &mut report).unwrap();
    found
}

#[test]
fn an_older_bundle_in_front_of_a_newer_one_is_found() {
    let mut rig = Rig::new(small_options(1 << 20));
    rig.incorporate(writes(0..100, 1));
    rig.incorporate(writes(50..60, 2));
    assert!(found(&rig, |_| ()).is_empty());
    let found = found(&rig, |root| root.bundles.swap(0, 1));
    assert!(found.len() == 1 && found[0].contains("order of versions") && found[0].contains("00000050"), "{found:?}");
    assert!(found[0].contains(".branch"), "{found:?}");
}

/// Swaps the newer two of three bundles. Returns what `check_tree` finds then, and whether gets still answer as before.
fn swapped(first: Vec<AnyWrite>, second: Vec<AnyWrite>) -> (Vec<String>, bool) {
    let mut rig = Rig::new(small_options(1 << 20));
    let base = (4..7).map(|number| put(number, 0)).collect();
    for said in [base, first, second] {
        let outcome = rig.incorporation_of(said);
        rig.apply(outcome);
    }
    assert!(found(&rig, |_| ()).is_empty());
    let gets = |rig: &Rig| [4, 5, 6, 20, 30].map(|key| rig.get(&number_key(key), SequenceNumber::MAX.0));
    let (found, before) = (found(&rig, |root| root.bundles.swap(1, 2)), gets(&rig));
    let root = rig.state.root.unwrap();
    rig.state.nodes.get_mut(&root).unwrap().bundles.swap(1, 2);
    rig.reopen_with(small_options(1 << 20));
    (found, gets(&rig) == before)
}

fn put(key: u64, value: u8) -> AnyWrite {
    AnyWrite::Put(number_key(key), vec![value; 9])
}

#[test]
fn a_range_delete_on_the_wrong_side_of_a_version_is_found() {
    let hide = || AnyWrite::RangeDelete(number_key(0), number_key(9));
    let merge = || AnyWrite::Merge(number_key(5), vec![1; 9]);
    for (first, second, wanted) in [
        (vec![put(5, 1)], vec![hide()], "in a newer run than the newer range delete"),
        (vec![put(5, 1), put(20, 1)], vec![hide(), put(30, 1)], "in a newer run than the newer range delete"),
        (vec![hide(), put(30, 1)], vec![put(5, 1)], "in an older run than the older range delete"),
        (vec![hide(), put(5, 1)], vec![hide(), put(6, 1)], "in a newer run than the newer range delete"),
        (vec![merge()], vec![hide(), put(30, 1)], "in a newer run than the newer range delete"),
        (vec![hide(), put(30, 1)], vec![merge()], "in an older run than the older range delete"),
    ] {
        let case = format!("{first:?}, then {second:?}");
        let (found, reads_the_same) = swapped(first, second);
        assert!(!reads_the_same, "{case}");
        assert!(found.len() == 1 && found[0].contains(wanted) && found[0].contains(".branch"), "{case}: {found:?}");
    }
    // If gets still give the same answers, as for two range deletes in either order, there is nothing to report.
    for second in [vec![hide(), put(30, 1)], vec![put(20, 1)]] {
        assert_eq!(swapped(vec![hide(), put(40, 1)], second), (vec![], true));
    }
}

/// A merge for two children, one of which already got the older part, makes a file with older numbers than a bundle
/// below it. This is valid, which only the entries show.
#[test]
fn numbers_that_overlap_are_no_damage_where_versions_are_in_order() {
    let (mut rig, mut random) = (Rig::new(small_options(16 << 10)), Random(5));
    for round in 0..40 {
        let from = random.below(3000) as u64;
        rig.incorporate(writes(from..from + 200, round));
        rig.work();
        rig.check_reads(&mut random, 5);
    }
    assert!(rig.tree.root().height >= 1);
}

#[test]
fn a_bundle_of_two_runs_that_is_marked_as_one_is_found() {
    let mut rig = Rig::new(small_options(1 << 20));
    rig.incorporate(writes(0..100, 1));
    rig.incorporate(writes(0..100, 2));
    let found = found(&rig, |root| {
        let newer = root.bundles.remove(1);
        root.bundles[0].branches.extend(newer.branches);
    });
    assert!(found.len() == 1 && found[0].contains("compacted: false"), "{found:?}");
}

/// Such a file is stored and counted, but no read can use it.
#[test]
fn a_reference_to_a_file_without_keys_there_is_found() {
    let mut rig = Rig::new(small_options(1 << 20));
    rig.incorporate(writes(0..100, 1));
    rig.incorporate(writes(500..600, 1));
    rig.apply(super::maplets::split(rig.tree.root(), 300));
    assert_eq!(rig.state.nodes.len(), 3);
    let mut state = rig.state.clone();
    let leaves = || rig.tree.root().pivots.iter().map(|pivot| pivot.child.id);
    let strange = state.nodes[&leaves().next().unwrap()].bundles[0].clone();
    state.nodes.get_mut(&leaves().next_back().unwrap()).unwrap().bundles.insert(0, strange);
    state.check().unwrap();
    let checked = check_tree(&rig.context, &state, false, &mut |found| found);
    let error = checked.unwrap_err().to_string();
    assert!(error.contains("trunk node") && error.contains("MANIFEST"), "{error}");
}

#[test]
fn a_tree_that_differs_from_the_manifest_is_found() {
    let mut rig = Rig::new(small_options(1 << 20));
    rig.incorporate(writes(0..100, 1));
    let (old, state) = (rig.tree.clone(), rig.state.clone());
    check_nodes(&old, &state).unwrap();
    rig.incorporate(writes(0..100, 2));
    check_nodes(&rig.tree, &rig.state).unwrap();
    assert!(check_nodes(&old, &rig.state).unwrap_err().contains("is stored as"));
    rig.apply(super::maplets::split(rig.tree.root(), 50));
    assert!(check_nodes(&rig.tree, &state).is_err());
}

/// A tree with one more root, as no draft makes it: the new root has the bundles of the old one, and none of them is
/// active.
pub fn inconsistent(tree: &Tree) -> Arc<Tree> {
    let (old, lower) = (tree.root(), Key::from([]));
    let node = Node {
        id: NodeId(1 << 40),
        height: old.height + 1,
        lower: Arc::clone(&lower),
        upper: None,
        pivots: vec![Pivot { lower, child: Arc::clone(old), first_active: old.bundles.len() }],
        bundles: old.bundles.clone(),
        slots: vec![Slot::new(&[], &[], None, None, &[])],
        heads: vec![0],
        active: Load::default(),
        totals: old.totals,
        merge: None,
        scans: ScanCost::with_units(0),
        overwrite_ratio: OverwriteRatio::default(),
    };
    Tree::new(Arc::new(node), Arc::new(small_options(1 << 20)), Arc::default(), QuietCredit::default())
}

/// Regression: collecting the files of such a tree panicked inside the check.
#[test]
fn a_reference_that_no_slot_sees_is_found() {
    let mut rig = Rig::new(small_options(1 << 20));
    rig.incorporate(writes(0..100, 1));
    rig.apply(super::maplets::split(rig.tree.root(), 50));
    rig.incorporate(writes(0..100, 2));
    check_structure(&rig.tree).unwrap();
    let inconsistent = inconsistent(&rig.tree);
    assert_eq!(inconsistent.branches().len(), rig.tree.branches().len());
    let found = check_structure(&inconsistent).unwrap_err();
    assert!(found.contains("which none of its slots sees"), "{found}");
}

/// What is found after a change of the only maplet of a tree, which serves the slot of the left child.
fn found_of_maplet(change: impl FnOnce(&mut MapletMeta)) -> Vec<String> {
    let (mut rig, _) = super::maplets::with_runs(3, true);
    let root = rig.tree.root().clone();
    super::maplets::build_maplet(&mut rig, &root, 0);
    let mut state = rig.state.clone();
    let maplet = state.maplets.values_mut().next().unwrap();
    assert!(maplet.columns.len() == 3 && maplet.lower.is_empty() && maplet.upper.is_some());
    change(maplet);
    let mut found: Vec<String> = state.check().err().into_iter().collect();
    let mut report = |result: Result<()>| {
        found.extend(result.err().map(|error| error.to_string()));
        Ok(())
    };
    check_tree(&rig.context, &state, false, &mut report).unwrap();
    found
}

/// Such a maplet is stored and opened, but no read can use it.
#[test]
fn a_maplet_that_serves_no_slot_is_found() {
    // It is no damage if some of its branches are gone. (No file has number 0.)
    let some_gone = |maplet: &mut MapletMeta| maplet.columns[0].branches = vec![FileNumber(0)];
    assert_eq!((found_of_maplet(|_| ()), found_of_maplet(some_gone)), (vec![], vec![]));
    let all_gone = |maplet: &mut MapletMeta| {
        maplet.columns.iter_mut().for_each(|column| column.branches.clear());
        some_gone(maplet);
    };
    let narrower = |maplet: &mut MapletMeta| maplet.lower = b"\0".to_vec();
    let behind = |maplet: &mut MapletMeta| {
        maplet.lower = maplet.upper.take().unwrap();
        maplet.lower.push(0);
    };
    for found in [found_of_maplet(all_gone), found_of_maplet(narrower), found_of_maplet(behind)] {
        assert!(found.len() == 1 && found[0].contains("covers no branch to which a slot"), "{found:?}");
    }
}

/// A read would look for a key in only one of them.
#[test]
fn a_column_of_two_runs_is_found() {
    let found = found_of_maplet(|maplet| {
        let other = maplet.columns.pop().unwrap();
        maplet.columns[0].branches.extend(other.branches);
    });
    assert!(found.len() == 1 && found[0].contains("which overlap"), "{found:?}");
}

#[test]
fn a_branch_in_two_columns_and_one_that_is_newer_than_its_maplet_are_found() {
    let found = found_of_maplet(|maplet| maplet.columns[0].branches = maplet.columns[1].branches.clone());
    assert!(found.len() == 1 && found[0].contains("in two columns"), "{found:?}");
    let found = found_of_maplet(|maplet| maplet.columns[0].branches.push(maplet.file));
    assert!(found.len() == 1 && found[0].contains("which is newer"), "{found:?}");
}
