//! Timers, on a simulated disk whose clock only the tests advance: the sync interval, retries, waiting limits, and
//! slowed writers. Only the last tests, whose stores have threads, wait in real time.

use crate::support::{Random, expect_sound, tiny, tiny_unsynced};
use alluvium::internals::{DeterministicDb, TrunkOptions};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{LockMode, LockPart, Storage};
use alluvium::{Db, Error, Options, ReadOnlyDb, Stats};
use std::sync::Arc;
use std::time::{Duration, Instant};

const INTERVAL: Duration = Duration::from_millis(100);
/// Interval between two checks of a full disk.
const CHECK: Duration = Duration::from_millis(200);
/// Interval between two attempts to remove a file.
const REMOVAL_RETRY: Duration = Duration::from_secs(1);
/// How long deletes are gathered before an incorporation.
const GATHER: Duration = Duration::from_secs(1);
/// How long a delete waits for space.
const DELETE_PATIENCE: Duration = Duration::from_secs(5);
/// Longer than any test here takes in real time.
const REAL_PATIENCE: Duration = Duration::from_secs(20);

fn open(disk: &SimulatedStorage, options: Options) -> DeterministicDb {
    DeterministicDb::open(Arc::new(disk.clone()), options).unwrap()
}

fn with_interval(sync_interval: Option<Duration>) -> Options {
    tiny().sync_interval(sync_interval)
}

/// Of 20 power cuts, how many leave the key.
fn cuts_that_keep(disk: &SimulatedStorage, key: &str) -> usize {
    let keeps = |seed: &u64| {
        let after = disk.clone_disk().power_cut(*seed);
        open(&after, tiny_unsynced()).get(key).unwrap().is_some()
    };
    (0..20).filter(keeps).count()
}

#[test]
fn a_write_is_durable_once_the_interval_has_passed_and_not_before() {
    let disk = SimulatedStorage::new(1);
    let db = open(&disk, with_interval(Some(INTERVAL)));
    while db.step() {}
    db.sync().unwrap();
    for key in ["first", "second"] {
        // A sync restarts the interval.
        disk.advance(INTERVAL);
        db.step();
        db.put(key, "value").unwrap();
        disk.advance(INTERVAL * 9 / 10);
        while db.step() {}
        let stats = db.stats();
        assert!(stats.synced_number < stats.last_number, "{key} is synced early: {stats}");
        let kept = cuts_that_keep(&disk, key);
        assert!(kept < 20, "{key}: 20 power cuts all left a write that was not synced");
        disk.advance(INTERVAL / 10);
        assert!(db.step());
        let stats = db.stats();
        assert_eq!(stats.synced_number, stats.last_number, "{key}");
        assert_eq!(cuts_that_keep(&disk, key), 20, "{key}");
    }
}

#[test]
fn an_idle_store_syncs_nothing() {
    let disk = SimulatedStorage::new(2);
    let db = open(&disk, with_interval(Some(INTERVAL)));
    db.put("key", "value").unwrap();
    disk.advance(INTERVAL);
    while db.step() {}
    let before = disk.operations();
    for _ in 0..10 {
        disk.advance(INTERVAL);
        assert!(!db.step());
    }
    assert_eq!(disk.operations(), before);
}

#[test]
fn without_an_interval_nothing_is_synced_by_time() {
    for interval in [None, Some(Duration::ZERO), Some(Duration::MAX)] {
        let disk = SimulatedStorage::new(3);
        let db = open(&disk, with_interval(interval));
        db.put("key", "value").unwrap();
        for _ in 0..3 {
            disk.advance(Duration::from_secs(24 * 60 * 60));
            while db.step() {}
        }
        assert!(db.stats().synced_number < db.stats().last_number, "{interval:?}");
    }
}

/// Number of branch files on the disk that the tree does not use.
fn unused_files(db: &DeterministicDb, disk: &SimulatedStorage) -> u64 {
    let names = disk.list().unwrap();
    names.iter().filter(|name| name.ends_with(".branch")).count() as u64 - db.stats().branch_files
}

