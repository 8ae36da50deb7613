//! Promises 1 to 3 of `docs/guarantees.md` with real threads, and with budgets so small that generations are switched,
//! incorporated and compacted all the time.

use crate::support::{Random, expect_sound, setting, tiny};
use alluvium::{Db, WriteBatch};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

fn duration() -> Duration {
    Duration::from_millis(setting("ALLUVIUM_CONCURRENCY_MS", 1500))
}

/// Waits for the duration of a test and until `is_enough`: on a slow machine, or under ThreadSanitizer, little may have
/// happened by then. Bounded, and the test itself asserts the condition.
fn run_until(is_enough: impl Fn() -> bool) {
    std::thread::sleep(duration());
    let deadline = Instant::now() + Duration::from_secs(60);
    while !is_enough() && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn number(value: Option<Vec<u8>>) -> u64 {
    value.map_or(0, |value| u64::from_le_bytes(value[..8].try_into().unwrap()))
}

/// Rules W3, G1, G4: each writer counts up in its own keys. A reader never sees a count decrease, and sees every write
/// that was acknowledged before its get began.
#[test]
fn reads_never_go_back() {
    const KEYS: usize = 8;
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let acknowledged: Vec<AtomicU64> = (0..KEYS).map(|_| AtomicU64::new(0)).collect();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (writer, counts) in acknowledged.chunks(KEYS / 2).enumerate() {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut random = Random(writer as u64);
                let mut round = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    for (at, count) in counts.iter().enumerate() {
                        let mut value = round.to_le_bytes().to_vec();
                        value.resize(8 + random.below(200) as usize, 0);
                        db.put([(writer * KEYS / 2 + at) as u8], value).unwrap();
                        count.store(round, Ordering::Release);
                    }
                }
            });
        }
        for reader in 0..2 {
            let (db, stop, acknowledged) = (&db, &stop, &acknowledged);
            scope.spawn(move || {
                let mut random = Random(100 + reader);
                let mut seen = [0; KEYS];
                while !stop.load(Ordering::Relaxed) {
                    let key = random.below(KEYS as u64) as usize;
                    let at_least = acknowledged[key].load(Ordering::Acquire).max(seen[key]);
                    seen[key] = number(db.get([key as u8]).unwrap());
                    assert!(seen[key] >= at_least, "key {key}: {} after {at_least}", seen[key]);
                }
            });
        }
        run_until(|| db.stats().incorporations > 2);
        stop.store(true, Ordering::Relaxed);
    });
    assert!(db.stats().incorporations > 2, "{}", db.stats());
    for (key, count) in acknowledged.iter().enumerate() {
        assert_eq!(number(db.get([key as u8]).unwrap()), count.load(Ordering::Relaxed));
    }
    expect_sound(&db);
}

