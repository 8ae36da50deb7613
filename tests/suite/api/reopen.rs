//! Opening after a death, in addition to `crash/recovery.rs`: a log that is larger than memory, and removed or replaced
//! segments.

use crate::support::{Random, setting, tiny_unsynced};
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{OpenMode, Storage};
use alluvium::{Db, Depth, Error, ReadOnlyDb};
use std::collections::BTreeMap;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn contents(db: &Db) -> Model {
    db.iter().unwrap().map(|pair| pair.unwrap()).collect()
}

fn open(disk: &SimulatedStorage) -> Db {
    Db::open_with(Arc::new(disk.clone()), tiny_unsynced()).unwrap()
}

/// A disk after the death of a process that logged this many records, by three writers in turn, and incorporated none.
fn log_of(records: u64) -> (SimulatedStorage, Model) {
    let disk = SimulatedStorage::new(records);
    let mut random = Random(records);
    let mut model = Model::new();
    let db = DeterministicDb::open(Arc::new(disk.clone()), tiny_unsynced()).unwrap();
    let mut writers = [db.log_writer(), db.log_writer(), db.log_writer()];
    for number in 0..records {
        let key = format!("key{:05}", random.below(records / 2)).into_bytes();
        let value = random.bytes(8 + (number % 150) as usize);
        writers[random.below(3) as usize].put(&key, &value).unwrap();
        model.insert(key, value);
    }
    db.sync().unwrap();
    (disk.kill(), model)
}

/// The log is many times larger than three Memtables. Opening incorporates the older part piece by piece, and records
/// each piece in the manifest before it reads the next.
#[test]
fn a_log_larger_than_memory_is_incorporated_while_opening() {
    let (disk, model) = log_of(4000);
    let threads = |background_threads| tiny_unsynced().background_threads(background_threads);
    for options in [threads(1), threads(4)] {
        let copy = disk.clone_disk();
        let db = Db::open_with(Arc::new(copy.clone()), options).unwrap();
        let stats = db.stats();
        assert!(stats.generations <= 4, "{stats}");
        assert!(stats.incorporated_number > 1000, "{stats}");
        assert_eq!(contents(&db), model);
        db.verify().unwrap();
        db.put("more", "than was").unwrap();
        db.flush().unwrap();
        let again = open(&copy.kill());
        assert_eq!(contents(&again).len(), model.len() + 1);
    }
}

/// Stops a recovery that writes manifest edits at its I/O operations one by one (by default every seventh); nothing is
/// lost.
#[test]
fn killed_while_opening_incorporates() {
    let (disk, model) = log_of(1600);
    let stride = setting("ALLUVIUM_RECOVERY_STRIDE", 7);
    let (mut step, mut incorporated) = (1 + setting("ALLUVIUM_SEED", 1) % stride, 0);
    loop {
        assert!(step < 2000, "opening takes more than 2000 operations");
        let attempt = disk.clone_disk();
        attempt.crash_at(step);
        let opened = DeterministicDb::open(Arc::new(attempt.clone()), tiny_unsynced());
        let survived = opened.is_ok() && !attempt.is_dead();
        incorporated += u64::from(opened.as_ref().is_ok_and(|db| db.stats().incorporated_number > 0));
        let (killed, cut) = (attempt.clone_disk().kill(), attempt.clone_disk().power_cut(step));
        for (death, left) in [("killed", killed), ("power cut", cut)] {
            let again = DeterministicDb::open(Arc::new(left), tiny_unsynced());
            let again = again.unwrap_or_else(|error| panic!("{death} at operation {step} of opening: {error}"));
            assert_eq!(contents(&again), model, "{death} at operation {step} of opening");
        }
        if survived {
            break;
        }
        step += stride;
    }
    assert!(incorporated > 0, "no stopped opening had incorporated anything");
}

fn log_segments(disk: &SimulatedStorage) -> Vec<String> {
    disk.list().unwrap().into_iter().filter(|name| name.ends_with(".log")).collect()
}

