//! Ingest of sorted pairs: what enters, when, and who must not notice it (`docs/concurrency.md`, I; `docs/recovery.md`, I).

mod crash;
mod races;
mod threads;

use crate::support::{Last, Random, expect_sound, expect_sound_closed, setting, tiny, tiny_levels, tiny_skip};
use alluvium::internals::DeterministicDb;
use alluvium::merge_operators::Append;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{MemoryStorage, Storage};
use alluvium::{
    Compression, Db, DiskComponent, Error, Keyspace, KeyspaceOptions, Options, ReadOnlyDb, Snapshot, limits,
};
use std::collections::BTreeMap;
use std::sync::Arc;

type Contents = BTreeMap<Vec<u8>, Vec<u8>>;

fn components() -> [Option<DiskComponent>; 4] {
    [None, Some(tiny_levels(1)), Some(tiny_levels(3)), Some(tiny_skip())]
}

fn contents(snapshot: &Snapshot) -> Contents {
    snapshot.iter().unwrap().map(Result::unwrap).collect()
}

fn of(keyspace: &Keyspace) -> Contents {
    contents(&keyspace.snapshot())
}

fn key(number: u64) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn ingest(keyspace: &Keyspace, pairs: &Contents) {
    let mut ingest = keyspace.ingest().unwrap();
    ingest.put_all(pairs).unwrap();
    let report = ingest.commit().unwrap();
    assert_eq!(report.pairs, pairs.len() as u64);
}

/// Some pairs replace others, some are new, some of the store stay. Everything else of the store works on what was ingested.
#[test]
fn pairs_enter_at_once_in_any_component() {
    for disk_component in components() {
        for compression in [Compression::None, Compression::Lz4] {
            let options = tiny().disk_component(disk_component.clone()).compression(compression);
            let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
            let db = Db::open_with(Arc::clone(&storage), options.clone()).unwrap();
            let mut expected = Contents::new();
            for number in (0..6_000).step_by(3) {
                db.put(key(number), "before").unwrap();
                expected.insert(key(number), b"before".to_vec());
            }
            let pairs: Contents = (1_000..5_000).step_by(2).map(|n| (key(n), vec![b'x'; n as usize % 90])).collect();
            let mut entering = db.ingest().unwrap();
            entering.put_all(&pairs).unwrap();
            let earlier = db.snapshot();
            assert_eq!(of(&db), expected);
            let report = entering.commit().unwrap();
            assert_eq!((report.pairs, report.number), (2_000, db.stats().last_number));
            assert!(report.files > 0 && report.file_bytes > report.user_bytes / 3);
            assert_eq!((db.stats().ingests, db.stats().ingested_bytes), (1, report.file_bytes));
            assert_eq!(contents(&earlier), expected, "a snapshot has changed");
            drop(earlier);
            expected.extend(pairs.clone());
            assert_eq!(of(&db), expected);
            for number in 0..6_000 {
                assert_eq!(db.get(key(number)).unwrap().as_ref(), expected.get(&key(number)), "{number}");
            }
            assert!(db.iter().unwrap().rev().map(Result::unwrap).eq(expected.clone().into_iter().rev()));
            // Newer writes hide it, and a reader beside the writer sees it.
            db.delete(key(1_002)).unwrap();
            db.delete_range(key(2_000)..key(2_100)).unwrap();
            db.put(key(3_000), "after").unwrap();
            expected.remove(&key(1_002));
            expected.retain(|found, _| !(key(2_000)..key(2_100)).contains(found));
            expected.insert(key(3_000), b"after".to_vec());
            assert_eq!(of(&db), expected);
            let reader = ReadOnlyDb::open_with(Arc::clone(&storage), Options::new()).unwrap();
            assert!(reader.iter().unwrap().map(Result::unwrap).eq(expected.clone()));
            drop(reader);
            expect_sound(&db);
            db.close().unwrap();
            let db = Db::open_with(Arc::clone(&storage), options).unwrap();
            assert_eq!(of(&db), expected);
            db.compact().unwrap();
            assert_eq!(of(&db), expected);
            assert_eq!(db.stats().levels.iter().map(|level| level.entries).sum::<u64>(), expected.len() as u64);
            expect_sound(&db);
            db.close().unwrap();
            assert_eq!(expect_sound_closed(&storage), Vec::<String>::new());
        }
    }
}

