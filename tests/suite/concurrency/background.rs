//! Control of background work by the user: compacting ranges, cancelling that, closing during it, pauses, and a limit
//! of its write rate.

use crate::support::{Random, expect_sound, setting, tiny, tiny_unsynced};
use alluvium::internals::DeterministicDb;
use alluvium::storage::Storage;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{
    BackgroundKind, BackgroundTask, Cancellation, CompactOptions, CompactProgress, CompactReport, Db, Error, Goal,
    Options, Stats,
};
use std::sync::Arc;
use std::thread::ScopedJoinHandle;
use std::time::{Duration, Instant};

/// Longer than any test here takes in real time.
const REAL_PATIENCE: Duration = Duration::from_secs(20);
/// The time limit of `close`.
const CLOSING: Duration = Duration::from_secs(1);

fn deterministic(seed: u64) -> (SimulatedStorage, DeterministicDb) {
    let disk = SimulatedStorage::new(seed);
    let db = DeterministicDb::open(Arc::new(disk.clone()), tiny_unsynced()).unwrap();
    (disk, db)
}

fn threaded(seed: u64) -> (SimulatedStorage, Db) {
    let disk = SimulatedStorage::new(seed);
    let db = Db::open_with(Arc::new(disk.clone()), tiny()).unwrap();
    (disk, db)
}

fn key(number: u32) -> String {
    format!("{number:06}")
}

/// Writes the keys below `keys` in a scattered order, so that the tree has several runs everywhere.
fn fill(db: &Db, keys: u32, value: &[u8]) {
    for at in 0..keys {
        db.put(key(at * 7919 % keys), value).unwrap();
    }
}

fn compact(db: &Db, from: &str, to: &str, goal: Goal) -> CompactReport {
    let options = CompactOptions::new().goal(goal);
    db.compact_with(from..to, &options, &mut |_| ()).unwrap()
}

