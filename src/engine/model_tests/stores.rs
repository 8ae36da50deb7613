//! Tests of whole stores on a simulated disk, without background threads: the test itself does all background work.

use super::{Thread, check, count, together, value};
use crate::db::DeterministicDb;
use crate::db::snapshot::Snapshot;
use crate::engine::memory::version_cleanup;
use crate::engine::types::batch::WriteBatch;
use crate::engine::types::options::{MemoryComponent, Options};
use crate::io::simulated::SimulatedStorage;
use crate::util::Error;
use crate::util::sync::{Arc, Mutex};
use std::time::Duration;

/// A store with the operations of the tests.
pub(crate) struct Store(pub(crate) DeterministicDb);

impl Store {
    pub(crate) fn open() -> Self {
        Self::of_kind(MemoryComponent::TwoLevel)
    }

    fn of_kind(memory_component: MemoryComponent) -> Self {
        let disk = SimulatedStorage::new(1);
        Self(DeterministicDb::open_small(Arc::new(disk), Self::options(memory_component)).unwrap())
    }

    pub(crate) fn options(memory_component: MemoryComponent) -> Options {
        let memory_budget = Some(320 << 10);
        Options { sync_interval: None, memory_budget, memory_component, ..Options::default() }
    }

    /// A store whose keys have the count 1, with blocks that were used before.
    pub(crate) fn with(keys: &[&str]) -> Self {
        let store = Self::open();
        for key in keys {
            store.put(key, 9);
            store.put(key, 11);
            store.put(key, 1);
        }
        store
    }

    pub(crate) fn put(&self, key: &str, count: u64) {
        self.0.put(key, value(key, count)).unwrap();
    }

    /// The count of a key; 0 if it is absent.
    pub(crate) fn get(&self, key: &str) -> u64 {
        self.0.get(key).unwrap().map_or(0, |value| count(key, &value))
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        self.0.snapshot()
    }

    pub(crate) fn write(&self, keys: &[&str], count: u64) {
        let mut batch = WriteBatch::new();
        for key in keys {
            batch.put(*key, value(key, count));
        }
        self.0.write(batch).unwrap();
    }

    pub(crate) fn delete_range(&self, from: &str, to: &str) {
        self.0.delete_range(from..to).unwrap();
    }

    fn clean_versions(&self) {
        version_cleanup::run(&self.0.engine.read);
    }

    /// Switches to a new memory generation and incorporates the old one.
    pub(crate) fn incorporate(&self) {
        let generations = &self.0.engine.background.generations;
        generations.switch(&generations.lock()).unwrap();
        while self.0.step() {}
    }

    /// The keys and counts of a scan.
    fn scan(&self) -> Vec<(String, u64)> {
        rows(&self.snapshot())
    }
}

pub(crate) fn at(snapshot: &Snapshot, key: &str) -> u64 {
    snapshot.get(key).unwrap().map_or(0, |value| count(key, &value))
}

fn rows(snapshot: &Snapshot) -> Vec<(String, u64)> {
    let row = |(key, value): (Vec<u8>, Vec<u8>)| {
        let key = String::from_utf8(key).unwrap();
        let count = count(&key, &value);
        (key, count)
    };
    snapshot.iter().unwrap().map(|pair| row(pair.unwrap())).collect()
}

#[test]
fn two_puts_of_a_new_key() {
    check(|| {
        let store = Store::open();
        together(vec![Box::new(|| store.put("key", 1)), Box::new(|| store.put("key", 2))]);
        let (last, stats) = (store.get("key"), store.0.stats());
        assert!(last == 1 || last == 2, "{last}");
        assert_eq!(stats.memory_entries, 1, "an overwritten version remains");
        // In branch files only the sequence numbers decide which version is newer.
        store.0.flush().unwrap();
        assert_eq!(store.get("key"), last, "the newest value changed: versions came out of order");
    });
}

#[test]
fn overwrites_in_place_beside_gets() {
    check(|| {
        let store = Store::with(&["a", "b"]);
        together(vec![
            Box::new(|| (2..4).for_each(|count| store.put("a", count))),
            Box::new(|| (2..4).for_each(|count| store.put("b", count))),
            Box::new(|| {
                let mut before = 1;
                for _ in 0..3 {
                    let now = store.get("a");
                    assert!(now >= before, "a went back from {before} to {now}");
                    before = now;
                }
            }),
        ]);
        assert_eq!((store.get("a"), store.get("b")), (3, 3));
    });
}

