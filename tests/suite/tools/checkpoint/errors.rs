//! Checkpoints that cannot be made, or only by copying.

use super::{COPY, World, both, check_files, open};
use crate::support::tiny;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{MemoryStorage, Storage};
use alluvium::{Cancellation, CheckpointOptions, Db, DiskComponent, Error, Options};
use std::io::ErrorKind;
use std::path::Path;
use std::sync::Arc;

fn world() -> World {
    let mut world = World::new(7, &DiskComponent::Trunk);
    world.write(700);
    world.db.flush().unwrap();
    world
}

fn exists(storage: &SimulatedStorage) -> bool {
    storage.directory_exists().unwrap()
}

/// An error in the middle, whatever it is: nothing is left in the target, and the store is as before.
#[test]
fn after_an_error_nothing_is_left() {
    for fault in [
        "(create name=CHECKPOINT.new) -> enospc",
        "(sync name=CHECKPOINT.new) -> eio",
        "(sync-directory nth=2) -> eio part=none",
        "(link nth=1) -> eio part=none",
        "(link nth=3) -> enospc part=all",
        "(link name~.value) -> eacces",
        "(open name~.value) -> eio",
        "(create name=MANIFEST.new) -> enospc",
        "(write name=MANIFEST.new) -> enospc",
        "(sync name=MANIFEST.new) -> eio",
        "(rename name=MANIFEST.new) -> eio part=none",
        "(rename name=MANIFEST.new) -> eio part=all",
    ] {
        for (is_there, mut world) in [(false, world()), (true, world())] {
            let copy = world.copy();
            if is_there {
                copy.create_directory().unwrap();
            }
            world.disk.inject(fault);
            let outcome = world.db.checkpoint(COPY);
            assert!(outcome.is_err(), "{fault}: {outcome:?}");
            world.disk.clear_faults();
            assert_eq!(exists(&copy), is_there, "{fault}");
            if is_there {
                assert_eq!(copy.list().unwrap(), Vec::<String>::new(), "{fault}");
            }
            world.write(50);
            world.db.checkpoint(COPY).unwrap_or_else(|error| panic!("{fault}: again: {error}"));
            assert!(both(&open(&copy).unwrap()) == world.pairs, "{fault}");
            assert!(both(&world.db) == world.pairs, "{fault}");
        }
    }
}

#[test]
fn files_that_cannot_be_linked_are_copied() {
    for error in ["exdev", "eperm"] {
        let world = world();
        let copy = world.copy();
        world.disk.inject(&format!("(link) -> {error} part=none"));
        if error == "exdev" {
            let outcome = world.db.checkpoint_with(COPY, &CheckpointOptions::new().links_only(true), &mut |_| ());
            let Err(Error::Io { source, .. }) = &outcome else { panic!("{outcome:?}") };
            assert_eq!(source.kind(), ErrorKind::CrossesDevices);
            assert!(source.to_string().contains("on another file system"), "{source}");
            assert!(!exists(&copy));
            let report = world.db.checkpoint(COPY).unwrap();
            assert!(report.files_copied > 2 && report.bytes_copied > 100_000, "{report:?}");
            assert_eq!((report.files_linked, report.bytes_linked), (0, 0), "{report:?}");
            let disk = world.disk.power_cut(1);
            let copy = disk.at(COPY);
            check_files(&copy, error);
            assert!(both(&open(&copy).unwrap()) == world.pairs);
        } else {
            assert!(world.db.checkpoint(COPY).is_err(), "the simulated disk has links, so this is an error");
        }
    }
    // A part that cannot be read is an error, not zeroes.
    let world = world();
    world.disk.inject("(link) -> exdev part=none; (read name~.branch) -> eio");
    assert!(world.db.checkpoint(COPY).is_err());
    assert!(!exists(&world.copy()));
}

#[test]
fn a_full_disk_and_a_failed_store_make_no_checkpoint() {
    let mut world = world();
    world.disk.inject("(link) -> exdev part=none");
    world.disk.set_capacity(Some(world.disk.used() + (128 << 10)));
    let error = world.db.checkpoint(COPY).unwrap_err();
    assert!(error.is_disk_full(), "{error}");
    assert!(!exists(&world.copy()));
    world.disk.set_capacity(None);
    while world.db.step() {}
    world.write(10);
    world.db.checkpoint(COPY).unwrap();
    // A store that takes no writes any more.
    world.disk.inject("(sync,map-sync name~.log) -> eio");
    assert!(world.db.put("a", "b").and_then(|()| world.db.sync()).is_err());
    world.disk.clear_faults();
    let error = world.db.checkpoint("/second").unwrap_err();
    assert!(matches!(error, Error::ReadOnly { .. } | Error::Io { .. }), "{error}");
    assert!(!exists(&world.disk.at("/second")));
}

/// The store is closed while the files are linked.
#[test]
fn closing_ends_a_checkpoint() {
    let world = world();
    let (db, mut is_first) = (Db::clone(&world.db), true);
    let outcome = world.db.checkpoint_with(COPY, &CheckpointOptions::new(), &mut |_| {
        if std::mem::take(&mut is_first) {
            db.close().unwrap();
        }
    });
    assert!(matches!(outcome, Err(Error::Closed)), "{outcome:?}");
    assert!(!exists(&world.copy()));
    assert!(matches!(world.db.checkpoint(COPY), Err(Error::Closed)));
    check_files(&world.disk, "closed");
    assert!(both(&open(&world.disk).unwrap()) == world.pairs);
}

