//! A follower beside writers.

use super::{Contents, PLENTY, components, in_memory, key};
use crate::support::tiny;
use alluvium::{Db, Operation, Snapshot, WriteBatch};
use std::sync::atomic::{AtomicBool, Ordering};

/// Applies writes to a map up to a number.
fn apply(changes: &mut alluvium::Changes, map: &mut Contents, through: u64) {
    while changes.through() < through {
        let Some(write) = changes.next() else {
            panic!("no write after {}, and {through} is there", changes.through())
        };
        let write = write.unwrap();
        assert!(write.number() <= through, "{} was skipped", through);
        for operation in write.operations() {
            match operation {
                Operation::Put { key, value, .. } => drop(map.insert(key.to_vec(), value.to_vec())),
                Operation::Delete { key, .. } => drop(map.remove(key)),
                other => panic!("{other:?}"),
            }
        }
    }
}

fn contents(snapshot: &Snapshot) -> Contents {
    snapshot.iter().unwrap().map(Result::unwrap).collect()
}

fn write(db: &Db, thread: u64, is_over: &AtomicBool) {
    for round in 0_u64.. {
        if is_over.load(Ordering::Relaxed) {
            return;
        }
        let number = (round * 7 + thread) % 200;
        if round % 5 == 0 {
            let mut batch = WriteBatch::new();
            batch.put(key(number), format!("{thread} {round}")).delete(key(number + 1)).put(key(number + 2), "batch");
            db.write(batch).unwrap();
        } else {
            db.put(key(number), format!("{thread} {round}")).unwrap();
        }
    }
}

/// What the stream has up to the number of a snapshot is what the snapshot has, while writers go on and memory is incorporated.
#[test]
fn the_writes_up_to_a_snapshot_make_its_contents() {
    for disk_component in components() {
        let db = in_memory(tiny().disk_component(disk_component).change_retention(PLENTY));
        let start = db.stats().last_number;
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..3 {
                let (db, is_over) = (&db, &is_over);
                scope.spawn(move || write(db, thread, is_over));
            }
            let (mut changes, mut map) = (db.changes(start).unwrap(), Contents::new());
            for round in 0..40 {
                if round % 8 == 7 {
                    db.flush().unwrap();
                }
                // The last number of a snapshot may be that of a write which is nothing in the stream.
                db.put("round", round.to_string()).unwrap();
                let snapshot = db.snapshot();
                apply_through(&mut changes, &mut map, &snapshot);
                assert_eq!(map, contents(&snapshot), "at {}", snapshot.number());
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

/// Every number up to that of a snapshot is a write of this test, so the stream has each of them.
fn apply_through(changes: &mut alluvium::Changes, map: &mut Contents, snapshot: &Snapshot) {
    apply(changes, map, snapshot.number());
}

/// Followers of different places in the stream see the same writes.
#[test]
fn followers_agree() {
    let db = in_memory(tiny().change_retention(PLENTY));
    let start = db.stats().last_number;
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| write(&db, 0, &is_over));
        let follow = || {
            let (mut changes, mut map) = (db.changes(start).unwrap(), Contents::new());
            for _ in 0..10 {
                db.put("turn", "again").unwrap();
                apply(&mut changes, &mut map, db.snapshot().number());
                std::thread::yield_now();
            }
            let position = changes.through();
            (position, map)
        };
        let followers = [scope.spawn(follow), scope.spawn(follow)];
        let found = followers.map(|follower| follower.join().unwrap());
        is_over.store(true, Ordering::Relaxed);
        for (position, map) in found {
            let mut again = Contents::new();
            apply(&mut db.changes(start).unwrap(), &mut again, position);
            assert_eq!(again, map);
        }
    });
}
