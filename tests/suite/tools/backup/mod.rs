//! Backups: the contents of one moment, while writes go on; only new files are copied; a crash loses no earlier backup; damage is
//! found and named.

mod crash;
mod damage;
mod errors;
mod running;

use super::checkpoint::{World, both, check_files, components, contents, open};
use alluvium::storage::Storage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{BackupReport, Backups, Db, DiskComponent};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

const BACKUPS: &str = "/backups";
const TARGET: &str = "/restored";

fn backups(disk: &SimulatedStorage) -> Backups {
    Backups::open_with(Arc::new(disk.at(BACKUPS))).unwrap()
}

/// The files of the store that the directory has, with their contents.
fn shared_files(disk: &SimulatedStorage) -> BTreeMap<String, Vec<u8>> {
    let mut files = disk.at(BACKUPS).current_image();
    files.retain(|name, _| name.rsplit('.').next().is_some_and(|hash| hash.len() == 32));
    files
}

/// Checks that a backup verifies, and restores to a sound store; returns what `read` finds in that.
fn restored<T>(disk: &SimulatedStorage, id: u64, what: &str, read: impl FnOnce(&Db) -> T) -> T {
    let found = backups(disk).verify(id).unwrap();
    assert!(found.is_valid(), "{what}: {:?}", found.damage);
    let target = disk.at(TARGET);
    let report = backups(disk).restore(id, TARGET).unwrap();
    assert_eq!((report.id, report.files, report.bytes), (id, found.files, found.bytes), "{what}");
    check_files(&target, what);
    let db = open(&target).unwrap();
    assert_eq!(db.stats().incorporated_number, report.number, "{what}");
    let read = read(&db);
    db.close().unwrap();
    for name in target.list().unwrap() {
        target.remove(&name).unwrap();
    }
    read
}

fn sum_of_new(report: &BackupReport) -> (u64, u64) {
    (report.files_new, report.bytes_new)
}

/// Writes and merges go on while files are copied. Then the store goes on until none of these files is left in it.
#[test]
fn a_backup_has_the_contents_of_its_number_and_needs_no_store() {
    for (kind, component) in components() {
        let mut world = World::new(1, &component);
        for _ in 0..8 {
            world.write(300);
            world.steps(10);
        }
        let (at_call, number) = (world.pairs.clone(), world.db.stats().last_number);
        let disk = world.disk.clone();
        let (db, mut calls) = (Db::clone(&world.db), 0);
        let report = db.backup_with(BACKUPS, &Default::default(), &mut |progress| {
            assert!(progress.bytes_done <= progress.bytes_total, "{kind}");
            calls += 1;
            world.write(40);
            world.steps(30);
        });
        let report = report.unwrap();
        assert_eq!((report.id, report.number, report.files_shared, report.bytes_shared), (1, number, 0, 0), "{kind}");
        let files = shared_files(&disk);
        let bytes: usize = files.values().map(Vec::len).sum();
        assert_eq!((calls - 1, sum_of_new(&report)), (files.len(), (files.len() as u64, bytes as u64)), "{kind}");
        assert!(files.len() > 4 && world.pairs != at_call, "{kind}: {report:?}");
        world.write(300);
        world.db.flush().unwrap();
        world.db.compact().unwrap();
        while world.db.step() {}
        assert!(both(&world.db) == world.pairs, "{kind}");
        world.db.close().unwrap();
        for name in disk.list().unwrap() {
            disk.remove(&name).unwrap();
        }
        let disk = disk.power_cut(1);
        let info = backups(&disk).list().unwrap();
        assert_eq!((info.len(), info[0].number, info[0].files), (1, number, report.files_new), "{kind}");
        assert!(restored(&disk, 1, kind, both) == at_call, "{kind}: other contents than at the call");
    }
}

/// Each backup copies exactly the files that no earlier one has, in the same open store and in one that was opened again.
#[test]
fn only_new_files_are_copied() {
    for (kind, component) in components() {
        let mut world = World::new(2, &component);
        let mut states = Vec::new();
        for round in 1..=6_u64 {
            world.write(250);
            world.steps(10);
            let before = shared_files(&world.disk);
            let report = world.db.backup(BACKUPS).unwrap();
            let after = shared_files(&world.disk);
            assert_eq!(report.id, round, "{kind}");
            let new = after.iter().filter(|(name, _)| !before.contains_key(*name));
            let bytes: usize = new.clone().map(|(_, bytes)| bytes.len()).sum();
            assert_eq!(sum_of_new(&report), (new.count() as u64, bytes as u64), "{kind}, {round}");
            assert!(before.iter().all(|(name, bytes)| after[name] == *bytes), "{kind}, {round}: a file was changed");
            let info = backups(&world.disk).list().unwrap().pop().unwrap();
            assert_eq!(info.files, report.files_new + report.files_shared, "{kind}, {round}");
            assert_eq!(info.bytes, report.bytes_new + report.bytes_shared, "{kind}, {round}");
            let of_store: BTreeSet<_> = after.keys().map(|name| name.rsplit_once('.').unwrap().0).collect();
            assert_eq!(of_store.len(), after.len(), "{kind}, {round}: two contents of one file");
            states.push(world.pairs.clone());
            if round % 2 == 1 {
                world = world.reopened();
            }
        }
        for (at, pairs) in states.iter().enumerate() {
            assert!(restored(&world.disk, at as u64 + 1, kind, both) == *pairs, "{kind}, backup {}", at + 1);
        }
        // Without writes and merges the store has the same files.
        while world.db.step() {}
        world.db.backup(BACKUPS).unwrap();
        let _pause = world.db.pause_background();
        let report = world.db.backup(BACKUPS).unwrap();
        assert!(report.files_new == 0 && report.files_shared > 2, "{kind}: {report:?}");
    }
}

