//! What could go wrong with branches in memory, one test for each: dead versions in parents, tombstones, replays, crashes
//! around an edit, and the order of versions.

use super::crafted::{compaction, counts, crafted, deletion, files_of, get, input, merge, put, run};
use super::rig::Rig;
use crate::disk::levels::check_stored;
use crate::disk::levels::plan::compaction::Output;
use crate::disk::runs::requested_range::RequestedRange;
use crate::format::manifest_edit::RunId;
use crate::util::FileNumber;

/// A parent holds the version that a tombstone has hidden, and the tombstone is gone.
#[test]
fn what_is_dead_in_a_parent_stays_dead() {
    let mut made = crafted();
    let parent = made.file(vec![put("a", 1, b"dead"), put("b", 2, b"live")]);
    let newer = made.file(vec![deletion("a", 9)]);
    made.run(1, 4, &[parent]);
    made.run(2, 3, &[newer]);
    let mut rig = made.open();
    let inputs = vec![input(&rig, 3, 2, &[newer]), input(&rig, 4, 1, &[parent])];
    run(&mut rig, inputs, Output::Joined { level: 4 });
    assert_eq!((rig.version.load().entries, rig.version.load().tombstones), (1, 0), "{}", rig.describe());
    assert_eq!((files_of(&rig), counts(&rig)), (vec![parent], [(parent, 1)].into()));
    for _ in 0..2 {
        assert_eq!((get(&rig, "a"), get(&rig, "b")), (None, Some(b"live".to_vec())));
        rig.reopen();
    }
    // A checkpoint takes what is live along, and the rest goes.
    let recovery = RequestedRange { buffered_below: Some(rig.context.numbers.next()), ..RequestedRange::ALL };
    let checkpoint = rig.levels.pick_requested(&rig.version, &recovery, &rig.retention()).unwrap();
    rig.finish(&checkpoint);
    drop(checkpoint);
    assert!(counts(&rig).is_empty() && !files_of(&rig).contains(&parent));
    rig.reopen();
    assert_eq!((get(&rig, "a"), get(&rig, "b")), (None, Some(b"live".to_vec())));
}

/// The older version is in memory only: in an older run of the level, or in a deeper level.
#[test]
fn a_tombstone_stays_while_a_branch_in_memory_has_what_it_hides() {
    for level in [4, 6] {
        let mut made = crafted();
        let parent = made.file(vec![put("m", 1, b"old")]);
        let newer = made.file(vec![deletion("m", 9), put("n", 8, b"new")]);
        let newest = made.file(vec![put("l", 10, b"new"), put("p", 11, b"new")]);
        let old = made.in_memory(&[(parent, 0)]);
        made.run(1, level, &[old]);
        made.run(2, 4, &[newer]);
        made.run(3, 4, &[newest]);
        let mut rig = made.open();
        let inputs = vec![input(&rig, 4, 3, &[newest]), input(&rig, 4, 2, &[newer])];
        let chosen = compaction(&rig, inputs, Output::Into { level: 4, run: RunId(3) }).into_files();
        let outcome = merge(&rig, &chosen);
        rig.apply(outcome);
        assert_eq!(get(&rig, "m"), None, "level {level}: a deleted key shows again");
        assert_eq!((chosen.bottom, rig.version.load().tombstones), (false, 1), "level {level}");
        drop(chosen);
        rig.reopen();
        assert_eq!(get(&rig, "m"), None, "level {level}");
    }
}

/// A merge replaces the branches that it has read, not what lies in their key range: a newer run may have keys there, which
/// came while the merge ran.
#[test]
fn a_replay_drops_branches_and_not_key_ranges() {
    let mut made = crafted();
    let old = made.file(vec![put("a", 1, b"old"), put("z", 2, b"old")]);
    let newer = made.file(vec![put("m", 9, b"newer")]);
    let own = made.file(vec![put("a", 0, b"oldest")]);
    let consumed = made.in_memory(&[(old, 0), (old, 1)]);
    let stays = made.in_memory(&[(newer, 0)]);
    made.run(1, 6, &[own]);
    made.run(2, 6, &[consumed]);
    made.run(3, 6, &[stays]);
    let mut rig = made.open();
    let inputs = vec![input(&rig, 6, 2, &[consumed]), input(&rig, 6, 1, &[own])];
    let edit = run(&mut rig, inputs, Output::Joined { level: 6 });
    assert_eq!(edit.buffered_dropped, [consumed]);
    assert_eq!(
        (rig.state.buffered.keys().copied().collect::<Vec<_>>(), counts(&rig)),
        (vec![stays], [(newer, 1)].into())
    );
    for _ in 0..2 {
        assert_eq!(["a", "m", "z"].map(|text| get(&rig, text).unwrap()), [&b"old"[..], b"newer", b"old"]);
        rig.reopen();
    }
}

