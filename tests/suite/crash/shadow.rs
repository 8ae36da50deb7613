//! The log's shadows (`docs/recovery.md`, H) after a kill, after a power loss, in copies, and with shadows that are
//! missing, damaged, old or of another store. The simulated crashes, the kill loop, the power cuts and the tests of
//! openers also use shadows.

use crate::support::{Random, tiny_unsynced};
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{OpenMode, Storage};
use alluvium::{Db, Depth, Error, Options, ReadOnlyDb, WriteOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    tiny_unsynced().background_threads(1)
}

fn open(disk: &SimulatedStorage) -> DeterministicDb {
    try_open(disk, options()).unwrap()
}

fn try_open(disk: &SimulatedStorage, options: Options) -> alluvium::Result<DeterministicDb> {
    DeterministicDb::open_small(Arc::new(disk.clone()), options)
}

/// The pairs after the first `count` writes of `write`.
fn model(count: u64) -> Model {
    (0..count).map(|number| (format!("key{:02}", number % 37).into_bytes(), value(number))).collect()
}

fn value(number: u64) -> Vec<u8> {
    let mut value = number.to_le_bytes().to_vec();
    value.resize(8 + Random(number).below(300) as usize, number as u8);
    value
}

fn write(db: &Db, numbers: std::ops::Range<u64>) {
    for number in numbers {
        db.put(format!("key{:02}", number % 37), value(number)).unwrap();
    }
}

fn contents(db: &Db) -> Model {
    db.iter().unwrap().map(|pair| pair.unwrap()).collect()
}

/// The names of the shadows.
fn shadows(disk: &SimulatedStorage) -> BTreeSet<String> {
    disk.current_image().into_keys().filter(|name| name.ends_with(".shadow")).collect()
}

fn remove_shadows(disk: &SimulatedStorage) {
    shadows(disk).iter().for_each(|name| disk.remove(name).unwrap());
}

/// Whether no segment has the value.
fn is_only_in_shadows(disk: &SimulatedStorage, value: &[u8]) -> bool {
    let files = disk.current_image();
    let mut logs = files.iter().filter(|(name, _)| name.ends_with(".log"));
    logs.all(|(_, bytes)| !bytes.windows(value.len()).any(|window| window == value))
}

/// The offset of a value in the only shadow that has it.
fn find(disk: &SimulatedStorage, value: &[u8]) -> (String, u64) {
    let files = disk.current_image();
    let mut found = files.iter().filter(|(name, _)| name.ends_with(".shadow")).filter_map(|(name, bytes)| {
        let at = bytes.windows(value.len()).position(|window| window == value)?;
        Some((name.clone(), at as u64))
    });
    found.next().expect("a shadow has the value")
}

#[test]
fn a_kill_loses_nothing_that_is_only_in_shadows() {
    let disk = SimulatedStorage::new(1);
    let db = open(&disk);
    write(&db, 0..20);
    assert!(is_only_in_shadows(&disk, &value(19)), "the segment has the value, so the test proves nothing");
    assert!(db.stats().log_shadow_bytes > 0 && db.stats().log_shadows_refused == 0);
    let disk = disk.kill();
    drop(db);
    // A reader, and a verification of the closed store, also see everything, and change nothing.
    let files = disk.current_image();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let reader = ReadOnlyDb::open_with(Arc::clone(&storage), options()).unwrap();
    let seen: Model = reader.iter().unwrap().map(|pair| pair.unwrap()).collect();
    assert_eq!(seen, model(20), "the reader sees other pairs");
    assert!(reader.stats().log_shadow_bytes > 0);
    drop(reader);
    assert!(disk.current_image() == files);
    let db = open(&disk);
    assert_eq!(contents(&db), model(20));
    db.verify().unwrap();
    // After the opening the recovered data no longer needs a shadow.
    drop(db);
    let disk = disk.kill();
    remove_shadows(&disk);
    let db = try_open(&disk, options().force_cut(true)).unwrap();
    assert_eq!(contents(&db), model(20));
}