/// Cancelled before the call, or at any of its files, linked or copied: nothing is left, and the store is as before.
#[test]
fn a_cancelled_checkpoint_leaves_nothing() {
    for fault in [None, Some("(link) -> exdev part=none")] {
        let mut world = world();
        world.write(50);
        if let Some(fault) = fault {
            world.disk.inject(fault);
        }
        let cancelled_at = |call: u64| {
            let (cancellation, mut calls) = (Cancellation::new(), 0);
            let options = CheckpointOptions::new().cancellation(cancellation.clone());
            if call == 0 {
                cancellation.cancel();
            }
            let outcome = world.db.checkpoint_with(COPY, &options, &mut |_| {
                calls += 1;
                if calls == call {
                    cancellation.cancel();
                }
            });
            (outcome, calls)
        };
        let mut call = 0;
        let report = loop {
            let (outcome, calls) = cancelled_at(call);
            if calls < call {
                break outcome.unwrap();
            }
            assert!(matches!(outcome, Err(Error::Cancelled)), "{call}: {outcome:?}");
            assert_eq!((calls, exists(&world.copy())), (call, false), "{call}");
            call += 1;
        };
        // One call for each file, one for the manifest, and the one before which there was nothing to cancel.
        assert_eq!(report.files_linked + report.files_copied, call - 2, "{report:?}");
        assert!(both(&open(&world.copy()).unwrap()) == world.pairs);
        assert!(both(&world.db) == world.pairs);
    }
}

#[test]
fn what_is_no_place_for_a_checkpoint_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let db = Db::open(at("store"), tiny()).unwrap();
    db.put("key", "value").unwrap();
    let names =
        |path: &Path| std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>();
    let refused = |path: &Path, text: &str| {
        let error = db.checkpoint(path).unwrap_err();
        assert!(error.to_string().contains(text), "{}: {error}", path.display());
    };
    std::os::unix::fs::symlink(at("store"), at("link")).unwrap();
    let lies = "lies in the directory";
    for inside in ["store", "store/copy", "store/a/b", "link/copy", "other/../store/copy"] {
        std::fs::create_dir_all(at("other")).unwrap();
        refused(&at(inside), lies);
    }
    assert!(!at("store").join("copy").exists() && !at("store").join("a").exists());
    std::fs::create_dir(at("full")).unwrap();
    std::fs::write(at("full").join("thesis.txt"), "years of work").unwrap();
    refused(&at("full"), "is not empty, it has \"thesis.txt\"");
    assert_eq!(names(&at("full")), ["thesis.txt"]);
    std::fs::write(at("file"), "just a file").unwrap();
    refused(&at("file"), "file");
    // Regression tests: "cannot create directory : not a directory", and "File exists" for something that is not there.
    refused(Path::new(""), "the path of the directory is empty");
    std::os::unix::fs::symlink(at("nowhere"), at("dangling")).unwrap();
    refused(&at("dangling"), "it is a symbolic link to something that does not exist");
    refused(&at("dangling/copy"), "it is a symbolic link to something that does not exist");
    db.checkpoint(at("copy")).unwrap();
    refused(&at("copy"), "is not empty");
    let copy = Db::open(at("copy"), tiny()).unwrap();
    refused(&at("copy"), "is not empty");
    assert_eq!(copy.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    // Two at once in one directory: one is made, the other is refused, and hurts nothing.
    std::thread::scope(|scope| {
        let both = [0, 1].map(|_| scope.spawn(|| db.checkpoint(at("a/b/race")).is_ok()));
        let made = both.map(|thread| thread.join().unwrap());
        assert_eq!(made.iter().filter(|made| **made).count(), 1, "{made:?}");
    });
    assert!(Db::verify_closed(at("a/b/race"), Default::default(), &mut |_| ()).unwrap().is_valid());
    // The store was renamed since it was opened.
    std::fs::rename(at("store"), at("renamed")).unwrap();
    refused(&at("renamed/copy"), lies);
    assert!(db.checkpoint(at("store")).unwrap().files_linked > 0);
}

/// A store in memory, and one on a tmpfs, are copied to a disk.
#[test]
fn a_store_on_another_file_system_is_copied() {
    let directory = tempfile::tempdir().unwrap();
    let check = |db: &Db, name: &str| {
        for key in 0..2000_u32 {
            db.put(key.to_be_bytes(), "silt").unwrap();
        }
        db.put("large", vec![7; 300_001]).unwrap();
        let report = db.checkpoint(directory.path().join(name)).unwrap();
        assert!(report.files_copied > 1 && report.files_linked == 0 && report.bytes_copied > 300_000, "{report:?}");
        let copy = Db::open(directory.path().join(name), Options::new()).unwrap();
        assert_eq!(copy.iter().unwrap().count(), 2001);
        crate::support::expect_sound(&copy);
    };
    check(&Db::open_with(Arc::new(MemoryStorage::new()), tiny()).unwrap(), "of-memory");
    let device = |path: &Path| std::os::unix::fs::MetadataExt::dev(&std::fs::metadata(path).unwrap());
    let shared = Path::new("/dev/shm");
    if shared.is_dir() && device(shared) != device(directory.path()) {
        let store = tempfile::tempdir_in(shared).unwrap();
        check(&Db::open(store.path(), tiny()).unwrap(), "of-tmpfs");
    } else {
        crate::support::skip("there is no second file system");
    }
}
