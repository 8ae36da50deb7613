//! Work for a full disk: it frees all that is dead, densest first, and ends; what finds no room is left out or split.

use super::rig::{Random, Rig, Write, number_key, small_options};
use crate::disk::runs::load::Load;
use crate::disk::runs::requested_range::RequestedRange;
use crate::disk::trunk::TrunkOptions;
use crate::merge::Retention;

/// A tree of many leaves in which the keys below `deleted` in a thousand are deleted again.
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
fn it_frees_all_that_is_dead_and_ends() {
    let mut rig = rig(small_options(16 << 10), 500);
    let live = rig.expected(u64::MAX).len() as u64;
    let before = load(&rig);
    assert!(before.tombstones > 1000 && before.entries > live * 2);
    let mut done = Vec::new();
    while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
        done.push(job.to_string());
        rig.finish(&job);
        assert!(done.len() < 1000, "it does not end: {:?}", &done[980..]);
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
    // A tenth of the keys is deleted; the first leaf merged is all but empty afterwards.
    assert!(before.tombstones - after.tombstones > 100, "{before:?} {after:?}");
}

#[test]
fn a_large_leaf_that_finds_no_room_is_split() {
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
        assert!(steps < 1000, "it does not end");
    }
    assert!(parts >= 1, "no leaf was split");
    assert_eq!(load(&rig).tombstones, 0);
    rig.check_reads(&mut Random(9), 100);
}

#[test]
fn where_nothing_fits_it_ends_as_well() {
    let mut rig = rig(small_options(16 << 10), 500);
    let mut steps = 0;
    while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
        if job.to_string().starts_with("merge") {
            rig.trunk.note_failed_on_full_disk(&job);
        } else {
            rig.finish(&job);
        }
        steps += 1;
        assert!(steps < 2000, "it does not end");
    }
    // Once there is room it goes on where it was.
    rig.trunk.clear_failures();
    assert!(rig.trunk.pick_to_free_space(&rig.tree).is_some());
}

/// Whoever opens a full store for one delete after the other leaves a branch file of one tombstone each time. They filled the disk to the
/// last byte, so that nobody could delete any more.
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
        // Three small bundles wait at the root, and beside them may be one file that went down to a leaf.
        assert!(more <= 4, "{more} files more than before");
    }
    rig.check_reads(&mut Random(10), 100);
}

/// Files that many leaves share, of which some have merged what they had. *Else:* nothing of what is dead in these files comes back before
/// the last leaf is merged, and a full disk has no room for so many merges.
#[test]
fn what_is_dead_in_shared_files_comes_back_file_by_file() {
    let mut rig = rig(TrunkOptions { part_bytes_min: 1 << 20, ..small_options(16 << 10) }, 0);
    let mut random = Random(11);
    let keys = (0..600).map(|_| random.next() % 1_000_000);
    rig.incorporate(keys.map(|key| (number_key(key), Some(vec![2; 100]))).collect());
    // Down to the leaves, of which every other one is then merged.
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
    let (mut squeezed, mut gained, mut steps) = (0, 0, 0);
    while let Some(job) = rig.trunk.pick_to_free_space(&rig.tree) {
        let before = bytes(&rig);
        rig.finish(&job);
        if job.to_string().starts_with("rewrite live") && bytes(&rig) != before {
            squeezed += 1;
            gained += before - bytes(&rig);
        }
        steps += 1;
        assert!(steps < 300, "it does not end");
    }
    assert!(squeezed > 0 && gained >= squeezed * (8 << 10), "{squeezed} squeezed, {gained} bytes gained");
    rig.check_reads(&mut Random(12), 100);
}
