//! Ticks of the expiry beside snapshots, gets, writes and merges (`docs/concurrency.md`, E).

use super::stores::{Store, at};
use super::{check, together, value};
use crate::db::{Keyspace, KeyspaceOptions, Snapshot};
use std::time::Duration;

const EXPIRY: Duration = Duration::from_secs(100);

/// A store with a keyspace in which the key "k" is about to expire.
fn store_with_old() -> (Store, Keyspace) {
    let store = Store::with(&["a"]);
    let own = store.0.keyspace("own", KeyspaceOptions::new().expiry(EXPIRY)).unwrap();
    own.put("k", value("k", 1)).unwrap();
    // With a tick and a ready log segment.
    rest(&store);
    pass(&store, EXPIRY + Duration::from_secs(1));
    (store, own)
}

/// What a worker does once it is due.
fn tick(store: &Store) {
    store.0.engine.background.expire();
}

fn rest(store: &Store) {
    while store.0.step() {}
}

/// Lets time pass.
fn pass(store: &Store, time: Duration) {
    store.0.engine.background.scheduler.clock.sleep(time);
}

fn of(snapshot: &Snapshot, own: &Keyspace) -> u64 {
    at(&snapshot.within(own).unwrap(), "k")
}

#[test]
fn a_snapshot_beside_a_tick() {
    check(|| {
        let (store, own) = store_with_old();
        together(vec![
            Box::new(|| rest(&store)),
            Box::new(|| {
                let snapshot = store.snapshot();
                let first = of(&snapshot, &own);
                store.incorporate();
                for _ in 0..2 {
                    assert_eq!(of(&snapshot, &own), first, "a snapshot sees less than before");
                }
                let later = of(&store.snapshot(), &own);
                assert!(later <= first, "what has expired came back");
            }),
        ]);
        rest(&store);
        assert_eq!((own.get("k").unwrap(), of(&store.snapshot(), &own)), (None, 0));
    });
}

#[test]
fn a_put_beside_a_tick() {
    check(|| {
        let (store, own) = store_with_old();
        together(vec![
            Box::new(|| tick(&store)),
            Box::new(|| {
                own.put("k", value("k", 2)).unwrap();
                assert!(own.get("k").unwrap().is_some(), "a new pair has expired");
            }),
        ]);
        assert_eq!(of(&store.snapshot(), &own), 2);
        // The next tick has a date for the put, whatever came first.
        pass(&store, Duration::from_secs(1));
        rest(&store);
        pass(&store, EXPIRY + Duration::from_secs(1));
        rest(&store);
        assert_eq!((own.get("k").unwrap(), of(&store.snapshot(), &own)), (None, 0), "a put has no date");
    });
}

/// The pair is put again just before it expires, so it is always there.
#[test]
fn a_get_beside_a_put_and_a_tick() {
    check(|| {
        let (store, own) = store_with_old();
        together(vec![
            Box::new(|| {
                own.put("k", value("k", 2)).unwrap();
                tick(&store);
            }),
            Box::new(|| {
                for _ in 0..2 {
                    assert!(own.get("k").unwrap().is_some(), "a key is missed that was always there");
                    assert!(own.contains_key("k").unwrap(), "a key is missed that was always there");
                }
            }),
        ]);
    });
}