/// One writer reuses a block for another key. A reader of the first key must not read the other key's value.
#[test]
fn blocks_that_are_reused_for_other_keys() {
    check(|| {
        let store = Store::with(&["a", "b"]);
        together(vec![
            Box::new(|| {
                for count in 2..4 {
                    store.put("a", 2 * count);
                    store.put("b", 2 * count);
                }
            }),
            Box::new(|| {
                assert!(store.get("a") >= 1);
                assert!(store.get("b") >= 1);
            }),
        ]);
    });
}

#[test]
fn an_overwrite_beside_a_snapshot() {
    check(|| {
        let store = Store::with(&["a"]);
        together(vec![
            Box::new(|| (2..5).for_each(|count| store.put("a", count))),
            Box::new(|| {
                let before = store.get("a");
                let snapshot = store.snapshot();
                let first = at(&snapshot, "a");
                let after = store.get("a");
                assert!(before <= first && first <= after, "{before}, then the snapshot {first}, then {after}");
                assert_eq!(at(&snapshot, "a"), first, "the snapshot changed");
            }),
        ]);
        store.clean_versions();
        assert_eq!(store.0.stats().memory_entries, 1, "versions remain after the last snapshot was dropped");
    });
}

#[test]
fn version_cleanup_beside_overwrites_and_snapshots() {
    check(|| {
        let store = Store::with(&["a"]);
        let old = store.snapshot();
        store.put("a", 2);
        drop(old);
        together(vec![
            Box::new(|| store.clean_versions()),
            Box::new(|| {
                let snapshot = store.snapshot();
                let first = at(&snapshot, "a");
                assert!((2..5).contains(&first), "the snapshot has {first}");
                assert_eq!(at(&snapshot, "a"), first, "the snapshot changed");
            }),
            Box::new(|| (3..5).for_each(|count| store.put("a", count))),
        ]);
        store.clean_versions();
        assert_eq!((store.get("a"), store.0.stats().memory_entries), (4, 1));
    });
}

/// Of two snapshots one is dropped. The versions that the other needs stay; the versions that only the dropped one
/// needed are removed.
#[test]
fn a_snapshot_is_dropped_while_another_reads() {
    check(|| {
        let store = Store::with(&["a"]);
        let first = store.snapshot();
        store.put("a", 2);
        let second = store.snapshot();
        store.put("a", 3);
        together(vec![
            Box::new(|| {
                drop(first);
                store.clean_versions();
            }),
            Box::new(|| store.put("a", 4)),
            Box::new(|| {
                assert_eq!(at(&second, "a"), 2, "the snapshot changed");
                assert_eq!(rows(&second), [("a".to_owned(), 2)], "the scan of the snapshot");
            }),
        ]);
        drop(second);
        store.clean_versions();
        assert_eq!((store.get("a"), store.0.stats().memory_entries), (4, 1));
    });
}

/// A snapshot is dropped while another one is taken, at the same number or after an overwrite (rule S8).
#[test]
fn a_snapshot_is_dropped_while_another_is_taken() {
    check(|| {
        let store = Store::with(&["a"]);
        let old = Mutex::new(vec![store.snapshot(), store.snapshot()]);
        together(vec![
            Box::new(|| (2..5).for_each(|count| store.put("a", count))),
            Box::new(|| {
                let snapshot = store.snapshot();
                let first = at(&snapshot, "a");
                assert_eq!(at(&snapshot, "a"), first, "the snapshot changed");
                assert_eq!(rows(&snapshot), [("a".to_owned(), first)], "the scan of the snapshot");
            }),
            Box::new(|| drop(old.lock().pop())),
            Box::new(|| drop(old.lock().pop())),
        ]);
        store.put("a", 5);
        store.clean_versions();
        assert_eq!(store.0.stats().memory_entries, 1, "versions remain after the last snapshot was dropped");
    });
}

