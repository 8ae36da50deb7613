//! Buffered branches in the state by itself: edits that fit, edits that do not, and the check of all.

use crate::format::manifest_edit::{
    BranchMeta, BufferedMeta, Identity, ItemRun, LevelsShape, ManifestEdit, ParentItems, RunChange, RunId,
};
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::manifest::{Manifest, ManifestState};
use crate::util::sync::Arc;
use crate::util::{DatabaseId, FileNumber};

const SHAPE: LevelsShape = LevelsShape {
    size_ratio: 10,
    runs_per_level: 1,
    level0_runs: 4,
    merge_percent: 100,
    file_bytes: 1 << 20,
    base_bytes: 10 << 20,
    filter_bits: 9,
    filter_bits_above: 3,
    max_skip: 2,
    skip_runs: 6,
    buffer_bytes: 1 << 20,
};

fn branch(file: u64, (first, last): (&str, &str), entries: u64) -> BranchMeta {
    let (key_min, key_max) = (first.into(), last.into());
    BranchMeta { file: FileNumber(file), key_min, key_max, entries, distinct_keys: entries, ..BranchMeta::default() }
}

fn items(parent: u64, runs: &[(u64, u64)]) -> ParentItems {
    let runs = runs.iter().map(|(skipped, count)| ItemRun { skipped: *skipped, count: *count });
    ParentItems { parent: FileNumber(parent), runs: runs.collect() }
}

fn change(id: u64, level: u32, dropped: &[u64], added: &[u64]) -> RunChange {
    let files = |numbers: &[u64]| numbers.iter().copied().map(FileNumber).collect();
    RunChange { id: RunId(id), level, dropped: files(dropped), added: files(added) }
}

/// Branch 20, in memory, of two entries of 11 and one of 10, which no run has; branch 12 is a file.
fn buffered() -> BufferedMeta {
    BufferedMeta { meta: branch(20, ("c", "k"), 3), parents: vec![items(10, &[(4, 1)]), items(11, &[(0, 1), (3, 1)])] }
}

fn small_edit() -> ManifestEdit {
    ManifestEdit {
        levels: Some(SHAPE),
        branches_added: vec![branch(10, ("a", "f"), 5), branch(11, ("g", "p"), 5), branch(12, ("a", "z"), 9)],
        buffered_added: vec![buffered()],
        runs: vec![change(1, 6, &[], &[12]), change(2, 6, &[], &[20])],
        ..ManifestEdit::default()
    }
}

fn small() -> ManifestState {
    let mut state = ManifestState::default();
    state.apply(&small_edit()).unwrap();
    state.check().unwrap();
    state
}

#[test]
fn a_snapshot_has_the_buffered_branches_and_their_parents() {
    let state = small();
    assert_eq!(state.parents(), [10, 11].map(FileNumber).into());
    let mut copy = ManifestState::default();
    copy.apply(&state.snapshot_edit()).unwrap();
    assert_eq!(copy, state);
}

/// The merge of 20 with 12, after which nobody needs 10 and 11.
#[test]
fn parents_go_with_the_last_buffered_branch_that_needs_them() {
    let mut state = small();
    let merge = ManifestEdit {
        branches_added: vec![branch(21, ("a", "z"), 11)],
        branches_dropped: [10, 11, 12].map(FileNumber).into(),
        buffered_dropped: vec![FileNumber(20)],
        runs: vec![change(1, 6, &[12], &[21]), change(2, 6, &[20], &[])],
        ..ManifestEdit::default()
    };
    let mut early = merge.clone();
    early.buffered_dropped.clear();
    let error = state.apply(&early).unwrap_err();
    assert!(error.contains("needs it"), "{error}");
    state.apply(&merge).unwrap();
    state.check().unwrap();
    assert!(state.buffered.is_empty() && state.branches.len() == 1 && state.runs.len() == 1);
}

