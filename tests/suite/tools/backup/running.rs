//! Backups beside running writers, merges and flushes, on a real disk.

use super::components;
use crate::support::{setting, tiny};
use crate::tools::checkpoint::running::{Stop, check, history};
use alluvium::{Backups, Db, Depth, KeyspaceOptions, WriteBatch};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

#[test]
fn a_backup_beside_writers_is_a_prefix_with_all_that_was_acknowledged() {
    let rounds = setting("ALLUVIUM_BACKUPS", 4);
    for (kind, component) in components() {
        let directory = tempfile::tempdir().unwrap();
        let (store, safe) = (directory.path().join("store"), directory.path().join("safe"));
        let db = Db::open(&store, tiny().disk_component(component)).unwrap();
        let users = db.keyspace("users", KeyspaceOptions::new()).unwrap();
        let (stop, acknowledged) = (AtomicBool::new(false), [AtomicU64::new(0), AtomicU64::new(0)]);
        let mut before = Vec::new();
        std::thread::scope(|scope| {
            for (writer, acknowledged) in acknowledged.iter().enumerate() {
                let (db, users, stop) = (&db, &users, &stop);
                scope.spawn(move || {
                    for n in 1.. {
                        if stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let mut batch = WriteBatch::new();
                        history(&mut batch, users, writer as u64, n);
                        db.write(batch).unwrap();
                        acknowledged.store(n, Ordering::Release);
                    }
                });
            }
            let _stop = Stop(&stop);
            for round in 1..=rounds {
                // So that there is something new in each.
                let wanted = acknowledged[0].load(Ordering::Acquire) + 100;
                while acknowledged[0].load(Ordering::Acquire) < wanted {
                    std::thread::yield_now();
                }
                before.push([0, 1].map(|writer: usize| acknowledged[writer].load(Ordering::Acquire)));
                assert_eq!(db.backup(&safe).unwrap().id, round, "{kind}");
            }
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
            assert_eq!(copy.stats().last_number, info.number, "{what}");
            check(&copy, before, &what);
            copy.close().unwrap();
        }
    }
}