fn wait_until(what: &str, done: impl Fn() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < REAL_PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until a merge has read something.
fn wait_for_merge(db: &Db) {
    let is_begun = |task: &BackgroundTask| task.kind == BackgroundKind::Merge && task.bytes_done > 0;
    wait_until("no merge runs", || db.stats().running.iter().any(is_begun));
}

#[test]
fn a_range_is_compacted_once_and_the_rest_left_alone() {
    let (disk, db) = deterministic(1);
    fill(&db, 40_009, &[1; 100]);
    db.compact().unwrap();
    // So few deletes that no merge is due.
    (0..40_009).step_by(50).for_each(|at| db.delete(key(at)).unwrap());
    db.flush().unwrap();
    while db.step() {}
    let branches = || disk.list().unwrap().into_iter().filter(|name| name.ends_with(".branch")).collect::<Vec<_>>();
    let (before, written) = (branches(), db.stats().compacted_bytes);
    let report = compact(&db, "010000", "012000", Goal::Space);
    assert!(report.bytes_written > 0 && report.bytes_read > 0, "{report:?}");
    let after = branches();
    let kept = before.iter().filter(|name| after.contains(name)).count();
    assert!(
        kept * 2 > before.len(),
        "a twentieth of the keys was compacted, but only {kept} of {} files stay",
        before.len()
    );
    for goal in [Goal::Space, Goal::Reads] {
        assert_eq!(compact(&db, "010000", "012000", goal), CompactReport::default(), "{goal:?}");
    }
    // The report excludes work that is due anyway, so this compares all bytes written.
    let of_range = db.stats().compacted_bytes - written;
    compact(&db, "", "~", Goal::Space);
    let of_all = db.stats().compacted_bytes - written;
    assert!(of_all > 4 * of_range, "{of_all} and {of_range} bytes");
    assert_eq!(compact(&db, "", "~", Goal::Space), CompactReport::default());
    let expected = (0..40_009u32).filter(|at| at % 50 != 0).count();
    // A file that two leaves share may stay for the leaf in which none of its entries is dead, and with it the other
    // leaf's part.
    let dead = db.verify().unwrap().entries - expected as u64;
    assert!(dead * 50 < expected as u64, "{dead} dead entries: {}", db.stats());
    assert_eq!(db.iter().unwrap().count(), expected);
    // A range without keys is no error and costs nothing.
    for (from, to) in [("b", "a"), ("a", "a"), ("x", "z")] {
        assert_eq!(compact(&db, from, to, Goal::Space), CompactReport::default());
    }
    db.verify().unwrap();
}

#[test]
fn optimize_rewrites_less_and_leaves_one_run_to_read() {
    let written = |goal| {
        let (_disk, db) = deterministic(2);
        // Keys in order, so that each leaf is one run, some with retained versions of a snapshot.
        (0..5000).for_each(|at| db.put(key(at), [1; 100]).unwrap());
        let snapshot = db.snapshot();
        (0..500).for_each(|at| db.put(key(at), [2; 100]).unwrap());
        db.compact().unwrap();
        drop(snapshot);
        let report = compact(&db, "", "~", goal);
        assert_eq!(compact(&db, "", "~", goal).bytes_written, 0, "{goal:?}");
        report.bytes_written
    };
    let (space, reads) = (written(Goal::Space), written(Goal::Reads));
    assert!(space > 0 && reads == 0, "{space} and {reads} bytes");
}

#[test]
fn progress_rises_to_its_end() {
    let (_disk, db) = deterministic(3);
    fill(&db, 10_007, &[1; 100]);
    // First does the work that is due anyway, which is no part of the call.
    while db.step() {}
    let mut seen: Vec<CompactProgress> = Vec::new();
    let report = db.compact_with(.., &CompactOptions::default(), &mut |progress| seen.push(progress)).unwrap();
    assert!(seen.len() > 3, "{seen:?}");
    assert!(seen.is_sorted_by_key(|progress| progress.bytes_done), "{seen:?}");
    assert!(seen.iter().all(|progress| progress.bytes_done <= progress.bytes_total), "{seen:?}");
    let end = seen.last().unwrap();
    assert!(end.bytes_done == end.bytes_total && end.bytes_total == report.bytes_read, "{end:?} {report:?}");
    // The first estimate is roughly right.
    let estimate = seen[0].bytes_total;
    assert!(estimate < 3 * report.bytes_read && report.bytes_read < 3 * estimate, "{estimate} {report:?}");
}

#[test]
fn a_cancelled_call_ends_soon_and_changes_no_answer() {
    let (_disk, db) = threaded(4);
    fill(&db, 20_011, &[1; 100]);
    db.settle().unwrap();
    let cancellation = Cancellation::new();
    cancellation.cancel();
    let options = CompactOptions::new().cancellation(cancellation);
    let refused = db.compact_with(.., &options, &mut |_| ());
    assert!(matches!(refused, Err(Error::Cancelled)), "{refused:?}");
    // At this rate the call would take minutes.
    db.set_background_write_limit(Some(20 << 10)).unwrap();
    let cancellation = Cancellation::new();
    let options = CompactOptions::new().cancellation(cancellation.clone());
    let (ended, cancelled) = std::thread::scope(|scope| {
        let call = scope.spawn(|| db.compact_with(.., &options, &mut |_| ()));
        let begun = |task: &&BackgroundTask| task.kind == BackgroundKind::Merge && task.bytes_done > 0;
        wait_until("no merge runs", || db.stats().running.iter().any(|task| begun(&task)));
        let running = db.stats().running;
        let merge = running.iter().find(begun).expect("the merge ended before its cancellation");
        assert!(merge.bytes_done <= merge.bytes_total && merge.node.is_some(), "{merge}");
        let cancelled = Instant::now();
        cancellation.cancel();
        (call.join().unwrap(), cancelled.elapsed())
    });
    assert!(matches!(ended, Err(Error::Cancelled)), "{ended:?}");
    assert!(cancelled < CLOSING, "{cancelled:?}");
    db.set_background_write_limit(None).unwrap();
    db.settle().unwrap();
    assert!(db.stats().running.is_empty(), "{}", db.stats());
    assert_eq!(db.iter().unwrap().count(), 20_011);
    db.compact().unwrap();
    assert_eq!(compact(&db, "", "~", Goal::Space), CompactReport::default());
    db.verify().unwrap();
}

/// The cancelled call's merge ends, too, not only the call.
#[test]
fn the_merge_of_a_cancelled_call_ends() {
    let (_disk, db) = threaded(6);
    // Only the call has work here: each leaf is one run, and too few of its retained versions are unneeded for a merge
    // to be due.
    fill(&db, 5003, &[1; 100]);
    let snapshot = db.snapshot();
    (0..5003).step_by(5).for_each(|at| db.put(key(at), [2; 100]).unwrap());
    db.compact().unwrap();
    drop(snapshot);
    db.settle().unwrap();
    db.set_background_write_limit(Some(1 << 10)).unwrap();
    let cancellation = Cancellation::new();
    let options = CompactOptions::new().goal(Goal::Space).cancellation(cancellation.clone());
    let merges = || db.stats().running.iter().filter(|task| task.kind == BackgroundKind::Merge).count();
    std::thread::scope(|scope| {
        let call = scope.spawn(|| db.compact_with(.., &options, &mut |_| ()));
        wait_until("no merge runs", || merges() > 0);
        cancellation.cancel();
        assert!(matches!(call.join().unwrap(), Err(Error::Cancelled)));
    });
    wait_until("the merge of the cancelled call still runs", || merges() == 0);
    assert!(compact(&db, "", "~", Goal::Reads) == CompactReport::default(), "the cancelled merge was due anyway");
}

/// A regression test: only merges could be stopped, so closing during an incorporation waited for all of it.
#[test]
fn closing_stops_background_work() {
    for what in ["incorporation", "merge", "pause"] {
        let (disk, db) = threaded(5);
        fill(&db, 20_011, &[1; 100]);
        db.settle().unwrap();
        let runs = |is_memory: bool| {
            let is_it = |kind| (kind == BackgroundKind::Incorporate) == is_memory;
            let begun = |stats: Stats| stats.running.iter().any(|task| is_it(task.kind) && task.bytes_written > 0);
            wait_until("the task does not begin", || begun(db.stats()))
        };
        let pause = db.pause_background();
        // So slow that each task would take half a minute.
        let limit = || db.set_background_write_limit(Some(2 << 10)).unwrap();
        if what == "incorporation" {
            limit();
            (0..500).for_each(|at| db.put(key(at), [2; 80]).unwrap());
            runs(true);
            drop(pause);
        } else {
            // Work for merges only.
            for round in 0..20u8 {
                (0..500u32).for_each(|at| db.put(key(at * 40), [round; 80]).unwrap());
                db.flush().unwrap();
            }
            limit();
            drop(pause);
            runs(false);
        }
        let pause = (what == "pause").then(|| db.pause_background());
        let started = Instant::now();
        drop(db);
        let elapsed = started.elapsed();
        println!("{what}: {elapsed:?}");
        assert!(elapsed < CLOSING, "{what}: closing took {elapsed:?}");
        drop(pause);
        let db = DeterministicDb::open(Arc::new(disk.clone()), tiny()).unwrap();
        assert_eq!(db.iter().unwrap().count(), 20_011, "{what}");
        db.verify().unwrap();
    }
}

/// On the real disk, with much memory and as many merges as the options allow.
#[test]
fn closing_under_load_on_the_real_disk_takes_less_than_a_second() {
    let megabytes = setting("ALLUVIUM_CLOSING_MB", 48);
    let directory = tempfile::tempdir().unwrap();
    let options = Options::new().memory_budget(96 << 20);
    let db = Db::open(directory.path(), options.clone()).unwrap();
    let (mut random, mut keys) = (Random(6), 0u64);
    let value = random.bytes(1000);
    // Background work must still run when the store is closed. On a busy machine it may have kept up.
    let is_busy = || !db.stats().running.is_empty() || db.stats().generations > 1 || megabytes < 8;
    while keys < megabytes * 1000 || (!is_busy() && keys < megabytes * 8000) {
        for _ in 0..500 {
            db.put(random.next().to_be_bytes(), &value).unwrap();
            keys += 1;
        }
    }
    assert!(is_busy(), "{}", db.stats());
    let started = Instant::now();
    db.close().unwrap();
    let elapsed = started.elapsed();
    println!("closing took {elapsed:?}");
    assert!(elapsed < CLOSING, "closing took {elapsed:?}");
    let db = Db::open(directory.path(), options).unwrap();
    assert_eq!(db.stats().last_number, keys);
    expect_sound(&db);
    db.close().unwrap();
}

#[test]
fn a_pause_stops_merges_but_not_incorporations() {
    let (_disk, db) = threaded(7);
    db.settle().unwrap();
    let (outer, inner) = (db.pause_background(), db.pause_background());
    let before = db.stats();
    fill(&db, 5003, &[1; 100]);
    db.flush().unwrap();
    db.settle().unwrap();
    let paused = db.stats();
    assert!(paused.incorporations > before.incorporations + 5, "{paused}");
    assert_eq!(paused.jobs, before.jobs, "{paused}");
    drop(inner);
    assert!(db.stats().background_paused, "one of two pauses ended both");
    db.settle().unwrap();
    assert_eq!(db.stats().jobs, before.jobs);
    drop(outer);
    assert!(!db.stats().background_paused);
    db.settle().unwrap();
    assert!(db.stats().jobs > before.jobs, "{}", db.stats());
    // A pause that outlives its store has no effect.
    let pause = db.pause_background();
    db.close().unwrap();
    drop(pause);
}

/// A regression test: the only background thread was in a merge when the pause began. The ballast had to grow then,
/// which no thread could do, and `settle` waited for the end of the pause, here forever.
#[test]
fn settling_does_not_wait_for_paused_merges() {
    let options = tiny().background_threads(1).maplets(false);
    let db = Db::open_with(Arc::new(SimulatedStorage::new(9)), options).unwrap();
    // So little data that the ballast grows later.
    fill(&db, 503, &[1; 100]);
    db.flush().unwrap();
    db.settle().unwrap();
    db.set_background_write_limit(Some(10)).unwrap();
    std::thread::scope(|scope| {
        let _lifted = Lifted(&db);
        let call = scope.spawn(|| db.compact());
        wait_for_merge(&db);
        let pause = db.pause_background();
        db.set_background_write_limit(None).unwrap();
        let before = db.stats();
        assert!(before.running.iter().any(|task| task.paused), "{before}");
        (0..5003).for_each(|at| db.put(key(at), [2; 100]).unwrap());
        let settled = scope.spawn(|| db.settle());
        // `settle` must not wait for the pause.
        let started = Instant::now();
        while !settled.is_finished() && started.elapsed() < REAL_PATIENCE {
            std::thread::sleep(Duration::from_millis(2));
        }
        let (in_time, stats) = (settled.is_finished(), db.stats());
        drop(pause);
        settled.join().unwrap().unwrap();
        call.join().unwrap().unwrap();
        assert!(in_time, "`settle` waited for the pause: {stats}");
        assert!(stats.incorporations > before.incorporations + 5, "{stats}");
    });
    expect_sound(&db);
}

/// Removes the limit when it is dropped, so that a failing test does not wait for limited work.
struct Lifted<'a>(&'a Db);

