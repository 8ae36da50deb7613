//! The asynchronous interface: the first poll answers from memory, a poll never waits for the disk, and a future may be
//! dropped at any point. A separate binary, because it needs the feature `async`.

#[path = "../suite/concurrency/openers/hooked.rs"]
mod hooked;
mod keyspaces;
mod staged_batches;
mod transaction_gets;
mod transactions;

use alluvium::merge_operators::Append;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::{
    AsyncDb, BackupOptions, Backups, Change, CheckpointOptions, Db, Error, Options, Scan, Swap, TransactOptions,
    WriteBatch, WriteOptions,
};
use futures_lite::future::{block_on, poll_once, yield_now};
use futures_lite::{Stream, StreamExt};
use hooked::Hooked;
use std::future::Future;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::task::{Context, Waker};
use std::time::{Duration, Instant};

/// Blocks the reads of a disk while it is closed.
#[derive(Default)]
struct Gate {
    /// Whether the gate is closed, and the number of blocked reads.
    state: Mutex<(bool, usize)>,
    changed: Condvar,
}

impl Gate {
    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.1 += 1;
        self.changed.notify_all();
        while state.0 {
            state = self.changed.wait(state).unwrap();
        }
        state.1 -= 1;
    }

    fn set_closed(&self, closed: bool) {
        self.state.lock().unwrap().0 = closed;
        self.changed.notify_all();
    }

    fn wait_for_reader(&self) {
        let mut state = self.state.lock().unwrap();
        while state.1 == 0 {
            state = self.changed.wait(state).unwrap();
        }
    }
}

fn small() -> Options {
    Options::new().memory_budget(8 << 20).background_threads(1).sync_interval(None)
}

fn key(number: u32) -> Vec<u8> {
    format!("key{number:05}").into_bytes()
}

fn value(number: u32) -> Vec<u8> {
    vec![number as u8; 1000]
}

/// A store with about 6 MB in files, hardly any of it cached, on a disk whose reads the gate blocks, and with a few pairs
/// in memory.
fn on_disk() -> (AsyncDb, Arc<Gate>, Hooked) {
    on_disk_after(|_| ())
}

/// The same, after some more writes.
fn on_disk_after(write: impl FnOnce(&Db)) -> (AsyncDb, Arc<Gate>, Hooked) {
    let disk = Arc::new(SimulatedStorage::new(1));
    let db = Db::open_with(disk.clone(), small()).unwrap();
    (0..6000).for_each(|number| db.put(key(number), value(number)).unwrap());
    db.put("large", vec![9; 300 << 10]).unwrap();
    db.flush().unwrap();
    // A merge after the opening would leave its pages in the cache.
    db.compact().unwrap();
    write(&db);
    db.settle().unwrap();
    db.close().unwrap();
    let gate = Arc::new(Gate::default());
    let passing = Arc::clone(&gate);
    let storage = Hooked::new(disk, |_| (), move |_| passing.pass());
    let db = Db::open_with(Arc::new(storage.clone()), small()).unwrap();
    db.settle().unwrap();
    db.put("memory", "here").unwrap();
    (AsyncDb::new(db), gate, storage)
}

/// A store on a disk whose reads the gate blocks for other threads, and the number of operations of this thread.
fn counting_the_poller() -> (AsyncDb, Arc<Gate>, Arc<AtomicU64>) {
    let disk = Arc::new(SimulatedStorage::new(2));
    let gate = Arc::new(Gate::default());
    let (passing, poller_operations, poller) =
        (Arc::clone(&gate), Arc::new(AtomicU64::new(0)), std::thread::current().id());
    let by_poller = Arc::clone(&poller_operations);
    let before = move |_| {
        if std::thread::current().id() == poller {
            by_poller.fetch_add(1, Ordering::Relaxed);
        } else {
            passing.pass();
        }
    };
    let db = Db::open_with(Arc::new(Hooked::new(disk, before, |_| ())), small()).unwrap();
    (AsyncDb::new(db), gate, poller_operations)
}

/// The result of a first poll, which must return although reads are blocked.
fn polled<T>(future: impl Future<Output = T>) -> Option<T> {
    block_on(poll_once(future))
}