#[test]
fn files_that_a_reader_used_are_removed_at_the_next_retry() {
    let disk = SimulatedStorage::new(4);
    let db = open(&disk, tiny_unsynced());
    let put_all = || {
        (0..100u32).for_each(|key| db.put(key.to_be_bytes(), [7; 50]).unwrap());
        db.flush().unwrap();
    };
    put_all();
    let reader = ReadOnlyDb::open_with(Arc::new(disk.clone()), tiny_unsynced()).unwrap();
    put_all();
    db.compact().unwrap();
    let unused = unused_files(&db, &disk);
    assert!(unused > 0, "the compaction replaced nothing");
    let refused = disk.now();
    disk.advance(REMOVAL_RETRY);
    assert!(db.step(), "removal is retried although the reader still exists");
    assert!(!db.step(), "removal is retried only once");
    drop(reader);
    disk.advance(REMOVAL_RETRY * 9 / 10);
    assert!(!db.step());
    assert_eq!(unused_files(&db, &disk), unused);
    disk.advance(REMOVAL_RETRY / 10);
    assert!(db.step());
    assert_eq!(unused_files(&db, &disk), 0);
    assert!(disk.now() - refused < 3 * REMOVAL_RETRY);
}

/// Once nobody writes for a second, data is rewritten for readers; but not while a caller waits for all work, which would
/// then take longer, not while merges are paused, and not on a disk that is nearly full.
#[test]
fn data_is_rewritten_for_readers_once_nobody_writes() {
    let disk = SimulatedStorage::new(6);
    // Files of a few entries are mostly overhead, so that half of what users write would not suffice.
    let tuned = |figures: &mut TrunkOptions| figures.quiet_percent = 10_000;
    let db = DeterministicDb::open_tuned(Arc::new(disk.clone()), tiny_unsynced(), false, tuned).unwrap();
    let mut random = Random(6);
    for _ in 0..6 {
        (0..100).for_each(|_| db.put(random.bytes(4), random.bytes(1000)).unwrap());
        db.flush().unwrap();
    }
    let runs = || db.stats().levels.iter().map(|level| level.runs).sum::<u64>();
    let rewritten = || db.stats().quiet_compacted_bytes;
    let do_all = || while db.step() {};
    let second = Duration::from_secs(1);
    db.settle().unwrap();
    do_all();
    let before = runs();
    disk.advance(second * 9 / 10);
    do_all();
    assert!(before > 3 && rewritten() == 0, "{before} runs, {}", db.stats());
    disk.advance(second);
    db.settle().unwrap();
    assert_eq!(rewritten(), 0, "a caller waited for it");
    db.put("key", "value").unwrap();
    do_all();
    assert_eq!(rewritten(), 0, "something has just been written");
    let pause = db.pause_background();
    disk.advance(second);
    do_all();
    assert_eq!(rewritten(), 0, "merges are paused");
    disk.set_capacity(Some(disk.used() + db.stats().branch_bytes / 8));
    drop(pause);
    do_all();
    assert!(rewritten() == 0 && !db.stats().disk_full, "the disk is nearly full\n{}", db.stats());
    disk.set_capacity(None);
    let credit = db.stats().quiet_credit_bytes;
    do_all();
    let stats = db.stats();
    assert!(runs() < before && stats.quiet_compacted_bytes > 0, "{before} runs before, {stats}");
    assert!(stats.quiet_credit_bytes + stats.quiet_compacted_bytes <= credit, "{credit} before, {stats}");
    assert!(stats.compacted_bytes >= stats.quiet_compacted_bytes);
    db.verify().unwrap();
}

/// A store that has filled its disk, with no background work left for now.
fn full(seed: u64, free: u64) -> (SimulatedStorage, DeterministicDb) {
    let disk = SimulatedStorage::new(seed);
    let db = open(&disk, tiny_unsynced());
    disk.set_capacity(Some(disk.used() + free));
    let mut random = Random(seed);
    let error = (0..100_000).find_map(|key: u32| db.put(key.to_be_bytes(), random.bytes(500)).err());
    assert!(matches!(error, Some(Error::DiskFull { .. })), "{error:?}");
    // Uses up the space that background work still frees.
    for key in 0.. {
        while db.step() {}
        disk.advance(CHECK);
        while db.step() {}
        if db.stats().disk_full {
            break;
        }
        assert!(key < 1000, "the disk does not stay full");
        while db.put(random.bytes(8), random.bytes(500)).is_ok() {}
    }
    (disk, db)
}

