//! What `Stats` says about reads: runs that searches met, rows read ahead, waits for the disk, what is cached.

use alluvium::Options;
use alluvium::internals::DeterministicDb;
use alluvium::storage::PosixStorage;
use alluvium::storage::simulated::SimulatedStorage;
use std::sync::Arc;

const KEYS: u64 = 200;

fn key(at: u64) -> Vec<u8> {
    format!("{at:06}").into_bytes()
}

/// Searches by runs since `before`.
fn searches(db: &DeterministicDb, before: [u64; 8]) -> [u64; 8] {
    let now = db.stats().searches;
    std::array::from_fn(|class| now[class] - before[class])
}

#[test]
fn searches_count_by_the_runs_that_they_meet_and_rows_when_they_are_read_ahead() {
    let db = DeterministicDb::open(Arc::new(SimulatedStorage::new(1)), Options::default()).unwrap();
    let before = db.stats().searches;
    for round in 0..5u8 {
        // No background work runs between, so each round leaves one run more.
        (0..KEYS).for_each(|at| db.put(key(at), [round; 20]).unwrap());
        db.flush().unwrap();
        let mut pairs = db.iter().unwrap();
        (0..=u64::from(round)).for_each(|at| pairs.seek(key(at)).unwrap());
    }
    assert_eq!(searches(&db, before), [1, 2, 3, 4, 5, 0, 0, 0], "{}", db.stats());

    let before = db.stats();
    assert!(db.get(key(7)).unwrap().is_some());
    assert_eq!(db.stats().searches, before.searches, "a get is no search of an iterator");
    assert_eq!(db.stats().rows_ahead, before.rows_ahead);
    assert_eq!(db.iter().unwrap().count() as u64, KEYS);
    let ahead = db.stats().rows_ahead - before.rows_ahead;
    assert!((KEYS / 2..=KEYS).contains(&ahead), "{ahead} of {KEYS} rows");
    assert!(db.stats().to_string().contains("searches by runs met [1, 2, 3, 4, 6, 0, 0, 0]"), "{}", db.stats());
}

#[test]
fn reads_count_their_waits_and_the_cache_its_pages_by_kind() {
    let directory = tempfile::tempdir().unwrap();
    let options = || Options::new().memory_budget(32 << 20);
    // No background work reads beside the test.
    let open = || DeterministicDb::open(Arc::new(PosixStorage::new(directory.path())), options()).unwrap();
    let db = open();
    (0..20_000).for_each(|at| db.put(key(at), [1; 100]).unwrap());
    db.flush().unwrap();
    while db.step() {}
    drop(db);
    let db = open();
    assert_eq!((db.stats().read_waits, db.stats().read_wait_ns, db.stats().cache_leaf_bytes), (0, 0, 0));
    (0..20_000).step_by(100).for_each(|at| assert!(db.get(key(at)).unwrap().is_some()));
    let gets = db.stats();
    assert!(gets.read_waits >= 10 && gets.read_wait_ns >= gets.read_waits, "{gets}");
    assert!(gets.read_waits <= gets.cache_misses, "{gets}");
    let kinds = [gets.cache_leaf_bytes, gets.cache_index_bytes, gets.cache_filter_bytes];
    assert!(kinds[0] >= 4096 * 10 && kinds[1] >= 4096, "{kinds:?}");
    assert!(kinds.iter().sum::<u64>() <= gets.cache_bytes, "{kinds:?} of {}", gets.cache_bytes);
    (0..20_000).step_by(100).for_each(|at| assert!(db.get(key(at)).unwrap().is_some()));
    assert_eq!(db.stats().read_waits, gets.read_waits, "reads of cached pages wait for nothing");
}
