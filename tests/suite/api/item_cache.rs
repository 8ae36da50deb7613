//! The item cache, which holds single values that a get had to read from the disk, compared with a model during
//! overwrites, deletes, snapshots and merges.

use crate::support::Random;
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{DiskComponent, LevelsOptions, Options};
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// Some keys are read often, most keys rarely.
fn key(random: &mut Random) -> Vec<u8> {
    let number = if random.one_in(3) { random.below(8_000) } else { random.below(60) * 131 };
    format!("key{number:05}").into_bytes()
}

/// A few values fill leaves of two pages.
fn usual_bytes(number: u64) -> usize {
    if number.is_multiple_of(10) { 1_000 } else { 60 }
}

#[test]
fn cached_items_are_the_newest_versions() {
    for seed in 0..3 {
        println!("seed {seed}");
        let mut random = Random(seed);
        let storage = Arc::new(SimulatedStorage::new(seed));
        let options = Options::new().memory_budget(1 << 20);
        // The cache has 64 KiB, the data about ten times that.
        let db = DeterministicDb::open_small(storage, options).unwrap();
        let mut model = Model::new();
        for number in 0..8_000 {
            let (key, value) = (format!("key{number:05}").into_bytes(), random.bytes(usual_bytes(number)));
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
        let mut old = (db.snapshot(), model.clone());
        for round in 0..20_000 {
            let key = key(&mut random);
            match random.below(40) {
                0 => {
                    db.delete(&key).unwrap();
                    model.remove(&key);
                }
                1 | 2 => {
                    let most = if random.one_in(4) { 1_100 } else { 90 };
                    let length = random.below(most) as usize;
                    let value = random.bytes(length);
                    db.put(&key, &value).unwrap();
                    model.insert(key, value);
                }
                3 => assert_eq!(old.0.get(&key).unwrap(), old.1.get(&key).cloned(), "snapshot, round {round}"),
                4 => {
                    let found = db.multi_get(&[&key]).unwrap().pop().flatten();
                    assert_eq!(found, model.get(&key).cloned(), "the item is old, round {round}");
                }
                _ => assert_eq!(db.get(&key).unwrap(), model.get(&key).cloned(), "the item is old, round {round}"),
            }
            if random.one_in(500) {
                db.flush().unwrap();
            }
            if random.one_in(3_000) {
                old = (db.snapshot(), model.clone());
            }
        }
        let stats = db.stats();
        assert!(stats.items > 10 && stats.item_hits > 1_000, "{} items, {} hits", stats.items, stats.item_hits);
        assert!(stats.incorporations > 20, "{}", stats.incorporations);
        db.verify().unwrap();
    }
}

/// A page that a read does not find counts for its file, and for the level that has the file.
#[test]
fn misses_are_counted_by_file_and_by_level() {
    for component in [DiskComponent::Trunk, DiskComponent::Levels(LevelsOptions::leveled())] {
        let storage = Arc::new(SimulatedStorage::new(7));
        let options = Options::new().memory_budget(1 << 20).disk_component(component);
        let db = DeterministicDb::open_small(storage, options).unwrap();
        let key = |number: u64| format!("key{number:05}");
        for number in 0..2_000 {
            db.put(key(number), [7; 300]).unwrap();
        }
        db.compact().unwrap();
        let misses = || {
            let of_levels: u64 = db.stats().levels.iter().map(|level| level.cache_misses).sum();
            let of_files: Vec<u64> = db.branch_files().iter().map(|file| file.cache_misses).collect();
            assert_eq!(of_levels, of_files.iter().sum::<u64>(), "{}", db.stats());
            of_files
        };
        let before = misses();
        // Of the first half of the keys, which are several times the cache.
        (0..1_000).for_each(|number| assert!(db.get(key(number)).unwrap().is_some()));
        let after = misses();
        assert!(before.len() > 3 && before.len() == after.len(), "{before:?} {after:?}");
        assert!(after[0] > before[0] + 3, "the first file: {before:?} {after:?}");
        assert_eq!(after.last(), before.last(), "no read was in the last file");
    }
}