#[test]
fn free_space_is_found_at_the_next_check() {
    let (disk, db) = full(5, 4 << 20);
    disk.set_capacity(None);
    disk.advance(CHECK / 2);
    assert!(!db.step());
    assert!(matches!(db.put("key", "value"), Err(Error::DiskFull { .. })));
    disk.advance(CHECK / 2);
    assert!(db.step());
    db.put("key", "value").unwrap();
    expect_sound(&db);
}

#[test]
fn a_delete_waits_for_space_for_a_bounded_time() {
    let (started, disk) = (Instant::now(), SimulatedStorage::new(6));
    let db = open(&disk, tiny_unsynced());
    // Everything else works, so it makes sense to wait.
    disk.inject("(create,map name~.log) -> enospc");
    let waited = (0..100_000u32).find_map(|key| {
        let before = disk.now();
        let error = db.delete(format!("absent{key}")).err()?;
        assert!(matches!(error, Error::DiskFull { .. }), "{error}");
        Some(disk.now() - before)
    });
    let waited = waited.expect("deletes must need space for their records");
    println!("{waited:?}");
    assert!(waited >= DELETE_PATIENCE && waited < 2 * DELETE_PATIENCE, "{waited:?}");
    assert!(started.elapsed() < REAL_PATIENCE);
}

/// On a full disk, not every delete causes an incorporation.
#[test]
fn deletes_on_a_full_disk_are_gathered_for_a_second() {
    let (disk, db) = full(7, 4 << 20);
    let after = |time| {
        disk.advance(time);
        while db.step() {}
        assert!(db.stats().disk_full);
        db.stats().memory_entries
    };
    db.delete("absent").unwrap();
    assert_eq!(after(2 * GATHER), 0);
    db.delete("absent, too").unwrap();
    assert_eq!(after(CHECK), 1);
    assert_eq!(after(CHECK), 1);
    assert_eq!(after(GATHER), 0);
    expect_sound(&db);
}

#[test]
fn an_opening_waits_half_a_minute_for_another_one() {
    let (started, disk) = (Instant::now(), SimulatedStorage::new(10));
    open(&disk, tiny()).close().unwrap();
    let before = disk.now();
    let held = disk.lock("LOCK", LockPart::Opening, LockMode::Exclusive).unwrap();
    let error = DeterministicDb::open(Arc::new(disk.clone()), tiny()).map(drop).unwrap_err();
    assert!(error.to_string().contains("30 seconds"), "{error}");
    let waited = disk.now() - before;
    assert!(waited >= Duration::from_secs(30) && waited < Duration::from_secs(31), "{waited:?}");
    assert!(started.elapsed() < REAL_PATIENCE);
    drop(held);
    open(&disk, tiny());
}

/// Fills a store on a slow disk, without background work except what writers wait for. Returns its statistics and the
/// time that the disk took.
fn fill_slowly(seed: u64, slow: &str) -> (Stats, Duration) {
    let disk = SimulatedStorage::new(seed);
    let db = open(&disk, tiny_unsynced());
    disk.inject(slow);
    let (started, mut random, mut longest) = (disk.now(), Random(seed), Duration::ZERO);
    for put in 0..4000 {
        let length = if put % 50 == 49 { 9000 } else { 80 };
        let (before, operations) = (disk.now(), disk.operations());
        db.put(random.next().to_be_bytes(), random.bytes(length)).unwrap();
        if disk.operations() == operations {
            longest = longest.max(disk.now() - before);
        }
    }
    let stats = db.stats();
    let took = disk.now() - started - Duration::from_nanos(stats.slowed_ns);
    // Two milliseconds, plus twice an eighth of what a large write owes at twice the mean time per byte; the time
    // varies.
    let owed = took * 2 * 9000 / stats.user_bytes as u32;
    let bound = Duration::from_millis(2) + owed / 4;
    println!("longest delay of a single write {longest:?}, at most {bound:?}");
    assert!(longest <= bound, "a single write was slowed by {longest:?}, more than {bound:?}");
    expect_sound(&db);
    (stats, took)
}

