//! Retained versions: how long snapshots keep them, shared snapshots, the age limit, and keys that are overwritten
//! again and again.

use crate::support::tiny;
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Error, MemoryComponent, Options};
use std::sync::Arc;
use std::time::Duration;

const MINUTE: Duration = Duration::from_secs(60);

fn open(disk: &SimulatedStorage, options: Options) -> DeterministicDb {
    DeterministicDb::open(Arc::new(disk.clone()), options).unwrap()
}

fn pass(db: &DeterministicDb, disk: &SimulatedStorage, time: Duration) {
    disk.advance(time);
    while db.step() {}
}

#[test]
fn memory_shrinks_after_snapshots_are_dropped() {
    let disk = SimulatedStorage::new(1);
    let db = open(&disk, tiny().memory_budget(64 << 20).write_buffer(5 << 20));
    let write_all = |round: u8| (0..200u8).for_each(|key| db.put([key], [round; 30]).unwrap());
    write_all(0);
    let before = db.stats();
    let snapshots: Vec<_> = (1..=30)
        .map(|round| {
            let snapshot = db.snapshot();
            write_all(round);
            snapshot
        })
        .collect();
    let during = db.stats();
    assert_eq!(during.memory_entries, 31 * 200);
    for (round, snapshot) in snapshots.iter().enumerate() {
        assert_eq!(snapshot.get([9]).unwrap(), Some(vec![round as u8; 30]));
    }
    // Every other snapshot is dropped. The versions of the rest stay; those of the dropped ones go.
    let (kept, dropped): (Vec<_>, Vec<_>) = snapshots.into_iter().enumerate().partition(|(round, _)| round % 2 == 0);
    drop(dropped);
    pass(&db, &disk, MINUTE);
    assert_eq!(db.stats().memory_entries, 16 * 200);
    for (round, snapshot) in &kept {
        assert!(snapshot.iter().unwrap().all(|pair| pair.unwrap().1 == [*round as u8; 30]));
    }
    drop(kept);
    pass(&db, &disk, MINUTE);
    let after = db.stats();
    assert_eq!((after.memory_entries, after.snapshots), (200, 0));
    // It may be less, since the first values may be in blocks that are free now.
    let grown = after.memory_bytes.saturating_sub(before.memory_bytes);
    assert!(grown * 20 < during.memory_bytes - before.memory_bytes, "{before:?}\n{during:?}\n{after:?}");
}

#[test]
fn a_key_overwritten_again_and_again_grows_neither_memory_nor_log() {
    for component in [MemoryComponent::TwoLevel, MemoryComponent::Skiplist] {
        let disk = SimulatedStorage::new(1);
        let options = tiny().memory_budget(4 << 20).memory_component(component);
        let db = open(&disk, options);
        let (mut most_log, mut most_memory) = (0, 0);
        for count in 0..60_000u32 {
            let length = 4 + (count as usize * 37) % 1500;
            db.put("hot", count.to_le_bytes().repeat(length / 4)).unwrap();
            if count % 64 == 0 {
                while db.step() {}
                let stats = db.stats();
                (most_log, most_memory) = (most_log.max(stats.log_bytes), most_memory.max(stats.memory_bytes));
            }
        }
        let stats = db.stats();
        // 45 MB were written with a budget of 4 MiB. A Memtable is a twelfth of it, and the log six Memtables.
        assert!(stats.user_bytes > 40 << 20);
        assert!(most_log < 6 << 20, "{component:?}: {most_log} bytes of log");
        assert!(most_memory < 1 << 20, "{component:?}: {most_memory} bytes of memory");
        if component == MemoryComponent::TwoLevel {
            // Only the log's limit causes an incorporation now and then, of one entry.
            assert!(stats.incorporated_bytes * 20 < stats.user_bytes, "too much was incorporated: {stats:?}");
        }
        assert_eq!(db.get("hot").unwrap().unwrap()[..4], 59_999u32.to_le_bytes());
    }
}

