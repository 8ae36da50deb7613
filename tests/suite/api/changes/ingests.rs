//! Ingests in the stream: whole, in their place among the writes, across crashes.

use super::{Contents, PLENTY, components, everything, follow, in_memory, key};
use crate::support::{setting, tiny};
use alluvium::internals::DeterministicDb;
use alluvium::merge_operators::Append;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{ChangeRetention, Db, Error, Keyspace, KeyspaceOptions, Operation, Options};
use std::sync::Arc;

fn ingest(keyspace: &Keyspace, numbers: impl Iterator<Item = u64>, value: &[u8]) -> alluvium::Result<u64> {
    let mut ingest = keyspace.ingest()?;
    ingest.put_all(numbers.map(|number| (key(number), value)))?;
    ingest.commit().map(|report| report.number)
}

/// An ingest comes between the writes before and after it, in several parts if it is long.
#[test]
fn an_ingest_comes_in_its_place() {
    for disk_component in components() {
        let db = in_memory(tiny().disk_component(disk_component).change_retention(PLENTY));
        let start = db.stats().last_number;
        db.put("a", "before").unwrap();
        let mut changes = db.changes(start).unwrap();
        assert_eq!(changes.next().unwrap().unwrap().number(), start + 1);
        let users = db.keyspace("users", KeyspaceOptions::new()).unwrap();
        users.put(key(5), "before").unwrap();
        let number = ingest(&users, 0..3_000, &[7; 300]).unwrap();
        users.put(key(6), "after").unwrap();
        let again = ingest(&db, 0..1, &[1; 300 << 10]).unwrap();
        let writes: Vec<_> = changes.by_ref().map(Result::unwrap).collect();
        let (created, before) = (&writes[0], &writes[1]);
        assert_eq!((created.keyspaces().len(), before.number()), (1, start + 3));
        let parts: Vec<_> = writes.iter().filter(|write| write.number() == number).collect();
        assert!(parts.len() > 2, "{} parts", parts.len());
        let positions: Vec<_> = parts.iter().map(|part| part.position()).collect();
        let (last, others) = positions.split_last().unwrap();
        assert!(*last == number && others.iter().all(|position| *position == number - 1), "{positions:?}");
        let pairs = parts.iter().flat_map(|part| part.operations()).map(|operation| match operation {
            Operation::Put { keyspace: "users", key, value } => (key.to_vec(), value.to_vec()),
            other => panic!("{other:?}"),
        });
        assert!(pairs.eq((0..3_000).map(|number| (key(number), vec![7; 300]))));
        assert!(writes.is_sorted_by_key(|write| write.number()));
        let [.., after, large] = &writes[..] else { panic!("{} writes", writes.len()) };
        assert_eq!((after.number(), large.number(), changes.through()), (number + 1, again, again));
        // A follower that was stopped within it gets all of it again; one behind it nothing.
        let seen = db.changes(parts[0].position()).unwrap().next().unwrap().unwrap();
        assert_eq!(seen.number(), number);
        assert_eq!(db.changes(number).unwrap().next().unwrap().unwrap().number(), number + 1);
        // An ingest that is dropped, or of nothing, is no change.
        let mut dropped = db.ingest().unwrap();
        dropped.put("dropped", "it").unwrap();
        drop(dropped);
        db.ingest().unwrap().commit().unwrap();
        assert!(changes.next().is_none());
        db.close().unwrap();
    }
}

/// An ingest that is larger than what is kept ends what was kept before it, and a follower says so.
#[test]
fn an_ingest_counts_as_kept() {
    let db = in_memory(tiny().change_retention(ChangeRetention::new(1 << 20)));
    let start = db.stats().last_number;
    db.put("a", "before").unwrap();
    let small = ingest(&db, 0..100, &[7; 300]).unwrap();
    assert!(db.stats().change_bytes > 30_000 && db.changes(start).is_ok());
    let large = ingest(&db, 0..10_000, &[7; 300]).unwrap();
    assert!(matches!(db.changes(small), Err(Error::ChangesTooOld { oldest, .. }) if oldest == large));
    assert!(db.stats().change_bytes < 1 << 20);
    assert_eq!(db.changes(large).unwrap().count(), 0);
    // It was not even written as a whole.
    assert_eq!(db.stats().changes_lost, 1);
}

