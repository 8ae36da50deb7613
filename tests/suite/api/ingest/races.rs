//! Ingests beside writers, snapshots, updates and transactions: what each of them sees is one order of all of them.

use super::{Contents, components, contents, key};
use crate::support::tiny;
use alluvium::storage::MemoryStorage;
use alluvium::{Db, Error, Options};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

const KEYS: u64 = 300;

fn in_memory(options: Options) -> Db {
    Db::open_with(Arc::new(MemoryStorage::new()), options).unwrap()
}

fn ingest_all(db: &Db, value: &str) {
    let mut entering = db.ingest().unwrap();
    entering.put_all((0..KEYS).map(|number| (key(number), value))).unwrap();
    entering.commit().unwrap();
}

fn number_of(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| std::str::from_utf8(&value).unwrap().parse().unwrap())
}

/// Each ingest writes its number under all keys. A snapshot has the same number under all of them, no less than what was
/// read before, and no less than what had been committed.
#[test]
fn snapshots_see_whole_ingests_in_their_order() {
    for disk_component in components() {
        let db = in_memory(tiny().disk_component(disk_component));
        let is_over = AtomicBool::new(false);
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let mut last = 0;
                    while !is_over.load(Ordering::Relaxed) {
                        let read = number_of(db.get(key(KEYS / 2)).unwrap());
                        let snapshot = db.snapshot();
                        let seen = contents(&snapshot);
                        let round = number_of(seen.get(&key(0)).cloned());
                        assert!(
                            seen.values().all(|value| number_of(Some(value.clone())) == round),
                            "a part of an ingest"
                        );
                        assert!(round >= read && read >= last, "{last}, then {read}, then {round}");
                        assert!(seen.is_empty() || seen.len() as u64 == KEYS);
                        last = round;
                        assert_eq!(contents(&snapshot), seen, "a snapshot has changed");
                    }
                });
            }
            for round in 1..=40 {
                ingest_all(&db, &round.to_string());
                let snapshot = db.snapshot();
                assert_eq!(number_of(snapshot.get(key(KEYS - 1)).unwrap()), round);
            }
            is_over.store(true, Ordering::Relaxed);
        });
    }
}

/// A writer outside the range counts up in "a" and copies what it read of the range before. If a snapshot has a count, it has
/// at least the ingest that the writer had seen then.
#[test]
fn snapshots_agree_with_writers_that_have_seen_an_ingest() {
    let db = in_memory(tiny());
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::Relaxed) {
                let seen = number_of(db.get(key(7)).unwrap());
                db.put("a", seen.to_string()).unwrap();
            }
        });
        scope.spawn(|| {
            let mut checked = 0;
            while !is_over.load(Ordering::Relaxed) {
                // First what was written outside, then the range: by a get, and by a snapshot.
                let copied = number_of(db.get("a").unwrap());
                let later = number_of(db.get(key(8)).unwrap());
                assert!(later >= copied, "{copied} was seen, then {later}");
                let snapshot = db.snapshot();
                let (copied, own) = (number_of(snapshot.get("a").unwrap()), number_of(snapshot.get(key(9)).unwrap()));
                assert!(own >= copied, "a snapshot has what was made of {copied}, and {own}");
                assert!(own >= later, "{later} was read, then a snapshot has {own}");
                checked += 1;
            }
            assert!(checked > 10);
        });
        for round in 1..=60 {
            ingest_all(&db, &round.to_string());
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// What a writer of its own keys knows of its last put of one of them.
#[derive(Clone)]
struct Put {
    value: String,
    /// Ingests that had begun to enter when the put returned: every later one replaces it.
    begun: u64,
    /// Ingests that had ended when the value was last seen, at first when it was put: it has replaced them.
    ended: u64,
    is_replaced: bool,
}

impl Put {
    /// `found` was read when `ended` ingests had ended.
    fn check(&mut self, found: &[u8], ended: u64) {
        if found == self.value.as_bytes() {
            assert!(!self.is_replaced && ended <= self.begun, "an older write shows: {}", found.escape_ascii());
            self.ended = ended;
        } else {
            let ingest =
                found.strip_prefix(b"ingest ").unwrap_or_else(|| panic!("a put is lost: {}", found.escape_ascii()));
            let ingest = number_of(Some(ingest.to_vec()));
            assert!(ingest >= self.ended, "an older ingest shows: {ingest}, and {} had ended", self.ended);
            self.is_replaced = true;
        }
    }
}

/// Puts of keys in the range are older or newer than an ingest: what was put after a commit returned stays, and what was put
/// before a commit began does not. A put beside a commit may be either, but not first the one and then, after a merge, the
/// other.
#[test]
fn writers_of_the_range_are_before_or_after_it() {
    for disk_component in components() {
        let db = in_memory(tiny().disk_component(disk_component));
        let (begun, done, is_over) = (AtomicU64::new(0), AtomicU64::new(0), AtomicBool::new(false));
        std::thread::scope(|scope| {
            for thread in 0..2_u64 {
                let (db, begun, done, is_over) = (&db, &begun, &done, &is_over);
                scope.spawn(move || {
                    // Keys of its own, so that between its puts only an ingest writes them.
                    let mut puts: Vec<Option<Put>> = vec![None; 100];
                    for count in 0.. {
                        if is_over.load(Ordering::SeqCst) {
                            return;
                        }
                        let at = count % 100;
                        let own = key(2 * at as u64 + thread);
                        let ended = done.load(Ordering::SeqCst);
                        if let Some(put) = &mut puts[at] {
                            put.check(&db.get(&own).unwrap().unwrap(), ended);
                        }
                        let is_due = match at % 3 {
                            0 => true,
                            // Beside an ingest alone, so that it is looked at again and again before the next put.
                            1 => begun.load(Ordering::SeqCst) > ended,
                            _ => puts[at].as_ref().is_none_or(|put| put.is_replaced),
                        };
                        if is_due {
                            let value = format!("own {thread} {count}");
                            db.put(&own, &value).unwrap();
                            let begun = begun.load(Ordering::SeqCst);
                            puts[at] = Some(Put { value, begun, ended, is_replaced: false });
                        }
                    }
                });
            }
            for round in 0..30 {
                begun.fetch_add(1, Ordering::SeqCst);
                ingest_all(&db, &format!("ingest {round}"));
                done.fetch_add(1, Ordering::SeqCst);
                if round % 3 == 2 {
                    db.compact().unwrap();
                }
            }
            is_over.store(true, Ordering::SeqCst);
        });
        ingest_all(&db, "the last");
        assert!(contents(&db.snapshot()).values().all(|value| value == b"the last"), "an older write shows");
    }
}

/// An update adds to what it has read, or to what an ingest has put in its place, and is never lost under one.
#[test]
fn no_update_is_made_of_what_an_ingest_has_replaced() {
    let db = in_memory(tiny());
    ingest_all(&db, "0");
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut number = 0;
            while !is_over.load(Ordering::Relaxed) {
                number = (number + 1) % KEYS;
                db.update(key(number), |old| {
                    let old = number_of(old.map(<[u8]>::to_vec));
                    Some((old + 1).to_string().into_bytes())
                })
                .unwrap();
            }
        });
        for round in 1..=40 {
            // Every ingest is far above all before it, so a value made of an older one shows.
            ingest_all(&db, &(round * 1_000_000).to_string());
            let least = contents(&db.snapshot()).into_values().map(|value| number_of(Some(value))).min();
            assert!(least.unwrap() >= round * 1_000_000, "an update has brought an older value back");
        }
        is_over.store(true, Ordering::Relaxed);
    });
}

