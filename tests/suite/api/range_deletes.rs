//! Range deletes through the public interface: bounds, batches, transactions, snapshots, iterators, reopening, tools.

use crate::support::{setting, tiny};
use alluvium::storage::MemoryStorage;
use alluvium::storage::Storage;
use alluvium::{Db, Error, Options, ReadOnlyDb, Snapshot, WriteBatch, WriteOptions};
use std::ops::Bound;
use std::sync::Arc;

fn store() -> Db {
    Db::open_temporary(tiny()).unwrap()
}

fn fill(db: &Db, keys: std::ops::Range<u32>) {
    for key in keys {
        db.put(name(key), [7; 100]).unwrap();
    }
}

fn name(key: u32) -> String {
    format!("key{key:06}")
}

fn keys(db: &Db) -> Vec<String> {
    let forward: Vec<Vec<u8>> = db.iter().unwrap().map(|pair| pair.unwrap().0).collect();
    let mut backward: Vec<Vec<u8>> = db.iter().unwrap().rev().map(|pair| pair.unwrap().0).collect();
    backward.reverse();
    assert_eq!(forward, backward, "the directions differ");
    forward.into_iter().map(|key| String::from_utf8(key).unwrap()).collect()
}

fn names(of: impl IntoIterator<Item = u32>) -> Vec<String> {
    of.into_iter().map(name).collect()
}

#[test]
fn every_kind_of_bound_deletes_its_keys() {
    let db = store();
    let deleted = |range: (Bound<String>, Bound<String>)| {
        fill(&db, 0..6);
        db.delete_range(range).unwrap();
        let left = keys(&db);
        for key in 0..6 {
            assert_eq!(db.get(name(key)).unwrap().is_some(), left.contains(&name(key)), "get and scan differ at {key}");
        }
        left
    };
    let (two, four) = (|| name(2), || name(4));
    assert_eq!(deleted((Bound::Included(two()), Bound::Excluded(four()))), names([0, 1, 4, 5]));
    assert_eq!(deleted((Bound::Included(two()), Bound::Included(four()))), names([0, 1, 5]));
    assert_eq!(deleted((Bound::Excluded(two()), Bound::Excluded(four()))), names([0, 1, 2, 4, 5]));
    assert_eq!(deleted((Bound::Unbounded, Bound::Included(two()))), names([3, 4, 5]));
    assert_eq!(deleted((Bound::Excluded(two()), Bound::Unbounded)), names([0, 1, 2]));
    // Empty ranges delete nothing and are no error.
    assert_eq!(deleted((Bound::Included(four()), Bound::Excluded(two()))), names(0..6));
    assert_eq!(deleted((Bound::Included(two()), Bound::Excluded(two()))), names(0..6));
    assert_eq!(deleted((Bound::Unbounded, Bound::Unbounded)), names([]));
    db.put([0xff; 3], "last").unwrap();
    db.put("other", "stays").unwrap();
    db.delete_prefix([0xff]).unwrap();
    assert_eq!(keys(&db), ["other"]);
    let long = db.delete_range(vec![1; 70_000]..);
    assert!(matches!(long, Err(Error::InvalidArgument(_))), "{long:?}");
}

#[test]
fn snapshots_and_iterators_keep_what_they_saw() {
    let db = store();
    fill(&db, 0..100);
    let (before, mut iter) = (db.snapshot(), db.iter().unwrap());
    iter.seek(name(10)).unwrap();
    db.delete_range(name(5)..name(95)).unwrap();
    fill(&db, 50..51);
    let after = db.snapshot();
    let count = |snapshot: &Snapshot| snapshot.iter().unwrap().count();
    let check = |db: &Db, iter: &mut alluvium::Iter| {
        assert_eq!((count(&before), count(&after), keys(db).len()), (100, 11, 11));
        assert!(before.get(name(60)).unwrap().is_some() && after.get(name(60)).unwrap().is_none());
        iter.seek(name(20)).unwrap();
        iter.step().unwrap();
        assert_eq!(iter.key(), Some(name(21).as_bytes()));
    };
    check(&db, &mut iter);
    db.flush().unwrap();
    check(&db, &mut iter);
    db.compact().unwrap();
    check(&db, &mut iter);
}