/// Many segments are finished one after another. Their shadows are reused, so there are never more than the budget
/// allows.
#[test]
fn shadows_are_reused_for_later_segments() {
    let disk = SimulatedStorage::new(2);
    let db = open(&disk);
    for round in 0..30 {
        write(&db, 40 * round..40 * round + 40);
        while db.step() {}
        let now = shadows(&disk);
        assert!(now.len() <= 3, "more shadows than expected: {now:?}");
    }
    assert!(db.stats().incorporations > 3, "{}", db.stats());
    let disk = disk.kill();
    drop(db);
    let db = open(&disk);
    assert_eq!(contents(&db), model(1200));
    db.close().unwrap();
    assert!(shadows(&disk).is_empty());
}

/// Any part of what was not synced may survive, also of the shadow, whose pages the system writes back in any order: the
/// store then has a prefix with everything that was synced.
#[test]
fn after_a_power_cut_the_store_has_a_prefix() {
    let mut lengths = BTreeSet::new();
    for seed in 0..120 {
        let disk = SimulatedStorage::new(seed);
        if seed % 3 == 1 {
            disk.inject("(any p=0.2) -> write-back");
        }
        let db = open(&disk);
        write(&db, 0..5);
        if seed % 2 == 0 {
            db.sync().unwrap();
        } else {
            db.put_with("synced", value(5), WriteOptions::sync()).unwrap();
        }
        let synced = db.stats().synced_number;
        // Few enough that nothing is incorporated.
        write(&db, 6..18);
        assert_eq!(db.stats().synced_number, synced);
        let disk = disk.power_cut(seed);
        drop(db);
        let db = open(&disk);
        let expected = |kept: u64| {
            let mut expected = model(5);
            if seed % 2 == 1 {
                expected.insert(b"synced".to_vec(), value(5));
            }
            let after = 6..6 + kept;
            expected.extend(after.map(|number| (format!("key{:02}", number % 37).into_bytes(), value(number))));
            expected
        };
        let found = contents(&db);
        let kept = (0..=12).find(|kept| expected(*kept) == found);
        lengths.insert(kept.unwrap_or_else(|| panic!("seed {seed}: no prefix that begins with all that was synced")));
        db.verify().unwrap();
    }
    assert!(lengths.len() > 5 && lengths.contains(&0) && lengths.contains(&12), "{lengths:?}");
}

/// The file system was mounted again, or the directory is a copy: another life, with everything in place. All writes
/// count up to the first gap, and opening reports how many follow it.
#[test]
fn in_another_life_everything_up_to_the_first_gap_counts() {
    let disk = SimulatedStorage::new(8);
    let db = open(&disk);
    write(&db, 0..25);
    let disk = disk.kill();
    drop(db);
    let db = open(&disk.clone_disk().remount());
    assert_eq!((contents(&db), db.stats().log_discarded_writes), (model(25), 0));
    // A page that was not copied, or is older.
    let (name, at) = find(&disk, &value(10));
    let gap = disk.clone_disk().remount();
    gap.corrupt(&name, at, 0x10);
    let storage: Arc<dyn Storage> = Arc::new(gap.clone());
    let reader = ReadOnlyDb::open_with(storage, options()).unwrap();
    assert_eq!(reader.stats().last_number, 10);
    // Only those of the next chunk can be told from bytes that were never written.
    assert!(reader.stats().log_discarded_writes < 14);
    drop(reader);
    assert_eq!(contents(&open(&gap)), model(10));
    // With another writer's chunk behind the gap.
    let disk = SimulatedStorage::new(9);
    let db = Arc::new(open(&disk));
    write(&db, 0..10);
    let other = Arc::clone(&db);
    std::thread::spawn(move || write(&other, 10..12)).join().unwrap();
    write(&db, 12..14);
    let disk = disk.kill();
    drop(db);
    let (name, at) = find(&disk, &value(10));
    let gap = disk.clone_disk().remount();
    gap.corrupt(&name, at, 0x10);
    let db = open(&gap);
    assert_eq!((contents(&db), db.stats().log_discarded_writes), (model(10), 2));
    // In the same life this is damage, and it is in the shadow, not in the segment.
    disk.corrupt(&name, at, 0x10);
    let error = try_open(&disk, options()).unwrap_err();
    assert!(matches!(&error, Error::Corruption { path, .. } if path.ends_with(&name)), "{error}");
}