#[test]
fn edits_that_do_not_fit_change_nothing() {
    let add = |buffered: BufferedMeta| ManifestEdit { buffered_added: vec![buffered], ..ManifestEdit::default() };
    let other =
        |parents: Vec<ParentItems>, entries: u64| add(BufferedMeta { meta: branch(21, ("a", "z"), entries), parents });
    let tombstones = BranchMeta { range_tombstones: 1, ..branch(21, ("a", "z"), 1) };
    let cases = [
        (add(buffered()), "already exists"),
        (add(BufferedMeta { meta: branch(12, ("a", "b"), 1), parents: vec![items(10, &[(0, 1)])] }), "already exists"),
        (other(vec![items(13, &[(0, 1)])], 1), "which is no file"),
        (other(vec![items(20, &[(0, 1)])], 1), "which is no file"),
        (other(vec![items(10, &[(4, 2)])], 2), "entry 6 of 5"),
        (other(vec![items(10, &[(u64::MAX, u64::MAX)])], 2), "of 5"),
        (other(vec![items(10, &[(0, 1)])], 2), "1 of its 2 entries"),
        (other(vec![items(10, &[(0, 1), (0, 1)])], 2), "invalid form"),
        (other(vec![items(10, &[(0, 0)])], 0), "invalid form"),
        (other(vec![items(10, &[])], 0), "invalid form"),
        (other(vec![items(11, &[(0, 1)]), items(10, &[(0, 1)])], 2), "out of order"),
        (other(vec![items(10, &[(0, 1)]), items(10, &[(1, 1)])], 2), "out of order"),
        (add(BufferedMeta { meta: tombstones, parents: vec![items(10, &[(0, 1)])] }), "range tombstones"),
        (other(vec![], 0), "has no entries"),
        (other(vec![items(12, &[(0, 1)])], 1), "000012 is in a run"),
        (
            ManifestEdit { runs: vec![change(3, 6, &[], &[11])], ..other(vec![items(11, &[(0, 1)])], 1) },
            "000011 is in a run",
        ),
        (ManifestEdit { runs: vec![change(3, 6, &[], &[10])], ..ManifestEdit::default() }, "000010 is in a run"),
        (ManifestEdit { branches_dropped: vec![FileNumber(10)], ..ManifestEdit::default() }, "needs it"),
        (ManifestEdit { buffered_dropped: vec![FileNumber(10)], ..ManifestEdit::default() }, "does not exist"),
        (ManifestEdit { buffered_dropped: vec![FileNumber(20)], ..ManifestEdit::default() }, "is in run 2"),
    ];
    for (edit, expected) in cases {
        let mut state = small();
        let error = state.apply(&edit).expect_err(expected);
        assert!(error.contains(expected), "{error}, not {expected}");
        assert_eq!(state, small());
    }
}

#[test]
fn the_check_finds_what_no_run_has_and_what_has_no_parent() {
    type Break = fn(&mut ManifestState);
    let cases: [(Break, &str); 7] = [
        (|state| drop(state.runs.remove(&RunId(2))), "is in no run"),
        (|state| drop(state.branches.remove(&FileNumber(11))), "which is no file"),
        (|state| drop(state.buffered.remove(&FileNumber(20))), "does not exist"),
        (|state| state.buffered.get_mut(&FileNumber(20)).unwrap().meta.file = FileNumber(22), "another number"),
        (|state| drop(state.branches.insert(FileNumber(20), branch(20, ("a", "b"), 1))), "both a file and in memory"),
        (|state| state.buffered.get_mut(&FileNumber(20)).unwrap().parents.truncate(1), "1 of its 3 entries"),
        (|state| state.runs.get_mut(&RunId(1)).unwrap().branches = vec![FileNumber(11)], "000011 is in a run"),
    ];
    for (at, (break_it, expected)) in cases.into_iter().enumerate() {
        let mut state = small();
        break_it(&mut state);
        let error = state.check().expect_err(expected);
        assert!(error.contains(expected), "{at}: {error}, not {expected}");
    }
}

/// The records of what is in memory are in the snapshot with which a rotated file begins, and in the edits after it.
#[test]
fn a_rotated_file_has_the_buffered_branches() {
    let storage: Arc<dyn Storage> = Arc::new(SimulatedStorage::new(1));
    let identity = Identity { database: DatabaseId(7) };
    let mut manifest = Manifest::create(Arc::clone(&storage), identity, &small_edit()).unwrap();
    let added =
        |file: u64, keys| BufferedMeta { meta: branch(file, keys, 1), parents: vec![items(11, &[(file - 20, 1)])] };
    for (file, keys) in [(21, ("q", "q")), (22, ("r", "r"))] {
        manifest.rotate().unwrap();
        assert_eq!(*Manifest::open(Arc::clone(&storage)).unwrap().state(), *manifest.state());
        let edit = ManifestEdit {
            buffered_added: vec![added(file, keys)],
            runs: vec![change(2, 6, &[], &[file])],
            ..ManifestEdit::default()
        };
        manifest.append(&edit).unwrap();
    }
    let state = manifest.state().clone();
    drop(manifest);
    assert_eq!(state.buffered.len(), 3);
    assert_eq!(*Manifest::open(Arc::clone(&storage)).unwrap().state(), state);
}