/// Reads at an expired snapshot return an error or the unchanged value.
#[test]
fn a_snapshot_expires_beside_its_reads() {
    check(|| {
        let disk = SimulatedStorage::new(1);
        let limit = Some(Duration::from_secs(1));
        let options = Options { snapshot_age_limit: limit, ..Store::options(MemoryComponent::TwoLevel) };
        let store = Store(DeterministicDb::open_small(Arc::new(disk.clone()), options).unwrap());
        store.put("a", 1);
        let snapshot = store.snapshot();
        store.put("a", 2);
        disk.advance(Duration::from_secs(2));
        together(vec![
            Box::new(|| {
                store.0.engine.read.snapshots.expire();
                store.clean_versions();
            }),
            Box::new(|| store.put("a", 3)),
            Box::new(|| {
                for _ in 0..2 {
                    match snapshot.get("a") {
                        Ok(Some(value)) => assert_eq!(count("a", &value), 1, "the snapshot changed"),
                        Ok(None) => panic!("the snapshot lost a key"),
                        Err(error) => assert!(matches!(error, Error::SnapshotExpired { .. }), "{error}"),
                    }
                }
            }),
        ]);
        store.0.engine.read.snapshots.expire();
        store.clean_versions();
        assert_eq!((store.get("a"), store.0.stats().memory_entries), (3, 1), "versions remain");
    });
}

/// If gets see x written before y, snapshots do so too (rule S3).
#[test]
fn snapshots_and_gets_agree_on_the_order() {
    check(|| {
        let store = Store::open();
        let (mut gets, mut snapshot) = ((0, 0), (0, 0));
        together(vec![
            Box::new(|| store.put("x", 1)),
            Box::new(|| store.put("y", 1)),
            Box::new(|| {
                let taken = store.snapshot();
                snapshot = (at(&taken, "x"), at(&taken, "y"));
            }),
            Box::new(|| {
                let y = store.get("y");
                gets = (store.get("x"), y);
            }),
        ]);
        assert!(!(gets == (0, 1) && snapshot == (1, 0)), "a get saw y before x, the snapshot x before y");
    });
}

#[test]
fn a_batch_beside_gets_and_a_snapshot() {
    check(|| {
        let store = Store::with(&["a", "b"]);
        together(vec![
            Box::new(|| (2..4).for_each(|count| store.write(&["a", "b", "c"], count))),
            Box::new(|| {
                let first = store.get("a");
                let second = store.get("b");
                assert!(first <= second, "half a batch: a is {first}, then b {second}");
                let third = store.get("a");
                assert!(second <= third, "half a batch: b is {second}, then a {third}");
            }),
            Box::new(|| {
                let snapshot = store.snapshot();
                let (a, b, c) = (at(&snapshot, "a"), at(&snapshot, "b"), at(&snapshot, "c"));
                assert!(a == b && (c == a || (a, c) == (1, 0)), "the snapshot has half a batch: {a} {b} {c}");
            }),
        ]);
        assert_eq!((store.get("a"), store.get("b"), store.get("c")), (3, 3, 3));
    });
}

/// Batches and puts of the same keys, so that pending versions are overwritten and spare blocks are reused.
#[test]
fn batches_beside_puts_of_their_keys() {
    check(|| {
        let store = Store::with(&["a", "b"]);
        together(vec![
            Box::new(|| store.write(&["a", "b"], 2)),
            Box::new(|| store.put("a", 3)),
            Box::new(|| {
                let snapshot = store.snapshot();
                let (a, b) = (at(&snapshot, "a"), at(&snapshot, "b"));
                assert!(b == 1 && (a == 1 || a == 3) || b == 2 && (a == 2 || a == 3), "the snapshot has {a} {b}");
                assert_eq!((at(&snapshot, "a"), at(&snapshot, "b")), (a, b), "the snapshot changed");
            }),
        ]);
        let last = store.get("a");
        assert!(last == 2 || last == 3);
        assert_eq!(store.get("b"), 2);
        store.0.flush().unwrap();
        assert_eq!((store.get("a"), store.get("b")), (last, 2), "the newest value changed: versions came out of order");
    });
}