fn expect_pending<T>(future: std::pin::Pin<&mut impl Future<Output = T>>) {
    assert!(future.poll(&mut Context::from_waker(Waker::noop())).is_pending());
}

/// Waits until the first poll does a write: a log that was just opened makes its next segment first.
fn wait_for_log_segment(db: &AsyncDb) {
    let until = Instant::now() + Duration::from_secs(20);
    while polled(db.put("first", "")).is_none_or(|put| put.is_err()) {
        assert!(Instant::now() < until, "no write is done by its first poll");
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn send<T: Send>(value: T) -> T {
    value
}

#[test]
fn a_get_is_pending_while_its_read_is_blocked_and_others_continue() {
    let (db, gate, storage) = on_disk();
    gate.set_closed(true);
    let operations = storage.operations();
    let mut blocked = pin!(send(db.get(key(17))));
    expect_pending(blocked.as_mut());
    gate.wait_for_reader();
    assert!(storage.operations() > operations);
    expect_pending(blocked.as_mut());
    // Writes and reads in memory still work, for present and for deleted keys.
    assert_eq!(polled(db.get("memory")).unwrap().unwrap().as_deref(), Some(&b"here"[..]));
    block_on(db.put("memory", "new")).unwrap();
    block_on(db.delete(key(18))).unwrap();
    assert_eq!(polled(db.get(key(18))).unwrap().unwrap(), None);
    let mut batch = WriteBatch::new();
    batch.put("one", "1").put("two", "2");
    block_on(db.write(batch)).unwrap();
    assert_eq!(polled(db.snapshot().get("two")).unwrap().unwrap().as_deref(), Some(&b"2"[..]));
    // A key that needs the disk among keys that do not; a scan; a read-modify-write.
    let keys = ["one".into(), key(4000), "two".into()];
    let mut many = pin!(send(db.multi_get(&keys)));
    expect_pending(many.as_mut());
    let mut pairs = db.prefix("key0400").unwrap();
    assert!(polled(pairs.next()).is_none());
    let mut update = pin!(send(db.update(key(5000), |old| old.map(|old| [old, &b"!"[..]].concat()))));
    expect_pending(update.as_mut());
    gate.set_closed(false);
    block_on(async {
        assert_eq!(blocked.await.unwrap(), Some(value(17)));
        assert_eq!(many.await.unwrap(), [Some(b"1".to_vec()), Some(value(4000)), Some(b"2".to_vec())]);
        assert_eq!(pairs.next().await.unwrap().unwrap(), (key(4000), value(4000)));
        assert_eq!(update.await.unwrap(), Some([&value(5000)[..], b"!"].concat()));
    });
    // Now its page is cached.
    gate.set_closed(true);
    assert_eq!(polled(db.get(key(17))).unwrap().unwrap(), Some(value(17)));
    assert_eq!(polled(db.snapshot().get(key(17))).unwrap().unwrap(), Some(value(17)));
    gate.set_closed(false);
    // Another thread reads a value file, each time.
    for _ in 0..2 {
        assert_eq!(block_on(db.get("large")).unwrap().unwrap(), vec![9; 300 << 10]);
        gate.set_closed(true);
        assert!(polled(db.get("large")).is_none());
        gate.set_closed(false);
    }
}

#[test]
fn dropped_futures_leave_nothing_broken() {
    let (db, gate, storage) = on_disk();
    gate.set_closed(true);
    let mut pending = 0;
    for number in 0..20 {
        pending += u32::from(polled(db.get(key(number * 100 + 1))).is_none());
        // Another thread scans. Rarely it is done before the first poll returns: opening the store may have sampled its
        // leaves, whose pages are then cached.
        pending += u32::from(polled(db.range(key(number)..).unwrap().next()).is_none());
        pending += u32::from(polled(db.update(key(5999), |old| old.map(<[u8]>::to_vec))).is_none());
        drop(db.get(key(5000)));
    }
    assert!(pending > 50, "{pending} of 60 futures were dropped while they waited for the disk");
    gate.set_closed(false);
    let unpolled = db.put("never", "polled");
    drop(unpolled);
    let until = Instant::now() + Duration::from_secs(20);
    block_on(async {
        for number in 0..6000 {
            assert_eq!(db.get(key(number)).await.unwrap(), Some(value(number)));
        }
        assert_eq!(db.get("never").await.unwrap(), None);
        // The work of dropped futures ends on other threads, which release the store: the last one closes it.
        drop(db);
        while matches!(Db::open_with(Arc::new(storage.clone()), small()), Err(Error::AlreadyOpen { .. })) {
            assert!(Instant::now() < until, "a dropped future keeps the store open");
            yield_now().await;
        }
    });
}

#[test]
fn async_methods_agree_with_blocking_methods() {
    let directory = tempfile::tempdir().unwrap();
    let db = block_on(send(AsyncDb::open(directory.path(), small()))).unwrap();
    let synced = WriteOptions::sync();
    block_on(async {
        db.put("a", "1").await.unwrap();
        db.put_with("b", "2", synced).await.unwrap();
        assert!(db.db().stats().synced_number >= 2);
        db.put("large", vec![3; 400 << 10]).await.unwrap();
        let before = db.snapshot();
        db.delete("a").await.unwrap();
        db.delete_with("large", synced).await.unwrap();
        let mut batch = WriteBatch::new();
        batch.put("c", "3").delete("b");
        db.write(batch.clone()).await.unwrap();
        db.write_with(batch, synced).await.unwrap();
        let keys = ["a", "b", "c", "large"];
        assert_eq!(db.multi_get(&keys).await.unwrap(), [None, None, Some(b"3".to_vec()), None]);
        let old = before.multi_get(&keys).await.unwrap();
        assert_eq!(old, [Some(b"1".to_vec()), Some(b"2".to_vec()), None, Some(vec![3; 400 << 10])]);
        assert_eq!(before.snapshot().get("a").unwrap(), before.get("a").await.unwrap());
        db.update("c", |old| Some(old.unwrap_or_default().repeat(2))).await.unwrap();
        assert_eq!(db.update_with("c", synced, |_| Change::Keep).await.unwrap().as_deref(), Some(&b"33"[..]));
        assert_eq!(db.compare_and_swap("c", Some(b"33"), Some(b"4")).await.unwrap(), Swap::Done);
        assert!(!db.put_if_absent("c", "5").await.unwrap() && db.put_if_absent("d", "5").await.unwrap());
        let moved = db.transact(|transaction| -> alluvium::Result<_> {
            let value = transaction.get("d")?.unwrap_or_default();
            transaction.delete("d")?;
            transaction.put("e", &value)?;
            Ok(value)
        });
        assert_eq!(moved.await.unwrap(), b"5");
        db.flush().await.unwrap();
        db.sync().await.unwrap();
        assert_eq!(keys_of(db.iter().unwrap()).await, ["c", "e"]);
        assert_eq!(keys_of(db.range("d"..).unwrap()).await, ["e"]);
        assert_eq!(keys_of(before.prefix("").unwrap()).await, ["a", "b", "large"]);
        assert_eq!(keys_of(Scan::backward(before.snapshot().range("a".."c").unwrap())).await, ["b", "a"]);
        assert!(send(db.contains_key("c")).await.unwrap() && !db.contains_key("b").await.unwrap());
        assert_eq!(send(db.first()).await.unwrap(), Some((b"c".to_vec(), b"4".to_vec())));
        assert_eq!(send(db.last()).await.unwrap(), Some((b"e".to_vec(), b"5".to_vec())));
        db.compact().await.unwrap();
        db.put("f", "6").await.unwrap();
        db.put("b", "7").await.unwrap();
        assert_eq!(send(db.take("f")).await.unwrap().as_deref(), Some(&b"6"[..]));
        assert_eq!(send(db.pop_first()).await.unwrap(), Some((b"b".to_vec(), b"7".to_vec())));
        assert_eq!(send(db.pop_last()).await.unwrap(), Some((b"e".to_vec(), b"5".to_vec())));
        assert!(!send(db.is_empty()).await.unwrap());
        // One attempt that another write of its key makes fail.
        let once = TransactOptions::new().attempts(1);
        let rival = db.db().clone();
        let lost = db.transact_with(once, move |transaction| {
            transaction.get("c")?;
            rival.put("c", "8")?;
            transaction.put("c", "9")
        });
        assert!(matches!(lost.await, Err(Error::Conflict { .. })));
        let other = db.clone();
        drop(db.clone());
        assert!(db.get("c").await.unwrap().is_some(), "a store with another handle stays open");
        other.close().await.unwrap();
        assert!(matches!(db.get("c").await, Err(Error::Closed)));
        assert!(matches!(db.put("c", "").await, Err(Error::Closed)));
        db.close().await.unwrap();
        assert!(matches!(before.get("a").await, Err(Error::Closed)));
        assert!(matches!(before.iter(), Err(Error::Closed)));
    });
    Db::open(directory.path(), small()).unwrap();
}

#[test]
fn async_merges_and_range_deletes_are_those_of_the_blocking_interface() {
    let directory = tempfile::tempdir().unwrap();
    let options = small().merge_operator(Append);
    let db = block_on(AsyncDb::open(directory.path(), options)).unwrap();
    block_on(async {
        db.put("a", "1").await.unwrap();
        send(db.merge("a", "2")).await.unwrap();
        send(db.merge_with("b", "3", WriteOptions::sync())).await.unwrap();
        assert!(db.db().stats().synced_number >= 3);
        assert_eq!(db.multi_get(&["a", "b"]).await.unwrap(), [Some(b"12".to_vec()), Some(b"3".to_vec())]);
        assert!(matches!(db.merge("a", vec![0; 256 << 10]).await, Err(Error::InvalidArgument(_))));
        for key in ["c", "d", "e/1", "e/2", "f"] {
            db.put(key, "").await.unwrap();
        }
        send(db.delete_range("b".."d")).await.unwrap();
        assert_eq!(keys_of(db.iter().unwrap()).await, ["a", "d", "e/1", "e/2", "f"]);
        send(db.delete_prefix("e/")).await.unwrap();
        assert_eq!(keys_of(db.iter().unwrap()).await, ["a", "d", "f"]);
        assert_eq!(keys_of(db.prefix("d").unwrap()).await, ["d"]);
    });
}

/// Every call of a closed store returns `Closed`.
#[test]
fn copies_are_those_of_the_blocking_interface() {
    let directory = tempfile::tempdir().unwrap();
    let place = |name| directory.path().join(name);
    block_on(async {
        let db = AsyncDb::open(place("store"), small()).await.unwrap();
        db.put("a", "1").await.unwrap();
        let first = send(db.backup(place("safe"))).await.unwrap();
        assert_eq!((first.id, first.number, first.files_shared), (1, 1, 0));
        db.put("a", "2").await.unwrap();
        let checked = BackupOptions::new().check_shared(true);
        let second = send(db.backup_with(place("safe"), checked)).await.unwrap();
        assert_eq!((second.id, second.number), (2, 2));
        let copied = send(db.checkpoint_with(place("copy"), CheckpointOptions::new())).await.unwrap();
        assert_eq!(copied.number, 2);
        assert!(matches!(db.checkpoint(place("copy")).await, Err(Error::InvalidArgument(_))));
        assert!(matches!(db.backup(place("store")).await, Err(Error::InvalidArgument(_))));
        drop(db.backup(place("unpolled")));
        assert!(!place("unpolled").exists());

        Backups::open(place("safe")).unwrap().restore(1, place("restored")).unwrap();
        for (name, value) in [("restored", "1"), ("copy", "2")] {
            let copy = AsyncDb::open(place(name), small()).await.unwrap();
            assert_eq!(copy.get("a").await.unwrap().as_deref(), Some(value.as_bytes()));
        }
    });
}

#[test]
fn all_async_calls_of_a_closed_store_say_so() {
    fn closed<T>(call: impl Future<Output = alluvium::Result<T>>) {
        assert!(matches!(block_on(call), Err(Error::Closed)));
    }
    let directory = tempfile::tempdir().unwrap();
    let db = block_on(AsyncDb::open(directory.path(), small())).unwrap();
    block_on(db.put("key", "value")).unwrap();
    block_on(db.close()).unwrap();
    let synced = WriteOptions::sync();
    closed(db.get("key"));
    closed(db.multi_get(&["key"]));
    closed(db.contains_key("key"));
    closed(db.first());
    closed(db.last());
    closed(db.is_empty());
    closed(db.put("key", ""));
    closed(db.put_with("key", "", synced));
    closed(db.delete("key"));
    closed(db.delete_with("key", synced));
    closed(db.delete_range(..));
    closed(db.delete_prefix("k"));
    closed(db.write(WriteBatch::new()));
    closed(db.write_with([("key", "")].into_iter().collect(), synced));
    closed(db.update("key", |_| None));
    closed(db.update_with("key", synced, |_| Change::Keep));
    closed(db.compare_and_swap("key", None, Some(b"new")));
    closed(db.put_if_absent("key", ""));
    closed(db.take("key"));
    closed(db.pop_first());
    closed(db.pop_last());
    closed(db.transact(|_| Ok::<_, Error>(())));
    closed(db.flush());
    closed(db.sync());
    closed(db.compact());
    closed(db.checkpoint(directory.path().join("copy")));
    closed(db.backup(directory.path().join("safe")));
    // A snapshot can be taken; its reads say so.
    let snapshot = db.snapshot();
    closed(snapshot.get("key"));
    closed(snapshot.multi_get(&["key"]));
    for scan in [snapshot.iter(), snapshot.range(..), snapshot.prefix("k"), db.iter(), db.range(..), db.prefix("k")] {
        assert!(matches!(scan, Err(Error::Closed)));
    }
    block_on(db.close()).unwrap();
}

async fn keys_of(pairs: impl Stream<Item = alluvium::Result<(Vec<u8>, Vec<u8>)>>) -> Vec<String> {
    let mut pairs = pin!(pairs);
    let mut keys = Vec::new();
    while let Some(pair) = pairs.next().await {
        keys.push(String::from_utf8(pair.unwrap().0).unwrap());
    }
    keys
}

/// Scans of more pairs than one round returns, in both directions, and an error in the middle of a scan.
#[test]
fn scans_continue_over_rounds_and_end_after_an_error() {
    let (db, _, _) = on_disk();
    block_on(async {
        let pairs: Vec<_> = db.prefix("key").unwrap().map(Result::unwrap).collect().await;
        assert!(pairs.iter().map(|pair| &pair.0).eq(&(0..6000).map(key).collect::<Vec<_>>()));
        let iter = db.db().prefix("key").unwrap();
        let back: Vec<_> = Scan::backward(iter).map(Result::unwrap).collect().await;
        assert!(back.iter().eq(pairs.iter().rev()));
        let mut unfinished = db.prefix("key").unwrap();
        for number in 0..16 {
            assert_eq!(unfinished.next().await.unwrap().unwrap().0, key(number));
        }
        db.close().await.unwrap();
        assert!(matches!(unfinished.next().await, Some(Err(Error::Closed))));
        assert!(unfinished.next().await.is_none() && unfinished.next().await.is_none());
    });
}

/// A write that would wait runs on another thread, not in the poll: here it waits for a value file, a sync, or space.
/// The polling thread does not use the disk.
#[test]
fn writes_that_would_wait_run_on_other_threads() {
    let (db, gate, poller_operations) = counting_the_poller();
    wait_for_log_segment(&db);
    let writer = db.clone();
    gate.set_closed(true);
    let before = poller_operations.load(Ordering::Relaxed);
    let mut large = pin!(send(writer.put("large", vec![1; 300 << 10])));
    let is_pending = polled(large.as_mut()).is_none();
    let synced = WriteOptions::sync();
    let mut sync = pin!(send(writer.put_with("a", "1", synced)));
    let is_unsynced = polled(sync.as_mut()).is_none();
    // Writes until memory or the log is full: nothing can be incorporated, and no segment made.
    let waiting = (0..40_000).find(|number| polled(writer.put(key(*number), value(*number))).is_none());
    let (stats, after) = (db.db().stats(), poller_operations.load(Ordering::Relaxed));
    gate.set_closed(false);
    assert!(is_pending, "the poll wrote a value file");
    assert!(is_unsynced, "the poll waited for a sync");
    assert!(waiting.is_some(), "no write waits for space\n{stats}");
    assert_eq!(before, after, "the polling thread used the disk");
    block_on(async {
        large.await.unwrap();
        sync.await.unwrap();
        for number in 0..waiting.unwrap_or(0) {
            assert_eq!(db.get(key(number)).await.unwrap(), Some(value(number)));
        }
        db.close().await.unwrap();
    });
}