impl Drop for Lifted<'_> {
    fn drop(&mut self) {
        let _ = self.0.set_background_write_limit(None);
    }
}

#[test]
fn a_pause_stops_running_merges_and_calls_that_wait_for_them() {
    // Without maplets, since building them at this rate would keep both threads from merging.
    let options = tiny().maplets(false);
    let db = Db::open_with(Arc::new(SimulatedStorage::new(8)), options).unwrap();
    fill(&db, 20_011, &[1; 100]);
    db.flush().unwrap();
    db.settle().unwrap();
    // A merge that waits an hour for the limit pauses at once, too.
    db.set_background_write_limit(Some(10)).unwrap();
    std::thread::scope(|scope| {
        let _lifted = Lifted(&db);
        let call = scope.spawn(|| db.compact());
        wait_for_merge(&db);
        let pause = db.pause_background();
        let before = db.stats();
        assert!(before.running.iter().any(|task| task.paused), "{before}");
        std::thread::sleep(Duration::from_millis(100));
        let done = |stats: &Stats| stats.running.iter().map(|task| (task.paused, task.bytes_done)).collect::<Vec<_>>();
        assert_eq!(done(&db.stats()), done(&before), "{before}\n{}", db.stats());
        assert!(!call.is_finished());
        db.set_background_write_limit(None).unwrap();
        drop(pause);
        call.join().unwrap().unwrap();
    });
    db.verify().unwrap();
}

