//! Runs of levels in the state by itself: edits that fit, edits that do not, and the check of all runs.

use crate::format::manifest_edit::{BranchMeta, LevelsShape, ManifestEdit, NodeId, NodeImage, RunChange, RunId};
use crate::manifest::{ManifestState, RunState};
use crate::util::FileNumber;

const SHAPE: LevelsShape = LevelsShape {
    size_ratio: 10,
    runs_per_level: 1,
    level0_runs: 4,
    merge_percent: 100,
    file_bytes: 1,
    base_bytes: 1,
    filter_bits: 9,
    filter_bits_above: 0,
    max_skip: 0,
    skip_runs: 0,
    buffer_bytes: 0,
};

fn branch(file: u64, first: &str, last: &str) -> BranchMeta {
    BranchMeta { file: FileNumber(file), key_min: first.into(), key_max: last.into(), ..BranchMeta::default() }
}

fn files(numbers: &[u64]) -> Vec<FileNumber> {
    numbers.iter().copied().map(FileNumber).collect()
}

fn change(id: u64, level: u32, dropped: &[u64], added: &[u64]) -> RunChange {
    RunChange { id: RunId(id), level, dropped: files(dropped), added: files(added) }
}

/// Run 2 of level 0 with branch 12, and run 1 of level 1 with branches 10 and 11.
fn small() -> ManifestState {
    let mut state = ManifestState::default();
    let edit = ManifestEdit {
        levels: Some(SHAPE),
        branches_added: vec![branch(11, "m", "p"), branch(10, "a", "c"), branch(12, "b", "n")],
        runs: vec![change(1, 1, &[], &[11, 10]), change(2, 0, &[], &[12])],
        ..ManifestEdit::default()
    };
    state.apply(&edit).unwrap();
    state.check().unwrap();
    state
}

#[test]
fn runs_gain_and_lose_branches_in_key_order() {
    let mut state = small();
    assert_eq!(state.runs[&RunId(1)], RunState { level: 1, branches: files(&[10, 11]) });
    assert_eq!(state.next_run, RunId(3));
    // The merge of 12 with 10 and 11, in which 11 is reused.
    let merge = ManifestEdit {
        branches_added: vec![branch(13, "a", "l")],
        branches_dropped: files(&[10, 12]),
        runs: vec![change(1, 1, &[10], &[13]), change(2, 0, &[12], &[])],
        ..ManifestEdit::default()
    };
    state.apply(&merge).unwrap();
    state.check().unwrap();
    assert_eq!(state.runs, [(RunId(1), RunState { level: 1, branches: files(&[13, 11]) })].into());
    // A move.
    let moved = ManifestEdit {
        runs: vec![change(1, 1, &[13], &[]), change(5, 2, &[], &[13])],
        next_run: Some(RunId(9)),
        ..ManifestEdit::default()
    };
    state.apply(&moved).unwrap();
    state.check().unwrap();
    assert_eq!((state.runs[&RunId(5)].level, state.next_run), (2, RunId(9)));
    let mut again = ManifestState::default();
    again.apply(&state.snapshot_edit()).unwrap();
    assert_eq!(again, state);
}

#[test]
fn edits_that_do_not_fit_are_refused_and_change_nothing() {
    let run = |run: RunChange| ManifestEdit { runs: vec![run], ..ManifestEdit::default() };
    let root = NodeImage { id: NodeId(1), ..NodeImage::default() };
    let cases = [
        (run(change(1, 1, &[12], &[])), "loses branch"),
        (run(change(1, 1, &[10, 10], &[])), "loses branch"),
        (run(change(3, 0, &[], &[99])), "does not exist"),
        (run(change(3, 0, &[], &[12])), "is in run 2"),
        (run(change(1, 2, &[10], &[])), "moves from level 1 to 2"),
        (run(change(3, 64, &[], &[])), "at level 64"),
        (run(change(u64::MAX, 0, &[], &[])), "not a valid run number"),
        (
            ManifestEdit {
                runs: vec![change(2, 0, &[12], &[]), change(1, 1, &[], &[12])],
                ..run(change(0, 0, &[], &[]))
            },
            "overlap",
        ),
        (
            ManifestEdit { runs: vec![change(1, 1, &[10], &[]), change(1, 1, &[11], &[])], ..ManifestEdit::default() },
            "changes twice",
        ),
        (
            ManifestEdit {
                runs: vec![change(2, 0, &[12], &[]), change(3, 0, &[], &[12]), change(4, 0, &[], &[12])],
                ..ManifestEdit::default()
            },
            "joins two runs",
        ),
        (ManifestEdit { branches_dropped: files(&[12]), ..ManifestEdit::default() }, "is in run 2"),
        (ManifestEdit { branches_dropped: files(&[12]), ..run(change(2, 0, &[12], &[12])) }, "dropped and joins"),
        (
            ManifestEdit { levels: Some(LevelsShape { size_ratio: 9, ..SHAPE }), ..ManifestEdit::default() },
            "changes from",
        ),
        (
            ManifestEdit { levels: Some(LevelsShape { merge_percent: 0, ..SHAPE }), ..ManifestEdit::default() },
            "impossible",
        ),
        (
            ManifestEdit { levels: Some(LevelsShape { filter_bits: 17, ..SHAPE }), ..ManifestEdit::default() },
            "impossible",
        ),
        (ManifestEdit { nodes: vec![root], root: Some(NodeId(1)), ..ManifestEdit::default() }, "both levels and trunk"),
    ];
    for (edit, wanted) in cases {
        let mut state = small();
        let error = state.apply(&edit).unwrap_err();
        assert!(error.contains(wanted), "{wanted}: {error}");
        assert_eq!(state, small(), "{wanted}");
    }
    let mut trunk = ManifestState::default();
    let error = trunk.apply(&run(change(1, 0, &[], &[]))).unwrap_err();
    assert!(error.contains("no levels"), "{error}");
}

#[test]
fn the_check_finds_inconsistent_runs() {
    let check = |damage: &dyn Fn(&mut ManifestState)| {
        let mut state = small();
        damage(&mut state);
        state.check().unwrap_err()
    };
    let run_of = |level, branches: &[u64]| RunState { level, branches: files(branches) };
    type Damage<'a> = &'a dyn Fn(&mut ManifestState);
    let cases: [(Damage<'_>, &str); 7] = [
        (&|state| drop(state.runs.remove(&RunId(2))), "no node and no run"),
        (&|state| drop(state.branches.remove(&FileNumber(12))), "does not exist"),
        (&|state| drop(state.runs.insert(RunId(0), run_of(0, &[12]))), "in two runs"),
        (&|state| drop(state.runs.insert(RunId(2), run_of(1, &[12]))), "has two runs"),
        (&|state| drop(state.runs.insert(RunId(1), run_of(1, &[11, 10]))), "overlap"),
        (&|state| state.next_run = RunId(2), "next run number"),
        (&|state| state.levels = None, "no levels"),
    ];
    for (damage, wanted) in cases {
        let found = check(damage);
        assert!(found.contains(wanted), "{wanted}: {found}");
    }
}
