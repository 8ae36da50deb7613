//! The store without threads, whose behaviour is a pure function of the calls and the disk's seed.

use crate::support::{Random, setting, tiny_unsynced};
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use std::sync::Arc;
use std::time::Duration;

fn open(disk: &SimulatedStorage) -> DeterministicDb {
    DeterministicDb::open(Arc::new(disk.clone()), tiny_unsynced()).unwrap()
}

/// Fills many Memtables on a slow disk, with occasional background work and timed syncs. Returns the disk.
fn run(seed: u64) -> SimulatedStorage {
    let disk = SimulatedStorage::new(seed);
    let mut random = Random(seed);
    for _ in 0..3 {
        disk.inject("(sync,map-sync) -> slow=2ms; (any p=0.01) -> slow=30ms");
        let options = tiny_unsynced().sync_interval(Duration::from_millis(100));
        let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
        for _ in 0..1500 {
            let key = random.below(2000).to_be_bytes();
            match random.below(100) {
                0..80 => {
                    let length = if random.one_in(500) { 270_000 } else { random.below(200) as usize };
                    db.put(key, random.bytes(length)).unwrap();
                }
                80..95 => db.delete(key).unwrap(),
                95..98 => {
                    disk.advance(Duration::from_micros(random.below(20_000)));
                    db.step();
                }
                98 => db.sync().unwrap(),
                _ => assert!(db.get(key).is_ok()),
            }
        }
        db.flush().unwrap();
        db.settle().unwrap();
        db.verify().unwrap();
        db.close().unwrap();
        disk.clear_faults();
    }
    disk
}

#[test]
fn equal_seeds_give_equal_disks() {
    for seed in 1..=setting("ALLUVIUM_SEEDS", 2) {
        let (first, second, other) = (run(seed), run(seed), run(seed + 1000));
        assert_eq!(first.operations(), second.operations(), "seed {seed}");
        assert_eq!(first.now(), second.now(), "seed {seed}");
        assert!(first.current_image() == second.current_image(), "seed {seed}: the files differ");
        assert!(first.current_image() != other.current_image());
    }
}

#[test]
fn compaction_leaves_one_run_of_live_data() {
    let db = open(&SimulatedStorage::new(1));
    for round in 0..20u32 {
        for key in 0..1000u32 {
            db.put(key.to_be_bytes(), round.to_be_bytes().repeat(10)).unwrap();
        }
    }
    for key in 0..500u32 {
        db.delete(key.to_be_bytes()).unwrap();
    }
    db.compact().unwrap();
    let stats = db.stats();
    assert_eq!((stats.memory_entries, stats.levels.iter().map(|level| level.entries).sum()), (0, 500), "{stats}");
    assert_eq!(db.iter().unwrap().count(), 500);
    db.verify().unwrap();
    // A second call has nothing to do and writes nothing.
    let written = db.stats().compacted_bytes;
    db.compact().unwrap();
    assert_eq!(db.stats().compacted_bytes, written);
}

#[test]
fn statistics_follow_a_tree_that_grows_and_shrinks() {
    let db = open(&SimulatedStorage::new(2));
    let figures = |db: &DeterministicDb| (db.stats().splits, db.stats().joins);
    assert_eq!(figures(&db), (0, 0));
    for stretch in 0..20u32 {
        (stretch * 1000..(stretch + 1) * 1000).for_each(|key| db.put(key.to_be_bytes(), [1; 100]).unwrap());
        while db.step() {}
    }
    let (splits, joins) = figures(&db);
    assert!(splits > 0 && joins == 0, "{splits} splits, {joins} joins");
    (0..20_000u32).filter(|key| key % 100 > 0).for_each(|key| db.delete(key.to_be_bytes()).unwrap());
    db.compact().unwrap();
    while db.step() {}
    assert!(figures(&db).1 > 0, "{}", db.stats());
    db.verify().unwrap();
}
