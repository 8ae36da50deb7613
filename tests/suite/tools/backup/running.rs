//! Backups beside running writers, merges and flushes, on a real disk.

use super::components;
use crate::support::{setting, tiny};
use crate::tools::checkpoint::running::{beside_writers, check};
use alluvium::{Backups, Db, Depth};

#[test]
fn a_backup_beside_writers_is_a_prefix_with_all_that_was_acknowledged() {
    let rounds = setting("ALLUVIUM_BACKUPS", 4);
    for (kind, component) in components() {
        let directory = tempfile::tempdir().unwrap();
        let (store, safe) = (directory.path().join("store"), directory.path().join("safe"));
        let db = Db::open(&store, tiny().disk_component(component)).unwrap();
        let mut before = Vec::new();
        beside_writers(&db, rounds, |round, acknowledged| {
            before.push(acknowledged);
            assert_eq!(db.backup(&safe).unwrap().id, round, "{kind}");
        });
        db.close().unwrap();
        let backups = Backups::open(&safe).unwrap();
        for (info, before) in backups.list().unwrap().iter().zip(&before) {
            let (what, path) = (format!("{kind}, backup {}", info.id), directory.path().join(info.id.to_string()));
            assert!(backups.verify(info.id).unwrap().is_valid(), "{what}");
            backups.restore(info.id, &path).unwrap();
            let found = Db::verify_closed(&path, Depth::Deep, &mut |_| ()).unwrap();
            assert!(found.is_valid(), "{what}: {:?}", found.damage);
            let copy = Db::open(&path, tiny()).unwrap();
            assert_eq!(copy.stats().incorporated_number, info.number, "{what}");
            check(&copy, before, &what);
            copy.close().unwrap();
        }
    }
}