/// A kill before each operation of a recovery and of the recovery after that, and then a power cut: recovered data is
/// not lost again.
#[test]
fn repeated_kills_during_recovery_lose_nothing() {
    let disk = SimulatedStorage::new(3);
    let db = open(&disk);
    write(&db, 0..150);
    let disk = disk.kill();
    drop(db);
    disk.record_crashes();
    drop(open(&disk));
    let points = disk.crash_points();
    assert!(points.len() > 10);
    for (at, point) in points.into_iter().enumerate() {
        let story = format!("before {} {}", point.operation, point.name);
        let killed = point.disk;
        killed.record_crashes();
        let db = open(&killed);
        assert_eq!(contents(&db), model(150), "{story}");
        let cut = killed.clone_disk().power_cut(at as u64);
        assert_eq!(contents(&open(&cut)), model(150), "{story}, opened, then a power cut");
        drop(db);
        for (number, again) in killed.crash_points().into_iter().enumerate().filter(|(number, _)| number % 5 == at % 5)
        {
            let story = format!("{story}, then before {} {} ({number})", again.operation, again.name);
            assert_eq!(contents(&open(&again.disk)), model(150), "{story}");
        }
    }
}

/// The shadow was removed by another program, or left out of a copy: acknowledged writes are lost, which must be
/// reported.
#[test]
fn a_missing_shadow_in_the_same_life_is_an_error() {
    let disk = SimulatedStorage::new(4);
    let db = open(&disk);
    write(&db, 0..10);
    db.sync().unwrap();
    // The second sync makes the first one's mark durable.
    write(&db, 10..11);
    db.sync().unwrap();
    write(&db, 11..20);
    let disk = disk.kill();
    drop(db);
    let name = shadows(&disk).pop_first().unwrap();
    remove_shadows(&disk);
    let before = disk.current_image();
    let error = try_open(&disk, options()).unwrap_err();
    let message = error.to_string();
    assert!(matches!(error, Error::Corruption { offset: 88, .. }), "{message}");
    for part in [".log", &name, "no such file", "after number 10", "at most", "force_cut"] {
        assert!(message.contains(part), "{part:?} in {message}");
    }
    assert!(disk.current_image() == before, "a failed opening changed something");
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    assert!(ReadOnlyDb::open_with(Arc::clone(&storage), options()).is_err());
    // `force_cut` accepts the loss.
    let cut = disk.clone_disk();
    let db = try_open(&cut, options().force_cut(true)).unwrap();
    assert_eq!(contents(&db), model(11));
    db.close().unwrap();
    assert_eq!(contents(&open(&cut)), model(11));
    // After a boot or in another instance of the file system the log is treated as after a power loss.
    assert_eq!(contents(&open(&disk.clone_disk().power_cut(1))), model(11));
    assert_eq!(contents(&open(&disk.remount())), model(11));
}

/// A shadow with the right name and the wrong header: of an earlier use of the file, or of another store.
#[test]
fn a_stale_shadow_is_reported() {
    let disk = SimulatedStorage::new(5);
    let db = open(&disk);
    write(&db, 0..10);
    db.sync().unwrap();
    write(&db, 10..20);
    let disk = disk.kill();
    drop(db);
    for at in [16, 24, 32, 88, 500] {
        let stale = disk.clone_disk();
        shadows(&stale).iter().for_each(|name| stale.corrupt(name, at, 1));
        assert!(try_open(&stale, options()).is_err(), "byte {at} of the header differs");
        // Each record states its segment, so those of the shadow still count.
        let db = try_open(&stale, options().force_cut(true)).unwrap();
        assert_eq!(contents(&db), model(20), "byte {at} of the header differs");
    }
    // Of another store, which has the same names.
    let other = SimulatedStorage::new(55);
    let db = open(&other);
    write(&db, 100..130);
    let other = other.kill();
    drop(db);
    let foreign = disk.clone_disk();
    let name = shadows(&disk).pop_first().unwrap();
    let bytes = other.current_image().remove(&name).unwrap();
    foreign.remove(&name).unwrap();
    foreign.open(&name, OpenMode::Create).unwrap().write_all_at(&bytes, 0).unwrap();
    assert!(try_open(&foreign, options()).unwrap_err().to_string().contains("of another length or store"));
    assert_eq!(contents(&try_open(&foreign, options().force_cut(true)).unwrap()), model(10));
    assert_eq!(contents(&open(&disk)), model(20));
}

