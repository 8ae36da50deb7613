//! Crashes: the store runs without threads on a simulated disk, which records an image before its I/O operations. The
//! process dies or the power fails at each image. Then the tree must be as after some prefix of the requests: at least
//! all that were acknowledged after a death, at least all before the last fsync after a power cut.

use crate::model::{Dump, Mounted, Request, Tree, dump, requests};
use crate::support::{LAYOUTS, Random, setting, small};
use alluvium::Options;
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use skipfs::check::check;
use skipfs::store::AlluviumStore;
use skipfs::{Layout, SkipFs};
use std::sync::Arc;
use std::time::Duration;

/// More background tasks than are ever due at a time.
const WORK_MAX: usize = 200;

/// Only requests sync: the interval is so long that it never passes.
fn options() -> Options {
    Options::new().memory_budget(256 << 10).background_threads(1).sync_interval(Duration::from_secs(100_000))
}

fn open(disk: &SimulatedStorage) -> DeterministicDb {
    DeterministicDb::open_small(Arc::new(disk.clone()), options()).unwrap()
}

/// The tree on a disk after a crash. The checker must find nothing, before orphans are deleted and after that.
fn recovered(disk: &SimulatedStorage, context: &str) -> Dump {
    let db = open(disk);
    let store = AlluviumStore::of((*db).clone(), None);
    let before = check(&store).unwrap();
    assert!(before.is_sound(), "{context}: {:#?}", before.findings);
    let fs = SkipFs::open(store).unwrap_or_else(|error| panic!("{context}: {error}"));
    let after = check(fs.store()).unwrap();
    assert!(after.is_sound() && after.orphans.is_empty(), "{context}: {after:#?}");
    let found = dump(&fs);
    db.close().unwrap();
    found
}

/// What was tried.
#[derive(Default)]
struct Tally {
    cuts: u64,
    /// Crashes after which requests were missing, and crashes after which one that was in progress was there.
    shorter: u64,
    complete: u64,
}

fn run(layout: Layout, seed: u64, tally: &mut Tally) {
    let disk = SimulatedStorage::new(seed);
    let db = open(&disk);
    let store = AlluviumStore::of((*db).clone(), None);
    SkipFs::mkfs(&store, &small(layout)).unwrap();
    let (mut mounted, mut tree) = (Mounted::new(SkipFs::open(store).unwrap()), Tree::new());
    let mut random = Random(seed);
    // `trees[n]` is the tree after n requests; of these the first `synced` are durable.
    let (mut trees, mut synced) = (vec![tree.dump()], 0);
    disk.record_crashes();
    for (at, mut request) in requests(&mut random, 60).into_iter().enumerate() {
        if matches!(request, Request::Remount) || random.one_in(8) {
            request = Request::Fsync;
        }
        let expected = tree.apply(&request);
        trees.push(tree.dump());
        assert_eq!(mounted.apply(&request), expected, "{layout:?}, seed {seed}, request {at}: {request:?}");
        (0..random.below(4)).take_while(|_| db.step()).for_each(drop);
        let flushes = random.one_in(20);
        if flushes {
            db.flush().unwrap();
            (0..WORK_MAX).take_while(|_| db.step()).for_each(drop);
        }
        for point in disk.crash_points() {
            if !random.one_in(setting("SKIPFS_CRASH_EVERY", 4)) {
                continue;
            }
            let cuts = !random.one_in(3);
            let name = if cuts { "a power cut" } else { "a death" };
            let context =
                format!("{layout:?}, seed {seed}, {name} at {} in request {at}: {request:?}", point.operation);
            let disk = if cuts { point.disk.power_cut(random.next() % 10_000) } else { point.disk.kill() };
            let found = recovered(&disk, &context);
            let least = if cuts { synced } else { trees.len() - 2 };
            let place = (least..trees.len()).rev().find(|&count| trees[count] == found);
            let Some(place) = place else {
                let known = trees.iter().position(|tree| *tree == found);
                panic!("{context}: no prefix from {least} to {} but {known:?}: {found:#?}", trees.len() - 1);
            };
            tally.cuts += 1;
            tally.shorter += u64::from(place + 2 < trees.len());
            tally.complete += u64::from(place + 1 == trees.len() && trees[place] != trees[place - 1]);
        }
        if flushes || matches!(request, Request::Fsync) {
            synced = trees.len() - 1;
        }
    }
}

/// `SKIPFS_CRASH_SEQUENCES` runs more sequences, `SKIPFS_CRASH_EVERY` tries one in so many points.
#[test]
fn after_a_crash_the_tree_is_as_after_some_prefix() {
    let mut tally = Tally::default();
    for seed in 0..setting("SKIPFS_CRASH_SEQUENCES", 20) {
        for layout in LAYOUTS {
            run(layout, seed, &mut tally);
        }
    }
    println!("{} crashes, {} with fewer requests, {} with the last one", tally.cuts, tally.shorter, tally.complete);
    assert!(tally.cuts > 50 && tally.shorter > 0 && tally.complete > 0, "too little was tried");
}