/// A checkpoint, a restored backup and the store itself write different files with the same numbers and the same lengths.
#[test]
fn stores_that_diverge_are_not_confused() {
    for (kind, component) in components() {
        let mut world = World::new(3, &component);
        world.write(500);
        world.db.backup(BACKUPS).unwrap();
        let base = world.pairs.clone();
        world.db.checkpoint("/copy").unwrap();
        backups(&world.disk).restore(1, "/other").unwrap();
        world.db.close().unwrap();
        let mut expected = vec![base.clone()];
        for (directory, letter) in [("/store", b'a'), ("/copy", b'b'), ("/other", b'c')] {
            let disk = if directory == "/store" { world.disk.clone() } else { world.disk.at(directory) };
            let db = open(&disk).unwrap();
            let mut pairs = base.clone();
            for number in 0..40 {
                let key = format!("key{number:04}").into_bytes();
                db.put(&key, [letter; 100]).unwrap();
                pairs[0].insert(key, vec![letter; 100]);
            }
            db.put("large", vec![letter; 300_000]).unwrap();
            pairs[0].insert(b"large".to_vec(), vec![letter; 300_000]);
            let report = db.backup(BACKUPS).unwrap();
            assert!(report.files_new >= 2 && report.files_shared > 0, "{kind}, {directory}: {report:?}");
            expected.push(pairs);
            db.close().unwrap();
        }
        // They do have files with the same number and length, and other contents.
        let files = shared_files(&world.disk);
        let mut same = BTreeMap::new();
        for (name, bytes) in &files {
            let (name, _) = name.rsplit_once('.').unwrap();
            *same.entry((name, bytes.len())).or_insert(0) += 1;
        }
        for extension in ["branch", "value"] {
            let is_same = |((name, _), count): (&(&str, usize), &i32)| name.ends_with(extension) && *count == 3;
            assert!(same.iter().any(is_same), "{kind}: the test shows nothing about {extension}: {same:?}");
        }
        for (at, pairs) in expected.iter().enumerate() {
            assert!(restored(&world.disk, at as u64 + 1, kind, both) == *pairs, "{kind}, backup {}", at + 1);
        }
    }
}

/// Files go with the last backup that needs them.
#[test]
fn removal_keeps_what_other_backups_need() {
    let mut world = World::new(4, &DiskComponent::Trunk);
    let mut states = BTreeMap::new();
    for id in 1..=6 {
        world.write(200);
        world.steps(5);
        world.db.backup(BACKUPS).unwrap();
        states.insert(id, world.pairs.clone());
    }
    let backups = backups(&world.disk);
    let check = |states: &BTreeMap<u64, _>| {
        assert!(backups.list().unwrap().iter().map(|info| info.id).eq(states.keys().copied()));
        for (id, pairs) in states {
            assert!(restored(&world.disk, *id, "after a removal", both) == *pairs, "backup {id}");
        }
    };
    for id in [3, 6] {
        let before = shared_files(&world.disk);
        let report = backups.remove(id).unwrap();
        states.remove(&id);
        let after = shared_files(&world.disk);
        let bytes = |files: &BTreeMap<String, Vec<u8>>| files.values().map(Vec::len).sum::<usize>();
        let removed = (before.len() - after.len(), bytes(&before) - bytes(&after));
        assert_eq!((report.backups, report.files, report.bytes), (1, removed.0 as u64, removed.1 as u64));
        check(&states);
    }
    assert_eq!(backups.keep_newest(9).unwrap().backups, 0);
    assert_eq!(backups.keep_newest(2).unwrap().backups, 2);
    states.retain(|id, _| *id >= 4);
    check(&states);
    assert_eq!(backups.remove(4).unwrap().backups, 1);
    assert_eq!(backups.keep_newest(0).unwrap().backups, 1);
    assert!(shared_files(&world.disk).is_empty(), "files that no backup needs");
    let report = world.db.backup(BACKUPS).unwrap();
    assert_eq!((report.id, report.files_shared), (1, 0));
    assert!(restored(&world.disk, 1, "anew", both) == world.pairs);
}

#[test]
fn a_backup_of_an_empty_store_and_of_one_with_a_comparator() {
    let disk = SimulatedStorage::new(5);
    let db = alluvium::internals::DeterministicDb::open(Arc::new(disk.clone()), super::checkpoint::options()).unwrap();
    let report = db.backup(BACKUPS).unwrap();
    assert_eq!((report.files_new, report.number), (0, 0), "{report:?}");
    assert!(restored(&disk, 1, "empty", |db| contents(db).is_empty()));
    let comparator = disk.open("COMPARATOR", alluvium::storage::OpenMode::Create).unwrap();
    comparator.write_all_at(b"backwards", 0).unwrap();
    assert_eq!(db.backup(BACKUPS).unwrap().files_new, 1);
    backups(&disk).restore(2, TARGET).unwrap();
    assert_eq!(disk.at(TARGET).current_image()["COMPARATOR"], b"backwards");
}