#[test]
fn a_range_delete_is_one_small_record_and_survives_reopening() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let db = Db::open_with(Arc::clone(&storage), tiny()).unwrap();
    let count = 20_000;
    fill(&db, 0..count);
    let before = db.stats();
    db.delete_range_with(name(10)..name(count - 10), WriteOptions::sync()).unwrap();
    let after = db.stats();
    assert!(after.logged_bytes - before.logged_bytes < 200, "{} bytes", after.logged_bytes - before.logged_bytes);
    assert_eq!((after.writes - before.writes, after.user_bytes - before.user_bytes), (1, 18));
    fill(&db, 500..501);
    let expected = names((0..10).chain([500]).chain(count - 10..count));
    assert_eq!(keys(&db), expected);
    let reader = ReadOnlyDb::open_with(Arc::clone(&storage), tiny()).unwrap();
    assert_eq!((reader.iter().unwrap().count(), reader.get(name(600)).unwrap()), (expected.len(), None));
    drop(reader);
    for compacts in [false, true] {
        if compacts {
            db.compact().unwrap();
            db.verify().unwrap();
            let left = db.stats().levels.iter().map(|level| level.entries).sum::<u64>();
            assert!(left < 100, "{left} entries are left of {count}");
        }
        assert_eq!(keys(&db), expected);
    }
    db.close().unwrap();
    let db = Db::open_with(storage, tiny()).unwrap();
    assert_eq!(keys(&db), expected);
}

#[test]
fn many_range_deletes_fill_memory_and_go_to_the_tree() {
    let db = store();
    let count = setting("ALLUVIUM_RANGE_DELETES", 4000) as u32;
    fill(&db, 0..count);
    for key in (0..count).step_by(2) {
        db.delete_range(name(key)..name(key + 1)).unwrap();
        if key % 200 == 100 {
            assert_eq!(db.get(name(key)).unwrap(), None);
            assert!(db.get(name(key + 1)).unwrap().is_some());
        }
    }
    let expected = names((1..count).step_by(2));
    assert_eq!(keys(&db), expected);
    assert!(db.stats().incorporated_bytes > 0, "nothing went to the tree");
    db.compact().unwrap();
    assert_eq!(keys(&db), expected);
    db.verify().unwrap();
}

#[test]
fn a_batch_replaces_a_range() {
    let db = store();
    fill(&db, 0..50);
    let mut batch = WriteBatch::new();
    batch.put(name(3), "hidden").delete_range(name(0)..name(40)).put(name(7), "new").delete_prefix("none");
    db.write(batch).unwrap();
    assert_eq!(keys(&db), names([7].into_iter().chain(40..50)));
    assert_eq!(db.get(name(7)).unwrap().as_deref(), Some(&b"new"[..]));
    db.flush().unwrap();
    assert_eq!(keys(&db), names([7].into_iter().chain(40..50)));
}

#[test]
fn a_scan_over_a_deleted_range_sees_newer_keys_in_it() {
    let db = store();
    fill(&db, 0..3000);
    db.flush().unwrap();
    db.delete_range(name(100)..name(2900)).unwrap();
    fill(&db, 1500..1503);
    db.flush().unwrap();
    fill(&db, 2000..2002);
    db.delete_range(name(2001)..name(2600)).unwrap();
    let expected = names((0..100).chain(1500..1503).chain([2000]).chain(2900..3000));
    for _ in 0..2 {
        assert_eq!(keys(&db), expected);
        let mut iter = db.iter().unwrap();
        iter.seek(name(500)).unwrap();
        assert_eq!(iter.key(), Some(name(1500).as_bytes()));
        iter.seek(name(1503)).unwrap();
        assert_eq!(iter.key(), Some(name(2000).as_bytes()));
        iter.step().unwrap();
        assert_eq!(iter.key(), Some(name(2900).as_bytes()));
        iter.step_back().unwrap();
        assert_eq!(iter.key(), Some(name(2000).as_bytes()));
        db.settle().unwrap();
    }
}