/// Rules S1, S4, B1 to B4: batches move money between accounts. Every snapshot and every iterator finds the same total.
#[test]
fn every_snapshot_holds_whole_batches() {
    const ACCOUNTS: u64 = 40;
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let account = |at: u64| format!("account{at:03}");
    for at in 0..ACCOUNTS {
        db.put(account(at), 1000u64.to_le_bytes()).unwrap();
    }
    let stop = AtomicBool::new(false);
    let (moves, sums) = (AtomicU64::new(0), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for writer in 0..3u64 {
            let (db, stop, moves) = (&db, &stop, &moves);
            // Each writer has its own accounts, so that plain gets and batches are enough for a transfer.
            let own: Vec<String> = (0..ACCOUNTS).filter(|at| at % 3 == writer).map(account).collect();
            scope.spawn(move || {
                let mut random = Random(writer);
                while !stop.load(Ordering::Relaxed) {
                    let from = &own[random.below(own.len() as u64) as usize];
                    let to = &own[random.below(own.len() as u64) as usize];
                    if from == to {
                        continue;
                    }
                    let (have, had) = (number(db.get(from).unwrap()), number(db.get(to).unwrap()));
                    let amount = random.below(have + 1);
                    let mut batch = WriteBatch::new();
                    batch.put(from.as_str(), (have - amount).to_le_bytes());
                    batch.put(to.as_str(), (had + amount).to_le_bytes());
                    db.write(batch).unwrap();
                    moves.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for reader in 0..2 {
            let (db, stop, sums) = (&db, &stop, &sums);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let snapshot = db.snapshot();
                    let total: u64 = if reader == 0 {
                        snapshot.prefix("account").unwrap().map(|pair| number(Some(pair.unwrap().1))).sum()
                    } else {
                        (0..ACCOUNTS).map(|at| number(snapshot.get(account(at)).unwrap())).sum()
                    };
                    assert_eq!(total, ACCOUNTS * 1000, "at number {}", snapshot.number());
                    sums.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        run_until(|| moves.load(Ordering::Relaxed) > 100 && sums.load(Ordering::Relaxed) > 10);
        stop.store(true, Ordering::Relaxed);
    });
    println!("{} moves, {} sums", moves.load(Ordering::Relaxed), sums.load(Ordering::Relaxed));
    assert!(moves.load(Ordering::Relaxed) > 100 && sums.load(Ordering::Relaxed) > 10);
    expect_sound(&db);
}

/// Rule B2 for plain gets: a batch writes one number to several keys. A reader that reads these keys in turn never
/// finds an older number than in an earlier read.
#[test]
fn plain_gets_see_whole_batches() {
    const KEYS: u8 = 6;
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (writer_db, writer_stop) = (&db, &stop);
        scope.spawn(move || {
            let mut round = 0u64;
            while !writer_stop.load(Ordering::Relaxed) {
                round += 1;
                let mut batch = WriteBatch::new();
                for key in 0..KEYS {
                    batch.put([key], round.to_le_bytes());
                }
                writer_db.write(batch).unwrap();
            }
        });
        for reader in 0..2 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut random = Random(reader);
                while !stop.load(Ordering::Relaxed) {
                    // Starts at a random key.
                    let first = random.below(u64::from(KEYS)) as u8;
                    let mut newest = 0;
                    for offset in 0..KEYS {
                        let seen = number(db.get([(first + offset) % KEYS]).unwrap());
                        assert!(seen >= newest, "{seen} after {newest}");
                        newest = seen;
                    }
                }
            });
        }
        std::thread::sleep(duration());
        stop.store(true, Ordering::Relaxed);
    });
    expect_sound(&db);
}

/// Rule S3 and the linearizability of snapshots: a snapshot holds at least what gets before it saw, and gets after it
/// see at least what it holds. One thread writes x and another one y.
#[test]
fn snapshots_and_gets_agree_on_the_order() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for key in ["x", "y"] {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut round = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    round += 1;
                    db.put(key, round.to_le_bytes()).unwrap();
                }
            });
        }
        for _ in 0..2 {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                while !stop.load(Ordering::Relaxed) {
                    let (y, x) = (number(db.get("y").unwrap()), number(db.get("x").unwrap()));
                    let snapshot = db.snapshot();
                    let (in_x, in_y) = (number(snapshot.get("x").unwrap()), number(snapshot.get("y").unwrap()));
                    assert!(in_x >= x && in_y >= y, "snapshot ({in_x}, {in_y}) after gets ({x}, {y})");
                    let (after_y, after_x) = (number(db.get("y").unwrap()), number(db.get("x").unwrap()));
                    assert!(
                        after_x >= in_x && after_y >= in_y,
                        "gets ({after_x}, {after_y}) after snapshot ({in_x}, {in_y})"
                    );
                }
            });
        }
        std::thread::sleep(duration());
        stop.store(true, Ordering::Relaxed);
    });
    expect_sound(&db);
}

/// Closing during background work returns soon.
#[test]
fn closing_is_quick_under_load() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let mut random = Random(1);
    for _ in 0..20_000 {
        db.put(random.bytes(8), random.bytes(100)).unwrap();
    }
    let started = Instant::now();
    db.close().unwrap();
    assert!(started.elapsed() < Duration::from_secs(5), "{:?}", started.elapsed());
    expect_sound(&Db::open(directory.path(), tiny()).unwrap());
}

/// A regression test: an interval beyond the range of the clock ended a log thread, and writers waited forever for the
/// segment that this thread should have made.
#[test]
fn an_endless_sync_interval_means_no_background_sync() {
    let directory = tempfile::tempdir().unwrap();
    let options = tiny().sync_interval(Duration::MAX);
    let db = Db::open(directory.path(), options).unwrap();
    for number in 0..10_000u32 {
        db.put(number.to_be_bytes(), [1; 100]).unwrap();
    }
    assert_eq!(db.stats().failure, None);
    assert_eq!(db.iter().unwrap().count(), 10_000);
    db.close().unwrap();
}

