//! Many stores share the background threads of their process, and do not hinder each other.

use super::openers::hooked::Hooked;
use crate::support::child;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Error, Options};
use std::collections::HashMap;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
const STORES: usize = 100;
/// All threads of a process with that many idle stores, the two of the test harness included.
const THREADS_MAX: usize = 4;

/// A small store that names no number of threads.
fn shared() -> Options {
    Options::new().memory_budget(320 << 10)
}

fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let started = Instant::now();
    while !done() {
        assert!(started.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The text of a file of every thread of this process.
fn of_threads(file: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().flatten();
    tasks.filter_map(|task| std::fs::read_to_string(task.path().join(file)).ok()).collect()
}

fn pool_threads() -> usize {
    of_threads("comm").iter().filter(|name| name.starts_with("alluvium-")).count()
}

/// How often each thread of this process has waited.
fn waits() -> HashMap<u64, u64> {
    let figure = |status: &str, name: &str| {
        let line = status.lines().find(|line| line.starts_with(name))?;
        line.split_whitespace().nth(1)?.parse::<u64>().ok()
    };
    let of_thread = |status: &String| Some((figure(status, "Pid:")?, figure(status, "voluntary_ctxt_switches")?));
    of_threads("status").iter().filter_map(of_thread).collect()
}

/// How often threads waited since `before`. Those that have ended since do not count.
fn waits_since(before: &HashMap<u64, u64>) -> u64 {
    waits().iter().map(|(thread, waits)| waits - before.get(thread).unwrap_or(&0)).sum()
}

fn run_child(role: &str) {
    let status = child::command(role).stdout(Stdio::null()).status().unwrap();
    assert!(status.success(), "the child failed; its error is above");
}

#[test]
fn a_hundred_idle_stores_share_one_thread() {
    run_child("idle stores");
}

pub fn idle_child() {
    let disks: Vec<SimulatedStorage> = (0..STORES as u64).map(SimulatedStorage::new).collect();
    let open = |disk: &SimulatedStorage| Db::open_with(Arc::new(disk.clone()), shared()).unwrap();
    let stores: Vec<Db> = disks.iter().map(open).collect();
    for store in &stores {
        store.put("key", "value").unwrap();
    }
    // What was written is synced, although nobody asks for it.
    wait_for("unsynced data", || stores.iter().all(|store| store.stats().synced_number == store.stats().last_number));
    wait_for("threads that are not needed", || of_threads("comm").len() < THREADS_MAX);
    // They get ever quieter. A thread of a store that looked every 100 ms would wait 1,000 times a second.
    wait_for("idle stores that keep the process busy", || {
        let before = waits();
        std::thread::sleep(Duration::from_secs(1));
        waits_since(&before) < 50 && of_threads("comm").len() < THREADS_MAX
    });
    // A store that was idle for long still syncs at the interval.
    stores[7].put("key", "later").unwrap();
    wait_for("unsynced data", || stores[7].stats().synced_number == 2);
    stores[8].flush().unwrap();
    assert_eq!(stores[8].stats().incorporations, 1);
    for store in stores {
        store.close().unwrap();
    }
    wait_for("threads without stores", || pool_threads() == 0);
    let store = open(&disks[7]);
    assert_eq!(store.get("key").unwrap().as_deref(), Some(&b"later"[..]));
    store.put("key", "again").unwrap();
    store.flush().unwrap();
    store.close().unwrap();
    wait_for("threads without stores", || pool_threads() == 0);
}

/// A disk that hangs from some moment on, until this is dropped.
#[derive(Default)]
struct Hang {
    hangs: Arc<(Mutex<bool>, Condvar)>,
}

impl Hang {
    fn disk(&self, seed: u64) -> Hooked {
        let hangs = Arc::clone(&self.hangs);
        let wait = move |_| {
            let mut hung = hangs.0.lock().unwrap();
            while *hung {
                hung = hangs.1.wait(hung).unwrap();
            }
        };
        Hooked::new(Arc::new(SimulatedStorage::new(seed)), wait, |_| ())
    }

    fn set(&self, hangs: bool) {
        *self.hangs.0.lock().unwrap() = hangs;
        self.hangs.1.notify_all();
    }
}

impl Drop for Hang {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// Stores whose disk hangs occupy a thread each, for a sync and for an incorporation. There are more of them than half
/// of the workers of any pool.
#[test]
fn stores_on_a_hung_disk_do_not_stop_another_one() {
    let good = Db::open_with(Arc::new(SimulatedStorage::new(1)), shared()).unwrap();
    let stores: Vec<Db>;
    let hang = Hang::default();
    stores = (0..8).map(|seed| Db::open_with(Arc::new(hang.disk(seed)), shared()).unwrap()).collect();
    std::thread::scope(|scope| {
        // Ends the hang before the scope waits for its threads, even if the test fails.
        let hang = hang;
        for store in &stores {
            store.put("key", "value").unwrap();
        }
        hang.set(true);
        for store in &stores {
            store.put("key", "lost so far").unwrap();
            scope.spawn(|| store.flush().unwrap());
        }
        for round in 1..=5u64 {
            good.put("key", [round as u8]).unwrap();
            wait_for("no sync at the interval", || good.stats().synced_number == round);
            good.flush().unwrap();
            assert_eq!(good.stats().incorporations, round);
        }
        good.compact().unwrap();
        good.close().unwrap();
        assert!(stores.iter().all(|store| store.stats().incorporations == 0), "the disk did not hang");
    });
    for store in stores {
        store.close().unwrap();
    }
}

#[test]
fn a_panic_in_one_store_leaves_the_others_working() {
    let panics = Arc::new(AtomicBool::new(false));
    let for_disk = Arc::clone(&panics);
    let panic_in_pool = move |_| {
        let is_pool = std::thread::current().name().is_some_and(|name| name.starts_with("alluvium-"));
        assert!(!is_pool || !for_disk.load(Ordering::Relaxed), "a planned panic");
    };
    let disk = Hooked::new(Arc::new(SimulatedStorage::new(1)), panic_in_pool, |_| ());
    let bad = Db::open_with(Arc::new(disk), shared()).unwrap();
    let good = Db::open_with(Arc::new(SimulatedStorage::new(2)), shared()).unwrap();
    bad.put("key", "value").unwrap();
    panics.store(true, Ordering::Relaxed);
    let failed = bad.flush().unwrap_err();
    assert!(matches!(&failed, Error::ReadOnly { reason } if reason.contains("planned panic")), "{failed}");
    for round in 1..=3 {
        good.put("key", "value").unwrap();
        good.flush().unwrap();
        assert_eq!(good.stats().incorporations, round);
    }
    assert_eq!(bad.get("key").unwrap().as_deref(), Some(&b"value"[..]));
    good.close().unwrap();
    let _ = bad.close();
}

/// A limited merge takes minutes, and another store has neither to wait for it, nor to wait for it when it closes.
#[test]
fn a_store_closes_while_others_merge() {
    let slow: Vec<Db> = (0..8)
        .map(|seed| {
            let db = Db::open_with(Arc::new(SimulatedStorage::new(seed)), shared()).unwrap();
            for round in 0..2u8 {
                (0..3000u32).for_each(|key| db.put(format!("{:06}", key * 7919 % 3000), [round; 100]).unwrap());
                db.flush().unwrap();
            }
            db.settle().unwrap();
            db.delete("000001").unwrap();
            db.flush().unwrap();
            db.set_background_write_limit(Some(1 << 10)).unwrap();
            db
        })
        .collect();
    let compacts = |db: &Db| db.stats().running.iter().any(|task| task.bytes_total > 100 << 10);
    let other = Db::open_with(Arc::new(SimulatedStorage::new(99)), shared()).unwrap();
    std::thread::scope(|scope| {
        for db in &slow {
            // Ends with an error when the store is closed, or when the limit is lifted without one.
            scope.spawn(|| drop(db.compact()));
        }
        let lifted = scopeguard(|| slow.iter().for_each(|db| db.set_background_write_limit(None).unwrap()));
        wait_for("no merge", || slow.iter().all(compacts));
        for round in 0..3u8 {
            other.put("key", [round]).unwrap();
            other.flush().unwrap();
        }
        other.compact().unwrap();
        other.close().unwrap();
        assert!(slow.iter().all(compacts), "a merge ended: this test needs slower ones");
        drop(lifted);
    });
    for db in slow {
        db.close().unwrap();
    }
}

/// Calls a function when it is dropped.
fn scopeguard(end: impl FnMut()) -> impl Drop {
    struct Guard<F: FnMut()>(F);
    impl<F: FnMut()> Drop for Guard<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }
    Guard(end)
}

/// The parent's threads sleep at the fork. The child's stores once hung then: the locks had one table of waiting threads for the
/// process, with the parent's threads in it, whose memory the child reused.
#[test]
fn a_forked_child_has_threads_of_its_own() {
    run_child("fork");
}

fn other_threads_sleep() -> bool {
    // SAFETY: a plain call.
    let own = unsafe { libc::gettid() }.to_string();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap());
    tasks.filter(|task| task.file_name() != own.as_str()).all(|task| {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // After the name in brackets, which may contain spaces.
        stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" S"))
    })
}