/// A store with one merge to do, which leaves `b` in memory, of `parent`.
fn before_a_merge() -> (Rig, FileNumber) {
    let mut made = crafted();
    let parent = made.file(vec![put("a", 1, b"old"), put("b", 2, b"live")]);
    let newer = made.file(vec![put("a", 9, b"live")]);
    let deeper = made.file(vec![put("a", 0, b"older")]);
    made.run(1, 5, &[deeper]);
    made.run(2, 4, &[parent]);
    made.run(3, 3, &[newer]);
    (made.open(), parent)
}

/// What a crash leaves before, at and after the edit of a merge: its inputs; both; its result and the parent.
#[test]
fn a_crash_around_the_edit_of_a_merge_loses_nothing() {
    for point in ["before", "at", "after"] {
        let (mut rig, parent) = before_a_merge();
        let known = files_of(&rig);
        let inputs = vec![input(&rig, 3, 3, &known[1..2]), input(&rig, 4, 2, &[parent])];
        let chosen = compaction(&rig, inputs, Output::Joined { level: 4 });
        let outcome = merge(&rig, &chosen);
        match point {
            // Nothing of the outcome is anywhere.
            "before" => std::mem::forget(outcome),
            // The manifest has the edit, and no file was removed.
            "at" => {
                let applied = rig.levels.apply(outcome, &rig.version);
                rig.state.apply(&applied.edit).unwrap();
                std::mem::forget(applied);
            }
            _ => drop(rig.apply(outcome)),
        }
        rig.crash();
        let is_done = point != "before";
        assert_eq!(counts(&rig), if is_done { [(parent, 1)].into() } else { [].into() }, "{point}");
        assert_eq!(rig.state.buffered.len(), usize::from(is_done), "{point}");
        assert_eq!((get(&rig, "a"), get(&rig, "b")), (Some(b"live".to_vec()), Some(b"live".to_vec())), "{point}");
        rig.reopen();
    }
}

/// `verify` finds an older version before a newer one, whichever of the two is in memory.
#[test]
fn verify_proves_the_order_of_versions_over_runs_and_memory() {
    for is_newer_in_memory in [true, false] {
        for is_sound in [true, false] {
            let mut made = crafted();
            // So that the numbers of whole branches do not prove the order.
            let one = made.file(vec![put("a", 1, b"value"), put("k", 5, b"value")]);
            let other = made.file(vec![put("a", 2, b"value"), put("k", 4, b"value")]);
            let [newer, older] = if is_sound { [(one, 1), (other, 1)] } else { [(other, 1), (one, 1)] };
            let rest = made.file(vec![put("b", 3, b"value"), put("c", 9, b"value")]);
            let in_memory = made.in_memory(&[if is_newer_in_memory { newer } else { older }, (rest, 0), (rest, 1)]);
            let (newer, older) = if is_newer_in_memory { (in_memory, older.0) } else { (newer.0, in_memory) };
            made.run(1, 6, &[older]);
            made.run(2, 6, &[newer]);
            let unused: Vec<_> = [one, other].into_iter().filter(|file| ![newer, older].contains(file)).collect();
            let rig = made.open();
            assert_eq!(counts(&rig), unused.iter().map(|file| (*file, 1)).chain([(rest, 2)]).collect());
            let (mut found, shape) = (Vec::new(), rig.state.levels.unwrap());
            check_stored(&rig.context, (shape, &rig.state), true, &mut |result| {
                found.extend(result.err());
                Ok(())
            })
            .unwrap();
            let text = found.iter().map(ToString::to_string).collect::<String>();
            assert_eq!(is_sound, found.is_empty(), "newer in memory: {is_newer_in_memory}: {text}");
            assert!(is_sound || text.contains("order of versions"), "{text}");
        }
    }
}
