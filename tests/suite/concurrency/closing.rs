//! Closing while other threads use clones of the store: what was acknowledged is there after the next opening, every other
//! call returns `Closed`, and nothing is written once `close` has returned. `ALLUVIUM_CLOSINGS` sets the rounds.

use crate::concurrency::openers::hooked::Hooked;
use crate::support::{Random, expect_sound, setting, tiny, tiny_unsynced};
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{Db, Durability, Error, Options, WriteBatch, WriteOptions};
use std::collections::BTreeMap;
use std::ops::ControlFlow::Continue;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Barrier};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

const THREADS: u64 = 3;

/// Writes until the store is closed. Returns the value of each key that was acknowledged, and the write that was in
/// progress at the end.
fn write_until_closed(db: &Db, thread: u64, seed: u64, done: &AtomicU64) -> BTreeMap<Vec<u8>, Vec<u8>> {
    let (mut random, mut acknowledged) = (Random(seed), BTreeMap::new());
    // Ends: the store is closed.
    for count in 0_u64.. {
        let key = |of: u64| format!("{thread}-{of:03}").into_bytes();
        let keys = [key(random.below(300)), key(random.below(300) + 300)];
        // Some values are in files of their own.
        let length = if random.one_in(20) { 300_000 } else { 8 + random.below(400) as usize };
        let mut value = count.to_le_bytes().to_vec();
        value.resize(length, thread as u8);
        let durability = if random.one_in(20) { Durability::Sync } else { Durability::Buffered };
        let options = WriteOptions::new().durability(durability);
        let kind = random.below(4);
        let written = if kind == 0 { &keys[..] } else { &keys[..1] };
        let outcome = match kind {
            0 => db.write_with(keys.iter().map(|key| (key, &value)).collect::<WriteBatch>(), options),
            1 => db.update_with(&keys[0], options, |_| alluvium::Change::Put(value.clone())).map(drop),
            2 => db.transact(|transaction| transaction.put(&keys[0], &value)),
            _ => db.put_with(&keys[0], &value, options),
        };
        match outcome {
            Ok(()) => acknowledged.extend(written.iter().map(|key| (key.clone(), value.clone()))),
            Err(Error::Closed) => return acknowledged,
            Err(error) => panic!("a write beside a close: {error}"),
        }
        done.fetch_add(1, Ordering::Relaxed);
        if random.one_in(50) {
            let synced = db.sync().and_then(|()| if random.one_in(2) { db.flush() } else { Ok(()) });
            assert!(matches!(synced, Ok(()) | Err(Error::Closed)), "{synced:?}");
        }
    }
    unreachable!("the counter has no end")
}

fn contents(db: &Db) -> BTreeMap<Vec<u8>, Vec<u8>> {
    db.iter().unwrap().map(Result::unwrap).collect()
}

/// The bytes of every file.
type Image = BTreeMap<String, Vec<u8>>;

fn image(directory: &Path) -> Image {
    let files = std::fs::read_dir(directory).unwrap().map(|file| file.unwrap().path());
    files.map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), std::fs::read(path).unwrap())).collect()
}

fn round(directory: &Path, seed: u64, options: &Options) {
    let mut random = Random(seed);
    let db = Db::open(directory, options.clone()).unwrap();
    let before = contents(&db);
    let (done, closers) = (AtomicU64::new(0), 1 + random.below(2));
    let (wanted, reopens) = (random.below(2000), random.one_in(2));
    let start = Barrier::new((THREADS + closers) as usize);
    let (acknowledged, closed): (Vec<_>, _) = std::thread::scope(|scope| {
        let writers: Vec<_> = (0..THREADS)
            .map(|thread| {
                let (db, done, start) = (db.clone(), &done, &start);
                scope.spawn(move || {
                    start.wait();
                    write_until_closed(&db, thread, seed * THREADS + thread, done)
                })
            })
            .collect();
        let close = || {
            let (db, done, start) = (db.clone(), &done, &start);
            scope.spawn(move || {
                start.wait();
                while done.load(Ordering::Relaxed) < wanted {
                    std::thread::yield_now();
                }
                db.close().unwrap();
                image(directory)
            })
        };
        let closers: Vec<_> = (0..closers).map(|_| close()).collect();
        let mut images: Vec<_> = closers.into_iter().map(|closer| closer.join().unwrap()).collect();
        if reopens {
            // The clones of the writers are alive. They do not disturb the next opening.
            let next = Db::open(directory, tiny()).unwrap();
            for count in 0..20_u32 {
                next.put("next", count.to_be_bytes().repeat(70_000)).unwrap();
            }
            next.close().unwrap();
            images = vec![image(directory)];
        }
        (writers.into_iter().map(|writer| writer.join().unwrap()).collect(), images)
    });
    // Nothing is written once `close` has returned.
    let end = image(directory);
    for closed in closed {
        let names = |image: &Image| image.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&closed), names(&end), "files of a closed store come or go");
        for (name, bytes) in &closed {
            assert!(end[name] == *bytes, "{name} of a closed store has changed");
        }
    }
    assert!(matches!(db.put("late", ""), Err(Error::Closed)));
    drop(db);
    let db = Db::open(directory, options.clone()).unwrap();
    let mut expected = before;
    expected.extend(acknowledged.into_iter().flatten());
    if reopens {
        expected.insert(b"next".to_vec(), 19_u32.to_be_bytes().repeat(70_000));
    }
    // What was refused is not there, not even in part: everything equals what was acknowledged.
    let found = contents(&db);
    for (key, value) in &expected {
        assert!(found.get(key) == Some(value), "{} has another value", key.escape_ascii());
    }
    assert_eq!(found.len(), expected.len());
    expect_sound(&db);
    db.close().unwrap();
}

