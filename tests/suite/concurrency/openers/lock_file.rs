//! One writer, even if `LOCK` or the whole directory is removed, replaced or renamed while the store is open.
//!
//! Once, `rm LOCK` let a second writer in. It removed files that the first one still used, and both reported success.

use crate::support::{expect_sound, tiny};
use alluvium::internals::DeterministicDb;
use alluvium::storage::Storage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Durability, Error};
use std::path::Path;
use std::sync::Arc;

const LOCK: &str = "LOCK";

fn expect_already_open(path: &Path) {
    let opened = Db::open(path, tiny());
    assert!(matches!(opened, Err(Error::AlreadyOpen { .. })), "{opened:?}");
}

/// The store takes no more writes, and its error names the lock file.
fn expect_stopped(db: &Db, failed: Result<(), Error>) {
    let error = failed.expect_err("nothing may be acknowledged without the lock").to_string();
    assert!(error.contains(LOCK), "{error}");
    assert!(matches!(db.put("key", "later"), Err(Error::ReadOnly { .. })));
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]), "reads continue");
}

/// The three places that compare the lock file: a sync, an edit of the manifest, and the removal of files.
#[test]
fn a_writer_stops_when_its_lock_file_is_gone_and_no_second_writer_opens() {
    for way in ["sync", "flush", "compact"] {
        let directory = tempfile::tempdir().unwrap();
        let db = Db::open(directory.path(), tiny()).unwrap();
        for round in ["older", "value"] {
            db.put("key", round).unwrap();
            db.flush().unwrap();
        }
        db.put("unsynced", way).unwrap();
        std::fs::remove_file(directory.path().join(LOCK)).unwrap();
        expect_already_open(directory.path());
        let failed = match way {
            "sync" => db.sync(),
            "flush" => db.flush(),
            _ => db.compact(),
        };
        expect_stopped(&db, failed);
        drop(db);
        assert!(!directory.path().join("POISON").exists(), "{way}: no sync has failed");
        let db = Db::open(directory.path(), tiny()).unwrap();
        assert_eq!(db.get("unsynced").unwrap().as_deref(), Some(way.as_bytes()));
        expect_sound(&db);
    }
}

#[test]
fn a_writer_stops_when_another_file_has_the_name_of_its_lock_file() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny().durability(Durability::Sync)).unwrap();
    db.put("key", "value").unwrap();
    let lock = directory.path().join(LOCK);
    std::fs::remove_file(&lock).unwrap();
    std::fs::write(&lock, "").unwrap();
    expect_already_open(directory.path());
    expect_stopped(&db, db.put("another", "value"));
}

/// `mv` under a live writer is harmless: it goes on in the same directory under its new name. Another store may take
/// the old name; neither touches the files of the other.
#[test]
fn a_renamed_directory_keeps_its_writer_and_another_store_may_take_its_name() {
    let parent = tempfile::tempdir().unwrap();
    let (old, new) = (parent.path().join("old"), parent.path().join("new"));
    let db = Db::open(&old, tiny()).unwrap();
    db.put("key", "before").unwrap();
    db.flush().unwrap();
    std::fs::rename(&old, &new).unwrap();
    expect_already_open(&new);
    let other = Db::open(&old, tiny()).unwrap();
    for number in 0..3000u32 {
        let key = number.to_be_bytes();
        db.put(key, [1; 100]).unwrap();
        other.put(key, [2; 100]).unwrap();
    }
    for store in [&db, &other] {
        store.sync().unwrap();
        store.compact().unwrap();
        store.settle().unwrap();
    }
    assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"before"[..]));
    assert_eq!(other.get("key").unwrap(), None);
    db.close().unwrap();
    other.close().unwrap();
    for (path, value) in [(new, 1), (old, 2)] {
        let db = Db::open(&path, tiny()).unwrap();
        assert!((0..3000u32).all(|number| db.get(number.to_be_bytes()).unwrap() == Some(vec![value; 100])));
        expect_sound(&db);
    }
}

#[test]
fn a_writer_whose_directory_was_removed_and_made_again_stops_and_touches_nothing_new() {
    let parent = tempfile::tempdir().unwrap();
    let path = parent.path().join("store");
    let db = Db::open(&path, tiny()).unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.put("unsynced", "value").unwrap();
    // Its background work may create a file meanwhile.
    while path.exists() {
        let _ = std::fs::remove_dir_all(&path);
    }
    let other = Db::open(&path, tiny()).unwrap();
    other.put("key", "of the new store").unwrap();
    let error = db.flush().expect_err("the directory is gone").to_string();
    assert!(error.contains(LOCK), "{error}");
    drop(db);
    other.flush().unwrap();
    assert_eq!(other.get("key").unwrap().as_deref(), Some(&b"of the new store"[..]));
    expect_sound(&other);
}

#[test]
fn the_simulated_disk_finds_a_removed_lock_file_too() {
    let disk = SimulatedStorage::new(1);
    let open = || DeterministicDb::open(Arc::new(disk.clone()), tiny());
    let db = open().unwrap();
    db.put("key", "value").unwrap();
    db.flush().unwrap();
    db.put("unsynced", "value").unwrap();
    disk.remove(LOCK).unwrap();
    assert!(matches!(open(), Err(Error::AlreadyOpen { .. })));
    let error = db.sync().unwrap_err().to_string();
    assert!(error.contains(LOCK), "{error}");
    assert!(matches!(db.put("key", "later"), Err(Error::ReadOnly { .. })));
    drop(db);
    assert!(!disk.list().unwrap().contains(&"POISON".to_owned()));
    assert_eq!(open().unwrap().get("unsynced").unwrap().as_deref(), Some(&b"value"[..]));
}
