//! Checkpoints beside running writers, merges and flushes, on a real disk.

use super::components;
use crate::support::{setting, tiny};
use alluvium::{Db, Depth, KeyspaceOptions, WriteBatch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Key space of each writer: small enough that most puts overwrite.
const KEYS: u64 = 400;

/// Each writer writes its own history: with its nth batch, `last` of both keyspaces becomes n, and so does one key. Now and then it
/// deletes a range. From `last` follows what every key of its must be.
fn history(batch: &mut WriteBatch, users: &alluvium::Keyspace, writer: u64, n: u64) {
    let key = key(writer, n % KEYS);
    let value = [&n.to_be_bytes()[..], &vec![n as u8; (n % 100) as usize]].concat();
    batch.put(last(writer), n.to_be_bytes()).put(&key, &value);
    batch.within(users).put(last(writer), n.to_be_bytes()).put(&key, &value);
    if is_end(n) {
        batch.within(users).delete_range(self::key(writer, 0)..self::key(writer, KEYS));
    }
}

fn is_end(n: u64) -> bool {
    n % 1000 == 999
}

fn last(writer: u64) -> String {
    format!("last{writer}")
}

fn key(writer: u64, at: u64) -> String {
    format!("writer{writer}/{at:05}")
}

/// Checks that a store has, of each writer, exactly the first batches, with all that it had acknowledged before.
pub(in crate::tools) fn check(db: &Db, acknowledged: &[u64], what: &str) {
    let users = db.keyspace("users", KeyspaceOptions::new().create_if_missing(false)).unwrap();
    for (writer, acknowledged) in acknowledged.iter().enumerate() {
        let writer = writer as u64;
        let number = |bytes: Option<Vec<u8>>| bytes.map_or(0, |bytes| u64::from_be_bytes(bytes.try_into().unwrap()));
        let n = number(db.get(last(writer)).unwrap());
        assert_eq!(number(users.get(last(writer)).unwrap()), n, "{what}: half of a batch");
        assert!(n >= *acknowledged, "{what}: writer {writer} had {acknowledged} batches, the copy has {n}");
        let deleted = n.checked_sub(999).map(|rest| rest / 1000 * 1000 + 999);
        for at in 0..KEYS {
            // The last batch up to `n` that wrote this key.
            let newest =
                (n % KEYS >= at).then(|| n - (n % KEYS - at)).or((n / KEYS).checked_sub(1).map(|r| r * KEYS + at));
            let newest = newest.filter(|newest| *newest > 0);
            let found = |value: Option<Vec<u8>>| value.map(|value| u64::from_be_bytes(*value.first_chunk().unwrap()));
            assert_eq!(found(db.get(key(writer, at)).unwrap()), newest, "{what}: writer {writer}, key {at} at {n}");
            let kept = newest.filter(|newest| deleted.is_none_or(|deleted| *newest > deleted));
            assert_eq!(found(users.get(key(writer, at)).unwrap()), kept, "{what}: writer {writer}, user {at} at {n}");
        }
    }
}

/// Calls `act` with the number of the round and what each writer had acknowledged before it, while two writers write their
/// histories; something new between two rounds. Returns what they had acknowledged in the end.
pub(in crate::tools) fn beside_writers(db: &Db, rounds: u64, mut act: impl FnMut(u64, [u64; 2])) -> [u64; 2] {
    let users = db.keyspace("users", KeyspaceOptions::new()).unwrap();
    let (stop, acknowledged) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
    std::thread::scope(|scope| {
        for (writer, acknowledged) in acknowledged.iter().enumerate() {
            let (users, stop) = (&users, &stop);
            scope.spawn(move || {
                for n in 1.. {
                    if stop.load(Ordering::Relaxed) {
                        break;
                    }
                    let mut batch = WriteBatch::new();
                    history(&mut batch, users, writer as u64, n);
                    db.write(batch).unwrap();
                    acknowledged.store(n, Ordering::Release);
                }
            });
        }
        let _stop = Stop(&stop);
        for round in 1..=rounds {
            let wanted = acknowledged[0].load(Ordering::Acquire) + 100;
            while acknowledged[0].load(Ordering::Acquire) < wanted {
                std::thread::yield_now();
            }
            act(round, [0, 1].map(|writer: usize| acknowledged[writer].load(Ordering::Acquire)));
        }
    });
    acknowledged.map(AtomicU64::into_inner)
}

#[test]
fn a_checkpoint_beside_writers_is_a_prefix_with_all_that_was_acknowledged() {
    let rounds = setting("ALLUVIUM_CHECKPOINTS", 6);
    for (kind, component) in components() {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path().join("store"), tiny().disk_component(component)).unwrap();
        let all = beside_writers(&db, rounds, |round, before| {
            let what = format!("{kind}, checkpoint {round}");
            let path = directory.path().join(format!("copy{round}"));
            let report = db.checkpoint(&path).unwrap();
            assert_eq!(report.files_copied, 0, "{what}");
            let copy = Db::open(&path, tiny()).unwrap();
            assert_eq!(copy.stats().incorporated_number, report.number, "{what}");
            check(&copy, &before, &what);
            // It lives on beside the store.
            copy.delete_prefix("writer").unwrap();
            copy.compact().unwrap();
            copy.close().unwrap();
            let found = Db::verify_closed(&path, Depth::Deep, &mut |_| ()).unwrap();
            assert!(found.is_valid(), "{what}: {:?}", found.damage);
            if round % 3 == 0 {
                std::fs::remove_dir_all(&path).unwrap();
            }
        });
        check(&db, &all, kind);
        db.close().unwrap();
        let found = Db::verify_closed(directory.path().join("store"), Depth::Deep, &mut |_| ()).unwrap();
        assert!(found.is_valid(), "{kind}: {:?}", found.damage);
    }
}

/// Stops the writers, also when a check fails.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
