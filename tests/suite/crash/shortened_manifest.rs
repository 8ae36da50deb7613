//! A manifest that lost its end, with the store's log and files as a kill left them.
//!
//! Once, the error named a branch file as missing, since the files that the shortened manifest still named were removed
//! long before; and the failed opening had changed the store already.

use crate::support::tiny_unsynced;
use alluvium::storage::Storage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Error, Options, ReadOnlyDb};
use std::sync::Arc;

const MANIFEST: &str = "MANIFEST";

/// A killed store, whose manifest has many edits that add and drop branch files.
fn killed_store(mapped: bool) -> SimulatedStorage {
    let storage = SimulatedStorage::new(1);
    storage.set_maps_safely(mapped);
    let db = Db::open_with(Arc::new(storage.clone()), tiny_unsynced()).unwrap();
    for round in 0..40u32 {
        for key in 0..50u32 {
            db.put(key.to_be_bytes(), [round as u8; 100]).unwrap();
        }
        db.flush().unwrap();
        if round % 4 == 3 {
            db.compact().unwrap();
        }
    }
    // The files that merges have replaced are removed.
    db.settle().unwrap();
    let killed = storage.kill();
    drop(db);
    killed
}

fn expect_names_manifest(opened: Result<(), Error>, shortened: u64) {
    match opened.unwrap_err() {
        Error::Corruption { path, offset, what, expected, found } => {
            assert!(path.ends_with(MANIFEST), "{}: {what}: expected {expected}, found {found}", path.display());
            assert!((1..=shortened).contains(&offset), "offset {offset} of {shortened} bytes");
            assert!(found.parse::<u64>().is_ok() && expected.starts_with("at least "), "{expected}; {found}");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn is_named_by_the_error_and_the_failed_opening_changes_nothing() {
    for mapped in [false, true] {
        let storage = killed_store(mapped);
        let length = storage.current_image()[MANIFEST].len() as u64;
        let shortened = length - length / 10;
        storage.truncate(MANIFEST, shortened);
        // As if LevelDB's guard had been lost; the opening restores it only if it succeeds.
        storage.remove("CURRENT").unwrap();
        let before = storage.current_image();
        let shared: Arc<dyn Storage> = Arc::new(storage.clone());
        expect_names_manifest(ReadOnlyDb::open_with(Arc::clone(&shared), Options::default()).map(drop), shortened);
        expect_names_manifest(Db::open_with(shared, tiny_unsynced()).map(drop), shortened);
        assert!(storage.current_image() == before, "a failed opening has written");
    }
}