/// Regression: where merges were slower than writers, up to 57 runs were seen in a node, and 238 with a tiny budget.
#[test]
fn writers_at_full_speed_do_not_exceed_the_bound_on_runs() {
    const RUNS_BOUND: u64 = 32;
    let disk = SimulatedStorage::new(61);
    let options = tiny_unsynced().memory_budget(1 << 20).background_threads(2);
    let db = Db::open_with(Arc::new(disk), options).unwrap();
    let puts = setting("ALLUVIUM_PUTS", 30_000);
    let mut most = 0;
    std::thread::scope(|scope| {
        let write = |seed| {
            let mut random = Random(seed);
            (0..puts).for_each(|_| db.put(key(random.below(1_000_000) as u32), [1; 100]).unwrap());
        };
        let writers = [1, 2].map(|seed| scope.spawn(move || write(seed)));
        while !writers.iter().all(ScopedJoinHandle::is_finished) {
            most = db.stats().levels.iter().map(|level| level.runs).fold(most, u64::max);
        }
    });
    assert!(most > RUNS_BOUND / 2, "at most {most} runs: this test needs faster writers");
    assert!(most <= RUNS_BOUND, "{most} runs in a node: {}", db.stats());
    db.settle().unwrap();
    expect_sound(&db);
}

/// In simulated time, on a disk that takes almost no time.
#[test]
fn background_writes_keep_to_their_limit() {
    let (disk, db) = deterministic(9);
    fill(&db, 10_007, &[1; 100]);
    db.flush().unwrap();
    while db.step() {}
    let bytes = |stats: &Stats| stats.incorporated_bytes + stats.compacted_bytes;
    for limit in [50 << 10, 200 << 10] {
        db.set_background_write_limit(Some(limit)).unwrap();
        let (before, started) = (db.stats(), disk.now());
        fill(&db, 1009, &[2; 100]);
        db.compact().unwrap();
        let after = db.stats();
        // Without the delays of the writer, which is the only thread.
        let slept = Duration::from_nanos(after.slowed_ns - before.slowed_ns);
        let (written, took) = (bytes(&after) - bytes(&before), disk.now() - started - slept);
        let rate = written as f64 / took.as_secs_f64();
        println!("{written} bytes in {took:?}");
        assert!(
            rate > 0.7 * limit as f64 && rate < 1.1 * limit as f64,
            "{rate:.0} bytes a second, the limit is {limit}"
        );
    }
    for refused in [db.set_background_write_limit(Some(0)), {
        let options = tiny().background_write_limit(0);
        DeterministicDb::open(Arc::new(SimulatedStorage::new(1)), options).map(drop)
    }] {
        assert!(refused.unwrap_err().to_string().contains("background_write_limit is 0"));
    }
}