pub fn forking_child() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path().join("parent"), shared()).unwrap();
    db.put("key", "value").unwrap();
    wait_for("the store's threads do not sleep", other_threads_sleep);
    // SAFETY: the child only calls the store, and then `_exit`. It may allocate and start threads, since glibc makes
    // its allocator usable in forked children.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a plain call; if anything below hangs, the alarm ends the child.
        unsafe { libc::alarm(50) };
        let run = || -> Result<bool, Error> {
            if !matches!(db.put("key", "child"), Err(Error::Forked)) || !matches!(db.flush(), Err(Error::Forked)) {
                return Ok(false);
            }
            for _ in 0..2 {
                let own = Db::open(directory.path().join("child"), shared())?;
                own.put("key", "value")?;
                own.flush()?;
                own.close()?;
            }
            Ok(matches!(db.close(), Err(Error::Forked)))
        };
        let is_right = run();
        // SAFETY: ends the child without the exit handlers of the test harness.
        unsafe { libc::_exit(if matches!(is_right, Ok(true)) { 0 } else { 1 }) };
    }
    let mut status = 0;
    // SAFETY: `status` is an integer to be filled; the child is this test's own.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "the child ended with {status:x}");
    db.put("key", "parent").unwrap();
    db.flush().unwrap();
    db.close().unwrap();
    let child = Db::open(directory.path().join("child"), shared()).unwrap();
    assert_eq!(child.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}