#[test]
fn relaxed_snapshots_are_shared_up_to_the_allowed_age() {
    let disk = SimulatedStorage::new(1);
    let db = open(&disk, tiny());
    db.put("key", "old").unwrap();
    let first = db.relaxed_snapshot(MINUTE);
    db.put("key", "new").unwrap();
    disk.advance(MINUTE / 2);
    let second = db.relaxed_snapshot(MINUTE);
    assert_eq!(second.number(), first.number());
    assert_eq!(second.get("key").unwrap().as_deref(), Some(&b"old"[..]));
    // A caller that requires a younger snapshot gets a new one, which is shared from then on.
    let third = db.relaxed_snapshot(MINUTE / 4);
    assert_eq!(third.get("key").unwrap().as_deref(), Some(&b"new"[..]));
    assert_eq!(db.relaxed_snapshot(MINUTE).number(), third.number());
    drop((first, second, third));
    // The store keeps it for later callers, until it is older than anyone may allow.
    pass(&db, &disk, MINUTE / 2);
    assert_eq!(db.stats().snapshots, 1);
    pass(&db, &disk, MINUTE);
    assert_eq!(db.stats().snapshots, 0);
    db.put("key", "newest").unwrap();
    let none = db.relaxed_snapshot(Duration::ZERO);
    assert_eq!(none.get("key").unwrap().as_deref(), Some(&b"newest"[..]));
}

#[test]
fn a_forgotten_snapshot_is_reported_and_ends_at_the_limit() {
    let disk = SimulatedStorage::new(1);
    let db = open(&disk, tiny().snapshot_age_limit(MINUTE).memory_budget(64 << 20));
    db.put("key", "old").unwrap();
    let snapshot = db.snapshot();
    let mut iter = db.iter().unwrap();
    iter.seek_first().unwrap();
    db.put("key", "new").unwrap();
    pass(&db, &disk, MINUTE / 2);
    assert!(db.stats().oldest_snapshot >= Some(MINUTE / 2));
    assert_eq!(snapshot.get("key").unwrap().as_deref(), Some(&b"old"[..]));
    assert_eq!(db.stats().memory_entries, 2);
    pass(&db, &disk, MINUTE);
    for error in [snapshot.get("key").unwrap_err(), snapshot.iter().unwrap().next().unwrap().unwrap_err()] {
        assert!(matches!(error, Error::SnapshotExpired { limit: MINUTE }), "{error}");
        assert!(error.to_string().contains("60 s"), "{error}");
    }
    assert!(matches!(iter.step().unwrap_err(), Error::SnapshotExpired { .. }));
    assert!(!iter.valid());
    let stats = db.stats();
    assert_eq!((stats.snapshots, stats.oldest_snapshot, stats.memory_entries), (0, None, 1));
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"new"[..]));
}

#[test]
fn keys_with_common_prefixes_scan_correctly_in_both_memory_components() {
    for component in [MemoryComponent::TwoLevel, MemoryComponent::Skiplist] {
        let directory = tempfile::tempdir().unwrap();
        let options = Options::new().memory_budget(64 << 20).memory_component(component);
        let db = Db::open(directory.path(), options).unwrap();
        let key = |n: u32| format!("https://www.example.org/user/{:08}", n.wrapping_mul(2_654_435_761) % 100_000);
        let mut expected = std::collections::BTreeMap::new();
        for n in 0..20_000u32 {
            db.put(key(n), n.to_le_bytes()).unwrap();
            expected.insert(key(n).into_bytes(), n.to_le_bytes().to_vec());
            if n % 1000 == 999 {
                // Short scans in between, so that partitions are drained at different times.
                let from = key(n * 7).into_bytes();
                let found: Vec<_> = db.range(from.clone()..).unwrap().take(20).map(Result::unwrap).collect();
                let wanted: Vec<_> = expected.range(from..).take(20).map(|(k, v)| (k.clone(), v.clone())).collect();
                assert_eq!(found, wanted, "{component:?} after {n}");
            }
        }
        let all: Vec<_> = db.iter().unwrap().map(Result::unwrap).collect();
        assert!(all.iter().map(|(k, v)| (k, v)).eq(expected.iter()), "{component:?}");
        let reversed: Vec<_> = db.iter().unwrap().rev().map(Result::unwrap).collect();
        assert!(reversed.iter().map(|(k, v)| (k, v)).eq(expected.iter().rev()), "{component:?}");
    }
}