/// One deterministic store with everything beside ingests, against a model.
#[test]
fn random_operations_with_ingests() {
    let mut ingests = 0;
    for seed in 0..setting("ALLUVIUM_SEEDS", 12) {
        println!("seed {seed}");
        let random = &mut Random(seed);
        let storage = Arc::new(SimulatedStorage::new(seed));
        let disk_component = components()[seed as usize % 4].clone();
        let open = || {
            let options = Options::new().memory_budget(1 << 20).disk_component(disk_component.clone());
            let db =
                DeterministicDb::open_small(storage.clone(), options.merge_operator(Last { joins: true })).unwrap();
            let other = db.keyspace("other", KeyspaceOptions::new()).unwrap();
            (db, other)
        };
        let (mut db, mut other) = open();
        let mut model = [Contents::new(), Contents::new()];
        let mut snapshots: Vec<(Snapshot, [Contents; 2])> = Vec::new();
        for round in 0..4_000 {
            let what = format!("seed {seed}, round {round}");
            let which = random.below(2) as usize;
            let number = random.below(1_000);
            let length = random.below(40) as usize;
            let value = [b"v".to_vec(), random.bytes(length)].concat();
            let keyspace = [&**db, &other][which].clone();
            match random.below(400) {
                0..=3 => {
                    let (from, step) = (random.below(900), 1 + random.below(7));
                    let until = from + 1 + random.below(300);
                    let pairs: Contents = (from..until)
                        .step_by(step as usize)
                        .map(|n| (key(n), [&value[..], &key(n)].concat()))
                        .collect();
                    let mut entering = keyspace.ingest().unwrap();
                    entering.put_all(&pairs).unwrap();
                    if random.one_in(5) {
                        drop(entering);
                    } else {
                        for _ in 0..random.below(20) {
                            // Before the commit, so older.
                            keyspace.put(key(random.below(1_000)), "beside").unwrap();
                        }
                        model[which] = of(&keyspace);
                        assert_eq!(entering.commit().unwrap().pairs, pairs.len() as u64);
                        model[which].extend(pairs);
                        ingests += 1;
                    }
                }
                4..=8 => while db.step() && !random.one_in(30) {},
                9 => db.flush().unwrap(),
                10 if random.one_in(2) => db.compact().unwrap(),
                11 if snapshots.len() < 3 => {
                    let snapshot = db.snapshot();
                    let seen = [contents(&snapshot), contents(&snapshot.within(&other).unwrap())];
                    assert_eq!(seen, model, "{what}");
                    snapshots.push((snapshot, seen));
                }
                12 => snapshots.truncate(snapshots.len().saturating_sub(1)),
                13 if random.one_in(3) => {
                    snapshots.clear();
                    drop((keyspace, other));
                    db.close().unwrap();
                    (db, other) = open();
                }
                14..=16 => {
                    let until = number + random.below(60);
                    keyspace.delete_range(key(number)..key(until)).unwrap();
                    model[which].retain(|found, _| !(key(number)..key(until.max(number))).contains(found));
                }
                17..=60 => {
                    keyspace.delete(key(number)).unwrap();
                    model[which].remove(&key(number));
                }
                61..=100 if which == 0 => {
                    keyspace.merge(key(number), &value).unwrap();
                    model[which].insert(key(number), value);
                }
                101..=130 => {
                    let found = keyspace.put_if_absent(key(number), &value).unwrap();
                    assert_eq!(found, !model[which].contains_key(&key(number)), "{what}");
                    model[which].entry(key(number)).or_insert(value);
                }
                131..=280 => {
                    assert_eq!(keyspace.get(key(number)).unwrap().as_ref(), model[which].get(&key(number)), "{what}");
                }
                _ => {
                    keyspace.put(key(number), &value).unwrap();
                    model[which].insert(key(number), value);
                }
            }
            if round % 250 == 0 {
                assert_eq!([of(&db), of(&other)], model, "{what}");
                for (snapshot, before) in &snapshots {
                    let seen = [contents(snapshot), contents(&snapshot.within(&other).unwrap())];
                    assert_eq!(&seen, before, "{what}: a snapshot has changed");
                }
            }
        }
        snapshots.clear();
        db.compact().unwrap();
        assert_eq!([of(&db), of(&other)], model, "seed {seed}");
        expect_sound(&db);
    }
    assert!(ingests > 100, "{ingests} ingests");
}

