//! Repair of stores with merges and range deletes. With the manifest every value that the report does not name is right, and
//! deleted ranges stay deleted. Without it, `docs/recovery.md` (Repair) says what may be wrong: the values of keys that were
//! merged into since they were last put.

use super::{flipped, names};
use crate::support::tiny_unsynced;
use crate::tools::corruption::world::{Image, Size, World, has_range_tombstones, open};
use crate::tools::corruption::{Unreported, check_repair, repair, verify};
use alluvium::internals::DeterministicDb;
use alluvium::merge_operators::{Add, Append};
use alluvium::storage::Storage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Depth, Error, MergeOperator, Options};
use std::sync::Arc;

fn with(operator: impl MergeOperator) -> Options {
    tiny_unsynced().merge_operator(operator)
}

fn opened(disk: &SimulatedStorage, options: Options) -> DeterministicDb {
    DeterministicDb::open(Arc::new(disk.clone()), options).unwrap()
}

fn get(db: &DeterministicDb, key: &str) -> Option<String> {
    db.get(key).unwrap().map(|value| String::from_utf8(value).unwrap())
}

/// Every page of every branch file is damaged, one at a time. The rest of the file keeps its operands and range tombstones,
/// in its place among the others.
#[test]
fn of_a_damaged_branch_operands_and_range_tombstones_are_kept() {
    for size in [Size::Usual, Size::Levels] {
        let world = World::with_end(5, size, true);
        let (mut of_tombstones, mut saved) = (0, 0);
        for name in names(&world.disk, ".branch") {
            let bytes = &world.image[&name];
            for page in 0..bytes.len() / 4096 {
                let disk = world.with(&[(name.clone(), flipped(bytes, page))].into(), &[]);
                let report = check_repair(&world, &disk, &format!("page {page} of {name}"), Unreported::Nothing);
                assert!(report.log_kept && report.manifest_lost.is_none(), "{report:?}");
                of_tombstones += u64::from(report.branches_rewritten > 0 && has_range_tombstones(bytes));
                saved += report.entries_saved;
            }
        }
        assert!(of_tombstones > 0 && saved > 0, "{size:?}: {of_tombstones} files with range tombstones, {saved} saved");
    }
}

/// The log is rejected, and its records become branch files: they are folded onto what the tree has, each once, and range
/// deletes hide what the tree has.
#[test]
fn records_of_a_damaged_log_are_merged_and_deleted_as_written() {
    for (size, closes) in [(Size::Usual, true), (Size::Usual, false), (Size::Levels, true)] {
        let world = World::with_end(5, size, closes);
        let mut saved = 0;
        for name in names(&world.disk, ".log") {
            let disk = world.with(&[(name.clone(), flipped(&world.image[&name], 0))].into(), &[]);
            if verify(&disk, Depth::Deep).unwrap().is_valid() {
                continue;
            }
            let report = check_repair(&world, &disk, &format!("the header of {name}"), Unreported::Nothing);
            assert!(!report.log_kept && report.manifest_lost.is_none(), "{report:?}");
            saved += report.log_records_saved;
            // After a close all records are in the segments, so that nothing is lost, whatever the report says. After a kill
            // the newest are in a shadow, which only the header names.
            let db = open(&disk).unwrap();
            for key in world.versions.keys().filter(|_| closes) {
                assert!(db.get(key).unwrap().as_deref() == world.right(key), "{size:?}: {key:?} {report:?}");
            }
        }
        assert!(saved > 20, "{size:?}: {saved}");
    }
}