/// A regression test: the numbers of a removed log segment were treated as never acknowledged in the same life, and as
/// never synced after a power loss; the loss of the newest segment was not detected at all.
#[test]
fn a_removed_log_segment_is_noticed() {
    let (first, _) = log_of(3000);
    // The deterministic driver: no thread makes a segment that the manifest does not name yet, whose loss would be
    // undetectable.
    let deterministic =
        |disk: &SimulatedStorage| DeterministicDb::open(Arc::new(disk.clone()), tiny_unsynced()).unwrap();
    // A second opening adds segments of another log epoch.
    let second = first.clone_disk();
    let db = deterministic(&second);
    (0..200u64).for_each(|number| db.put(number.to_be_bytes(), [3; 100]).unwrap());
    let second = second.clone_disk();
    drop(db);
    // A new store has an empty segment; one write puts data into it.
    let fresh = SimulatedStorage::new(3);
    let db = deterministic(&fresh);
    let empty = fresh.clone_disk();
    db.put("one", "write").unwrap();
    let one = fresh.clone_disk();
    drop(db);
    for disk in [first, second, empty, one] {
        let segments = log_segments(&disk);
        assert!(!segments.is_empty());
        for name in segments {
            for power_cut in [false, true] {
                let copy = disk.clone_disk();
                let copy = if power_cut { copy.power_cut(1) } else { copy.kill() };
                if !log_segments(&copy).contains(&name) {
                    continue;
                }
                copy.remove(&name).unwrap();
                // A quick check used to report such a store as valid, although it does not open.
                let quick = Db::verify_closed_with(Arc::new(copy.clone()), Depth::Quick, &mut |_| ()).unwrap();
                let names = |error: &Error| matches!(error, Error::Corruption { path, .. } if path.ends_with(&name));
                assert!(quick.damage.iter().any(names), "{name} removed, power cut {power_cut}: {quick:?}");
                let error = Db::open_with(Arc::new(copy), tiny_unsynced()).map(|_| ()).unwrap_err();
                let named = matches!(&error, Error::Corruption { path, .. } if path.ends_with(&name));
                assert!(named, "{name} removed, power cut {power_cut}: {error}");
            }
        }
    }
}

/// A regression test: an older copy of the newest log segment has older marks, too, so the log did not show that there
/// had been more, and the last writes of a closed store were lost without an error. Now closing records the end of the
/// log in the manifest.
#[test]
fn an_older_copy_of_a_log_segment_is_noticed_after_a_close() {
    let disk = SimulatedStorage::new(4);
    let mut copies = Vec::new();
    let db = open(&disk);
    for number in 0..300u64 {
        db.put(number.to_be_bytes(), [5; 100]).unwrap();
        if number % 60 == 20 {
            db.sync().unwrap();
            copies.push(disk.current_image());
        }
    }
    db.close().unwrap();
    let closed = disk.current_image();
    let mut older = 0;
    for copy in copies {
        for name in log_segments(&disk).into_iter().filter(|name| copy.get(name).is_some_and(|of| *of != closed[name]))
        {
            let disk = disk.clone_disk();
            let file = disk.open(&name, OpenMode::ReadWrite).unwrap();
            file.write_all_at(&copy[&name], 0).unwrap();
            file.sync().unwrap();
            for disk in [disk.clone_disk(), disk.power_cut(1)] {
                match Db::open_with(Arc::new(disk), tiny_unsynced()) {
                    // Nothing in the segment was needed any more.
                    Ok(db) => assert_eq!(db.iter().unwrap().count(), 300),
                    Err(error) => {
                        older += 1;
                        assert!(error.to_string().contains(&name), "{error}");
                    }
                }
            }
        }
    }
    assert!(older > 3, "{older} older copies");
}

/// A regression test: the statistics of a reader had no log, no ballast and no synced number.
#[test]
fn the_statistics_of_a_reader_agree_with_the_files() {
    let disk = SimulatedStorage::new(7);
    let db = open(&disk);
    (0..300u64).for_each(|number| db.put(number.to_be_bytes(), [7; 100]).unwrap());
    db.flush().unwrap();
    (0..20u64).for_each(|number| db.put(number.to_be_bytes(), [8; 100]).unwrap());
    db.close().unwrap();
    let length = |name: &String| disk.open(name, OpenMode::Read).unwrap().length().unwrap();
    let sum = |end: &str| -> u64 { disk.list().unwrap().iter().filter(|name| name.ends_with(end)).map(length).sum() };
    let stats = ReadOnlyDb::open_with(Arc::new(disk.clone()), tiny_unsynced()).unwrap().stats();
    assert_eq!((stats.last_number, stats.synced_number), (320, 320), "{stats}");
    assert!(stats.log_bytes > 0 && stats.log_bytes == sum(".log"), "{stats}");
    assert_eq!(stats.ballast_bytes, sum("BALLAST"), "{stats}");
    assert!(stats.ballast_bytes > 0, "{stats}");
}