#[test]
fn without_space_for_a_shadow_segments_are_mapped_themselves() {
    let disk = SimulatedStorage::new(6);
    disk.inject("(create name~.shadow) -> enospc");
    let db = open(&disk);
    write(&db, 0..300);
    while db.step() {}
    let stats = db.stats();
    assert!(stats.log_shadows_refused > 2 && stats.log_shadow_bytes == 0, "{stats}");
    // Once there is space, there are shadows again.
    disk.clear_faults();
    write(&db, 300..500);
    while db.step() {}
    assert!(db.stats().log_shadow_bytes > 0);
    let disk = disk.kill();
    drop(db);
    assert_eq!(contents(&open(&disk)), model(500));
}

/// Where mappings are not trusted, shadows are memory of the process, and a write returns only when the kernel has its
/// record.
#[test]
fn where_mappings_are_not_trusted_a_write_waits_for_the_kernel() {
    let disk = SimulatedStorage::new(10);
    disk.set_maps_safely(false);
    let db = open(&disk);
    for number in 0..60 {
        write(&db, number..number + 1);
        assert!(shadows(&disk).is_empty());
        let killed = disk.clone_disk();
        assert_eq!(contents(&open(&killed)), model(number + 1), "an acknowledged write is lost");
    }
    // A record that is larger than any segment.
    db.put("large", vec![7; 100_000]).unwrap();
    let disk = disk.kill();
    drop(db);
    assert_eq!(contents(&open(&disk)).remove(&b"large"[..]), Some(vec![7; 100_000]));
}

/// The system may fail to write a shadow back, drop the page, and later read an older one. Nothing may then be
/// acknowledged as durable.
#[test]
fn a_failed_writeback_of_a_shadow_stops_the_store() {
    let disk = SimulatedStorage::new(11);
    let db = open(&disk);
    write(&db, 0..10);
    db.sync().unwrap();
    write(&db, 10..20);
    disk.inject("(check-writeback name~.shadow nth=1) -> eio");
    assert!(db.sync().is_err(), "the writeback failed, and the sync has succeeded");
    assert!(matches!(db.put("more", ""), Err(Error::ReadOnly { .. })));
    let reason = db.stats().failure.unwrap();
    assert!(reason.contains(".log") || reason.contains(".shadow"), "{reason}");
    assert_eq!(contents(&db), model(20), "reads still work");
    let disk = disk.kill();
    drop(db);
    let db = open(&disk);
    assert!(db.stats().last_number >= 10);
}

