//! Keys that skipped levels and wait in memory, as a program sees them: their values, readers, openers, and memory.

use crate::support::{expect_sound, tiny};
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{CompactOptions, DiskComponent, Goal, LevelsOptions, Options, ReadOnlyDb};
use std::collections::BTreeMap;
use std::sync::Arc;

type Pairs = BTreeMap<Vec<u8>, Vec<u8>>;

/// Of sizes with which a few files are in three levels.
fn options(buffer_bytes: Option<u64>) -> Options {
    let levels = LevelsOptions::skip()
        .size_ratio(3)
        .level0_runs(3)
        .file_bytes(4096)
        .base_level_bytes(4096)
        .buffer_bytes(buffer_bytes);
    tiny().disk_component(DiskComponent::Levels(levels)).memory_budget(1 << 20)
}

fn open(disk: &SimulatedStorage, options: Options) -> DeterministicDb {
    DeterministicDb::open(Arc::new(disk.clone()), options).unwrap()
}

/// A store with old data in the deepest level, and with newer values of this length of other keys, of which some wait in
/// memory.
fn waiting(options: Options, value_bytes: usize) -> (SimulatedStorage, DeterministicDb, Pairs) {
    let disk = SimulatedStorage::new(1);
    let db = open(&disk, options);
    let mut pairs = Pairs::new();
    let mut put = |key: String, value: Vec<u8>| {
        db.put(&key, &value).unwrap();
        pairs.insert(key.into_bytes(), value);
    };
    (0..200).for_each(|at| put(format!("key{at:04}"), vec![at as u8; 100]));
    db.compact().unwrap();
    for round in 0..3 {
        (0..5).for_each(|at| put(format!("key{:04}-new", at * 33 + round), vec![at as u8; value_bytes]));
        db.flush().unwrap();
    }
    while db.step() {}
    (disk, db, pairs)
}

fn contents(db: &DeterministicDb) -> Pairs {
    db.iter().unwrap().map(|pair| pair.unwrap()).collect()
}

/// Writes what is in memory only to files.
fn write_checkpoint(db: &DeterministicDb) {
    let recovery = CompactOptions::new().goal(Goal::Recovery);
    db.compact_with(.., &recovery, &mut |_| ()).unwrap();
    while db.step() {}
}

fn branch_files(disk: &SimulatedStorage) -> usize {
    disk.current_image().keys().filter(|name| name.ends_with(".branch")).count()
}

/// A large value is in a file of its own, whose name is in no run while its key waits in memory.
#[test]
fn value_files_stay_while_their_keys_wait_in_memory() {
    let (disk, db, mut pairs) = waiting(options(None), 256 << 10);
    let stats = db.stats();
    assert!(stats.buffer_bytes > 0 && stats.parent_bytes > 0 && stats.value_files == 15, "{stats}");
    db.sync().unwrap();
    drop(db);
    let db = open(&disk.kill(), options(None));
    assert!(db.stats().buffer_bytes > 0 && db.stats().value_files == 15, "{}", db.stats());
    assert!(contents(&db) == pairs, "a value is missing after a death");
    write_checkpoint(&db);
    let stats = db.stats();
    assert!(stats.buffer_bytes == 0 && stats.parent_bytes == 0 && stats.value_files == 15, "{stats}");
    assert!(contents(&db) == pairs, "a value is missing after a checkpoint");
    expect_sound(&db);
    pairs.retain(|key, _| !key.ends_with(b"new"));
    (0..3).for_each(|round| (0..5).for_each(|at| db.delete(format!("key{:04}-new", at * 33 + round)).unwrap()));
    db.compact().unwrap();
    while db.step() {}
    assert_eq!(db.stats().value_files, 0);
    assert!(contents(&db) == pairs);
}

/// What was read before a merge of what was in memory stays as it was.
#[test]
fn readers_outlive_what_they_have_read_in_memory() {
    let (_, db, pairs) = waiting(options(None), 300);
    assert!(db.stats().buffer_bytes > 0, "{}", db.stats());
    let snapshot = db.snapshot();
    let mut iterator = db.iter().unwrap();
    let first = iterator.next().unwrap().unwrap();
    let pinned: Vec<_> = pairs.keys().map(|key| db.get_pinned(key).unwrap().unwrap()).collect();
    for key in pairs.keys() {
        db.put(key, "other").unwrap();
    }
    db.compact().unwrap();
    while db.step() {}
    assert!(db.stats().buffer_bytes == 0 && db.stats().parent_bytes == 0, "{}", db.stats());
    assert!(pinned.iter().zip(pairs.values()).all(|(pinned, value)| pinned[..] == value[..]));
    let rest: Pairs = std::iter::once(first).chain(iterator.map(|pair| pair.unwrap())).collect();
    assert!(rest == pairs);
    assert!(snapshot.iter().unwrap().map(|pair| pair.unwrap()).collect::<Pairs>() == pairs);
    assert!(contents(&db).values().all(|value| value == b"other"));
}

/// A cursor counts what it took from memory when it ends, or seeks again.
#[test]
fn scans_count_what_they_take_from_memory() {
    let (_, db, pairs) = waiting(options(None), 300);
    assert_eq!(db.stats().buffered_rows, 0);
    let backward = || db.iter().unwrap().rev().map(|pair| pair.unwrap()).collect::<Pairs>();
    assert!(contents(&db) == pairs && backward() == pairs && contents(&db) == pairs);
    let rows = db.stats().buffered_rows;
    assert!((2..=3 * 15).contains(&rows), "{rows}");
    write_checkpoint(&db);
    assert!(contents(&db) == pairs);
    let rows = db.stats().buffered_rows;
    assert!(contents(&db) == pairs && backward() == pairs);
    assert_eq!(db.stats().buffered_rows, rows, "nothing was in memory");
}

/// A read-only opener makes the branches in memory again from files that a checkpoint of the writer then drops.
#[test]
fn a_read_only_opener_keeps_the_files_that_a_checkpoint_drops() {
    let (disk, db, pairs) = waiting(options(None), 300);
    let read = |reader: &ReadOnlyDb| {
        let gets = pairs.iter().all(|(key, value)| reader.get(key).unwrap().as_ref() == Some(value));
        gets && reader.iter().unwrap().map(|pair| pair.unwrap()).collect::<Pairs>() == pairs
    };
    db.sync().unwrap();
    let early = ReadOnlyDb::open_with(Arc::new(disk.clone()), options(None)).unwrap();
    assert!(early.stats().buffer_bytes > 0 && early.stats().parent_bytes > 0, "{}", early.stats());
    write_checkpoint(&db);
    assert_eq!(db.stats().buffer_bytes + db.stats().parent_bytes, 0);
    let late = ReadOnlyDb::open_with(Arc::new(disk.clone()), options(None)).unwrap();
    assert_eq!(late.stats().buffer_bytes, 0);
    assert!(read(&early) && read(&late));
    assert!(branch_files(&disk) as u64 > db.stats().branch_files, "the reader's files are gone");
    drop((early, late));
    disk.advance(std::time::Duration::from_secs(100));
    while db.step() {}
    assert_eq!(branch_files(&disk) as u64, db.stats().branch_files);
}

/// Keys wait in files if there is no memory for them.
#[test]
fn without_memory_for_them_keys_wait_in_files() {
    let (_, db, pairs) = waiting(options(Some(0)), 300);
    let stats = db.stats();
    assert!(stats.skipped[2] > 0 && stats.buffered_bytes == 0 && stats.checkpoint_bytes == 0, "{stats}");
    assert!(contents(&db) == pairs);
}