/// A transaction that has read a key, an absent key, or a range conflicts with an ingest into it, and with no other.
#[test]
fn transactions_conflict_with_ingests_into_what_they_read() {
    for disk_component in components() {
        let db = in_memory(tiny().disk_component(disk_component));
        db.put(key(5), "old").unwrap();
        let ingest = |keys: &[u64]| {
            let mut entering = db.ingest().unwrap();
            entering.put_all(keys.iter().map(|number| (key(*number), "new"))).unwrap();
            entering.commit().unwrap();
        };
        let is_conflict = |result: alluvium::Result<()>| match result {
            Ok(()) => false,
            Err(Error::Conflict { .. }) => true,
            Err(error) => panic!("{error}"),
        };
        for (read, expected) in [("key", true), ("absent", true), ("range", true), ("beside", false)] {
            db.delete(key(9)).unwrap();
            let transaction = db.transaction().unwrap();
            match read {
                "key" => drop(transaction.get(key(5)).unwrap()),
                "absent" => drop(transaction.get(key(9)).unwrap()),
                "range" => assert!(transaction.iter().unwrap().count() > 0),
                _ => drop(transaction.get(key(50)).unwrap()),
            }
            transaction.put("result", read).unwrap();
            ingest(&[5, 9]);
            assert_eq!(is_conflict(transaction.commit()), expected, "{read}");
        }
        // Many keys are registered as ranges.
        for (first, expected) in [(0, true), (1_000, false)] {
            let transaction = db.transaction().unwrap();
            for number in first..first + 400 {
                transaction.get(key(number)).unwrap();
            }
            transaction.put("result", "many").unwrap();
            ingest(&[5, 9]);
            assert_eq!(is_conflict(transaction.commit()), expected, "from {first}");
        }
    }
}

/// Two ingests of the same range take effect one after the other.
#[test]
fn ingests_beside_each_other_are_whole() {
    let db = in_memory(tiny());
    std::thread::scope(|scope| {
        for thread in 0..3 {
            let db = &db;
            scope.spawn(move || (0..15).for_each(|round| ingest_all(db, &format!("{thread} {round}"))));
        }
        for _ in 0..60 {
            let seen: Contents = contents(&db.snapshot());
            let first = seen.values().next().cloned().unwrap_or_default();
            assert!(seen.values().all(|value| *value == first), "parts of two ingests");
        }
    });
    assert_eq!(db.stats().ingests, 45);
}
