//! Backups that cannot be made, and arguments that are refused.

use super::{BACKUPS, World, backups, both, restored, shared_files};
use crate::support::tiny;
use alluvium::{BackupOptions, Backups, Cancellation, Db, DiskComponent, Error};
use std::path::Path;

fn world() -> World {
    let mut world = World::new(31, &DiskComponent::Trunk);
    world.write(500);
    world.db.backup(BACKUPS).unwrap();
    world.write(300);
    world.db.flush().unwrap();
    world
}

/// An error in the middle, whatever it is: the earlier backup and the store are as before, and nothing else is left.
#[test]
fn after_an_error_the_earlier_backups_are_as_before() {
    for fault in [
        "(create name~.branch.new) -> enospc",
        "(write name~.branch.new nth=2) -> enospc",
        "(sync name~.branch.new) -> eio",
        "(rename name~.branch.new) -> eio part=none",
        "(read name~.branch) -> eio",
        "(open name~.value nth=1) -> eio",
        "(create name~.backup.new) -> enospc",
        "(write name~.backup.new) -> enospc",
        "(sync name~.backup.new) -> eio",
        "(rename name~.backup.new) -> eio part=none",
        "(rename name~.backup.new) -> eio part=all",
    ] {
        let mut world = world();
        let before = world.disk.at(BACKUPS).current_image();
        world.disk.inject(fault);
        let outcome = world.db.backup(BACKUPS);
        assert!(outcome.is_err(), "{fault}: {outcome:?}");
        world.disk.clear_faults();
        let after = world.disk.at(BACKUPS).current_image();
        assert!(before == after, "{fault}: {:?} became {:?}", before.keys(), after.keys());
        world.write(50);
        let report = world.db.backup(BACKUPS).unwrap_or_else(|error| panic!("{fault}: again: {error}"));
        assert_eq!(report.id, 2, "{fault}");
        assert!(restored(&world.disk, 2, fault, both) == world.pairs, "{fault}");
        assert!(both(&world.db) == world.pairs, "{fault}");
    }
}

#[test]
fn closing_ends_a_backup() {
    let world = world();
    let (db, mut is_first) = (Db::clone(&world.db), true);
    let files = shared_files(&world.disk);
    let outcome = world.db.backup_with(BACKUPS, &Default::default(), &mut |_| {
        if std::mem::take(&mut is_first) {
            db.close().unwrap();
        }
    });
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    assert!(matches!(world.db.backup(BACKUPS), Err(Error::Closed)));
    assert_eq!(shared_files(&world.disk), files);
}

/// Cancelled before the call, or at any of its files: the earlier backup and the store are as before, and nothing else is left.
#[test]
fn a_cancelled_backup_leaves_the_earlier_ones_as_before() {
    let mut world = world();
    world.write(50);
    let before = world.disk.at(BACKUPS).current_image();
    let mut call = 0;
    let report = loop {
        let (cancellation, mut calls) = (Cancellation::new(), 0);
        let options = BackupOptions::new().check_shared(true).cancellation(cancellation.clone());
        if call == 0 {
            cancellation.cancel();
        }
        let outcome = world.db.backup_with(BACKUPS, &options, &mut |_| {
            calls += 1;
            if calls == call {
                cancellation.cancel();
            }
        });
        if calls < call {
            break outcome.unwrap();
        }
        assert!(matches!(outcome, Err(Error::Cancelled)), "{call}: {outcome:?}");
        assert_eq!(calls, call);
        let after = world.disk.at(BACKUPS).current_image();
        assert!(before == after, "{call}: {:?} became {:?}", before.keys(), after.keys());
        call += 1;
    };
    // One call for each file, one for the manifest, and the one before which there was nothing to cancel.
    assert_eq!((report.id, report.files_new + report.files_shared), (2, call - 2), "{report:?}");
    assert!(restored(&world.disk, 2, "after cancelled ones", both) == world.pairs);
    assert!(both(&world.db) == world.pairs);
}

