//! Staged batches: what their owner reads, what others see, and that nothing remains of one that was not committed.

mod crash;
mod model;

use crate::support::{Last, expect_sound, tiny, tiny_levels, tiny_skip};
use alluvium::internals::DeterministicDb;
use alluvium::merge_operators::Append;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{MemoryStorage, Storage};
use alluvium::{
    ChangeRetention, CommittedWrite, Db, DiskComponent, Error, Keyspace, KeyspaceOptions, Options, Snapshot,
    WriteBatch, limits,
};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

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

/// Range deletes in files without a number hide what they should, for every way of reading, in every component.
#[test]
fn a_spilled_batch_deletes_ranges() {
    for disk_component in components() {
        let options = tiny().disk_component(disk_component);
        let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
        let db = Db::open_with(Arc::clone(&storage), options.clone()).unwrap();
        (0..6_000).for_each(|number| db.put(key(number), "before").unwrap());
        let mut batch = db.staged_batch().unwrap().with_memory(20_000);
        batch.delete_range(key(1_000)..key(2_000)).unwrap();
        for number in (500..3_000).step_by(5) {
            batch.put(key(number), "batch").unwrap();
        }
        batch.delete_range(key(2_500)..key(2_600)).unwrap();
        batch.delete_range(key(5_000)..).unwrap();
        batch.put(key(5_500), "batch").unwrap();
        let expected: Contents = (0..6_000)
            .filter_map(|number| {
                let is_put = (500..3_000).contains(&number) && number % 5 == 0 && !(2_500..2_600).contains(&number);
                let is_deleted =
                    (1_000..2_000).contains(&number) || (2_500..2_600).contains(&number) || number >= 5_000;
                let value = match (is_put || number == 5_500, is_deleted) {
                    (true, _) => "batch",
                    (false, true) => return None,
                    (false, false) => "before",
                };
                Some((key(number), value.as_bytes().to_vec()))
            })
            .collect();
        assert!(batch.spilled_bytes() > 0);
        assert!(batch.iter().unwrap().map(Result::unwrap).eq(expected.clone()));
        let earlier = db.snapshot();
        batch.commit().unwrap();
        assert_eq!(earlier.iter().unwrap().count(), 6_000, "a snapshot has changed");
        drop(earlier);
        let check = |db: &Db| {
            assert_eq!(of(db), expected);
            assert!(db.iter().unwrap().rev().map(Result::unwrap).eq(expected.clone().into_iter().rev()));
            for number in 0..6_000 {
                assert_eq!(db.get(key(number)).unwrap().as_ref(), expected.get(&key(number)), "{number}");
            }
        };
        check(&db);
        expect_sound(&db);
        db.close().unwrap();
        let db = Db::open_with(Arc::clone(&storage), options).unwrap();
        check(&db);
        db.compact().unwrap();
        check(&db);
        assert_eq!(db.stats().levels.iter().map(|level| level.entries).sum::<u64>(), expected.len() as u64);
        expect_sound(&db);
    }
}

/// Others see all of it or nothing, at its commit.
#[test]
fn others_see_it_at_once() {
    let db = Db::open_with(Arc::new(MemoryStorage::new()), tiny()).unwrap();
    let value = |round: u64| round.to_be_bytes().to_vec();
    let write = |round: u64| {
        let mut batch = db.staged_batch().unwrap().with_memory(10_000);
        (0..1_000).for_each(|number| batch.put(key(number), value(round)).unwrap());
        batch.commit().unwrap();
    };
    write(0);
    let ends = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let mut rounds = 0;
            loop {
                let is_last = ends.load(Ordering::Relaxed);
                let found = of(&db);
                let newest = &found[&key(0)];
                assert!(found.len() == 1_000 && found.values().all(|value| value == newest), "a part of a batch");
                rounds += 1;
                if is_last {
                    return rounds;
                }
            }
        });
        (1..=20).for_each(write);
        ends.store(true, Ordering::Relaxed);
        assert!(reader.join().unwrap() > 0);
    });
    assert!(of(&db).values().all(|found| *found == value(20)));
}

