//! `multi_get` compared with a model: in memory, on disk, at a snapshot, and on a disk that fails.

use crate::support::{Random, expect_sound, tiny};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Compression, Db};
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

/// Writes to a store and its model: overwrites, deletes, large and small values.
fn fill(db: &Db, model: &mut Model, random: &mut Random, writes: u64) {
    for _ in 0..writes {
        let key = key(random.below(3000));
        if random.one_in(5) {
            db.delete(&key).unwrap();
            model.remove(&key);
        } else {
            let length = if random.one_in(500) { 300_000 } else { random.below(200) as usize };
            let value = random.bytes(length);
            db.put(&key, &value).unwrap();
            model.insert(key, value);
        }
    }
}

/// Keys to look up: some twice, some absent, more than one group holds.
fn lookups(random: &mut Random) -> Vec<Vec<u8>> {
    let count = random.below(300);
    (0..count).map(|_| key(random.below(4000))).collect()
}

fn answers(model: &Model, keys: &[Vec<u8>]) -> Vec<Option<Vec<u8>>> {
    keys.iter().map(|key| model.get(key).cloned()).collect()
}

#[test]
fn multi_get_agrees_with_single_gets() {
    for (seed, options) in [(1, tiny()), (2, tiny().compression(Compression::Lz4)), (3, tiny().memory_budget(64 << 20))]
    {
        println!("seed {seed}");
        let mut random = Random(seed);
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), options.clone()).unwrap();
        let mut model = Model::new();
        fill(&db, &mut model, &mut random, 10_000);
        let old = model.clone();
        let snapshot = db.snapshot();
        fill(&db, &mut model, &mut random, 5_000);
        for round in 0..20 {
            if round == 10 {
                db.flush().unwrap();
                db.settle().unwrap();
            }
            let keys = lookups(&mut random);
            assert_eq!(db.multi_get(&keys).unwrap(), answers(&model, &keys));
            assert_eq!(snapshot.multi_get(&keys).unwrap(), answers(&old, &keys));
        }
        assert_eq!(db.multi_get::<&[u8]>(&[]).unwrap(), []);
        drop(snapshot);
        expect_sound(&db);
        db.close().unwrap();
        // Nothing is cached after opening.
        let db = Db::open(directory.path(), options).unwrap();
        for _ in 0..10 {
            let keys = lookups(&mut random);
            assert_eq!(db.multi_get(&keys).unwrap(), answers(&model, &keys));
        }
        expect_sound(&db);
    }
}

#[test]
fn a_failed_read_fails_the_call_and_no_later_one() {
    let disk = SimulatedStorage::new(7);
    let mut random = Random(7);
    let db = Db::open_with(Arc::new(disk.clone()), tiny()).unwrap();
    let mut model = Model::new();
    fill(&db, &mut model, &mut random, 8_000);
    db.flush().unwrap();
    db.settle().unwrap();
    let mut failures = 0;
    for nth in 1..60 {
        let keys = lookups(&mut random);
        disk.inject(&format!("(read nth={nth}) -> eio"));
        match db.multi_get(&keys) {
            Ok(found) => assert_eq!(found, answers(&model, &keys)),
            Err(error) => {
                failures += 1;
                assert!(error.to_string().contains(".branch") || error.to_string().contains(".value"), "{error}");
            }
        }
        disk.clear_faults();
        assert_eq!(db.multi_get(&keys).unwrap(), answers(&model, &keys));
    }
    assert!(failures > 10, "only {failures} calls met the fault");
    expect_sound(&db);
}