/// One process at a time writes there; none removes files that another one reads.
#[test]
fn writers_exclude_each_other() {
    let world = world();
    let disk = world.disk.clone();
    let mut calls = 0;
    let refused =
        |outcome: alluvium::Result<()>| assert!(matches!(outcome, Err(Error::AlreadyOpen { .. })), "{outcome:?}");
    world
        .db
        .backup_with(BACKUPS, &Default::default(), &mut |_| {
            calls += 1;
            refused(world.db.backup(BACKUPS).map(drop));
            refused(backups(&disk).remove(1).map(drop));
            assert!(backups(&disk).verify(1).unwrap().is_valid());
            assert_eq!(backups(&disk).list().unwrap().len(), 1);
        })
        .unwrap();
    assert!(calls > 2);
    let mut calls = 0;
    backups(&disk)
        .restore_with(1, "/restored", &mut |_| {
            calls += 1;
            refused(backups(&disk).remove(2).map(drop));
            assert!(backups(&disk).verify(1).unwrap().is_valid());
            if calls == 1 {
                world.db.backup(BACKUPS).unwrap();
            }
        })
        .unwrap();
    assert_eq!(backups(&disk).remove(2).unwrap().backups, 1);
}

#[test]
fn what_is_no_place_for_backups_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let db = Db::open(at("store"), tiny()).unwrap();
    db.put("key", "value").unwrap();
    let refused = |path: &Path, text: &str| {
        let error = db.backup(path).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument(_)) && error.to_string().contains(text), "{error}");
    };
    for inside in ["store", "store/backups"] {
        refused(&at(inside), "lies in the directory");
    }
    std::fs::create_dir(at("full")).unwrap();
    std::fs::write(at("full").join("thesis.txt"), "years of work").unwrap();
    refused(&at("full"), "is not empty, it has \"thesis.txt\"");
    assert_eq!(std::fs::read_dir(at("full")).unwrap().count(), 1);
    std::fs::write(at("file"), "just a file").unwrap();
    assert!(db.backup(at("file")).is_err());
    let opened = |name: &str| Backups::open(at(name)).unwrap_err();
    for name in ["missing", "full", "store"] {
        assert!(opened(name).to_string().contains("has no backups"), "{}", opened(name));
    }
    assert!(!at("missing").exists());
    // The directory belongs to one store.
    db.backup(at("a/b/backups")).unwrap();
    let other = Db::open(at("other"), tiny()).unwrap();
    let error = other.backup(at("a/b/backups")).unwrap_err();
    assert!(error.to_string().contains("has backups of the store with the id"), "{error}");
    // A file of the user in it stays.
    std::fs::write(at("a/b/backups/notes.txt"), "nightly").unwrap();
    db.backup(at("a/b/backups")).unwrap();
    let backups = Backups::open(at("a/b/backups")).unwrap();
    assert_eq!(backups.list().unwrap().len(), 2);
    assert!(backups.list().unwrap()[0].time.is_some());
    for id in [0, 3, u64::MAX] {
        for error in [
            backups.verify(id).unwrap_err(),
            backups.restore(id, at("target")).unwrap_err(),
            backups.remove(id).unwrap_err(),
        ] {
            assert!(error.to_string().contains(&format!("has no backup {id}; it has: 1, 2")), "{error}");
        }
    }
    assert!(!at("target").exists());
    for target in ["store", "full", "a/b/backups"] {
        assert!(backups.restore(1, at(target)).is_err(), "{target}");
    }
    let error = backups.restore(1, at("a/b/backups/inside")).unwrap_err();
    // Regression test: the text called it the directory of the store.
    assert!(matches!(error, Error::InvalidArgument(_)) && !error.to_string().contains("store;"), "{error}");
    let text = error.to_string();
    assert!(text.contains("lies in the directory") && text.contains("a/b/backups; choose one outside"), "{text}");
    std::fs::create_dir(at("empty")).unwrap();
    backups.restore(1, at("empty")).unwrap();
    let restored = Db::open(at("empty"), tiny()).unwrap();
    assert_eq!(restored.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    backups.keep_newest(0).unwrap();
    assert!(at("a/b/backups/notes.txt").exists());
    assert!(db.get("key").unwrap().is_some());
    let _ = db.close();
}