/// Its reads are those of the moment when it began, and its commit comes after what others wrote meanwhile.
#[test]
fn it_reads_the_moment_of_its_beginning() {
    for memory in [1 << 20, 1] {
        let options = Options::new().merge_operator(Append);
        let db = Db::open_with(Arc::new(MemoryStorage::new()), options).unwrap();
        db.put("a", "1").unwrap();
        db.put("b", "1").unwrap();
        let mut batch = db.staged_batch().unwrap().with_memory(memory);
        batch.merge("a", "2").unwrap();
        batch.delete("b").unwrap();
        batch.merge("b", "x").unwrap();
        batch.merge("c", "y").unwrap();
        batch.merge("c", "z").unwrap();
        db.put("a", "9").unwrap();
        db.put("d", "9").unwrap();
        let seen: Vec<_> = batch.iter().unwrap().map(Result::unwrap).collect();
        let pair = |key: &str, value: &str| (key.as_bytes().to_vec(), value.as_bytes().to_vec());
        assert_eq!(seen, [pair("a", "12"), pair("b", "x"), pair("c", "yz")]);
        assert_eq!((batch.get("a").unwrap(), batch.get("d").unwrap()), (Some(b"12".to_vec()), None));
        batch.refresh();
        assert_eq!((batch.get("a").unwrap(), batch.contains_key("d").unwrap()), (Some(b"92".to_vec()), true));
        batch.commit().unwrap();
        let expected = Contents::from([pair("a", "92"), pair("b", "x"), pair("c", "yz"), pair("d", "9")]);
        assert_eq!(of(&db), expected, "memory {memory}");
        expect_sound(&db);
    }
}

/// Values from 256 KiB on have files of their own, once a batch is spilled.
#[test]
fn large_values_are_spilled() {
    let disk = SimulatedStorage::new(4);
    let open = || DeterministicDb::open_small(Arc::new(disk.clone()), Options::new().memory_budget(8 << 20)).unwrap();
    let db = open();
    let value = |number: u64| vec![number as u8; if number.is_multiple_of(3) { 300_000 } else { 9 }];
    let mut batch = db.staged_batch().unwrap().with_memory(400_000);
    // The first values of 0 to 3 are replaced, after they were spilled.
    for number in (0..4).chain(0..10) {
        batch.put(key(number), value(number)).unwrap();
        assert_eq!(batch.get(key(number)).unwrap(), Some(value(number)));
    }
    let expected: Contents = (0..10).map(|number| (key(number), value(number))).collect();
    assert!(batch.iter().unwrap().map(Result::unwrap).eq(expected.clone()));
    assert!(batch.iter().unwrap().rev().map(Result::unwrap).eq(expected.clone().into_iter().rev()));
    batch.commit().unwrap();
    while db.step() {}
    assert_eq!((of(&db), db.stats().value_files), (expected.clone(), 4));
    expect_sound(&db);
    db.close().unwrap();
    let db = open();
    assert_eq!(of(&db), expected);
    // One that is dropped leaves none, and values that were replaced go before.
    let mut batch = db.staged_batch().unwrap().with_memory(400_000);
    let value_files = || disk.list().unwrap().iter().filter(|name| name.ends_with(".value")).count();
    for number in (0..100).map(|number| number * 3) {
        batch.put(key(21), value(number)).unwrap();
        while db.step() {}
        assert!(value_files() <= 4 + 17, "{} value files", value_files());
    }
    drop(batch);
    while db.step() {}
    assert_eq!((of(&db), db.stats().value_files, value_files()), (expected, 4, 4));
}

/// A layer that cannot be written takes no space, however often it is tried.
#[test]
fn a_failed_spill_leaves_no_values() {
    let disk = SimulatedStorage::new(5);
    let db = DeterministicDb::open_small(Arc::new(disk.clone()), Options::new().memory_budget(8 << 20)).unwrap();
    let files = || disk.list().unwrap().iter().filter(|name| name.ends_with(".value")).count();
    let mut batch = db.staged_batch().unwrap().with_memory(1);
    batch.put("a", vec![1; 300_000]).unwrap();
    disk.inject("(write,open name~.branch) -> enospc");
    for _ in 0..5 {
        assert!(batch.put("b", "2").unwrap_err().is_disk_full());
        while db.step() {}
        assert_eq!(files(), 0);
    }
    disk.clear_faults();
    batch.put("b", "2").unwrap();
    assert_eq!(files(), 1);
    batch.commit().unwrap();
    assert_eq!((of(&db).len(), db.stats().value_files), (2, 1));
    expect_sound(&db);
}