/// Followers that have seen everything so far, and then an ingest that is not kept any more when they ask again: they must not go on
/// behind it.
#[test]
fn a_running_follower_misses_no_ingest() {
    let db = in_memory(tiny().change_retention(ChangeRetention::new(1 << 20)));
    let start = db.stats().last_number;
    db.put("a", "before").unwrap();
    let follow = || {
        let mut changes = db.changes(db.stats().changes_after).unwrap();
        changes.by_ref().for_each(|write| drop(write.unwrap()));
        changes
    };
    let mut first = follow();
    assert_eq!(first.through(), start + 1);
    let kept = ingest(&db, 0..2_000, &[7; 300]).unwrap();
    let mut second = follow();
    // Together they are more than what is kept.
    let later = ingest(&db, 0..2_500, &[8; 300]).unwrap();
    db.put("b", "after").unwrap();
    let is_too_old = |changes: &mut alluvium::Changes| matches!(changes.next(), Some(Err(Error::ChangesTooOld { .. })));
    assert!(is_too_old(&mut first) && is_too_old(&mut first), "{kept} was skipped");
    assert!(second.next().is_some_and(|write| write.unwrap().number() == later));
    // One that is larger than what is kept.
    let mut third = follow();
    let larger = ingest(&db, 0..10_000, &[9; 300]).unwrap();
    db.put("c", "after").unwrap();
    assert!(is_too_old(&mut third) && is_too_old(&mut third), "{larger} was skipped");
    assert_eq!(db.changes(larger).unwrap().count(), 1);
}

/// Readers of the stream beside ingests and writers: what was read up to a snapshot is what the snapshot has.
#[test]
fn ingests_and_writers_are_in_one_order() {
    let db = in_memory(tiny().change_retention(PLENTY));
    let start = db.stats().last_number;
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0_u64.. {
                if is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    return;
                }
                db.put(key(round % 400), format!("put {round}")).unwrap();
            }
        });
        scope.spawn(|| {
            for round in 0..30 {
                ingest(&db, 100..300, format!("ingest {round}").as_bytes()).unwrap();
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        let (mut changes, mut found) = (db.changes(start).unwrap(), Contents::new());
        while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
            db.put("turn", "again").unwrap();
            let snapshot = db.snapshot();
            while changes.through() < snapshot.number() {
                let write = changes.next().expect("a write that the snapshot has").unwrap();
                assert!(write.number() <= snapshot.number());
                for operation in write.operations() {
                    let Operation::Put { key, value, .. } = operation else { panic!("{operation:?}") };
                    found.insert(key.to_vec(), value.to_vec());
                }
            }
            let expected: Contents = snapshot.iter().unwrap().map(Result::unwrap).collect();
            assert_eq!(found, expected, "at {}", snapshot.number());
        }
    });
    assert_eq!(db.stats().changes_lost, 0);
}

/// Each ingest ends a file. A follower that has just seen the end of one, while it grew and the next one began, once took that for a
/// gap.
#[test]
fn a_follower_meets_the_end_of_each_file() {
    let db = in_memory(tiny().change_retention(PLENTY));
    let start = db.stats().last_number;
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let following = scope.spawn(|| {
            let mut changes = db.changes(start).unwrap();
            let mut last = start;
            loop {
                let was_over = is_over.load(std::sync::atomic::Ordering::Acquire);
                for write in changes.by_ref() {
                    let write = write.unwrap();
                    assert_eq!(write.number(), last + 1);
                    last = write.number();
                }
                if was_over {
                    return last;
                }
            }
        });
        for round in 0..300 {
            (0..5).for_each(|number| db.put(key(number), round.to_string()).unwrap());
            ingest(&db, 7..8, b"ingested").unwrap();
            db.put(key(9), "after").unwrap();
        }
        is_over.store(true, std::sync::atomic::Ordering::Release);
        assert_eq!(following.join().unwrap(), db.stats().last_number);
    });
}

fn open(disk: &SimulatedStorage) -> alluvium::Result<DeterministicDb> {
    let options =
        Options::new().memory_budget(1 << 20).listener(super::say).merge_operator(Append).change_retention(PLENTY);
    DeterministicDb::open_small(Arc::new(disk.clone()), options)
}

