//! Followers of a store that another process, or another handle, has open for writing.

use super::{Contents, PLENTY, key};
use crate::support::tiny;
use alluvium::storage::MemoryStorage;
use alluvium::{ChangeRetention, Db, Error, Operation, Options, ReadOnlyDb};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

fn apply(changes: &mut alluvium::Changes, found: &mut Contents) -> alluvium::Result<u64> {
    let mut last = 0;
    for write in changes.by_ref() {
        let write = write?;
        assert!(write.number() >= last, "{} after {last}", write.number());
        last = write.number();
        for operation in write.operations() {
            let Operation::Put { key, value, .. } = operation else { panic!("{operation:?}") };
            found.insert(key.to_vec(), value.to_vec());
        }
    }
    Ok(last)
}

/// A reader that was opened once sees what the writer copies by and by, with ingests in their places, and at its closing everything.
#[test]
fn a_reader_follows_a_writer() {
    let storage = Arc::new(MemoryStorage::new());
    let db = Db::open_with(storage.clone(), tiny().change_retention(PLENTY)).unwrap();
    let reader = ReadOnlyDb::open_with(storage.clone(), Options::new()).unwrap();
    let is_over = AtomicBool::new(false);
    let expected = std::thread::scope(|scope| {
        let following = scope.spawn(|| {
            let (mut changes, mut found) = (reader.changes(0).unwrap(), Contents::new());
            while !is_over.load(Ordering::Acquire) {
                apply(&mut changes, &mut found).unwrap();
                std::thread::yield_now();
            }
            apply(&mut changes, &mut found).unwrap();
            (found, changes.through())
        });
        for round in 0..2_000_u64 {
            db.put(key(round % 150), format!("put {round}")).unwrap();
            if round % 100 == 50 {
                let mut ingest = db.ingest().unwrap();
                ingest.put_all((0..200).map(|number| (key(number), format!("ingest {round}")))).unwrap();
                ingest.commit().unwrap();
            }
        }
        let expected: Contents = db.iter().unwrap().map(Result::unwrap).collect();
        let last = db.stats().last_number;
        db.close().unwrap();
        is_over.store(true, Ordering::Release);
        let (found, through) = following.join().unwrap();
        assert_eq!(through, last);
        assert!(found == expected, "the reader has found other pairs");
        expected
    });
    // Without any writer, too.
    let mut found = Contents::new();
    apply(&mut reader.changes(0).unwrap(), &mut found).unwrap();
    assert!(found == expected);
}

#[test]
fn a_reader_says_what_is_not_kept() {
    let storage = Arc::new(MemoryStorage::new());
    let db = Db::open_with(storage.clone(), tiny()).unwrap();
    db.put("a", "1").unwrap();
    let reader = ReadOnlyDb::open_with(storage.clone(), Options::new()).unwrap();
    let error = reader.changes(0).unwrap_err();
    assert!(error.to_string().contains("open it with `Options::change_retention`"), "{error}");
    db.close().unwrap();
    let db = Db::open_with(storage.clone(), tiny().change_retention(ChangeRetention::new(200 << 10))).unwrap();
    let error = reader.changes(0).unwrap_err();
    assert!(matches!(error, Error::ChangesTooOld { since: 0, oldest: 1 }), "{error}");
    let mut changes = reader.changes(1).unwrap();
    for round in 0..2_000 {
        db.put(key(round), [7; 500]).unwrap();
    }
    db.close().unwrap();
    // What it needs next is gone by now.
    let error = apply(&mut changes, &mut Contents::new()).unwrap_err();
    assert!(matches!(error, Error::ChangesTooOld { .. }), "{error}");
}