/// Followers get all merges of a batch as one write. More than fit into one end what is kept, and so are never followed in part.
#[test]
fn followers_get_merges_that_fit_into_a_batch() {
    for (merges, are_kept) in [(200_000_u32, true), (260_000, false)] {
        let options = Options::new().memory_budget(64 << 20).merge_operator(Append);
        let kept = options.clone().change_retention(ChangeRetention::new(1 << 30));
        let db = Db::open_with(Arc::new(MemoryStorage::new()), kept).unwrap();
        let copy = Db::open_with(Arc::new(MemoryStorage::new()), options).unwrap();
        let mut batch = db.staged_batch().unwrap().with_memory(4 << 20);
        (0..merges).for_each(|number| batch.merge(number.to_be_bytes(), "x").unwrap());
        assert!(batch.spilled_bytes() > 0);
        batch.commit().unwrap();
        assert_eq!(db.stats().changes_lost, u64::from(!are_kept));
        match db.changes(0) {
            Ok(changes) => {
                for write in changes {
                    let (write, mut batch) = (write.unwrap(), WriteBatch::new());
                    write.apply_to(&copy, &mut batch).unwrap();
                    batch.put("position", write.position().to_be_bytes());
                    copy.write(batch).unwrap();
                }
                assert!(are_kept && copy.iter().unwrap().keys().count() == merges as usize + 1);
            }
            Err(error) => assert!(!are_kept && matches!(error, Error::ChangesTooOld { .. }), "{error}"),
        }
    }
}

/// One that is not committed leaves no file, and neither does one that a full disk has stopped.
#[test]
fn what_is_not_committed_leaves_nothing() {
    let disk = SimulatedStorage::new(3);
    let db = DeterministicDb::open_small(Arc::new(disk.clone()), Options::new().memory_budget(1 << 20)).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    let files = || disk.list().unwrap().iter().filter(|name| name.ends_with(".branch")).count();
    let before = files();
    let mut batch = db.staged_batch().unwrap().with_memory(50_000);
    (0..20_000).for_each(|number| batch.put(key(number), "value").unwrap());
    assert!(files() > before);
    drop(batch);
    assert_eq!(files(), before);

    let mut batch = db.staged_batch().unwrap().with_memory(50_000);
    disk.inject("(write,open name~.branch) -> enospc");
    let (failed, error) =
        (0..20_000).find_map(|number| batch.put(key(number), "1").err().map(|error| (number, error))).unwrap();
    assert!(error.is_disk_full(), "{error}");
    assert!(batch.put(key(failed), "1").unwrap_err().is_disk_full());
    assert_eq!((batch.get(key(failed)).unwrap(), batch.get(key(failed - 1)).unwrap()), (None, Some(b"1".to_vec())));
    disk.clear_faults();
    // There is space again.
    batch.put(key(failed), "2").unwrap();
    batch.commit().unwrap();
    let found = of(&db);
    assert_eq!((found.len() as u64, &found[&key(failed)][..]), (failed + 2, &b"2"[..]));
    expect_sound(&db);
}

/// What is wrong is named, and what was right before it stays.
#[test]
fn wrong_writes_are_refused() {
    let db = Db::open_with(Arc::new(MemoryStorage::new()), tiny()).unwrap();
    let users = db.keyspace("users", KeyspaceOptions::new()).unwrap();
    let mut batch = db.staged_batch().unwrap();
    batch.put("a", "1").unwrap();
    let too_long = vec![0; limits::KEY_BYTES_MAX + 1];
    assert!(matches!(batch.put(&too_long, ""), Err(Error::InvalidArgument(_))));
    assert!(matches!(batch.delete(&too_long), Err(Error::InvalidArgument(_))));
    assert!(matches!(batch.delete_range(&too_long[..]..), Err(Error::InvalidArgument(_))));
    assert!(matches!(batch.merge("a", "2"), Err(Error::InvalidArgument(_))), "the store has no operator");
    batch.delete_range("x".."b").unwrap(); // empty
    let other = Db::open_with(Arc::new(MemoryStorage::new()), tiny()).unwrap();
    assert!(matches!(batch.within(&other), Err(Error::InvalidArgument(_))));
    batch.within(&users).unwrap().put("b", "2").unwrap();
    db.drop_keyspace("users").unwrap();
    assert!(matches!(batch.within(&users), Err(Error::KeyspaceDropped { .. })));
    assert!(matches!(batch.commit(), Err(Error::KeyspaceDropped { .. })));
    assert!(db.is_empty().unwrap());
    // Nothing is no error.
    db.staged_batch().unwrap().commit().unwrap();
    for memory in [1, 1 << 20] {
        let mut batch = db.staged_batch().unwrap().with_memory(memory);
        batch.delete_range(.."z").unwrap();
        batch.delete("a").unwrap();
        batch.commit().unwrap();
    }
    assert!(db.is_empty().unwrap());
    let (mut batch, to_commit) = (db.staged_batch().unwrap(), db.staged_batch().unwrap());
    db.close().unwrap();
    assert!(matches!(batch.put("a", "1"), Err(Error::Closed)));
    assert!(matches!(batch.get("a"), Err(Error::Closed)));
    assert!(matches!(batch.iter().map(drop), Err(Error::Closed)));
    assert!(matches!(to_commit.commit(), Err(Error::Closed)));
    assert!(matches!(db.staged_batch(), Err(Error::Closed)));
}

