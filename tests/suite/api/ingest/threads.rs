//! Ingests of so many pairs that threads build and write their files.

use super::{Contents, key, of};
use alluvium::storage::Storage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Error, IngestReport, Options};
use std::sync::Arc;

/// Enough for several blocks and files.
const PAIRS: u64 = 12_000;

fn open(disk: &SimulatedStorage) -> Db {
    Db::open_with(Arc::new(disk.clone()), Options::new().memory_budget(4 << 20)).unwrap()
}

fn pair(number: u64) -> (Vec<u8>, Vec<u8>) {
    (key(number), [number as u8; 200].to_vec())
}

fn ingest(db: &Db) -> Result<IngestReport, Error> {
    let mut ingest = db.ingest()?;
    ingest.put_all((0..PAIRS).map(pair))?;
    ingest.commit()
}

fn branches(disk: &SimulatedStorage) -> usize {
    disk.list().unwrap().iter().filter(|name| name.ends_with(".branch")).count()
}

#[test]
fn all_pairs_arrive_in_order_and_stay() {
    let disk = SimulatedStorage::new(1);
    let db = open(&disk);
    let mut entering = db.ingest().unwrap();
    let mut bytes = 0;
    for number in 0..PAIRS {
        let (key, value) = pair(number);
        entering.put(key, value).unwrap();
        assert!(entering.file_bytes() > bytes, "it shows what was put");
        bytes = (number + 1) * 200;
    }
    let report = entering.commit().unwrap();
    assert_eq!((report.pairs, report.files > 1), (PAIRS, true), "{report:?}");
    let expected: Contents = (0..PAIRS).map(pair).collect();
    assert_eq!(of(&db), expected);
    db.close().unwrap();
    // Only what is durable.
    assert_eq!(of(&open(&disk.power_cut(1))), expected);
}

/// Wherever the disk fails, a later put or the commit returns the error, and nothing remains.
#[test]
fn a_failure_reaches_the_caller_and_leaves_nothing() {
    for fault in ["(write name~.branch nth=2)", "(create name~.branch nth=2)", "(sync name~.branch nth=1)"] {
        let disk = SimulatedStorage::new(1);
        let db = open(&disk);
        disk.inject(&format!("{fault} -> enospc"));
        let error = ingest(&db).unwrap_err();
        assert!(error.is_disk_full(), "{fault}: {error}");
        disk.clear_faults();
        assert_eq!((branches(&disk), of(&db).len()), (0, 0), "{fault}");
        assert_eq!(ingest(&db).unwrap().pairs, PAIRS, "{fault}");
        assert_eq!(of(&db).len() as u64, PAIRS);
    }
}

#[test]
fn one_that_is_dropped_leaves_nothing() {
    let disk = SimulatedStorage::new(1);
    let db = open(&disk);
    for pairs in [0, 1, PAIRS / 2, PAIRS] {
        let mut entering = db.ingest().unwrap();
        entering.put_all((0..pairs).map(pair)).unwrap();
        drop(entering);
        assert_eq!((branches(&disk), of(&db).len()), (0, 0), "{pairs}");
    }
}

/// A regression test: the threads went on after the store was closed, and made files of numbers that the next opening takes,
/// too.
#[test]
fn no_file_is_made_after_the_store_is_closed() {
    for seed in 0..20 {
        let disk = SimulatedStorage::new(seed);
        let db = open(&disk);
        let mut entering = db.ingest().unwrap();
        entering.put_all((0..PAIRS).map(pair)).unwrap();
        db.close().unwrap();
        disk.inject("(create) -> eio");
        let error = entering.commit().unwrap_err();
        assert!(matches!(error, Error::Closed), "{error}");
        disk.clear_faults();
        assert!(open(&disk).is_empty().unwrap());
    }
}
