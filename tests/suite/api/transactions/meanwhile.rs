//! A conflicting write to a key that a transaction has read is detected wherever the new version is: in memory, in a
//! generation that waits for incorporation, in a branch file of an incorporation or a merge, or as a tombstone.

use super::{LARGE, conflicts, get, incorporate, options, seal, store};
use alluvium::internals::DeterministicDb;
use alluvium::merge_operators::Append;
use alluvium::{Db, Error, MergeOperator, WriteBatch};
use std::sync::{Arc, Mutex};

const KEY: &str = "m";

/// An action on a store, and its name.
type Step = (&'static str, fn(&DeterministicDb));

/// The states of the key before.
const PLACES: [Step; 5] = [
    ("absent", |_| {}),
    ("in memory", |db| db.put(KEY, "old").unwrap()),
    ("in a branch file", |db| {
        db.put(KEY, "old").unwrap();
        incorporate(db);
    }),
    ("in a value file", |db| {
        db.put(KEY, vec![1; LARGE]).unwrap();
        incorporate(db);
    }),
    ("deleted over a branch file", |db| {
        db.put(KEY, "old").unwrap();
        incorporate(db);
        db.delete(KEY).unwrap();
    }),
];

/// A way to read the key, and its name.
type Reading = (&'static str, fn(&alluvium::Transaction));

/// The ways to read the key: a get, `multi_get`, a scan from either end, or one of two reads.
const READS: [Reading; 6] = [
    ("a get", |transaction| drop(transaction.get(KEY).unwrap())),
    ("one of many gets", |transaction| {
        (0..300).for_each(|at| drop(transaction.get(format!("many{at}")).unwrap()));
        drop(transaction.get(KEY).unwrap());
    }),
    ("a scan", |transaction| transaction.range("k".."o").unwrap().for_each(|pair| drop(pair.unwrap()))),
    ("a scan over keys", |transaction| {
        transaction.range("k".."o").unwrap().keys().for_each(|key| drop(key.unwrap()));
    }),
    ("a scan back", |transaction| transaction.iter().unwrap().rev().for_each(|pair| drop(pair.unwrap()))),
    ("a get and a scan elsewhere", |transaction| {
        drop(transaction.multi_get(&["a9", KEY]).unwrap());
        assert_eq!(transaction.prefix("nothing").unwrap().count(), 0);
    }),
];

/// The conflicting writes.
const WRITES: [Step; 5] = [
    ("a put", |db| db.put(KEY, "new").unwrap()),
    ("a large put", |db| db.put(KEY, vec![2; LARGE]).unwrap()),
    ("a batch", |db| {
        let mut batch = WriteBatch::new();
        batch.put("a0", "too").put(KEY, "new");
        db.write(batch).unwrap();
    }),
    ("a put and a delete", |db| {
        db.put(KEY, "new").unwrap();
        db.delete(KEY).unwrap();
    }),
    ("a transaction", |db| {
        db.transact(|transaction| {
            drop(transaction.get(KEY)?);
            transaction.put(KEY, "new")
        })
        .unwrap();
    }),
];

/// Where the new version is.
const WAYS: [Step; 5] = [
    ("nothing", |_| {}),
    ("a switch", seal),
    ("an incorporation", incorporate),
    ("an incorporation and newer memory", |db| {
        incorporate(db);
        put_neighbours(db);
    }),
    ("two incorporations and a merge", |db| {
        incorporate(db);
        put_neighbours(db);
        incorporate(db);
        db.compact().unwrap();
        while db.step() {}
    }),
];

/// Keys around the one that matters, but outside of the scanned range.
fn put_neighbours(db: &DeterministicDb) {
    (0..4).for_each(|at| db.put(format!("{}{at}", ["a", "z"][at % 2]), [at as u8; 50]).unwrap());
}

#[test]
fn every_write_to_what_was_read_is_a_conflict() {
    for (place, fill) in PLACES {
        for (read, reading) in READS {
            for (write, writing) in WRITES {
                for (way, go) in WAYS {
                    let db = store();
                    put_neighbours(&db);
                    fill(&db);
                    let transaction = db.transaction().unwrap();
                    reading(&transaction);
                    transaction.put("own", "1").unwrap();
                    writing(&db);
                    let expected = db.get(KEY).unwrap();
                    go(&db);
                    let story = format!("{place}, then read by {read}, then {write}, then {way}");
                    match transaction.commit() {
                        Err(Error::Conflict { key, .. }) => {
                            // A scan of everything read further keys, too.
                            let is_named = key == KEY.as_bytes() || read == "a scan back";
                            assert!(is_named, "{story}: named is {:?}", key.escape_ascii().to_string());
                        }
                        // The key was absent and is absent again, without any version.
                        Ok(()) if write == "a put and a delete" && place == "absent" => continue,
                        other => panic!("{story}: {other:?}"),
                    }
                    assert_eq!(db.get("own").unwrap(), None, "{story}");
                    assert_eq!(db.get(KEY).unwrap(), expected, "{story}");
                }
            }
        }
    }
}

/// Without a write to a key that was read, nothing is a conflict.
#[test]
fn nothing_else_is_a_conflict() {
    for (place, fill) in PLACES {
        for (read, reading) in READS.into_iter().filter(|(read, _)| *read != "a scan back") {
            for (way, go) in WAYS {
                let db = store();
                put_neighbours(&db);
                fill(&db);
                let transaction = db.transaction().unwrap();
                reading(&transaction);
                transaction.put("own", "1").unwrap();
                transaction.put(KEY, "mine").unwrap();
                db.put("b", "new").unwrap();
                db.delete("z1").unwrap();
                go(&db);
                let committed = transaction.commit();
                let story = format!("{place}, then read by {read}, then {way}");
                assert!(committed.is_ok(), "{story}: {committed:?}");
                assert_eq!(db.get(KEY).unwrap().as_deref(), Some(&b"mine"[..]), "{story}");
            }
        }
    }
}

/// Appends operands. Before the next fold it calls a function, which is so called in the middle of a commit.
#[derive(Default)]
struct Interrupted(Mutex<Option<Box<dyn FnOnce() + Send>>>);

impl MergeOperator for Interrupted {
    fn name(&self) -> &str {
        "test.interrupted"
    }

    fn full_merge(&self, key: &[u8], base: Option<&[u8]>, operands: &[&[u8]], out: &mut Vec<u8>) -> Result<(), String> {
        let interruption = self.0.lock().unwrap().take();
        interruption.into_iter().for_each(|interruption| interruption());
        Append.full_merge(key, base, operands, out)
    }
}

/// A regression test, found by random histories (`concurrency::serializability`): a transaction had closed the ranges that
/// it had scanned when it noticed that a range delete had come after it had folded an operand. It began again, found its
/// ranges closed, and reported a conflict at the empty key. Another writer of these ranges could wait for them with a latch
/// that the transaction needed, for ever.
#[test]
fn a_range_delete_elsewhere_in_the_middle_of_a_commit_is_no_conflict() {
    for (deleted, is_conflict) in [("x", false), ("k", true)] {
        let operator = Arc::new(Interrupted::default());
        let mut options = options();
        options.merge_operator = Some(operator.clone());
        let db = Db::open_temporary(options).unwrap();
        ["k", "list", "x"].into_iter().for_each(|key| db.put(key, key).unwrap());
        let transaction = db.transaction().unwrap();
        assert_eq!(transaction.range("k".."l").unwrap().count(), 1);
        transaction.merge("list", "!").unwrap();
        let clone = db.clone();
        let delete = move || clone.delete_prefix(deleted).unwrap();
        // The commit may hold something of its thread.
        *operator.0.lock().unwrap() = Some(Box::new(|| std::thread::spawn(delete).join().unwrap()));
        match is_conflict {
            true => conflicts(transaction, &["k"]),
            false => transaction.commit().unwrap(),
        }
        assert!(operator.0.lock().unwrap().is_none(), "the commit folded nothing");
        assert_eq!((get(&db, deleted), get(&db, "list").ends_with('!')), ("absent".to_owned(), !is_conflict));
    }
}
