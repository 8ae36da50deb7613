//! What `check_tree` and `check_nodes` find: each test breaks one thing in what the manifest says, and `ManifestState::check` passes it.
//! (That they find nothing wrong with a sound tree is checked by all the tests here, after each round.)

use super::rig::{Random, Rig, Write, number_key, small_options};
use crate::base::Result;
use crate::disk::trunk::{check_nodes, check_tree};
use crate::format::manifest_edit::NodeImage;

fn writes(keys: std::ops::Range<u64>, value: u8) -> Vec<Write> {
    keys.map(|number| (number_key(number), Some(vec![value; 40]))).collect()
}

fn found(rig: &Rig, change: impl FnOnce(&mut NodeImage)) -> Vec<String> {
    let mut state = rig.state.clone();
    let root = state.root.unwrap();
    change(state.nodes.get_mut(&root).unwrap());
    state.check().unwrap();
    let mut found = Vec::new();
    let mut judge = |result: Result<()>| {
        found.extend(result.err().map(|error| error.to_string()));
        Ok(())
    };
    check_tree(&rig.context, &state, true, &mut judge).unwrap();
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

/// A merge for two children, of which one had got the older part before, gives a file whose numbers reach back before those of a bundle
/// below: only its entries tell that it is in order.
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
fn a_bundle_of_two_runs_that_is_called_one_is_found() {
    let mut rig = Rig::new(small_options(1 << 20));
    rig.incorporate(writes(0..100, 1));
    rig.incorporate(writes(0..100, 2));
    let found = found(&rig, |root| {
        let newer = root.bundles.remove(1);
        root.bundles[0].branches.extend(newer.branches);
    });
    assert!(found.len() == 1 && found[0].contains("compacted: false"), "{found:?}");
}

/// A file would be kept, and counted, for nobody.
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
fn a_tree_that_is_not_the_manifests_is_found() {
    let mut rig = Rig::new(small_options(1 << 20));
    rig.incorporate(writes(0..100, 1));
    let (old, state) = (rig.tree.clone(), rig.state.clone());
    check_nodes(&old, &state).unwrap();
    rig.incorporate(writes(0..100, 2));
    check_nodes(&rig.tree, &rig.state).unwrap();
    assert!(check_nodes(&old, &rig.state).unwrap_err().contains("is named as"));
    rig.apply(super::maplets::split(rig.tree.root(), 50));
    assert!(check_nodes(&rig.tree, &state).is_err());
}