/// Without a manifest, keys whose newest write is a put or a delete are right, but deletes may be undone. Values of the
/// others consist of what was written to the key (`check_repair`).
#[test]
fn without_a_manifest_only_values_of_merged_keys_may_be_wrong() {
    for (size, closes) in [(Size::Usual, true), (Size::Usual, false), (Size::Levels, true), (Size::Small, false)] {
        for seed in 1..4 {
            let world = World::with_end(seed, size, closes);
            let disk = world.with(&Image::new(), &["MANIFEST".into()]);
            let report = check_repair(&world, &disk, "no manifest", Unreported::Nothing);
            assert!(report.manifest_lost.is_some() && report.losses.len() == 1, "{report:?}");
            assert_eq!(report.losses[0].file, "MANIFEST");
            let db = open(&disk).unwrap();
            let (mut merged, mut others) = (0, 0);
            for key in world.versions.keys().filter(|key| world.right(key).is_some()) {
                let found = db.get(key).unwrap();
                let merges = world.ends_with_a_merge(key);
                *if merges { &mut merged } else { &mut others } += 1;
                assert!(found.is_some() && (merges || found.as_deref() == world.right(key)), "{size:?}, seed {seed}");
            }
            assert!(merged > 20 && others > 20, "{size:?}: {merged}, {others}");
        }
    }
}

/// As long as no compaction has dropped a tombstone, all files together have the deletes, too.
#[test]
fn without_a_manifest_deleted_ranges_stay_deleted_as_long_as_their_tombstones_are_there() {
    for is_incorporated in [false, true] {
        let disk = SimulatedStorage::new(1);
        let db = opened(&disk, with(Append));
        for key in 0..20 {
            db.put(format!("{key:02}"), "old").unwrap();
            db.merge(format!("{key:02}"), " and older").unwrap();
        }
        db.flush().unwrap();
        db.delete_range("05".."10").unwrap();
        db.merge("07", "new").unwrap();
        db.merge("03", " and new").unwrap();
        db.put("03", "put").unwrap();
        db.delete("02").unwrap();
        if is_incorporated {
            db.flush().unwrap();
        }
        db.close().unwrap();
        disk.remove("MANIFEST").unwrap();
        assert!(repair(&disk).unwrap().manifest_lost.is_some());
        assert!(verify(&disk, Depth::Deep).unwrap().is_valid());
        let db = opened(&disk, with(Append));
        for key in ["02", "05", "06", "08", "09"] {
            assert_eq!(get(&db, key), None, "{key} is back: {is_incorporated}");
        }
        assert_eq!([get(&db, "03"), get(&db, "07")].map(Option::unwrap), ["put", "new"], "{is_incorporated}");
        assert_eq!(db.iter().unwrap().count(), 15);
        assert!(get(&db, "10").unwrap().starts_with("old"));
    }
}

/// The manifest had the name of the operator. Until the store is opened with one, keys with operands are errors.
#[test]
fn without_a_manifest_the_operator_is_named_again() {
    let disk = SimulatedStorage::new(1);
    let db = opened(&disk, with(Add));
    let number = |number: i64| number.to_le_bytes();
    db.put("put", "text").unwrap();
    db.put("sum", number(5)).unwrap();
    db.flush().unwrap();
    db.merge("sum", number(2)).unwrap();
    db.merge("new", number(3)).unwrap();
    db.close().unwrap();
    disk.remove("MANIFEST").unwrap();
    assert!(repair(&disk).unwrap().manifest_lost.is_some());
    let db = opened(&disk, tiny_unsynced());
    assert_eq!(get(&db, "put").as_deref(), Some("text"));
    for key in ["sum", "new"] {
        let found = db.get(key);
        assert!(matches!(&found, Err(Error::MergeOperands { key: of, .. }) if of == key.as_bytes()), "{found:?}");
    }
    db.close().unwrap();
    for options in [with(Add), tiny_unsynced()] {
        let db = opened(&disk, options);
        assert_eq!(["sum", "new"].map(|key| db.get(key).unwrap().unwrap()), [number(7), number(3)]);
        db.close().unwrap();
    }
    assert!(matches!(
        DeterministicDb::open(Arc::new(disk.clone()), with(Append)),
        Err(Error::Mismatch { what: "merge operator", .. })
    ));
}
