//! Work on a full disk frees all dead data, the densest first, and ends. Merges that find no space are skipped, or
//! their leaf is split.

use super::rig::{Random, Rig, Write, number_key, small_options};
use crate::disk::runs::load::Load;
use crate::disk::runs::requested_range::RequestedRange;
use crate::disk::trunk::TrunkOptions;
use crate::merge::Retention;
use crate::util::sync::AtomicBool;

/// A tree of many leaves in which the lowest `deleted` thousandths of the keys are deleted.
fn rig(options: TrunkOptions, deleted: u64) -> Rig {
    let mut rig = Rig::new(options);
    rig.checks = false;
    let mut random = Random(7);
    for _ in 0..12 {
        let keys = (0..600).map(|_| random.next() % 1_000_000);
        let writes: Vec<Write> = keys.map(|key| (number_key(key), Some(vec![1; 100]))).collect();
        rig.incorporate(writes);
        rig.work();
    }
    let limit = number_key(deleted * 1000);
    let live = rig.expected(u64::MAX);
    let dead: Vec<Write> = live.keys().filter(|key| **key < &limit[..]).map(|key| (key.to_vec(), None)).collect();
    rig.incorporate(dead);
    rig.checks = true;
    rig
}

fn load(rig: &Rig) -> Load {
    let mut load = Load::default();
    rig.tree.figures().levels.iter().for_each(|level| load += level.load);
    load
}

#[test]
fn all_dead_data_is_freed() {
    let mut rig = rig(small_options(16 << 10), 500);
    let live = rig.expected(u64::MAX).len() as u64;
    let before = load(&rig);
    assert!(before.tombstones > 1000 && before.entries > live * 2);
    let mut done = Vec::new();
    while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
        done.push(job.to_string());
        rig.finish(&job);
        assert!(done.len() < 1000, "work does not end: {:?}", &done[980..]);
    }
    let after = load(&rig);
    // Leaves without tombstones are left as they are.
    assert!(
        after.tombstones == 0 && after.entries < before.entries - 2 * before.tombstones * 9 / 10,
        "{before:?} {after:?}"
    );
    assert!(done.iter().any(|job| job.starts_with("flush")) && !done.iter().any(|job| job.starts_with("split leaf")));
    rig.check_reads(&mut Random(8), 100);
}

#[test]
fn the_densest_leaf_comes_first() {
    let mut rig = rig(small_options(16 << 10), 100);
    while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
        if job.to_string().starts_with("merge") {
            break;
        }
        rig.finish(&job);
    }
    let before = load(&rig);
    let job = rig.trunk.pick_to_free_space(&rig.tree).unwrap();
    rig.finish(&job);
    let after = load(&rig);
    // A tenth of the keys is deleted. The leaf that is merged first is almost empty afterwards.
    assert!(before.tombstones - after.tombstones > 100, "{before:?} {after:?}");
}

#[test]
fn a_large_leaf_without_space_to_merge_is_split() {
    let options = TrunkOptions { leaf_bytes_min: 16 << 10, ..small_options(16 << 10) };
    let mut rig = rig(options, 500);
    let mut parts = 0;
    let mut steps = 0;
    while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
        let text = job.to_string();
        let too_large = rig.tree.bytes() / rig.tree.figures().levels.last().unwrap().nodes > 32 << 10;
        if text.starts_with("merge") && too_large && parts < 3 {
            rig.trunk.note_failed_on_full_disk(&job);
        } else {
            parts += usize::from(text.starts_with("split leaf"));
            rig.finish(&job);
        }
        steps += 1;
        assert!(steps < 1000, "work does not end");
    }
    assert!(parts >= 1, "no leaf was split");
    assert_eq!(load(&rig).tombstones, 0);
    rig.check_reads(&mut Random(9), 100);
}

#[test]
fn work_ends_when_nothing_fits() {
    let mut rig = rig(small_options(16 << 10), 500);
    let mut steps = 0;
    while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
        if job.to_string().starts_with("merge") {
            rig.trunk.note_failed_on_full_disk(&job);
        } else {
            rig.finish(&job);
        }
        steps += 1;
        assert!(steps < 2000, "work does not end");
    }
    // Once there is space, work continues.
    rig.trunk.clear_failures();
    assert!(rig.trunk.pick_to_free_space(&rig.tree).is_some());
}