#[test]
fn what_races_with_closing_is_done_before_it_or_refused() {
    for seed in 0..setting("ALLUVIUM_CLOSINGS", 12) {
        println!("seed {seed}");
        let directory = tempfile::tempdir().unwrap();
        for opening in 0..2 {
            round(directory.path(), seed * 2 + opening, &tiny());
        }
    }
}

/// A storage that stops a thread named "stopped" before each of its operations until it may go on.
#[derive(Clone, Default)]
struct Stop {
    is_stopped: Arc<AtomicBool>,
    goes_on: Arc<AtomicBool>,
}

impl Stop {
    fn storage(&self, disk: &Arc<SimulatedStorage>) -> Arc<Hooked> {
        let Self { is_stopped, goes_on } = self.clone();
        let before = move |_| {
            if std::thread::current().name() == Some("stopped") {
                is_stopped.store(true, Ordering::Release);
                while !goes_on.load(Ordering::Acquire) {
                    std::thread::yield_now();
                }
            }
        };
        Arc::new(Hooked::new(disk.clone(), before, |_| ()))
    }

    /// Calls `call` in another thread. Once that is stopped, closes the store in a third one and calls `meanwhile` with that.
    fn during(
        &self,
        db: &Db,
        call: impl Fn(&Db) -> alluvium::Result<()> + Send,
        meanwhile: impl FnOnce(&ScopedJoinHandle<'_, alluvium::Result<()>>),
    ) {
        std::thread::scope(|scope| {
            let stopped = std::thread::Builder::new().name("stopped".to_owned());
            let caller = stopped.spawn_scoped(scope, move || call(db)).unwrap();
            while !self.is_stopped.load(Ordering::Acquire) {
                assert!(!caller.is_finished(), "the call did not use the storage");
                std::thread::yield_now();
            }
            let closer = scope.spawn(|| db.close());
            let outcome = catch_unwind(AssertUnwindSafe(|| meanwhile(&closer)));
            self.goes_on.store(true, Ordering::Release);
            outcome.unwrap_or_else(|panic| resume_unwind(panic));
            caller.join().unwrap().unwrap();
            closer.join().unwrap().unwrap();
        });
    }
}

/// A write that has begun holds up closing: here it is stopped while it writes its value file. Later writes are refused
/// meanwhile, and the write is done.
#[test]
fn closing_waits_for_a_write_that_has_begun() {
    let (disk, stop) = (Arc::new(SimulatedStorage::new(3)), Stop::default());
    let db = Db::open_with(stop.storage(&disk), tiny()).unwrap();
    let put = |db: &Db| db.put("large", vec![7; 300_000]);
    stop.during(&db, put, |closer| {
        while !matches!(db.put("small", ""), Err(Error::Closed)) {
            std::thread::yield_now();
        }
        // A store that did not wait would be closed soon. How long this looks for that decides only what it may miss.
        let is_closed = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            closer.is_finished()
        });
        assert!(!is_closed, "closed during a write");
    });
    let db = Db::open_with(disk, tiny()).unwrap();
    assert_eq!(db.get("large").unwrap(), Some(vec![7; 300_000]));
}

