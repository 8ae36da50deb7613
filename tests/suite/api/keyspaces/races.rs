//! Writers and readers beside the drop of a keyspace.

use super::*;

/// Threads write the same key into a keyspace that is dropped again and again and into the default keyspace, by batches and
/// transactions. What returns `Ok` is there in the default keyspace, what fails is not; and after the drop has returned,
/// nothing is written any more.
#[test]
fn writes_beside_a_drop_are_applied_wholly_or_not_at_all() {
    let db = Db::open_temporary(tiny()).unwrap();
    let rounds = setting("ALLUVIUM_DROPS", 60);
    for round in 0..rounds {
        let doomed = keyspace(&db, "doomed");
        let is_dropped_by_now = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for thread in 0..2_u64 {
                let (db, doomed, is_dropped_by_now) = (&db, &doomed, &is_dropped_by_now);
                scope.spawn(move || {
                    for step in 0_u64.. {
                        let key = [round.to_be_bytes(), thread.to_be_bytes(), step.to_be_bytes()].concat();
                        let was_dropped = is_dropped_by_now.load(Ordering::Acquire);
                        let written = if step % 2 == 0 {
                            let mut batch = WriteBatch::new();
                            batch.put(&key, "").within(doomed).put(&key, "");
                            db.write(batch)
                        } else {
                            let transaction = db.transaction().unwrap();
                            let within = transaction.within(doomed);
                            within.and_then(|within| within.put(&key, "")).and_then(|()| {
                                transaction.put(&key, "").unwrap();
                                transaction.commit()
                            })
                        };
                        assert_eq!(db.contains_key(&key).unwrap(), written.is_ok(), "{written:?}");
                        if written.is_err() {
                            assert!(is_dropped(written, "doomed"));
                            return;
                        }
                        assert!(!was_dropped, "a write after the drop was applied");
                    }
                });
            }
            // Some of the writes are before the drop.
            while doomed.is_empty().unwrap() {
                std::thread::yield_now();
            }
            assert!(db.drop_keyspace("doomed").unwrap());
            is_dropped_by_now.store(true, Ordering::Release);
        });
        assert!(is_dropped(doomed.is_empty(), "doomed"));
    }
}

/// A key that is there from the creation to the drop is never read as absent.
#[test]
fn reads_beside_a_drop_find_the_contents_or_the_error() {
    let db = Db::open_temporary(tiny()).unwrap();
    let rounds = setting("ALLUVIUM_DROPS", 60);
    for _ in 0..rounds {
        let doomed = keyspace(&db, "doomed");
        doomed.put("key", "value").unwrap();
        let reads = std::sync::atomic::AtomicU64::new(0);
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (doomed, reads) = (&doomed, &reads);
                scope.spawn(move || {
                    loop {
                        let found = match thread {
                            0 => doomed.get("key").map(|value| value.is_some()),
                            _ => doomed.first().map(|pair| pair.is_some()),
                        };
                        match found {
                            Ok(found) => assert!(found, "the keyspace is there, and its key is not"),
                            error => {
                                assert!(is_dropped(error, "doomed"));
                                return;
                            }
                        }
                        reads.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            while reads.load(Ordering::Relaxed) < 20 {
                std::thread::yield_now();
            }
            assert!(db.drop_keyspace("doomed").unwrap());
        });
    }
}

/// Of several threads that create and drop the same keyspace, all get one and the same.
#[test]
fn threads_open_the_same_keyspace() {
    let db = Db::open_temporary(tiny()).unwrap();
    std::thread::scope(|scope| {
        for thread in 0..3_u64 {
            let db = &db;
            scope.spawn(move || {
                for step in 0..50_u64 {
                    let shared = keyspace(db, &format!("shared {}", step % 7));
                    shared.put([thread as u8, step as u8], "").unwrap();
                }
            });
        }
    });
    assert_eq!(db.keyspace_names().unwrap().len(), 7);
    let count = |name: &str| keyspace(&db, name).iter().unwrap().count();
    assert_eq!(db.keyspace_names().unwrap().iter().map(|name| count(name)).sum::<usize>(), 150);
}