/// A regression test: the delay was at most twice the time of incorporation for the bytes in memory. Where a limit left
/// less for merges, debt grew without end. And no sleep was longer than two milliseconds, so writers of large values
/// filled memory and stalled.
#[test]
fn a_background_limit_slows_writers_smoothly() {
    // Large enough that files have little overhead beyond the user's data; otherwise background work would exceed the
    // limit.
    let options = Options::new().memory_budget(8 << 20).background_threads(2);
    for value_bytes in [100, 8000] {
        // Other load on the machine may disturb the measurement, but a fault of the store shows in every attempt.
        let mut held = slowed_smoothly(&options, value_bytes);
        for _ in 0..2 {
            if let Err(error) = &held {
                println!("repeated: {error}");
                held = slowed_smoothly(&options, value_bytes);
            }
        }
        held.unwrap();
    }
}

/// Returns an error if writers stalled, debt grew without end, or the rate of writes did not fit the limit.
fn slowed_smoothly(options: &Options, value_bytes: usize) -> Result<(), String> {
    let (limit, memtable) = (6 << 20, (8 << 20) / 12);
    let db = Db::open_with(Arc::new(SimulatedStorage::new(10)), options.clone()).unwrap();
    db.set_background_write_limit(Some(limit)).unwrap();
    let mut random = Random(10);
    let value = random.bytes(value_bytes);
    let write_for = |random: &mut Random, time: Duration| {
        let (started, before) = (Instant::now(), db.stats());
        let (mut debt, mut looked) = (0, started);
        while started.elapsed() < time {
            db.put(random.next().to_be_bytes(), &value).unwrap();
            if looked.elapsed() > Duration::from_millis(10) {
                looked = Instant::now();
                debt = db.stats().debt_bytes.max(debt);
            }
        }
        let rate = (db.stats().user_bytes - before.user_bytes) as f64 / started.elapsed().as_secs_f64();
        (rate, debt)
    };
    // Until debt has reached its final level.
    write_for(&mut random, Duration::from_secs(setting("ALLUVIUM_LIMIT_SECONDS", 3)));
    let (rate, debt) = write_for(&mut random, Duration::from_secs(setting("ALLUVIUM_LIMIT_SECONDS", 3)));
    let stats = db.stats();
    let carried = limit as f64 / stats.write_amplification();
    println!(
        "values of {value_bytes}: {rate:.0} bytes a second, the limit carries {carried:.0}; debt up to {debt} bytes\n{stats}"
    );
    expect_sound(&db);
    db.close().unwrap();
    let stalled = Duration::from_nanos(stats.stalled_ns);
    if stalled >= Duration::from_millis(300) {
        return Err(format!("writers stalled for {stalled:?}"));
    }
    // The debt at which writers are slowed most, plus the running work.
    if debt >= (48 + 16) * memtable {
        return Err(format!("{debt} bytes of debt"));
    }
    if rate <= carried * 0.4 || rate >= carried * 2.0 {
        return Err(format!("{rate:.0} bytes a second, the limit carries {carried:.0}"));
    }
    Ok(())
}