/// A batch has one change of a key, so an operator that cannot join operands refuses the second one.
#[test]
fn an_operator_that_joins_nothing_refuses_a_second_operand() {
    let options = Options::new().merge_operator(Last { joins: false });
    let db = Db::open_with(Arc::new(MemoryStorage::new()), options).unwrap();
    let mut batch = db.staged_batch().unwrap();
    batch.merge("a", "1").unwrap();
    let error = batch.merge("a", "22").unwrap_err();
    assert!(matches!(&error, Error::MergeOperands { key, .. } if key == b"a"), "{error}");
    batch.put("b", "1").unwrap();
    batch.merge("b", "22").unwrap();
    batch.commit().unwrap();
    assert_eq!((db.get("a").unwrap(), db.get("b").unwrap()), (Some(b"1".to_vec()), Some(b"22".to_vec())));
}

/// Followers get what it did, whether it was an ordinary batch or an ingest.
#[test]
fn followers_get_it() {
    for memory in [1 << 20, 3_000] {
        let options = tiny().change_retention(Some(ChangeRetention::new(1 << 30))).merge_operator(Append);
        let db = Db::open_with(Arc::new(MemoryStorage::new()), options).unwrap();
        let copy = Db::open_with(Arc::new(MemoryStorage::new()), tiny().merge_operator(Append)).unwrap();
        let lengths = db.keyspace("lengths", KeyspaceOptions::new()).unwrap();
        (0..300).for_each(|number| db.put(key(number), "before").unwrap());
        lengths.put("old", "1").unwrap();
        let mut batch = db.staged_batch().unwrap().with_memory(memory);
        batch.delete_range(key(50)..key(150)).unwrap();
        (100..200).for_each(|number| batch.put(key(number), vec![b'x'; number as usize]).unwrap());
        batch.merge(key(10), "+").unwrap();
        batch.delete(key(11)).unwrap();
        batch.put(key(12), vec![b'y'; 300_000]).unwrap();
        let mut part = batch.within(&lengths).unwrap();
        part.delete_range(..).unwrap();
        part.put("new", "2").unwrap();
        assert_eq!(batch.spilled_bytes() > 0, memory < 1 << 20);
        batch.commit().unwrap();
        db.put("after", "1").unwrap();
        for write in db.changes(0).unwrap() {
            let mut batch = WriteBatch::new();
            write.unwrap().apply_to(&copy, &mut batch).unwrap();
            copy.write(batch).unwrap();
        }
        assert_eq!(of(&copy), of(&db), "memory {memory}");
        assert_eq!(of(&copy.keyspace("lengths", KeyspaceOptions::new()).unwrap()), of(&lengths));
        assert_eq!(of(&lengths).len(), 1);
    }
}

/// A large one comes in parts. A follower that was stopped after any of them gets all again, and ends equal: merges are in the last.
#[test]
fn a_follower_may_stop_between_its_parts() {
    let options = tiny().change_retention(Some(ChangeRetention::new(1 << 30))).merge_operator(Append);
    let db = Db::open_with(Arc::new(MemoryStorage::new()), options).unwrap();
    (0..100).for_each(|number| db.put(key(number), "before").unwrap());
    let mut batch = db.staged_batch().unwrap().with_memory(100_000);
    for number in 0..4_000 {
        match number % 10 {
            0 => batch.merge(key(number), "+").unwrap(),
            1 => batch.delete(key(number)).unwrap(),
            2 => batch.delete_range(key(number)..key(number + 1)).unwrap(),
            _ => batch.put(key(number), [7; 300]).unwrap(),
        }
    }
    batch.commit().unwrap();
    db.put("after", "1").unwrap();
    let expected = of(&db);
    let number = db.stats().last_number - 1;
    let parts = db.changes(0).unwrap().filter(|write| write.as_ref().unwrap().number() == number).count();
    assert!(parts > 2, "{parts} parts");
    for applied in 0..=parts {
        let copy = Db::open_with(Arc::new(MemoryStorage::new()), tiny().merge_operator(Append)).unwrap();
        let apply = |write: &CommittedWrite| {
            let mut batch = WriteBatch::new();
            write.apply_to(&copy, &mut batch).unwrap();
            copy.write(batch).unwrap();
            write.position()
        };
        let (mut position, mut of_batch) = (0, 0);
        for write in db.changes(0).unwrap() {
            let write = write.unwrap();
            if write.number() == number {
                if of_batch == applied {
                    break;
                }
                of_batch += 1;
            }
            position = apply(&write);
        }
        db.changes(position).unwrap().for_each(|write| _ = apply(&write.unwrap()));
        assert!(of(&copy) == expected, "stopped after {applied} of {parts} parts");
    }
}