#[test]
fn scans_beside_puts_and_each_other() {
    check(|| {
        let store = Store::open();
        // Enough keys that partition boundaries were learned, and will be learned again.
        for key in ["b", "d", "f", "h", "j"] {
            store.put(key, 1);
        }
        store.scan();
        store.put("l", 1);
        let scan = || {
            let snapshot = store.snapshot();
            let (c, m) = (at(&snapshot, "c"), at(&snapshot, "m"));
            let mut expected: Vec<(String, u64)> =
                ["b", "d", "f", "h", "j", "l"].iter().map(|key| ((*key).to_owned(), 1)).collect();
            expected.extend((c > 0).then(|| ("c".to_owned(), c)));
            expected.extend((m > 0).then(|| ("m".to_owned(), m)));
            expected.sort();
            assert_eq!(rows(&snapshot), expected, "the scan differs from the snapshot");
            let mut backwards: Vec<Vec<u8>> = snapshot.iter().unwrap().rev().map(|pair| pair.unwrap().0).collect();
            backwards.reverse();
            assert!(backwards.iter().eq(expected.iter().map(|(key, _)| key.as_bytes())), "backwards: {backwards:?}");
        };
        together(vec![
            Box::new(|| ["c", "m"].iter().for_each(|key| store.put(key, 1))),
            Box::new(scan),
            Box::new(scan),
        ]);
        assert_eq!(store.scan().len(), 8);
    });
}

#[test]
fn a_switch_beside_puts_and_gets() {
    check(|| {
        let store = Store::with(&["a"]);
        together(vec![
            Box::new(|| (2..4).for_each(|count| store.put("a", count))),
            Box::new(|| store.incorporate()),
            Box::new(|| {
                let mut before = 1;
                for _ in 0..3 {
                    let now = store.get("a");
                    assert!(now >= before, "a went back from {before} to {now}");
                    before = now;
                }
            }),
        ]);
        assert_eq!(store.get("a"), 3, "a write was lost");
        store.0.flush().unwrap();
        assert_eq!(store.get("a"), 3, "the newest value changed: versions came out of order");
    });
}

/// A generation is incorporated and retired while a put looks for the generation of its sequence number. Recovery does
/// not replay what was incorporated, so the put must be in the branch files or in the log.
#[test]
fn a_generation_is_incorporated_beside_a_put() {
    check(|| {
        let disk = SimulatedStorage::new(1);
        let open = |disk: &SimulatedStorage| {
            let options = Store::options(MemoryComponent::TwoLevel);
            Store(DeterministicDb::open_small(Arc::new(disk.clone()), options).unwrap())
        };
        let store = open(&disk);
        store.put("a", 1);
        together(vec![Box::new(|| store.put("a", 2)), Box::new(|| store.incorporate())]);
        assert_eq!(store.get("a"), 2, "a write was lost");
        let killed = disk.kill();
        drop(store);
        assert_eq!(open(&killed).get("a"), 2, "a write was lost by a kill");
    });
}

/// A get that reads the disk adds the value to the item cache, while a newer version is incorporated.
#[test]
fn a_get_from_the_disk_beside_a_new_version() {
    check(|| {
        let disk = SimulatedStorage::new(1);
        let open = |disk: &SimulatedStorage| {
            let options = Store::options(MemoryComponent::TwoLevel);
            Store(DeterministicDb::open_small(Arc::new(disk.clone()), options).unwrap())
        };
        let store = open(&disk);
        store.put("a", 1);
        store.incorporate();
        drop(store);
        // The reopened store has no pages in its cache.
        let store = open(&disk.kill());
        let snapshot = store.snapshot();
        together(vec![
            Box::new(|| assert_eq!(at(&snapshot, "a"), 1, "the snapshot changed")),
            Box::new(|| {
                store.put("a", 2);
                store.incorporate();
            }),
            Box::new(|| {
                let first = store.get("a");
                assert!(first == 1 || first == 2, "{first}");
                assert!(store.get("a") >= first, "a get of a went back to an older version");
            }),
        ]);
        assert_eq!(store.get("a"), 2, "the item is old");
    });
}

#[test]
fn a_switch_beside_batches_and_a_snapshot() {
    check(|| {
        let store = Store::with(&["a", "b"]);
        together(vec![
            Box::new(|| (2..4).for_each(|count| store.write(&["a", "b"], count))),
            Box::new(|| store.incorporate()),
            Box::new(|| {
                let snapshot = store.snapshot();
                let (a, b) = (at(&snapshot, "a"), at(&snapshot, "b"));
                assert_eq!(a, b, "the snapshot has half a batch");
                assert_eq!(rows(&snapshot), [("a".to_owned(), a), ("b".to_owned(), b)], "the snapshot changed");
            }),
        ]);
        assert_eq!((store.get("a"), store.get("b")), (3, 3), "a write was lost");
    });
}

