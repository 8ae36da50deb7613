//! Estimated sizes of key ranges and the list of files, compared with the real figures.

use crate::support::tiny;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{BranchFile, Db, DiskComponent, LevelsOptions, Options, ReadOnlyDb};
use std::sync::Arc;

const PAIRS: u32 = 40_000;
const PAIR_BYTES: u64 = 12 + 100;

fn key(number: u32) -> Vec<u8> {
    format!("key{number:09}").into_bytes()
}

fn opened(options: Options) -> Db {
    Db::open_with(Arc::new(SimulatedStorage::new(1)), options).unwrap()
}

/// Puts the keys in a scattered order, so that memory is not sorted either.
fn fill(db: &Db) {
    for at in 0..PAIRS {
        db.put(key((u64::from(at) * 7_919 % u64::from(PAIRS)) as u32), [7; 100]).unwrap();
    }
}

/// Checks that the estimates for all, a half, a fifth and a fiftieth of the keys are near these shares of the bytes.
fn expect_shares(db: &Db, pair_bytes: u64) {
    for (from, to) in [(0, PAIRS), (0, PAIRS / 2), (PAIRS / 5, PAIRS / 5 * 2), (PAIRS / 2, PAIRS / 2 + PAIRS / 50)] {
        let (size, real) = (db.approximate_size(key(from)..key(to)).unwrap(), u64::from(to - from) * pair_bytes);
        assert!(size > real / 2 && size < real * 2 + 65_536, "{from}..{to}: {size} for {real} bytes\n{}", db.stats());
    }
    assert_eq!(db.approximate_size("l"..).unwrap(), 0);
    assert_eq!(db.approximate_size(.."k").unwrap(), 0);
    assert_eq!(db.approximate_size(key(9)..key(3)).unwrap(), 0, "a range whose end is before its start");
}

#[test]
fn sizes_in_memory_in_files_and_in_both() {
    let db = opened(tiny().memory_budget(256 << 20).write_buffer(20 << 20));
    fill(&db);
    assert_eq!(db.stats().branch_files, 0, "all in memory");
    expect_shares(&db, PAIR_BYTES);
    db.flush().unwrap();
    assert_eq!(db.stats().memory_entries, 0, "all in files");
    expect_shares(&db, PAIR_BYTES);
    let flushed = db.approximate_size(..).unwrap();
    fill(&db);
    let both = db.approximate_size(..).unwrap();
    assert!(both > flushed * 3 / 2, "{both} in files and memory, {flushed} in files");
}

/// Overwrites and deletes count several times until they are merged. Regression test: tombstones in the deepest level were
/// thought to hide something there, and a store of ten thousand keys seemed to have none.
#[test]
fn the_number_of_keys_is_exact_once_all_is_merged() {
    let components = [DiskComponent::Trunk, DiskComponent::Levels(LevelsOptions::skip())];
    for component in components {
        let db = opened(tiny().disk_component(component));
        fill(&db);
        (0..1_000).for_each(|at| db.put(key(at), "again").unwrap());
        (0..PAIRS / 4).for_each(|at| db.delete(key(at)).unwrap());
        let early = db.stats().approximate_keys();
        assert!((u64::from(PAIRS) / 2..u64::from(PAIRS) * 2).contains(&early), "{early}\n{}", db.stats());
        db.compact().unwrap();
        assert_eq!(db.stats().approximate_keys(), u64::from(PAIRS / 4 * 3), "{}", db.stats());
        (PAIRS / 2..PAIRS).for_each(|at| db.delete(key(at)).unwrap());
        db.flush().unwrap();
        db.settle().unwrap();
        let (late, left, stats) = (db.stats().approximate_keys(), u64::from(PAIRS / 4), db.stats());
        // A merge may keep a tombstone after it has removed what it hides, while other old data is in its range.
        let least = if stats.levels.last().is_some_and(|deepest| deepest.runs <= 1) { left / 2 } else { 0 };
        assert!((least..left * 2).contains(&late), "{late}, not about {left}\n{stats}");
    }
}

/// Few keys are counted exactly, so that a single key in a large Memtable is found in its range and nowhere else.
#[test]
fn few_keys_in_memory_are_counted() {
    let db = opened(tiny());
    for letter in ["a", "b", "c"] {
        db.put(letter, [7; 1000]).unwrap();
    }
    let size = |from, to| db.approximate_size(from..to).unwrap();
    assert!((900..2000).contains(&size("b", "c")), "{}", size("b", "c"));
    assert!((1900..4000).contains(&size("a", "c")), "{}", size("a", "c"));
    assert_eq!(size("bb", "c"), 0);
}

/// The estimates of several levels add up, and all files are listed.
#[test]
fn sizes_and_files_of_a_tree() {
    let db = opened(tiny().memory_budget(512 << 10));
    fill(&db);
    db.settle().unwrap();
    assert!(db.stats().levels.len() > 1, "{}", db.stats());
    // Most of such small files is overhead.
    let stats = db.stats();
    let whole = db.approximate_size(..).unwrap();
    assert!(whole > stats.branch_bytes / 2 && whole <= stats.branch_bytes + stats.memory_bytes, "{whole}\n{stats}");
    expect_shares(&db, whole / u64::from(PAIRS));
    let files = db.branch_files();
    assert_eq!(files.len() as u64, db.stats().branch_files);
    assert_eq!(files.iter().map(|file| file.bytes).sum::<u64>(), db.stats().branch_bytes);
    assert!(files.is_sorted_by_key(|file| std::cmp::Reverse(file.height)), "root first");
    let first = files.iter().map(|file| &file.first_key).min();
    assert_eq!(first, Some(&key(0)));
    assert_eq!(files.iter().map(|file| &file.last_key).max(), Some(&key(PAIRS - 1)));
    assert!(files.iter().all(|file| file.name.ends_with(".branch") && file.first_key <= file.last_key));
}

/// A read-only opener gets the same figures.
#[test]
fn sizes_and_files_of_a_store_that_is_only_read() {
    let storage = Arc::new(SimulatedStorage::new(1));
    let db = Db::open_with(Arc::clone(&storage) as _, tiny()).unwrap();
    fill(&db);
    db.flush().unwrap();
    db.settle().unwrap();
    let half = db.approximate_size(..key(PAIRS / 2)).unwrap();
    // What the writer has read does not matter.
    let files_of = |mut files: Vec<BranchFile>| {
        files.iter_mut().for_each(|file| file.cache_misses = 0);
        files
    };
    let files: Vec<BranchFile> = files_of(db.branch_files());
    db.close().unwrap();
    let reader = ReadOnlyDb::open_with(storage, tiny()).unwrap();
    assert!(half > 0 && !files.is_empty());
    assert_eq!(reader.approximate_size(..key(PAIRS / 2)).unwrap(), half);
    assert_eq!(reader.approximate_size("l"..).unwrap(), 0);
    assert!(files_of(reader.branch_files()) == files, "{:?}", reader.branch_files().len());
}