/// Writers are slowed to at most twice the time of the background work, in pieces of two milliseconds or an eighth of
/// what one write owes.
#[test]
fn a_slow_disk_slows_writers_by_a_bounded_time_the_same_for_equal_seeds() {
    let mut last = 0;
    for slow in [
        "",
        "(sync,map-sync,sync-directory) -> slow=1ms; (write) -> slow=10us",
        "(sync,map-sync,sync-directory) -> slow=5ms; (write) -> slow=200us",
        "(any p=0.1) -> slow=20ms; (sync,map-sync,sync-directory) -> slow=5ms; (write) -> slow=200us",
    ] {
        let (stats, took) = fill_slowly(7, slow);
        let again = fill_slowly(7, slow);
        assert_eq!((stats.slowed_writes, stats.slowed_ns, took), (again.0.slowed_writes, again.0.slowed_ns, again.1));
        let slept = Duration::from_nanos(stats.slowed_ns);
        println!("{slow:?}: {} writes slowed by {slept:?}, the disk took {took:?}", stats.slowed_writes);
        assert!(stats.incorporations > 5, "{stats}");
        assert!(slept <= 2 * took, "slowed by {slept:?}, the disk took {took:?}");
        assert!(stats.slowed_ns > last, "a slower disk did not slow writers more: {slept:?}");
        last = stats.slowed_ns;
    }
}

/// A deterministic store finishes its work. Then its merges are paused, and a few keys are overwritten until writers
/// are slowed.
#[test]
fn writes_slowed_for_garbage_are_counted_separately() {
    let disk = SimulatedStorage::new(11);
    let db = open(&disk, tiny_unsynced());
    let mut random = Random(11);
    let mut overwrite = |count: u32| {
        for _ in 0..count {
            db.put(random.below(2000).to_be_bytes(), random.bytes(100)).unwrap();
        }
    };
    // Merges measure which share of the new data makes garbage.
    for _ in 0..20 {
        overwrite(2000);
        while db.step() {}
    }
    let before = db.stats();
    assert_eq!((before.garbage_slowed_writes, before.garbage_slowed_ns), (0, 0), "{before}");
    let pause = db.pause_background();
    let rounds = (0..30).find(|_| {
        overwrite(500);
        db.stats().garbage_slowed_writes > 10
    });
    let stats = db.stats();
    println!("{stats}");
    assert!(rounds.is_some(), "no writer is slowed for garbage: {stats}");
    assert!(stats.garbage_bytes > before.garbage_bytes, "{before}\n{stats}");
    let (writes, time) = (stats.garbage_slowed_writes, stats.garbage_slowed_ns);
    assert!(writes <= stats.slowed_writes && time > 0 && time <= stats.slowed_ns, "{stats}");
    drop(pause);
    while db.step() {}
    expect_sound(&db);
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < REAL_PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// With threads, the simulated clock follows the real one, so that no thread waits forever; a test may also advance it.
#[test]
fn threads_sync_when_the_interval_has_passed() {
    for (interval, advance) in [(INTERVAL, Duration::ZERO), (REAL_PATIENCE * 100, REAL_PATIENCE * 100)] {
        let disk = SimulatedStorage::new(8);
        let db = Db::open_with(Arc::new(disk.clone()), with_interval(Some(interval))).unwrap();
        db.put("key", "value").unwrap();
        disk.advance(advance);
        wait_until("it is not synced", || db.stats().synced_number == db.stats().last_number);
        db.close().unwrap();
    }
}

/// A regression test: `settle` looked for work by taking the pending check for free space, and discarded it. On a full
/// disk, a caller that repeated it kept the store from ever finding space.
#[test]
fn settling_does_not_stop_checks_of_a_full_disk() {
    let disk = SimulatedStorage::new(9);
    let db = Db::open_with(Arc::new(disk.clone()), tiny_unsynced()).unwrap();
    disk.set_capacity(Some(disk.used() + (2 << 20)));
    let mut random = Random(9);
    while db.put(random.bytes(8), random.bytes(500)).is_ok() {}
    disk.set_capacity(None);
    let started = Instant::now();
    while db.stats().disk_full {
        // `settle` may return the blocking error.
        let _ = db.settle();
        assert!(started.elapsed() < Duration::from_secs(3), "no space is found: {}", db.stats());
    }
    db.put("key", "value").unwrap();
    expect_sound(&db);
    db.close().unwrap();
}
