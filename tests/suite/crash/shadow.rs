//! The log's shadow segments in shared memory (`docs/recovery.md`, H) after a kill, after a power loss, and with shared
//! memory that is missing or of another store. The simulated crashes, the kill loop and the tests of openers also use
//! shadow segments.

use crate::support::skip;
use crate::support::{Random, tiny_unsynced};
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{PosixStorage, Storage};
use alluvium::{Db, Depth, Error, LogMemory, Options, ReadOnlyDb, WriteOptions};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn options() -> Options {
    Options { log_memory: LogMemory::SharedMemory, background_threads: Some(1), ..tiny_unsynced() }
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

/// Whether no segment file has the value.
fn is_only_in_memory(disk: &SimulatedStorage, value: &[u8]) -> bool {
    let files = disk.current_image();
    let mut logs = files.iter().filter(|(name, _)| name.ends_with(".log"));
    logs.all(|(_, bytes)| !bytes.windows(value.len()).any(|window| window == value))
}

#[test]
fn a_kill_loses_nothing_that_is_only_in_shared_memory() {
    let disk = SimulatedStorage::new(1);
    let db = open(&disk);
    write(&db, 0..20);
    assert!(is_only_in_memory(&disk, &value(19)), "the segment file has the value, so the test proves nothing");
    assert!(db.stats().log_memory_bytes > 0 && db.stats().log_memory_refused == 0);
    let disk = disk.kill();
    drop(db);
    // A reader, and a verification of the closed store, also see everything, and change nothing.
    let (files, pieces) = (disk.current_image(), disk.memory_pieces());
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let reader = ReadOnlyDb::open_with(Arc::clone(&storage), options()).unwrap();
    let seen: Model = reader.iter().unwrap().map(|pair| pair.unwrap()).collect();
    assert_eq!(seen, model(20), "the reader sees other pairs");
    assert!(reader.stats().log_memory_bytes > 0);
    drop(reader);
    assert_eq!((disk.current_image() == files, disk.memory_pieces()), (true, pieces));
    let db = open(&disk);
    assert_eq!(contents(&db), model(20));
    db.verify().unwrap();
    // After the opening the recovered data no longer needs the shared memory, whatever the option.
    drop(db);
    let disk = disk.kill();
    disk.lose_memory();
    let db = try_open(&disk, Options { log_memory: LogMemory::File, force_cut: true, ..options() }).unwrap();
    assert_eq!((contents(&db), db.stats().log_memory_bytes), (model(20), 0));
}

/// Many segments are finished one after another. Their shadow segments are reused, so there are never more than the
/// budget allows.
#[test]
fn shadow_segments_are_reused_for_later_segments() {
    let disk = SimulatedStorage::new(2);
    let db = open(&disk);
    let mut pieces = BTreeSet::new();
    for round in 0..30 {
        write(&db, 40 * round..40 * round + 40);
        while db.step() {}
        pieces.extend(disk.memory_pieces());
    }
    assert!(pieces.len() <= 3, "more shadows than expected: {pieces:?}");
    assert!(db.stats().incorporations > 3, "{}", db.stats());
    let disk = disk.kill();
    drop(db);
    let db = open(&disk);
    assert_eq!(contents(&db), model(1200));
    db.close().unwrap();
    assert!(disk.memory_pieces().is_empty());
}

#[test]
fn after_a_power_cut_the_log_ends_at_the_last_sync() {
    for seed in 0..60 {
        let disk = SimulatedStorage::new(seed);
        let db = open(&disk);
        write(&db, 0..15);
        if seed % 2 == 0 {
            db.sync().unwrap();
        } else {
            db.put_with("key15", value(15), WriteOptions::sync()).unwrap();
        }
        let synced = db.stats().synced_number;
        write(&db, 16..30);
        let disk = disk.power_cut(seed);
        drop(db);
        assert!(disk.memory_pieces().is_empty());
        let db = open(&disk);
        assert_eq!(db.stats().last_number, synced, "seed {seed}: records after the sync were written back");
        let expected = if seed % 2 == 0 { model(15) } else { model(16) };
        assert_eq!(contents(&db), expected, "seed {seed}");
        db.verify().unwrap();
    }
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

/// The shared memory was removed by another program, or the store is opened in another container: acknowledged writes
/// are lost, which must be reported.
#[test]
fn missing_shared_memory_in_the_same_life_is_an_error() {
    let disk = SimulatedStorage::new(4);
    let db = open(&disk);
    write(&db, 0..10);
    db.sync().unwrap();
    write(&db, 10..20);
    let disk = disk.kill();
    drop(db);
    disk.lose_memory();
    for log_memory in [LogMemory::SharedMemory, LogMemory::File] {
        let error = try_open(&disk, Options { log_memory, ..options() }).unwrap_err();
        let message = error.to_string();
        assert!(matches!(error, Error::Corruption { offset: 88, .. }), "{message}");
        for part in [".log", "/simulated-memory/", "no such file", "force_cut"] {
            assert!(message.contains(part), "{part:?} in {message}");
        }
    }
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    assert!(ReadOnlyDb::open_with(Arc::clone(&storage), options()).is_err());
    // `force_cut` accepts the loss.
    let cut = disk.clone_disk();
    let db = try_open(&cut, Options { force_cut: true, ..options() }).unwrap();
    assert_eq!(contents(&db), model(10));
    db.close().unwrap();
    assert_eq!(contents(&open(&cut)), model(10));
    // After a boot or on another mount the log is treated as after a power loss.
    assert_eq!(contents(&open(&disk.clone_disk().power_cut(1))), model(10));
    assert_eq!(contents(&open(&disk.remount())), model(10));
}

/// A shadow segment with the right name and the wrong header: of an earlier use of the file, or of another store.
#[test]
fn a_stale_shadow_is_ignored() {
    let disk = SimulatedStorage::new(5);
    let db = open(&disk);
    write(&db, 0..10);
    db.sync().unwrap();
    write(&db, 10..20);
    let disk = disk.kill();
    drop(db);
    for at in [16, 24, 32, 88, 500] {
        let stale = disk.clone_disk();
        for piece in stale.memory_pieces() {
            stale.corrupt_memory(piece, at, 1);
        }
        assert!(try_open(&stale, options()).is_err(), "byte {at} of the header differs");
        let db = try_open(&stale, Options { force_cut: true, ..options() }).unwrap();
        assert_eq!(contents(&db), model(10), "byte {at} of the header differs");
    }
    assert_eq!(contents(&open(&disk)), model(20));
}

#[test]
fn full_shared_memory_makes_the_log_use_files() {
    let disk = SimulatedStorage::new(6);
    disk.inject("(create name=memory) -> enospc");
    let db = open(&disk);
    write(&db, 0..300);
    while db.step() {}
    let stats = db.stats();
    assert!(stats.log_memory_refused > 2 && stats.log_memory_bytes == 0, "{stats}");
    assert!(stats.to_string().contains("no space for"), "{stats}");
    // Once there is space, shared memory is used again.
    disk.clear_faults();
    write(&db, 300..500);
    while db.step() {}
    assert!(db.stats().log_memory_bytes > 0);
    let disk = disk.kill();
    drop(db);
    assert_eq!(contents(&open(&disk)), model(500));
}

/// `verify` reads the shared memory, and repair saves data that is only there.
#[test]
fn repair_without_a_manifest_reads_shared_memory() {
    let disk = SimulatedStorage::new(7);
    let db = open(&disk);
    write(&db, 0..25);
    let disk = disk.kill();
    drop(db);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let found = Db::verify_closed_with(storage, Depth::Deep, &mut |_| {}).unwrap();
    assert!(found.is_valid() && found.checked.log_records >= 25, "{found:?}");
    let lost = disk.clone_disk();
    lost.lose_memory();
    let storage: Arc<dyn Storage> = Arc::new(lost);
    let found = Db::verify_closed_with(storage, Depth::Deep, &mut |_| {}).unwrap();
    assert!(!found.is_valid() && found.damage[0].to_string().contains("force_cut"), "{found:?}");
    disk.corrupt("MANIFEST", 20, 0xff);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    Db::repair_with(storage, &mut |_| {}).unwrap();
    let db = open(&disk);
    assert_eq!(contents(&db), model(25));
    assert!(disk.memory_pieces().len() <= 2, "shadow segments of the dead process remain");
}

fn pieces_of(directory: &Path) -> Vec<u64> {
    let memory = PosixStorage::new(directory).shared_memory();
    memory.map(|memory| memory.list().unwrap()).unwrap_or_default()
}

/// On real shared memory: it exists while the store is open and is removed when the store is closed or destroyed. A
/// copy of an open store does not use it and does the store no harm.
#[test]
fn shared_memory_is_removed_with_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let (path, copy) = (directory.path().join("store"), directory.path().join("copy"));
    let db = Db::open(&path, options()).unwrap();
    write(&db, 0..1000);
    if db.stats().log_memory_bytes == 0 {
        return skip("there is no shared memory");
    }
    assert!(!pieces_of(&path).is_empty());
    std::fs::create_dir(&copy).unwrap();
    // The manifest first, so that the segments that it names still have their names when the other files are listed.
    std::fs::copy(path.join("MANIFEST"), copy.join("MANIFEST")).unwrap();
    for entry in std::fs::read_dir(&path).unwrap() {
        let entry = entry.unwrap();
        if entry.file_name() == "MANIFEST" {
            continue;
        }
        // The log may rename its next file meanwhile.
        match std::fs::copy(entry.path(), copy.join(entry.file_name())) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            copied => assert!(copied.is_ok(), "{entry:?}: {copied:?}"),
        }
    }
    let refused = Db::open(&copy, options()).unwrap_err().to_string();
    assert!(refused.contains("/dev/shm/alluvium-") && refused.contains("copy of the store"), "{refused}");
    let forced = Db::open(&copy, Options { force_cut: true, ..options() }).unwrap();
    forced.put("copy", "written").unwrap();
    forced.close().unwrap();
    assert!(pieces_of(&copy).is_empty() && !pieces_of(&path).is_empty());
    write(&db, 1000..2000);
    let reader = ReadOnlyDb::open(&path, options()).unwrap();
    assert!(reader.iter().unwrap().map(|pair| pair.unwrap()).eq(model(2000)));
    drop(reader);
    db.close().unwrap();
    assert!(pieces_of(&path).is_empty());
    let db = Db::open(&path, options()).unwrap();
    assert_eq!(contents(&db), model(2000));
    db.close().unwrap();
    Db::destroy(&path).unwrap();
}

/// Readers open while segments are finished and their shadow segments are reused: no reader mixes up the bytes of two
/// segments.
#[test]
fn readers_open_while_shadow_segments_are_reused() {
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
