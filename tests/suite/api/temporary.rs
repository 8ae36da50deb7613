//! Stores for tests: in a temporary directory that goes with the store, and in memory.

use crate::support::{expect_sound, tiny};
use alluvium::storage::{MemoryStorage, Storage};
use alluvium::{Db, Error, ReadOnlyDb};
use std::path::PathBuf;
use std::sync::Arc;

fn path_of(db: &Db) -> PathBuf {
    let debug = format!("{db:?}");
    let start = debug.find("path: \"").unwrap() + 7;
    PathBuf::from(&debug[start..start + debug[start..].find('"').unwrap()])
}

#[test]
fn a_temporary_store_is_gone_when_it_is_closed_dropped_or_abandoned_by_a_panic() {
    let open = || {
        let db = Db::open_temporary(tiny().create_if_missing(false)).unwrap();
        db.put("key", "value").unwrap();
        db.flush().unwrap();
        assert_eq!(db.get("key").unwrap().as_deref(), Some(&b"value"[..]));
        let path = path_of(&db);
        assert!(path.starts_with(std::env::temp_dir()) && path.join("MANIFEST").exists(), "{}", path.display());
        (db, path)
    };
    let (db, path) = open();
    let (other, other_path) = open();
    assert_ne!(path, other_path);
    db.close().unwrap();
    assert!(!path.exists() && other_path.exists());
    // A snapshot that lives on keeps no file.
    let snapshot = other.snapshot();
    drop(other);
    assert!(!other_path.exists());
    assert!(matches!(snapshot.get("key"), Err(Error::Closed)));
    let (db, path) = open();
    let panic = std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
        let _db = db;
        panic!("as a failed assertion of a test");
    }));
    assert!(panic.is_err() && !path.exists());
}

#[test]
fn a_store_in_memory_is_locked_read_reopened_and_destroyed_like_any_other() {
    let storage = MemoryStorage::new();
    let shared: Arc<dyn Storage> = Arc::new(storage.clone());
    let open = || Db::open_with(Arc::clone(&shared), tiny());
    let db = open().unwrap();
    for number in 0..3000u32 {
        db.put(number.to_be_bytes(), [number as u8; 100]).unwrap();
    }
    db.put("large", [7; 300_000]).unwrap();
    assert!(matches!(open(), Err(Error::AlreadyOpen { .. })));
    let reader = ReadOnlyDb::open_with(Arc::clone(&shared), tiny()).unwrap();
    assert_eq!(reader.get("large").unwrap(), Some(vec![7; 300_000]));
    drop(reader);
    assert!(db.stats().branch_files > 0, "{}", db.stats());
    // Without closing it properly, as a program that ends in the middle.
    drop(db);
    let db = open().unwrap();
    assert!((0..3000u32).all(|number| db.get(number.to_be_bytes()).unwrap() == Some(vec![number as u8; 100])));
    db.compact().unwrap();
    expect_sound(&db);
    db.close().unwrap();
    // Another storage is another directory.
    assert!(MemoryStorage::new().list().unwrap().is_empty() && !storage.list().unwrap().is_empty());
}