/// Syncs and commits that have begun end before closing does anything, so that none leaves its mark in the log of the next
/// opening (`docs/concurrency.md`, X2). Until then writes are accepted.
#[test]
fn closing_begins_after_syncs_and_commits_have_ended() {
    type Call = (&'static str, fn(&Db) -> alluvium::Result<()>);
    let calls: [Call; 2] = [
        ("a sync", |db| db.sync()),
        ("a commit", |db| db.transact(|transaction| transaction.put("large", vec![7; 300_000]))),
    ];
    for (what, call) in calls {
        let (disk, stop) = (Arc::new(SimulatedStorage::new(3)), Stop::default());
        let db = Db::open_with(stop.storage(&disk), tiny_unsynced()).unwrap();
        db.put("small", "").unwrap();
        // How long this looks for a refusal decides only what it may miss.
        let is_refused = |_| {
            std::thread::sleep(Duration::from_millis(1));
            db.put("small", "").is_err()
        };
        stop.during(&db, call, |_| assert!(!(0..200).any(is_refused), "closing began during {what}"));
        assert!(matches!(db.put("small", ""), Err(Error::Closed)), "{what}");
        let db = Db::open_with(disk, tiny()).unwrap();
        assert_eq!(db.contains_key("large").unwrap(), what == "a commit");
    }
}

/// Every call of a clone of a closed store returns `Closed`.
#[test]
fn all_calls_of_a_closed_store_say_so() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    db.put("key", "value").unwrap();
    let (clone, transaction) = (db.clone(), db.transaction().unwrap());
    transaction.put("key", "other").unwrap();
    clone.close().unwrap();
    let closed = |result: Result<(), Error>| assert!(matches!(result, Err(Error::Closed)), "{result:?}");
    closed(db.put("key", "value"));
    closed(db.put("key", vec![0; 300_000]));
    closed(db.delete("key"));
    closed(db.delete_range("a".."b"));
    closed(db.write(WriteBatch::new()));
    closed(db.write(WriteBatch::from_iter([("key", "value")])));
    closed(db.update("key", |_| None).map(drop));
    closed(db.compare_and_swap("key", None, Some(b"new")).map(drop));
    closed(db.put_if_absent("other", "value").map(drop));
    closed(db.take("key").map(drop));
    closed(db.pop_last().map(drop));
    closed(db.transaction().map(drop));
    closed(db.transact(|_| Ok(())));
    closed(transaction.commit());
    closed(db.get("key").map(drop));
    closed(db.get_pinned("key").map(drop));
    closed(db.multi_get(&["key"]).map(drop));
    closed(db.contains_key("key").map(drop));
    closed(db.first().map(drop));
    closed(db.is_empty().map(drop));
    closed(db.iter().map(drop));
    closed(db.for_each(.., |_, _| Continue(())));
    for snapshot in [db.snapshot(), db.relaxed_snapshot(Duration::MAX)] {
        closed(snapshot.get("key").map(drop));
        closed(snapshot.get_pinned("key").map(drop));
        closed(snapshot.multi_get(&["key"]).map(drop));
        closed(snapshot.contains_key("key").map(drop));
        closed(snapshot.first().map(drop));
        closed(snapshot.iter().map(drop));
        closed(snapshot.prefix("k").map(drop));
        closed(snapshot.for_each(.., |_, _| Continue(())));
        // It is not registered, so it retains nothing.
        assert_eq!(db.stats().snapshots, 0);
    }
    closed(db.approximate_size(..).map(drop));
    closed(db.flush());
    closed(db.sync());
    closed(db.compact());
    closed(db.optimize(..));
    closed(db.settle());
    closed(db.verify().map(drop));
    closed(db.set_background_write_limit(None));
    assert_eq!(db.stats().last_number, 1);
    drop(db.pause_background());
    // Several closes are fine, and the last clone may go whenever it likes.
    db.close().unwrap();
    clone.close().unwrap();
    let next = Db::open(directory.path(), tiny()).unwrap();
    drop((db, clone));
    assert_eq!(next.get("key").unwrap().as_deref(), Some(&b"value"[..]));
}

/// The last clone closes the store when it is dropped, and takes a temporary directory with it.
#[test]
fn dropping_the_last_clone_closes() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let clone = db.clone();
    drop(db);
    clone.put("key", "value").unwrap();
    assert!(matches!(Db::open(directory.path(), tiny()), Err(Error::AlreadyOpen { .. })));
    drop(clone);
    let db = Db::open(directory.path(), tiny()).unwrap();
    assert!(db.contains_key("key").unwrap());
}
