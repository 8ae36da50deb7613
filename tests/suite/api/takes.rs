//! `take`, `pop_first` and `pop_last` under concurrency: each pair is removed once, and each at one moment.

use crate::support::{expect_sound, setting, tiny};
use alluvium::{Db, Keyspace, WriteOptions};
use std::collections::BTreeSet;
use std::sync::Barrier;

#[test]
fn a_taken_key_is_taken_once() {
    let db = Db::open_temporary(tiny()).unwrap();
    assert_eq!(db.take("absent").unwrap(), None);
    db.put("key", "value").unwrap();
    assert_eq!(db.take_with("key", WriteOptions::sync()).unwrap().as_deref(), Some(&b"value"[..]));
    assert!(!db.contains_key("key").unwrap());
    let rounds = setting("ALLUVIUM_TAKES", 300);
    for round in 0..rounds {
        db.put("key", round.to_be_bytes()).unwrap();
        let start = Barrier::new(3);
        let taken = std::thread::scope(|scope| {
            let takers = [(); 3].map(|()| {
                scope.spawn(|| {
                    start.wait();
                    db.take("key").unwrap()
                })
            });
            takers.map(|taker| taker.join().unwrap())
        });
        let taken: Vec<_> = taken.into_iter().flatten().collect();
        assert_eq!(taken, [round.to_be_bytes().to_vec()], "round {round}");
    }
}

/// Threads put into a queue and pop from both ends of it.
#[test]
fn each_pair_is_popped_once() {
    let db = Db::open_temporary(tiny()).unwrap();
    let each = setting("ALLUVIUM_POPS", 400) as u32;
    let popped = std::thread::scope(|scope| {
        for thread in 0..2_u32 {
            let db = &db;
            scope.spawn(move || {
                for number in 0..each {
                    db.put((number * 2 + thread).to_be_bytes(), [7; 50]).unwrap();
                }
            });
        }
        let poppers = [Keyspace::pop_first, Keyspace::pop_last].map(|pop| {
            let db = &db;
            scope.spawn(move || {
                let mut popped = Vec::new();
                // Ends: what is put is popped by one of the two.
                while popped.len() < each as usize {
                    popped.extend(pop(db).unwrap().map(|(key, _)| key));
                    std::thread::yield_now();
                }
                popped
            })
        });
        poppers.map(|popper| popper.join().unwrap()).concat()
    });
    assert_eq!(popped.len(), 2 * each as usize);
    assert_eq!(BTreeSet::from_iter(&popped).len(), popped.len(), "a pair was popped twice");
    assert!(db.is_empty().unwrap());
    expect_sound(&db);
}

/// If a key is put before the first one while that is popped, the pop comes first, and then the old key is gone after
/// the put, or it pops the new key.
#[test]
fn a_pop_is_one_moment() {
    let db = Db::open_temporary(tiny()).unwrap();
    let rounds = setting("ALLUVIUM_POPS", 400) * 5;
    for (end, pop, outer) in
        [("first", Keyspace::pop_first as fn(&Keyspace) -> _, "a"), ("last", Keyspace::pop_last, "c")]
    {
        for round in 0..rounds {
            db.put("b", "").unwrap();
            let start = Barrier::new(2);
            let (popped, has_old) = std::thread::scope(|scope| {
                let popper = scope.spawn(|| {
                    start.wait();
                    pop(&db).unwrap().unwrap().0
                });
                start.wait();
                db.put(outer, "").unwrap();
                let has_old = db.contains_key("b").unwrap();
                (popper.join().unwrap(), has_old)
            });
            assert!(popped == outer.as_bytes() || !has_old, "round {round}: the {end} pair was not the {end} one");
            db.delete_prefix("").unwrap();
        }
    }
}