/// Rule W3: two puts of one key take effect in the order of their numbers. The final value is the same from memory, at
/// a snapshot, and from the log after reopening, where the numbers decide. Each of several writers writes each key
/// once. Batches hold their latches for long, so that other writers wait behind them.
#[test]
fn the_last_of_several_writers_of_one_key_stays_the_last() {
    let deadline = Instant::now() + duration();
    one_write_of_each_key_by_each_writer();
    while Instant::now() < deadline {
        one_write_of_each_key_by_each_writer();
    }
}

fn one_write_of_each_key_by_each_writer() {
    const KEYS: u32 = 4000;
    const AT_ONCE: u32 = 100;
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let together = Barrier::new(4);
    std::thread::scope(|scope| {
        for writer in 0..4u8 {
            let (db, together) = (&db, &together);
            scope.spawn(move || {
                let mut written = Ok(());
                for first in (0..KEYS).step_by(AT_ONCE as usize) {
                    let mut keys = (first..first + AT_ONCE).map(u32::to_be_bytes);
                    // Waits even after a failed write; otherwise the other threads would wait forever.
                    together.wait();
                    let these = if writer < 2 {
                        let mut batch = WriteBatch::new();
                        keys.for_each(|key| {
                            batch.put(key, [writer]);
                        });
                        db.write(batch)
                    } else {
                        keys.try_for_each(|key| db.put(key, [writer]))
                    };
                    written = written.and(these);
                }
                written.unwrap();
            });
        }
    });
    let all = |db: &Db| -> Vec<_> { (0..KEYS).map(|key| db.get(key.to_be_bytes()).unwrap()).collect() };
    let now = all(&db);
    let snapshot = db.snapshot();
    for (key, value) in (0..KEYS).zip(&now) {
        assert_eq!(snapshot.get(key.to_be_bytes()).unwrap(), *value, "key {key} at a snapshot");
    }
    drop(snapshot);
    db.close().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    for (key, (before, after)) in now.iter().zip(&all(&db)).enumerate() {
        assert_eq!(before, after, "key {key}: the value changed by reopening");
    }
    expect_sound(&db);
    db.close().unwrap();
}

/// Rule P1: several threads increment counters during flushes, and during writes of other keys that fill memory. No
/// increment is lost, whether the old value is in the Membuffer, in a Memtable that is being incorporated, or in a
/// branch file.
#[test]
fn no_update_is_lost() {
    const COUNTERS: u64 = 4;
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let stop = AtomicBool::new(false);
    let mut counted = [0; COUNTERS as usize];
    std::thread::scope(|scope| {
        let (db, stop) = (&db, &stop);
        let counters: Vec<_> = (0..3u64)
            .map(|thread| {
                scope.spawn(move || {
                    let (mut random, mut counts) = (Random(thread), [0; COUNTERS as usize]);
                    while !stop.load(Ordering::Relaxed) {
                        let key = random.below(COUNTERS) as u8;
                        match random.below(4) {
                            // Pauses so that the counters reach branch files from time to time.
                            0 => std::thread::sleep(Duration::from_micros(random.below(2000))),
                            1 => {
                                let old = db.get([key]).unwrap();
                                let new = (number(old.clone()) + 1).to_le_bytes();
                                let swap = db.compare_and_swap([key], old.as_deref(), Some(&new)).unwrap();
                                counts[key as usize] += u64::from(swap.is_done());
                            }
                            _ => {
                                let add = |old: Option<&[u8]>| number(old.map(<[u8]>::to_vec)) + 1;
                                db.update([key], |old| Some(add(old).to_le_bytes().to_vec())).unwrap();
                                counts[key as usize] += 1;
                            }
                        }
                    }
                    counts
                })
            })
            .collect();
        scope.spawn(move || {
            let mut random = Random(9);
            while !stop.load(Ordering::Relaxed) {
                for _ in 0..random.below(200) {
                    db.put(random.below(1 << 40).to_le_bytes(), [7; 400]).unwrap();
                }
                db.flush().unwrap();
            }
        });
        run_until(|| db.stats().incorporations > 2);
        stop.store(true, Ordering::Relaxed);
        for counts in counters.into_iter().map(|counter| counter.join().unwrap()) {
            (0..counted.len()).for_each(|key| counted[key] += counts[key]);
        }
    });
    assert!(db.stats().incorporations > 2, "{}", db.stats());
    let found: Vec<u64> = (0..COUNTERS).map(|key| number(db.get([key as u8]).unwrap())).collect();
    assert_eq!(found, counted);
}