/// What is wrong is named, and what was right before it still enters.
#[test]
fn wrong_pairs_are_refused_by_their_names() {
    let db = Db::open_with(Arc::new(MemoryStorage::new()), tiny()).unwrap();
    let users = db.keyspace("users", KeyspaceOptions::new()).unwrap();
    let mut entering = users.ingest().unwrap();
    entering.put("b", "1").unwrap();
    for (key, relation) in [("b", "equals"), ("a", "is less than"), ("", "is less than")] {
        let error = entering.put(key, "2").unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)), "{error}");
        let text = error.to_string();
        let expected =
            format!("pair 2 of the ingest, with the key \"{key}\", is out of order: its key {relation} that of");
        assert!(text.contains(&expected) && text.contains("before it, \"b\""), "{text}");
    }
    let longest = vec![0xff; limits::KEY_BYTES_MAX];
    assert!(entering.put([&longest[..], &[0]].concat(), "").is_err());
    entering.put(&longest, "3").unwrap();
    assert_eq!(entering.commit().unwrap().pairs, 2);
    assert_eq!(of(&users), Contents::from([(b"b".to_vec(), b"1".to_vec()), (longest, b"3".to_vec())]));
    assert!(db.is_empty().unwrap());
    // Nothing at all is no error, and takes no number.
    let last = db.stats().last_number;
    assert_eq!(db.ingest().unwrap().commit().unwrap(), Default::default());
    assert_eq!((db.stats().last_number, db.stats().ingests), (last, 1));
    // The empty key is a key.
    let mut entering = db.ingest().unwrap();
    entering.put("", "empty").unwrap();
    entering.commit().unwrap();
    assert_eq!(db.get("").unwrap().as_deref(), Some(&b"empty"[..]));
    // A keyspace that is dropped meanwhile, and a store that is closed.
    let (mut into_dropped, mut into_closed) = (users.ingest().unwrap(), db.ingest().unwrap());
    into_dropped.put("c", "4").unwrap();
    into_closed.put("c", "4").unwrap();
    db.drop_keyspace("users").unwrap();
    assert!(matches!(users.ingest().unwrap_err(), Error::KeyspaceDropped { .. }));
    assert!(matches!(into_dropped.commit().unwrap_err(), Error::KeyspaceDropped { .. }));
    db.close().unwrap();
    assert!(matches!(into_closed.put("d", "5").unwrap_err(), Error::Closed));
    assert!(matches!(into_closed.commit().unwrap_err(), Error::Closed));
    assert!(matches!(db.ingest().unwrap_err(), Error::Closed));
}

/// A dropped ingest leaves no file, and neither does one that a full disk has stopped.
#[test]
fn an_ingest_that_does_not_commit_leaves_nothing() {
    let disk = SimulatedStorage::new(3);
    let db = DeterministicDb::open_small(Arc::new(disk.clone()), Options::new().memory_budget(1 << 20)).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    let files = |kind: &str| disk.list().unwrap().iter().filter(|name| name.ends_with(kind)).count();
    let before = (files(".branch"), files(".value"));
    let large = vec![7; 300 << 10];
    let mut entering = db.ingest().unwrap();
    for number in 0..3_000 {
        let value = if number % 1_000 == 0 { &large[..] } else { b"small" };
        entering.put(key(number), value).unwrap();
    }
    assert!(files(".branch") > before.0 && files(".value") == before.1 + 3);
    drop(entering);
    while db.step() {}
    assert_eq!((files(".branch"), files(".value")), before);
    // A disk without space.
    disk.inject("(write,open name~.branch) -> enospc");
    let mut entering = db.ingest().unwrap();
    let failed = (0..200_000).find_map(|number| entering.put(key(number), vec![1; 500]).err()).unwrap();
    assert!(failed.is_disk_full(), "{failed}");
    let error = entering.put(key(900_000), "").unwrap_err();
    assert!(error.to_string().contains("has failed before"), "{error}");
    assert!(entering.commit().is_err());
    disk.clear_faults();
    while db.step() {}
    assert_eq!((files(".branch"), files(".value")), before);
    assert_eq!(of(&db), Contents::from([(b"key".to_vec(), b"value".to_vec())]));
    expect_sound(&db);
}

/// Large values have files of their own, which live as long as they are needed.
#[test]
fn large_values_are_ingested() {
    let disk = SimulatedStorage::new(4);
    let open = || DeterministicDb::open_small(Arc::new(disk.clone()), Options::new().memory_budget(8 << 20)).unwrap();
    let value =
        |number: u64| if number.is_multiple_of(3) { vec![number as u8; 300_000] } else { vec![number as u8; 9] };
    let pairs: Contents = (0..10).map(|number| (key(number), value(number))).collect();
    let db = open();
    ingest(&db, &pairs);
    assert_eq!(of(&db), pairs);
    assert_eq!(db.stats().value_files, 4);
    db.close().unwrap();
    let db = open();
    assert_eq!(of(&db), pairs);
    let smaller: Contents = pairs.keys().map(|key| (key.clone(), b"small".to_vec())).collect();
    ingest(&db, &smaller);
    db.compact().unwrap();
    while db.step() {}
    assert_eq!((of(&db), db.stats().value_files), (smaller, 0));
    expect_sound(&db);
}

