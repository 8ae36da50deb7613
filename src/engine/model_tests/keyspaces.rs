//! Keyspaces: writes and reads beside a drop, drops and creations beside each other (`engine/types/keyspace_info.rs`).

use super::stores::{Store, at};
use super::{check, count, together, value};
use crate::db::{Keyspace, KeyspaceOptions, Snapshot, WriteBatch};
use crate::util::sync::Mutex;
use crate::util::{Error, Result};

const NAME: &str = "doomed";

impl Store {
    /// A store with a keyspace in which the key "k" has the count 1.
    fn with_doomed() -> (Self, Keyspace) {
        let store = Self::with(&["a"]);
        let doomed = store.keyspace();
        doomed.put("k", value("k", 1)).unwrap();
        (store, doomed)
    }

    fn keyspace(&self) -> Keyspace {
        self.0.keyspace(NAME, KeyspaceOptions::default()).unwrap()
    }

    fn drop_doomed(&self) -> bool {
        self.0.drop_keyspace(NAME).unwrap()
    }

    /// Nothing of the dropped keyspace shows: neither now nor once the memory is on the disk.
    fn expect_dropped(&self, doomed: &Keyspace) {
        for _ in 0..2 {
            assert_eq!(of(&self.snapshot(), doomed), 0, "a key was written after the drop");
            assert!(self.snapshot().keyspace(NAME).unwrap().is_none());
            assert!(self.0.keyspace_names().unwrap().is_empty());
            assert!(is_done(doomed.get("k")).is_none() && is_done(doomed.put("k", "")).is_none());
            self.incorporate();
        }
    }
}

/// The count of the key "k" of a keyspace at a snapshot, whether the keyspace was dropped or not; 0 if it is absent.
fn of(snapshot: &Snapshot, keyspace: &Keyspace) -> u64 {
    at(&snapshot.within(keyspace).unwrap(), "k")
}

/// `None` if the keyspace was dropped.
fn is_done<T>(result: Result<T>) -> Option<T> {
    match result {
        Ok(done) => Some(done),
        Err(Error::KeyspaceDropped { keyspace }) if keyspace == NAME => None,
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn puts_beside_a_drop() {
    check(|| {
        let (store, doomed) = Store::with_doomed();
        together(vec![
            Box::new(|| {
                assert!(store.drop_doomed());
                store.put("a", 2);
            }),
            Box::new(|| {
                let mut is_dropped = false;
                for count in 2..4 {
                    let is_after_the_drop = store.get("a") == 2;
                    let is_put = is_done(doomed.put("k", value("k", count))).is_some();
                    assert!(!(is_put && (is_dropped || is_after_the_drop)), "a key was written after the drop");
                    is_dropped = !is_put;
                }
            }),
        ]);
        store.expect_dropped(&doomed);
    });
}

#[test]
fn a_batch_beside_a_drop() {
    check(|| {
        let (store, doomed) = Store::with_doomed();
        let is_written = Mutex::new(false);
        together(vec![
            Box::new(|| assert!(store.drop_doomed())),
            Box::new(|| {
                let mut batch = WriteBatch::new();
                batch.put("a", value("a", 2)).within(&doomed).put("k", value("k", 2));
                *is_written.lock() = is_done(store.0.write(batch)).is_some();
            }),
            Box::new(|| {
                let snapshot = store.snapshot();
                let (a, k) = (at(&snapshot, "a"), of(&snapshot, &doomed));
                let is_there = snapshot.keyspace(NAME).unwrap().is_some();
                assert!(if is_there { a == k } else { k == 0 }, "half a batch or half a drop: {a}, {k}, {is_there}");
            }),
        ]);
        assert_eq!(store.get("a"), 1 + u64::from(*is_written.lock()), "half a batch");
        store.expect_dropped(&doomed);
    });
}

#[test]
fn a_transaction_beside_a_drop() {
    check(|| {
        let (store, doomed) = Store::with_doomed();
        let is_written = Mutex::new(false);
        together(vec![
            Box::new(|| assert!(store.drop_doomed())),
            Box::new(|| {
                let transaction = store.0.transaction().unwrap();
                let Some(within) = is_done(transaction.within(&doomed)) else { return };
                let found = within.get("k");
                let Some(Some(found)) = is_done(found) else { return };
                within.put("k", value("k", count("k", &found) + 1)).unwrap();
                transaction.put("a", value("a", 2)).unwrap();
                *is_written.lock() = match transaction.commit() {
                    Err(Error::Conflict { .. }) => false,
                    done => is_done(done).is_some(),
                };
            }),
        ]);
        assert_eq!(store.get("a"), 1 + u64::from(*is_written.lock()), "half a transaction");
        store.expect_dropped(&doomed);
    });
}

#[test]
fn gets_beside_a_drop() {
    check(|| {
        let (store, doomed) = Store::with_doomed();
        together(vec![
            Box::new(|| assert!(store.drop_doomed())),
            Box::new(|| {
                let mut is_dropped = false;
                for _ in 0..2 {
                    let found = is_done(doomed.get("k"));
                    let is_there = found.is_some();
                    assert!(!matches!(found, Some(None)), "the keyspace is there, and its key is not");
                    assert!(!(is_there && is_dropped), "the drop was undone");
                    is_dropped = !is_there;
                }
            }),
            Box::new(|| {
                if let Some(iter) = is_done(doomed.iter()) {
                    assert_eq!(iter.count(), 1, "the keyspace is there, and its key is not");
                }
            }),
        ]);
        store.expect_dropped(&doomed);
    });
}

#[test]
fn two_drops() {
    check(|| {
        let (store, doomed) = Store::with_doomed();
        let drops = Mutex::new(0);
        let drop = || *drops.lock() += u64::from(store.drop_doomed());
        together(vec![Box::new(drop), Box::new(drop)]);
        assert_eq!(*drops.lock(), 1, "a keyspace was dropped by two or by none");
        store.expect_dropped(&doomed);
    });
}

#[test]
fn two_creations() {
    check(|| {
        let store = Store::open();
        let create = |count| {
            let own = store.0.keyspace(["one", "other"][count], KeyspaceOptions::default()).unwrap();
            own.put("own", "").unwrap();
            let shared = store.keyspace();
            shared.put(["k", "l"][count], "").unwrap();
        };
        together(vec![Box::new(|| create(0)), Box::new(|| create(1))]);
        for _ in 0..2 {
            assert_eq!(store.0.keyspace_names().unwrap(), [NAME, "one", "other"]);
            let count = |name| store.snapshot().keyspace(name).unwrap().unwrap().iter().unwrap().count();
            assert_eq!(["one", "other", NAME].map(count), [1, 1, 2], "two keyspaces are one, or one is two");
            store.incorporate();
        }
    });
}

#[test]
fn a_creation_beside_a_drop() {
    check(|| {
        let (store, doomed) = Store::with_doomed();
        let is_put = Mutex::new(false);
        together(vec![
            Box::new(|| assert!(store.drop_doomed())),
            Box::new(|| *is_put.lock() = is_done(store.keyspace().put("l", "")).is_some()),
        ]);
        assert_eq!(of(&store.snapshot(), &doomed), 0);
        let names = store.0.keyspace_names().unwrap();
        if !names.is_empty() {
            let keys: Vec<_> = store.keyspace().iter().unwrap().keys().map(Result::unwrap).collect();
            assert!(*is_put.lock(), "a put into a new keyspace failed");
            assert_eq!(keys, [b"l"], "the new keyspace has keys of the old one, or lacks its own");
        }
    });
}