#[test]
fn a_transaction_conflicts_with_a_range_delete_of_what_it_read() {
    let is_conflict = |result| matches!(result, Err(Error::Conflict { .. }));
    for flushes in [false, true] {
        let db = store();
        fill(&db, 0..20);
        let begin = |read: &dyn Fn(&alluvium::Transaction)| {
            let transaction = db.transaction().unwrap();
            read(&transaction);
            transaction.put("own", "1").unwrap();
            transaction
        };
        let of_key = begin(&|transaction| drop(transaction.get(name(5)).unwrap()));
        let of_absent = begin(&|transaction| drop(transaction.get("key000005b").unwrap()));
        let of_range = begin(&|transaction| assert_eq!(transaction.range(name(4)..name(8)).unwrap().count(), 4));
        let of_others = begin(&|transaction| drop(transaction.get(name(9)).unwrap()));
        db.delete_range(name(5)..name(7)).unwrap();
        if flushes {
            db.flush().unwrap();
        }
        assert!(is_conflict(of_key.commit()) && is_conflict(of_range.commit()));
        // The key was absent before and is absent now, but that it is written counts.
        assert!(is_conflict(of_absent.commit()));
        of_others.commit().unwrap();
        // Its own range delete conflicts with nothing that it did not read.
        let transaction = db.transaction().unwrap();
        transaction.delete_range(name(9)..).unwrap();
        transaction.put(name(12), "own").unwrap();
        fill(&db, 14..15);
        assert_eq!(transaction.get(name(10)).unwrap(), None);
        assert_eq!(transaction.range(name(8)..name(9)).unwrap().count(), 1);
        transaction.commit().unwrap();
        assert_eq!(keys(&db), names((0..5).chain([7, 8, 12])));
    }
}

#[test]
fn an_update_after_a_range_delete_finds_nothing() {
    let db = store();
    fill(&db, 0..10);
    db.flush().unwrap();
    // In the item cache.
    assert!(db.get(name(3)).unwrap().is_some());
    db.delete_prefix("key").unwrap();
    let seen = db.update(name(3), |old| {
        assert!(old.is_none(), "a deleted value was updated");
        Some(b"new".to_vec())
    });
    assert_eq!(seen.unwrap().as_deref(), Some(&b"new"[..]));
    assert!(db.put_if_absent(name(4), "again").unwrap());
    assert!(db.compare_and_swap(name(5), None, Some(b"swapped")).unwrap().is_done());
    assert_eq!(keys(&db), names([3, 4, 5]));
}

#[test]
fn a_closed_store_deletes_no_range() {
    let db = Db::open_with(Arc::new(MemoryStorage::new()), Options::default()).unwrap();
    let transaction = db.transaction().unwrap();
    transaction.delete_prefix("a").unwrap();
    db.close().unwrap();
    assert!(matches!(transaction.commit(), Err(Error::Closed)));
}

/// A rollback under an iterator that had stepped over a deleted range showed the keys behind the next own write only.
#[test]
fn a_rollback_under_an_iterator_brings_back_what_a_range_delete_hid() {
    let db = store();
    fill(&db, 0..20);
    for backward in [false, true] {
        let transaction = db.transaction().unwrap();
        let savepoint = transaction.savepoint();
        transaction.delete_range(name(2)..name(18)).unwrap();
        transaction.put(name(10), "own").unwrap();
        let mut iter = transaction.iter().unwrap();
        let mut seen = Vec::new();
        if backward { iter.seek_last() } else { iter.seek_first() }.unwrap();
        while let Some(key) = iter.key() {
            seen.push(String::from_utf8(key.to_vec()).unwrap());
            if key == name(10).as_bytes() {
                transaction.rollback_to(&savepoint).unwrap();
            }
            if backward { iter.step_back() } else { iter.step() }.unwrap();
        }
        let mut expected: Vec<u32> =
            if backward { (0..11).chain(18..20).collect() } else { (0..2).chain(10..20).collect() };
        if backward {
            expected.reverse();
        }
        assert_eq!(seen, names(expected));
    }
}

/// Trimming a log by prefixes took memory that grew with the square of the number of range deletes.
#[test]
fn range_deletes_that_overlap_take_little_memory() {
    let storage: Arc<dyn Storage> = Arc::new(MemoryStorage::new());
    let db = Db::open_with(Arc::clone(&storage), Options::default()).unwrap();
    let count = 20_000;
    for key in 0..count {
        db.put(name(key), "entry").unwrap();
        db.delete_range(..name(key)).unwrap();
    }
    assert_eq!(keys(&db), names([count - 1]));
    // Opened again from the log.
    db.close().unwrap();
    let db = Db::open_with(storage, Options::default()).unwrap();
    assert_eq!(keys(&db), names([count - 1]));
}
