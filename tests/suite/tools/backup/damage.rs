//! Damaged backups: verify and restore name the file; no damage spreads to other backups.

use super::{BACKUPS, TARGET, World, backups, both, restored, shared_files};
use alluvium::storage::Storage;
use alluvium::{BackupOptions, DiskComponent, Error};

fn world() -> World {
    let mut world = World::new(21, &DiskComponent::Trunk);
    world.write(700);
    world.db.backup(BACKUPS).unwrap();
    world
}

#[test]
fn every_damaged_file_is_found_and_named() {
    let world = world();
    let files = shared_files(&world.disk);
    assert!(files.keys().any(|name| name.contains(".value.")) && files.len() > 3, "{files:?}");
    for (name, bytes) in &files {
        for (how, text) in
            [("first", "checksum"), ("last", "checksum"), ("cut", "length"), ("page", "length"), ("lost", "no file")]
        {
            let disk = world.disk.clone_disk();
            let directory = disk.at(BACKUPS);
            match how {
                "first" => directory.corrupt(name, 0, 1),
                "last" => directory.corrupt(name, bytes.len() as u64 - 1, 0x80),
                "cut" => directory.truncate(name, bytes.len() as u64 - 1),
                "page" => directory.truncate(name, bytes.len() as u64 - 4096),
                _ => directory.remove(name).unwrap(),
            }
            let found = backups(&disk).verify(1).unwrap();
            let [error] = &found.damage[..] else { panic!("{name}, {how}: {:?}", found.damage) };
            assert!(error.to_string().contains(name) && error.to_string().contains(text), "{how}: {error}");
            assert_eq!(found.files, files.len() as u64 - 1, "{name}, {how}");
            let error = backups(&disk).restore(1, TARGET).unwrap_err();
            assert!(matches!(error, Error::Corruption { .. }), "{how}: {error}");
            assert!(error.to_string().contains(name) && error.to_string().contains(text), "{how}: {error}");
            assert!(!disk.at(TARGET).directory_exists().unwrap(), "{name}, {how}: something is left");
        }
    }
}

/// What the disk cannot read is damage, too.
#[test]
fn unreadable_files_are_damage_and_other_errors_are_errors() {
    let world = world();
    world.disk.inject("(read name~.branch.) -> eio");
    assert!(!backups(&world.disk).verify(1).unwrap().is_valid());
    world.disk.clear_faults();
    world.disk.inject("(open name~.branch.) -> eacces");
    assert!(matches!(backups(&world.disk).verify(1), Err(Error::Io { .. })));
    world.disk.clear_faults();
    for fault in
        ["(create name~.branch) -> enospc", "(sync name~.branch) -> eio", "(rename name=MANIFEST.new) -> eio part=all"]
    {
        world.disk.inject(fault);
        backups(&world.disk).restore(1, TARGET).unwrap_err();
        world.disk.clear_faults();
        assert!(!world.disk.at(TARGET).directory_exists().unwrap(), "{fault}: something is left");
    }
    assert!(restored(&world.disk, 1, "afterwards", both) == world.pairs);
}

/// A file that is lost or cut in the directory is copied again; with the option also one with other bytes.
#[test]
fn a_backup_repairs_shared_files() {
    let world = world();
    let files = shared_files(&world.disk);
    let checked = BackupOptions::new().check_shared(true);
    for name in files.keys() {
        let directory = world.disk.at(BACKUPS);
        directory.remove(name).unwrap();
        let report = world.db.backup(BACKUPS).unwrap();
        assert_eq!((report.files_new, report.files_shared), (1, files.len() as u64 - 1), "{name}");
        assert!(backups(&world.disk).verify(1).unwrap().is_valid(), "{name}");
        directory.truncate(name, 4096);
        let report = world.db.backup(BACKUPS).unwrap();
        assert_eq!(report.files_new, u64::from(files[name].len() != 4096), "{name}");
        directory.corrupt(name, 100, 1);
        assert_eq!(world.db.backup(BACKUPS).unwrap().files_new, 0, "{name}");
        assert!(!backups(&world.disk).verify(1).unwrap().is_valid(), "{name}");
        let report = world.db.backup_with(BACKUPS, &checked, &mut |_| ()).unwrap();
        assert_eq!((report.files_new, report.files_shared), (1, files.len() as u64 - 1), "{name}");
        assert!(backups(&world.disk).verify(1).unwrap().is_valid(), "{name}");
    }
    assert_eq!(shared_files(&world.disk), files);
}

/// It is unknown what a backup with a damaged description needs, so nothing is removed until it is.
#[test]
fn a_damaged_description_hides_no_other_backup() {
    let mut world = world();
    let first = world.pairs.clone();
    world.write(400);
    world.db.flush().unwrap();
    world.db.compact().unwrap();
    world.db.backup(BACKUPS).unwrap();
    let second = world.pairs.clone();
    world.write(400);
    let directory = world.disk.at(BACKUPS);
    let undamaged = world.disk.clone_disk();
    directory.corrupt("000001.backup", 70, 1);
    let list = backups(&world.disk).list().unwrap();
    assert_eq!(list.iter().map(|info| info.damage.is_some()).collect::<Vec<_>>(), [true, false]);
    for (what, error) in [
        ("verify", backups(&world.disk).verify(1).unwrap().damage.pop().unwrap()),
        ("restore", backups(&world.disk).restore(1, TARGET).unwrap_err()),
    ] {
        assert!(error.to_string().contains("000001.backup"), "{what}: {error}");
    }
    assert!(restored(&world.disk, 2, "beside a damaged one", both) == second);
    let files = shared_files(&world.disk);
    assert_eq!(world.db.backup(BACKUPS).unwrap().id, 3);
    assert!(backups(&world.disk).keep_newest(3).is_err());
    let report = backups(&world.disk).remove(2).unwrap();
    assert_eq!((report.backups, report.files), (1, 0));
    assert!(files.keys().all(|name| shared_files(&world.disk).contains_key(name)), "a file was removed");
    assert!(restored(&world.disk, 3, "beside a damaged one", both) == world.pairs);
    assert!(backups(&world.disk).remove(1).unwrap().files > 0);
    assert!(restored(&world.disk, 3, "alone", both) == world.pairs);
    assert!(restored(&undamaged, 1, "before", both) == first);
    // A description under another name, and a mark that is damaged.
    undamaged.at(BACKUPS).rename("000001.backup", "000009.backup").unwrap();
    let error = backups(&undamaged).restore(9, TARGET).unwrap_err();
    assert!(error.to_string().contains("backup id"), "{error}");
    undamaged.at(BACKUPS).corrupt("BACKUPS", 20, 1);
    let opened = alluvium::Backups::open_with(std::sync::Arc::new(undamaged.at(BACKUPS)));
    assert!(matches!(opened, Err(Error::Corruption { .. })), "{opened:?}");
}
