//! Jobs on runs of keys that skipped levels, in memory and in files.

use super::crafted::{compaction, counts, crafted, deletion, files_of, get, input, merge, put, run};
use crate::disk::levels::plan::compaction::Output;
use crate::disk::runs::requested_range::RequestedRange;
use crate::format::manifest_edit::RunId;

/// Runs that are joined go to the place of the newest of them. Once they went in front of all others, if the last part of that
/// run had been merged meanwhile: older versions before newer ones.
#[test]
fn joined_runs_keep_their_age_if_their_run_is_gone_meanwhile() {
    let mut made = crafted();
    let own = made.file(vec![put("y", 1, b"oldest"), put("z", 2, b"oldest")]);
    let older = made.file(vec![put("a", 3, b"older")]);
    let newest_joined = made.file(vec![put("z", 5, b"newer")]);
    let newest = made.file(vec![put("a", 9, b"newest")]);
    for (id, file) in [(1, own), (2, older), (3, newest_joined), (4, newest)] {
        made.run(id, 6, &[file]);
    }
    let mut rig = made.open();
    // Two jobs of disjoint ranges, which run at the same time.
    let joined = compaction(&rig, vec![input(&rig, 6, 2, &[older])], Output::Into { level: 6, run: RunId(3) });
    let inputs = vec![input(&rig, 6, 3, &[newest_joined]), input(&rig, 6, 1, &[own])];
    let merged = compaction(&rig, inputs, Output::Joined { level: 6 });
    assert!(!joined.range.meets(&merged.range) && joined.files().is_disjoint(&merged.files()));
    let outcomes = [merge(&rig, &merged), merge(&rig, &joined)];
    drop((joined, merged));
    outcomes.into_iter().for_each(|outcome| drop(rig.apply(outcome)));
    for _ in 0..2 {
        assert_eq!((get(&rig, "a"), get(&rig, "z")), (Some(b"newest".to_vec()), Some(b"newer".to_vec())));
        rig.reopen();
    }
}

/// The branch that a merge has left in memory for snapshots is not rewritten as long as they need all of it.
#[test]
fn garbage_in_memory_that_snapshots_need_is_noted() {
    let mut made = crafted();
    let versions = made.file([5, 3, 2].map(|number| put("a", number, b"value")).into());
    made.run(1, 4, &[versions]);
    let mut rig = made.open();
    rig.pins = [2, 3].into();
    let inputs = vec![input(&rig, 4, 1, &[versions])];
    let edit = run(&mut rig, inputs, Output::Joined { level: 4 });
    assert_eq!(edit.buffered_added.iter().map(|buffered| buffered.meta.entries).sum::<u64>(), 3);
    assert!(rig.pick().is_none());
    rig.levels.forget_unreferenced(&rig.version);
    assert!(rig.pick().is_none(), "what is in memory was forgotten");
    rig.pins.clear();
    rig.work();
    assert_eq!(rig.version.load().entries, 1, "{}", rig.describe());
}

/// On a full disk nothing is left in memory for which files would be kept, and what is there is written.
#[test]
fn on_a_full_disk_no_file_is_kept_for_what_is_in_memory() {
    let mut made = crafted();
    let parent = made.file(vec![put("x", 1, b"live"), put("y", 2, b"merged")]);
    let older = made.file(vec![put("a", 3, b"dead"), put("b", 4, b"live")]);
    let newer = made.file(vec![deletion("a", 9), put("c", 8, b"live")]);
    let waiting = made.in_memory(&[(parent, 0)]);
    made.run(1, 6, &[waiting]);
    made.run(2, 4, &[older]);
    made.run(3, 3, &[newer]);
    let mut rig = made.open();
    let mut jobs = 0;
    while let Some(job) = rig.levels.pick_to_free_space(&rig.version) {
        rig.finish(&job);
        jobs += 1;
        assert!(rig.state.buffered.keys().all(|file| *file == waiting), "{job}");
    }
    assert_eq!((jobs, rig.state.buffered.len(), counts(&rig).len()), (2, 0, 0), "{}", rig.describe());
    for old in [parent, older, newer] {
        assert!(!files_of(&rig).contains(&old));
    }
    assert_eq!(["a", "b", "c", "x"].map(|text| get(&rig, text).is_some()), [false, true, true, true]);
}

/// A checkpoint was asked for, and then a merge made one branch of two that were in memory. Once that branch was left there,
/// because its number was new.
#[test]
fn a_requested_checkpoint_finds_what_moved_in_memory_meanwhile() {
    let mut made = crafted();
    let own = made.file(vec![put("a", 1, b"old"), put("c", 2, b"old")]);
    let one = made.file(vec![put("a", 3, b"live")]);
    let other = made.file(vec![put("b", 4, b"live")]);
    let waiting = [made.in_memory(&[(one, 0)]), made.in_memory(&[(other, 0)])];
    made.run(1, 6, &[own]);
    made.run(2, 6, &waiting[..1]);
    made.run(3, 6, &waiting[1..]);
    let mut rig = made.open();
    let request = RequestedRange { buffered_below: Some(rig.context.numbers.next()), ..RequestedRange::ALL };
    let inputs = vec![input(&rig, 6, 3, &waiting[1..]), input(&rig, 6, 2, &waiting[..1])];
    let edit = run(&mut rig, inputs, Output::Into { level: 6, run: RunId(3) });
    assert_eq!((edit.buffered_added.len(), edit.branches_added.len()), (1, 0), "{edit:?}");
    let job = rig.levels.pick_requested(&rig.version, &request, &rig.retention()).unwrap();
    rig.finish(&job);
    drop(job);
    assert!(rig.levels.remaining(&rig.version, &request, &rig.retention()).is_none());
    assert!(rig.state.buffered.is_empty() && counts(&rig).is_empty(), "{}", rig.describe());
}