/// A mark is left after the sync that it records. In another life only that of the segment is certain to have been
/// durable itself, and it is the only one that counts. Once an opening copied a shadow's mark to the segment before it
/// found that the manifest was older, and the store could not be opened any more.
#[test]
fn marks_of_a_shadow_count_only_in_the_same_life() {
    let disk = SimulatedStorage::new(12);
    // So large that nothing is incorporated.
    let options = || options().memory_budget(8 << 20);
    let db = DeterministicDb::open(Arc::new(disk.clone()), options()).unwrap();
    write(&db, 0..10);
    db.sync().unwrap();
    // Until an edit names one more segment, and nothing writes back the mark that records the edit.
    let count_of = |disk: &SimulatedStorage, kind: &str| {
        disk.current_image().into_keys().filter(|name| name.ends_with(kind)).count()
    };
    let (mut written, mut before) = (10, disk.clone_disk());
    while count_of(&disk, ".log") == count_of(&before, ".log") || count_of(&disk, ".branch") > 0 {
        assert!(written < 1000 && count_of(&disk, ".branch") == 0);
        before = disk.clone_disk();
        db.put(format!("key{:02}", written % 37), value(written)).unwrap();
        written += 1;
    }
    let killed = disk.kill();
    drop(db);
    let older = killed.clone_disk();
    let manifest = before.current_image().remove("MANIFEST").unwrap();
    older.remove("MANIFEST").unwrap();
    older.open("MANIFEST", OpenMode::Create).unwrap().write_all_at(&manifest, 0).unwrap();
    // In the same life the shadow's mark shows the loss. The opening fails and changes nothing, so the next one finds
    // the same.
    let files = older.current_image();
    for _ in 0..2 {
        let error = try_open(&older, options()).unwrap_err().to_string();
        assert!(error.contains("MANIFEST") && error.contains("manifest edits"), "{error}");
        assert!(older.current_image() == files, "a failed opening changed something");
    }
    // In another life, and with `force_cut`, what only the shadow says does not count.
    for force_cut in [false, true] {
        let disk = if force_cut { older.clone_disk() } else { older.clone_disk().remount() };
        let opened = try_open(&disk, options().force_cut(force_cut));
        let db = opened.unwrap_or_else(|error| panic!("manifest edits of the shadow count: {error}"));
        assert_eq!(contents(&db), model(written));
    }
}

/// A quiet store cuts segments off and removes what it does not need. A death before any operation of that loses nothing.
#[test]
fn a_death_while_the_log_becomes_small_loses_nothing() {
    for mapped in [true, false] {
        let disk = SimulatedStorage::new(15);
        disk.set_maps_safely(mapped);
        // So large that nothing is incorporated.
        let options = options().memory_budget(8 << 20).write_buffer(1 << 20);
        let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
        write(&db, 0..400);
        db.sync().unwrap();
        write(&db, 400..600);
        while db.step() {}
        let log_bytes = || -> usize {
            let files = disk.current_image();
            files
                .iter()
                .filter(|(name, _)| name.contains(".log") || name.ends_with(".free"))
                .map(|(_, of)| of.len())
                .sum()
        };
        let before = log_bytes();
        disk.record_crashes();
        disk.advance(Duration::from_secs(6));
        while db.step() {}
        assert!(log_bytes() + (32 << 10) < before, "{before} bytes of log became {}", log_bytes());
        let points = disk.crash_points();
        assert!(points.len() > 8);
        for (at, point) in points.into_iter().enumerate() {
            let story = format!("mapped: {mapped}, before {} {}", point.operation, point.name);
            let cut = point.disk.clone_disk().power_cut(at as u64);
            assert_eq!(contents(&open(&point.disk)), model(600), "{story}");
            let found = contents(&open(&cut));
            assert!((400..=600).any(|kept| model(kept) == found), "{story}, then a power cut");
        }
    }
}

/// `verify` reads shadows, and repair saves data that is only there.
#[test]
fn repair_without_a_manifest_reads_shadows() {
    let disk = SimulatedStorage::new(7);
    let db = open(&disk);
    write(&db, 0..25);
    let disk = disk.kill();
    drop(db);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let found = Db::verify_closed_with(storage, Depth::Deep, &mut |_| {}).unwrap();
    assert!(found.is_valid() && found.checked.log_records >= 25, "{found:?}");
    let lost = disk.clone_disk();
    remove_shadows(&lost);
    let storage: Arc<dyn Storage> = Arc::new(lost);
    let found = Db::verify_closed_with(storage, Depth::Deep, &mut |_| {}).unwrap();
    assert!(!found.is_valid() && found.damage[0].to_string().contains("force_cut"), "{found:?}");
    disk.corrupt("MANIFEST", 20, 0xff);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    Db::repair_with(storage, &mut |_| {}).unwrap();
    let db = open(&disk);
    assert_eq!(contents(&db), model(25));
    assert!(shadows(&disk).len() <= 2, "shadows of the dead process remain");
}

/// Where the child's store is.
const CHILD: &str = "ALLUVIUM_SHADOW_CHILD";

fn unsynced() -> Options {
    Options::new().sync_interval(None).memory_budget(4 << 20)
}