/// Regression: on a disk too full for an edit of the manifest, merges that wrote little succeeded, and their edits failed.
/// Each merge forgot the failures of all others, so they were tried in turn for ever, and a flush never returned.
#[test]
fn work_ends_when_no_edit_fits() {
    let mut rig = rig(small_options(16 << 10), 500);
    let (mut merges, mut steps) = (0, 0);
    while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
        if job.to_string().starts_with("merge") {
            merges += 1;
            let outcome = rig.trunk.run(&job, &rig.tree, &rig.retention(), &AtomicBool::new(false)).unwrap();
            drop(outcome);
            rig.trunk.note_failed_on_full_disk(&job);
        } else {
            rig.finish(&job);
        }
        steps += 1;
        assert!(steps < 2000, "work does not end");
    }
    assert!(merges > 1);
}

/// Regression: a program that opened a full store for one delete after the other left a branch file of one tombstone
/// each time. These filled the disk to the last byte, so that no more deletes were possible.
#[test]
fn single_deletes_gather_in_few_files() {
    let mut rig = rig(TrunkOptions { part_bytes_min: 32 << 10, ..small_options(64 << 10) }, 0);
    while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
        rig.finish(&job);
    }
    let files = rig.tree.figures().files;
    let live: Vec<Vec<u8>> = rig.expected(u64::MAX).keys().map(|key| key.to_vec()).collect();
    for key in live.iter().step_by(live.len() / 20) {
        rig.incorporate(vec![(key.clone(), None)]);
        while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
            rig.finish(&job);
        }
        let more = rig.tree.figures().files.saturating_sub(files);
        // Three small bundles wait at the root, and one file may have been flushed to a leaf.
        assert!(more <= 4, "{more} more files than before");
    }
    rig.check_reads(&mut Random(10), 100);
}

/// Regression: the parts that leaves had of large files counted as small bundles. Merging them on a full disk took all space
/// and freed none, since other leaves still used the files.
#[test]
fn small_parts_of_shared_files_are_left_alone() {
    let mut rig = rig(TrunkOptions { part_bytes_min: 1 << 20, ..small_options(16 << 10) }, 0);
    let mut random = Random(11);
    for _ in 0..6 {
        let keys = (0..300).map(|_| random.next() % 1_000_000);
        rig.incorporate(keys.map(|key| (number_key(key), Some(vec![2; 100]))).collect());
    }
    let mut flushes = 0;
    while let Some(job) = rig.trunk.pick_requested(&rig.tree, &RequestedRange::ALL, &Retention::default()) {
        if !job.to_string().starts_with("flush") {
            break;
        }
        flushes += 1;
        rig.finish(&job);
    }
    let leaves = rig.tree.figures().levels.last().unwrap().clone();
    assert!(flushes > 0 && leaves.runs_max >= 6, "{leaves:?}");
    let job = rig.trunk.pick_to_free_space(&rig.tree);
    assert!(job.as_ref().is_none_or(|job| !job.to_string().starts_with("merge")), "{}", job.unwrap());
}

/// Files shared by many leaves, some of which have merged their part, are rewritten without their dead data.
/// *Otherwise:* no dead data of these files is freed before the last leaf is merged, and a full disk has no space for
/// so many merges.
#[test]
fn dead_parts_of_shared_files_are_freed_file_by_file() {
    let mut rig = rig(TrunkOptions { part_bytes_min: 1 << 20, ..small_options(16 << 10) }, 0);
    let mut random = Random(11);
    let keys = (0..600).map(|_| random.next() % 1_000_000);
    rig.incorporate(keys.map(|key| (number_key(key), Some(vec![2; 100]))).collect());
    // Flushes everything down to the leaves and merges every other leaf.
    let wanted = RequestedRange::ALL;
    let retention = Retention::default();
    let mut merges = 0;
    while let Some(job) = rig.trunk.pick_requested(&rig.tree, &wanted, &retention) {
        merges += usize::from(job.to_string().starts_with("merge"));
        rig.finish(&job);
        if merges == 4 {
            break;
        }
    }
    let bytes = |rig: &Rig| rig.tree.branches().iter().map(|branch| branch.meta().bytes).sum::<u64>();
    let (mut rewritten, mut gained, mut steps) = (0, 0, 0);
    while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
        let before = bytes(&rig);
        rig.finish(&job);
        if job.to_string().starts_with("rewrite live") && bytes(&rig) != before {
            rewritten += 1;
            gained += before - bytes(&rig);
        }
        steps += 1;
        assert!(steps < 300, "work does not end");
    }
    assert!(rewritten > 0 && gained >= rewritten * (4 << 10), "{rewritten} rewritten, {gained} bytes gained");
    rig.check_reads(&mut Random(12), 100);
}
