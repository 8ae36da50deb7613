//! A conflicting write to a key that a transaction has read is detected wherever the new version is: in memory, in a
//! generation that waits for incorporation, in a branch file of an incorporation or a merge, or as a tombstone.

use super::{LARGE, incorporate, seal, store};
use alluvium::internals::DeterministicDb;
use alluvium::{Error, WriteBatch};

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