/// Writes, and dies at once.
pub fn child() {
    let db = Db::open(std::env::var_os(CHILD).unwrap(), unsynced()).unwrap();
    write(&db, 0..3000);
    // SAFETY: a plain call that does not return.
    unsafe { libc::_exit(1) }
}

/// A killed store is copied and moved.
#[test]
fn a_killed_store_opens_in_copies_archives_and_other_mounts() {
    let directory = tempfile::tempdir().unwrap();
    let at = |name: &str| directory.path().join(name);
    let mut command = crate::support::child::command("shadow");
    let status = command.env(CHILD, at("store")).stdout(std::process::Stdio::null()).status().unwrap();
    assert!(!status.success());
    let run = |program: &str, arguments: &[&std::ffi::OsStr]| {
        let output = std::process::Command::new(program).args(arguments).output();
        output.is_ok_and(|output| output.status.success())
    };
    let is_whole = |path: &Path, what: &str| {
        let db = Db::open(path, unsynced()).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(contents(&db), model(3000), "{what}");
        assert_eq!(db.stats().log_discarded_writes, 0, "{what}");
        db.close().unwrap();
    };
    let copy = |to: &Path| assert!(run("cp", &["-r".as_ref(), at("store").as_ref(), to.as_ref()]));
    copy(&at("copy"));
    is_whole(&at("copy"), "a copy on the same file system");
    copy(&at("before"));
    std::fs::rename(at("before"), at("renamed")).unwrap();
    is_whole(&at("renamed"), "a renamed copy");
    assert!(run(
        "tar",
        &["-C".as_ref(), directory.path().as_ref(), "-cf".as_ref(), at("tar").as_ref(), "store".as_ref()]
    ));
    std::fs::create_dir(at("unpacked")).unwrap();
    assert!(run("tar", &["-C".as_ref(), at("unpacked").as_ref(), "-xf".as_ref(), at("tar").as_ref()]));
    is_whole(&at("unpacked").join("store"), "an archive");
    if let Ok(other) = tempfile::tempdir_in("/dev/shm") {
        copy(&other.path().join("store"));
        is_whole(&other.path().join("store"), "a copy on another file system");
    }
    // Through another mount, as in a container that is started again.
    std::fs::create_dir(at("mounted")).unwrap();
    copy(&at("bound"));
    if run("mount", &["--bind".as_ref(), at("bound").as_ref(), at("mounted").as_ref()]) {
        let opened = std::panic::catch_unwind(|| is_whole(&at("mounted"), "another mount"));
        assert!(run("umount", &[at("mounted").as_ref()]));
        opened.unwrap();
    } else {
        crate::support::skip("a bind mount needs the right to mount");
    }
    is_whole(&at("store"), "the store itself");
}

/// Readers open while segments are finished and their shadows are reused: no reader mixes up the bytes of two segments.
#[test]
fn readers_open_while_shadows_are_reused() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let db = Db::open(&path, options()).unwrap();
    let done = std::sync::atomic::AtomicU64::new(0);
    let openings = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for number in 0..60_000u64 {
                db.put(format!("key{:02}", number % 37), value(number)).unwrap();
                done.store(number + 1, std::sync::atomic::Ordering::Release);
            }
        });
        let mut openings = 0;
        while !writer.is_finished() {
            let before = done.load(std::sync::atomic::Ordering::Acquire);
            let reader = ReadOnlyDb::open(&path, options()).unwrap();
            let after = done.load(std::sync::atomic::Ordering::Acquire) + 1;
            let number = |value: Vec<u8>| u64::from_le_bytes(value[..8].try_into().unwrap());
            let mut found: Vec<u64> = reader.iter().unwrap().map(|pair| number(pair.unwrap().1)).collect();
            found.sort_unstable();
            let last = found.last().map_or(0, |last| last + 1);
            assert!((before..=after).contains(&last), "{last} of {before} to {after}");
            assert_eq!(found, (last.saturating_sub(37)..last).collect::<Vec<_>>());
            openings += 1;
        }
        openings
    });
    println!("{openings} openings");
    assert!(openings > 3);
    db.close().unwrap();
}