/// The single-level Memtable takes the same paths, except for in-place updates.
#[test]
fn a_single_level() {
    check(|| {
        let store = Store::of_kind(MemoryComponent::Skiplist);
        store.put("a", 1);
        let writers: [Thread<'_>; 2] = [
            Box::new(|| ["b", "c"].iter().for_each(|key| store.put(key, 1))),
            Box::new(|| ["c", "a"].iter().for_each(|key| store.put(key, 2))),
        ];
        let mut threads: Vec<Thread<'_>> = writers.into();
        threads.push(Box::new(|| {
            let snapshot = store.snapshot();
            let first = rows(&snapshot);
            assert_eq!(rows(&snapshot), first, "the snapshot changed");
        }));
        together(threads);
        let keys: Vec<String> = store.scan().into_iter().map(|(key, _)| key).collect();
        assert_eq!(keys, ["a", "b", "c"]);
    });
}

#[test]
fn a_range_delete_beside_puts() {
    check(|| {
        let store = Store::with(&["a", "b"]);
        together(vec![
            Box::new(|| store.delete_range("a", "c")),
            Box::new(|| {
                store.put("a", 2);
                let (a, b) = (store.get("a"), store.get("b"));
                // The put comes before the range delete or after it; after both reads saw it undone, it stays.
                assert!(a == 2 || (a == 0 && b == 0), "a {a}, b {b}");
            }),
            Box::new(|| {
                // In this order: between a get of a and then one of b the range delete may come.
                let (b, a) = (store.get("b"), store.get("a"));
                assert!(b == 1 || a != 1, "b was deleted and then a was not: a {a}, b {b}");
            }),
        ]);
        let before = (store.get("a"), store.get("b"));
        assert!(before == (0, 0) || before == (2, 0), "{before:?}");
        store.incorporate();
        assert_eq!((store.get("a"), store.get("b")), before, "the answer changed on the disk");
    });
}

#[test]
fn a_range_delete_beside_an_update() {
    check(|| {
        let store = Store::with(&["a", "b"]);
        let updated = Mutex::new(0);
        together(vec![
            Box::new(|| store.delete_range("a", "c")),
            Box::new(|| {
                let new = store.0.update("a", |old| {
                    let old = old.map_or(0, |old| count("a", old));
                    Some(value("a", old + 5))
                });
                *updated.lock() = count("a", &new.unwrap().unwrap());
            }),
        ]);
        let (updated, last) = (*updated.lock(), store.get("a"));
        // An update before the range delete is deleted, and one after it has seen nothing.
        assert!((updated, last) == (6, 0) || (updated, last) == (5, 5), "updated to {updated}, then {last}");
    });
}

#[test]
fn a_replacement_is_atomic_for_gets_and_snapshots() {
    check(|| {
        let store = Store::with(&["a", "b"]);
        together(vec![
            Box::new(|| {
                let mut batch = WriteBatch::new();
                batch.delete_range("a".."c").put("a", value("a", 2));
                store.0.write(batch).unwrap();
            }),
            Box::new(|| {
                let (a, b) = (store.get("a"), store.get("b"));
                assert!((a == 1 || a == 2) && (a == 1 || b == 0), "a {a}, b {b}");
                let (b, a) = (store.get("b"), store.get("a"));
                assert!(b == 1 || a == 2, "b is gone and a is {a}");
            }),
            Box::new(|| {
                let snapshot = store.snapshot();
                let seen = (at(&snapshot, "a"), at(&snapshot, "b"));
                assert!(seen == (1, 1) || seen == (2, 0), "{seen:?}");
            }),
        ]);
        assert_eq!((store.get("a"), store.get("b")), (2, 0));
    });
}

#[test]
fn two_replacements_of_each_other() {
    check(|| {
        let store = Store::with(&["a", "b"]);
        let replace = |from: &'static str, to: &'static str, put: &'static str, count| {
            let mut batch = WriteBatch::new();
            batch.delete_range(from..to).put(put, value(put, count));
            store.0.write(batch).unwrap();
        };
        together(vec![Box::new(|| replace("a", "b", "b", 2)), Box::new(|| replace("b", "c", "a", 3))]);
        let last = (store.get("a"), store.get("b"));
        // The first one last: a is deleted and b is put; the other one last: the reverse.
        assert!(last == (0, 2) || last == (3, 0), "{last:?}");
    });
}