/// The names of keyspaces at the beginning of a file are read in a snapshot, and at the end of an ingest snapshots wait for it. So an
/// ingest that found the stream lost once waited for itself.
#[test]
fn an_ingest_begins_the_stream_anew_that_was_lost() {
    let disk = SimulatedStorage::new(3);
    let db = open(&disk).unwrap();
    let users = db.keyspace("users", KeyspaceOptions::new()).unwrap();
    db.put("a", "before").unwrap();
    disk.inject("(write name~.changes nth=1) -> eio");
    db.flush().unwrap();
    disk.clear_faults();
    assert_eq!(db.stats().changes_lost, 1);
    let start = db.stats().last_number;
    ingest(&users, 0..3, b"ingested").unwrap();
    users.put(key(1), "after").unwrap();
    let writes: Vec<_> = db.changes(start).unwrap().map(Result::unwrap).collect();
    let counts: Vec<_> = writes.iter().map(|write| (write.number() - start, write.operations().count())).collect();
    assert_eq!(counts, [(1, 3), (2, 1)]);
    assert!(writes[1].operations().all(|put| matches!(put, Operation::Put { keyspace: "users", .. })));
}

fn expect_equal(db: &Db, what: &str) {
    let copy = in_memory(tiny());
    match follow(db, &copy, 0, usize::MAX) {
        Ok(_) => assert_eq!(everything(&copy), everything(db), "{what}"),
        Err(error) => panic!("{what}: {error}"),
    }
}

/// A crash at every operation around the end of an ingest: the stream has it if the store has it.
#[test]
fn a_crash_leaves_an_ingest_in_both_or_in_none() {
    let run = |disk: &SimulatedStorage, begun: &mut u64| -> alluvium::Result<()> {
        let db = open(disk)?;
        for round in 0..30 {
            db.put(key(round * 10), "before")?;
        }
        ingest(&db, 0..50, b"the first")?;
        db.put(key(7), "between")?;
        let mut second = db.ingest()?;
        second.put_all((0..400).map(|number| (key(number), [9; 900])))?;
        *begun = disk.operations();
        second.commit()?;
        db.put(key(8), "after")?;
        db.changes(0)?.try_for_each(|write| write.map(drop))?;
        db.close()
    };
    let (counting, mut begun) = (SimulatedStorage::new(1), 0);
    run(&counting, &mut begun).unwrap();
    let operations = counting.operations();
    let step = (begun / setting("ALLUVIUM_CHANGE_CRASHES", 60)).max(1) as usize;
    let (mut with, mut without) = (0, 0);
    for at in (1..begun).step_by(step).chain(begun..=operations) {
        let disk = SimulatedStorage::new(1);
        disk.crash_at(at);
        let done = run(&disk, &mut 0);
        for seed in 0..2 {
            let disk = disk.clone_disk();
            let disk = if seed == 0 { disk.kill() } else { disk.power_cut(at) };
            let what = format!("a crash at {at} of {operations}, {seed}: {done:?}");
            let db = open(&disk).unwrap();
            expect_equal(&db, &what);
            assert_eq!(db.stats().changes_lost, 0, "{what}");
            let has_second = db.get(key(399)).unwrap().is_some();
            *if has_second { &mut with } else { &mut without } += 1;
            // And it goes on, with another ingest.
            db.put(key(9), "next").unwrap();
            ingest(&db, 20..30, b"next").unwrap();
            expect_equal(&db, &what);
            db.close().unwrap();
            expect_equal(&open(&disk).unwrap(), &what);
        }
    }
    assert!(with > 20 && without > 60, "{with} with it, {without} without");
}

/// If the file of the pairs cannot be written, the ingest takes effect all the same; the stream begins anew behind it.
#[test]
fn an_ingest_does_not_fail_for_the_stream() {
    for nth in 1..6 {
        let disk = SimulatedStorage::new(nth);
        let db = open(&disk).unwrap();
        db.put("a", "before").unwrap();
        drop(db.changes(0).unwrap().next().unwrap().unwrap());
        disk.inject(&format!("(write,sync name~.changes nth={nth}) -> eio"));
        let number = ingest(&db, 0..3_000, &[7; 300]).unwrap();
        disk.clear_faults();
        assert_eq!(db.get(key(2_999)).unwrap().map(|value| value.len()), Some(300));
        let db = match db.changes(0) {
            Err(Error::ChangesTooOld { oldest, .. }) => {
                assert_eq!((oldest, db.stats().changes_lost), (number, 1), "{nth}");
                db
            }
            Ok(_) => {
                expect_equal(&db, "no loss");
                continue;
            }
            Err(error) => panic!("{nth}: {error}"),
        };
        db.put("b", "after").unwrap();
        assert_eq!(db.changes(number).unwrap().count(), 1);
        drop(db);
        let db = open(&disk.kill()).unwrap();
        assert!(matches!(db.changes(0), Err(Error::ChangesTooOld { .. })), "{nth}: a gap");
        assert_eq!(db.changes(number).unwrap().count(), 1);
    }
}
