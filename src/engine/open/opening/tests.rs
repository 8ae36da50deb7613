//! Tests of what opening records in the manifest. One thread.

use crate::Options;
use crate::db::DeterministicDb;
use crate::io::simulated::SimulatedStorage;
use crate::manifest::{self, Manifest};
use crate::util::sync::Arc;

fn branch_bytes(disk: &SimulatedStorage, memory_budget: u64) -> u64 {
    let options = Options { memory_budget: Some(memory_budget), ..Options::default() };
    let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
    let bytes = db.engine.background.disk.branch_bytes();
    db.close().unwrap();
    bytes
}

/// Regression test: the sizes of the tree followed from the budget of each opening. A store that was opened once with a
/// small budget, for a look by a tool, cut its nodes and files into small ones.
#[test]
fn the_sizes_of_the_tree_do_not_depend_on_later_budgets() {
    let disk = SimulatedStorage::new(1);
    let created = branch_bytes(&disk, 64 << 20);
    assert!(created > 4 << 20, "{created}");
    assert_eq!(branch_bytes(&disk, 1 << 20), created);
    assert_eq!(branch_bytes(&disk, 512 << 20), created);
    assert_eq!(manifest::read_state(&disk).unwrap().branch_bytes, Some(created));
    let another = SimulatedStorage::new(2);
    assert!(branch_bytes(&another, 1 << 20) < created);
}

#[test]
fn a_manifest_without_the_size_gets_it_at_the_next_opening() {
    let (disk, without) = (SimulatedStorage::new(1), SimulatedStorage::new(1));
    branch_bytes(&disk, 64 << 20);
    let mut state = manifest::read_state(&disk).unwrap();
    let identity = state.identity.clone();
    state.branch_bytes = None;
    state.log_segments.clear();
    drop(Manifest::create(Arc::new(without.clone()), identity, &state.snapshot_edit()).unwrap());
    let first = branch_bytes(&without, 1 << 20);
    assert!(first < 1 << 20, "{first}");
    assert_eq!(branch_bytes(&without, 64 << 20), first);
}