/// What gets have cached of keys, or of keys nearby, is not what they return afterwards.
#[test]
fn no_cached_item_outlives_an_ingest() {
    let db = Db::open_with(Arc::new(MemoryStorage::new()), tiny()).unwrap();
    let all = |value: &str| -> Contents { (0..4_000).map(|n| (key(n), value.as_bytes().to_vec())).collect() };
    ingest(&db, &all("old"));
    for round in 0..3 {
        let snapshot = db.snapshot();
        for number in 0..4_000 {
            let found = db.get(key(number)).unwrap();
            assert_eq!(found.as_deref(), Some(if round == 0 { "old" } else { "new" }.as_bytes()));
        }
        ingest(&db, &all("new"));
        for number in (0..4_000).step_by(7) {
            // The read at an older number must not be kept as the newest one.
            let found = snapshot.get(key(number)).unwrap();
            assert_eq!(found.as_deref(), Some(if round == 0 { "old" } else { "new" }.as_bytes()));
            assert_eq!(db.get(key(number)).unwrap().as_deref(), Some(&b"new"[..]), "the item is old");
        }
    }
    assert!(db.stats().item_hits > 0, "no item was cached: {}", db.stats());
}

/// Older versions in memory must not hide it: entries, deletes, range deletes and operands.
#[test]
fn memory_is_older_than_an_ingest() {
    for disk_component in components() {
        let options = Options::new().disk_component(disk_component).merge_operator(Append);
        let db = DeterministicDb::open_small(Arc::new(SimulatedStorage::new(1)), options).unwrap();
        db.put(key(1), "old").unwrap();
        db.delete(key(2)).unwrap();
        db.delete_range(key(3)..key(5)).unwrap();
        db.merge(key(5), "operand").unwrap();
        db.put(key(8), "outside").unwrap();
        let pairs: Contents = (1..7).map(|number| (key(number), b"new".to_vec())).collect();
        ingest(&db, &pairs);
        for number in 1..7 {
            let found = db.get(key(number)).unwrap();
            assert_eq!(found.as_deref(), Some(&b"new"[..]), "{number}: memory hides an ingest");
        }
        db.merge(key(5), "er").unwrap();
        assert_eq!(db.get(key(5)).unwrap().as_deref(), Some(&b"newer"[..]));
        assert_eq!(db.iter().unwrap().count(), 7);
        // What lies outside the range needs not leave memory.
        db.put(key(9), "outside").unwrap();
        let entries = db.stats().memory_entries;
        ingest(&db, &pairs);
        assert_eq!(db.get(key(9)).unwrap().as_deref(), Some(&b"outside"[..]));
        let after = Contents::from([(key(20), b"beyond".to_vec())]);
        db.put(key(10), "outside").unwrap();
        ingest(&db, &after);
        assert!(db.stats().memory_entries >= 1 && entries > 0);
    }
}

/// A range of keys that nothing overlaps is written once. (In levels, a file around the range overlaps it.)
#[test]
fn an_empty_range_is_written_once() {
    for disk_component in [None, Some(tiny_levels(1)), Some(tiny_skip())] {
        let db = Db::open_with(Arc::new(MemoryStorage::new()), tiny().disk_component(disk_component.clone())).unwrap();
        let around = if disk_component.is_none() { 9_000 } else { 0 };
        for number in (0..around).chain(100_000 - around..100_000) {
            db.put(key(number), "around").unwrap();
        }
        db.flush().unwrap();
        db.settle().unwrap();
        let before = db.stats();
        let pairs: Contents = (10_000..90_000).map(|number| (key(number), vec![b'x'; 30])).collect();
        ingest(&db, &pairs);
        db.settle().unwrap();
        let after = db.stats();
        let rewritten = after.compacted_bytes - before.compacted_bytes;
        println!("{disk_component:?}: {} bytes ingested, {rewritten} bytes rewritten", after.ingested_bytes);
        assert!(rewritten * 10 < after.ingested_bytes, "{disk_component:?}: {rewritten} of {}", after.ingested_bytes);
        assert_eq!(db.iter().unwrap().count() as u64, 80_000 + 2 * around);
    }
}

/// The copy has the ingest, everything before it, and numbers above it.
#[test]
fn checkpoints_have_ingests_and_go_on_above_them() {
    let disk = SimulatedStorage::new(9);
    let open = |disk: &SimulatedStorage| {
        DeterministicDb::open_small(Arc::new(disk.clone()), Options::new().memory_budget(1 << 20)).unwrap()
    };
    let db = open(&disk);
    db.put(key(100), "first").unwrap();
    let pairs: Contents = (0..50).map(|number| (key(number), b"ingested".to_vec())).collect();
    ingest(&db, &pairs);
    let expected = of(&db);
    db.checkpoint("/copy").unwrap();
    let copy = open(&disk.at("/copy"));
    assert_eq!(of(&copy), expected);
    for number in 0..50 {
        copy.put(key(number), "newer").unwrap();
    }
    copy.delete(key(7)).unwrap();
    assert_eq!(copy.get(key(7)).unwrap(), None);
    assert!(copy.iter().unwrap().all(|pair| *pair.unwrap().1 != *b"ingested"));
    assert!(copy.stats().last_number > db.stats().last_number);
    copy.flush().unwrap();
    expect_sound(&copy);
}
