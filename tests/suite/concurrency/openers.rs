//! Promise 9 of `docs/guarantees.md`: one writer, and read-only openers during its writes, on a read-only file system,
//! and in a forked child.

pub mod hooked;
mod lock_file;

use crate::support::child;
use crate::support::disks::{Ext4, with_private_mounts};
use crate::support::{Random, expect_sound, setting, tiny, tiny_unsynced};
use alluvium::internals::DeterministicDb;
use alluvium::storage::simulated::SimulatedStorage;
use alluvium::storage::{PosixStorage, Storage};
use alluvium::{Db, Error, ReadOnlyDb, WriteBatch};
use hooked::Hooked;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

fn read(path: &Path) -> ReadOnlyDb {
    ReadOnlyDb::open(path, tiny()).unwrap()
}

fn contents(db: &ReadOnlyDb) -> Model {
    db.iter().unwrap().map(|pair| pair.unwrap()).collect()
}

/// Fills several Memtables, with large values and deletes among the writes.
fn fill(db: &Db, seed: u64, model: &mut Model) {
    fill_some(db, seed, usize::MAX, model);
}

/// The same, but only the first `count` operations.
fn fill_some(db: &Db, seed: u64, count: usize, model: &mut Model) {
    for (key, value) in operations(seed).take(count) {
        match value {
            Some(value) => {
                db.put(&key, &value).unwrap();
                model.insert(key, value);
            }
            None => {
                db.delete(&key).unwrap();
                model.remove(&key);
            }
        }
    }
}

/// Writes the same pairs in each call, so many that the log needs further segments.
fn fill_segments(db: &Db, model: &mut Model) {
    for number in 0..120u8 {
        let (key, value) = (vec![0xff, number], vec![number; 5000]);
        db.put(&key, &value).unwrap();
        model.insert(key, value);
    }
}

fn operations(seed: u64) -> impl Iterator<Item = (Vec<u8>, Option<Vec<u8>>)> {
    let mut random = Random(seed);
    (0..4000).map(move |_| {
        let key = random.below(1500).to_be_bytes().to_vec();
        if random.one_in(8) {
            return (key, None);
        }
        let length = if random.one_in(400) { 270_000 } else { random.below(150) as usize };
        (key, Some(random.bytes(length)))
    })
}

fn names(path: &Path) -> Vec<String> {
    let mut names: Vec<_> =
        std::fs::read_dir(path).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// The files of a store that is not being written.
fn files(path: &Path) -> Vec<(String, Vec<u8>)> {
    names(path).into_iter().map(|name| (name.clone(), std::fs::read(path.join(name)).unwrap())).collect()
}

fn branch_files(path: &Path) -> usize {
    names(path).iter().filter(|name| name.ends_with(".branch")).count()
}

#[test]
fn a_reader_beside_a_writer_keeps_the_state_of_its_opening() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let mut model = Model::new();
    fill(&db, 1, &mut model);
    let reader = read(directory.path());
    let seen = model.clone();
    assert!(contents(&reader) == seen);
    // The writer rewrites everything. Without the reader it would remove every file that the reader uses.
    for seed in 2..6 {
        fill(&db, seed, &mut model);
    }
    db.compact().unwrap();
    db.settle().unwrap();
    let kept = branch_files(directory.path());
    // The reader's cache is cold, so these reads need the files.
    assert!(contents(&reader) == seen, "the reader's view changed");
    let keys: Vec<&Vec<u8>> = seen.keys().collect();
    let values = reader.multi_get(&keys).unwrap();
    assert!(values.iter().map(Option::as_ref).eq(seen.values().map(Some)));
    assert_eq!(reader.get("absent").unwrap(), None);
    let snapshot = reader.snapshot();
    assert!(contents(&read(directory.path())) == model, "a new reader sees the new state");
    drop(reader);
    assert!(matches!(snapshot.get("a"), Err(Error::Closed)));
    // No reader is left, so the files are removed.
    let deadline = Instant::now() + Duration::from_secs(20);
    while branch_files(directory.path()) >= kept {
        assert!(Instant::now() < deadline, "{kept} branch files are still there");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert!(model.iter().all(|(key, value)| db.get(key).unwrap().as_ref() == Some(value)));
    expect_sound(&db);
}

/// Readers open while writers run at full speed, during incorporations and while segments are recycled: a reader shows
/// the state of one moment, at or after the start of its opening. Each writer counts up, and a batch keeps two counters
/// equal.
#[test]
fn readers_open_at_any_moment_of_a_writer_at_full_speed() {
    const WRITERS: usize = 3;
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny().sync_interval(Duration::from_millis(5))).unwrap();
    let acknowledged: [AtomicU64; WRITERS] = Default::default();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (writer, acknowledged) in acknowledged.iter().enumerate() {
            let (db, stop) = (&db, &stop);
            scope.spawn(move || {
                let mut random = Random(writer as u64);
                let mut count = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    count += 1;
                    let mut batch = WriteBatch::new();
                    batch.put(format!("left{writer}"), count.to_be_bytes());
                    batch.put(format!("right{writer}"), count.to_be_bytes());
                    batch.put(format!("{writer}-{}", random.below(3000)), random.bytes(100));
                    db.write(batch).unwrap();
                    acknowledged.store(count, Ordering::Release);
                }
            });
        }
        let deadline = Instant::now() + Duration::from_secs(3);
        let mut openings = 0;
        while Instant::now() < deadline || openings < 10 {
            let before: Vec<u64> = acknowledged.iter().map(|count| count.load(Ordering::Acquire)).collect();
            let reader = ReadOnlyDb::open(directory.path(), tiny());
            let reader = reader.unwrap_or_else(|error| {
                stop.store(true, Ordering::Relaxed);
                panic!("opening {openings}: {error}")
            });
            openings += 1;
            for (writer, before) in before.into_iter().enumerate() {
                let counter = |name: &str| {
                    let value = reader.get(format!("{name}{writer}")).unwrap();
                    value.map_or(0, |value| u64::from_be_bytes(value.try_into().unwrap()))
                };
                let (left, right) = (counter("left"), counter("right"));
                if left != right || left < before {
                    stop.store(true, Ordering::Relaxed);
                    panic!("writer {writer}: {left} and {right}, {before} were acknowledged before the opening");
                }
            }
        }
        stop.store(true, Ordering::Relaxed);
        println!(
            "{openings} openings, {} batches",
            acknowledged.iter().map(|n| n.load(Ordering::Relaxed)).sum::<u64>()
        );
    });
    let total = db.stats();
    assert!(total.incorporations > 5, "nothing was incorporated during the openings: {total}");
    expect_sound(&db);
}

/// At one operation of a reader's opening, in turn, a writer writes, incorporates, merges, recycles and removes files.
/// The reader shows the state before or after that, and keeps it.
#[test]
fn a_reader_opens_correctly_whatever_the_writer_does_meanwhile() {
    const SOME: usize = 700;
    let mut moment = 0;
    // By default some of the operations; with a stride of 1 all of them.
    let stride = setting("ALLUVIUM_STRIDE", 7);
    loop {
        moment += stride;
        let disk = SimulatedStorage::new(moment);
        disk.set_maps_safely(moment.is_multiple_of(2));
        let writer = Arc::new(DeterministicDb::open(Arc::new(disk.clone()), tiny_unsynced()).unwrap());
        let mut before = Model::new();
        fill_some(&writer, 1, SOME, &mut before);
        fill_segments(&writer, &mut before);
        let mut after = before.clone();
        let busy_writer = Arc::clone(&writer);
        let work = move |at| {
            if at == moment {
                fill_some(&busy_writer, 2, SOME, &mut Model::new());
                fill_segments(&busy_writer, &mut Model::new());
                busy_writer.compact().unwrap();
            }
        };
        let storage = Hooked::new(Arc::new(disk), work, |_| {});
        let reader = ReadOnlyDb::open_with(Arc::new(storage.clone()), tiny_unsynced());
        let reader = reader.unwrap_or_else(|error| panic!("the writer wrote at operation {moment}: {error}"));
        if storage.operations() < moment {
            break;
        }
        for (key, value) in operations(2).take(SOME) {
            match value {
                Some(value) => after.insert(key, value),
                None => after.remove(&key),
            };
        }
        let seen = contents(&reader);
        assert!(
            seen == before || seen == after,
            "the writer wrote at operation {moment}: the state is neither before nor after"
        );
        // Afterwards the writer keeps the files that the reader uses.
        fill_some(&writer, 3, SOME, &mut Model::new());
        writer.compact().unwrap();
        assert!(contents(&reader) == seen, "the writer wrote at operation {moment}: the reader's view changed");
    }
    assert!(moment > 20, "an opening has {moment} operations");
}

/// When the log is read, a record is numbered but not sealed, while later records are complete: the log is read again,
/// since the later writes may have returned before the opening began.
#[test]
fn a_reader_waits_for_a_record_that_is_not_sealed() {
    const MARK: &[u8] = b"this record is still being written";
    let disk = SimulatedStorage::new(1);
    let writer = DeterministicDb::open(Arc::new(disk.clone()), tiny_unsynced()).unwrap();
    writer.put("a", "1").unwrap();
    writer.put("b", MARK).unwrap();
    writer.put("c", "3").unwrap();
    let show = |hidden_for: u64| {
        let seen = AtomicU64::new(0);
        let hide = move |bytes: &mut [u8]| {
            if let Some(at) = bytes.windows(MARK.len()).position(|window| window == MARK)
                && seen.fetch_add(1, Ordering::Relaxed) < hidden_for
            {
                // The record's header; four bytes of key and lengths are between it and the value.
                bytes[at - 28..at - 4].fill(0);
            }
        };
        let storage: Arc<dyn Storage> = Arc::new(Hooked::new(Arc::new(disk.clone()), |_| {}, hide));
        let reader = ReadOnlyDb::open_with(storage, tiny_unsynced()).unwrap();
        contents(&reader).into_keys().map(|key| String::from_utf8(key).unwrap()).collect::<String>()
    };
    assert_eq!(show(0), "abc");
    assert_eq!(show(10), "abc");
    // If the writer is stopped there forever, the reader still shows the state of one moment.
    assert_eq!(show(u64::MAX), "a");
}

const CHILD: &str = "ALLUVIUM_OPENERS_CHILD";

/// The child holds a store open for writing until the parent kills it.
pub fn child() {
    let path = PathBuf::from(std::env::var_os(CHILD).unwrap());
    let db = Db::open(path.join("store"), tiny()).unwrap();
    let mut model = Model::new();
    fill(&db, 7, &mut model);
    std::fs::write(path.join("ready"), "").unwrap();
    // Not forever, in case the parent dies.
    std::thread::sleep(Duration::from_secs(30));
}

fn start_writer(path: &Path) -> Child {
    let mut child = child::command("writer").env(CHILD, path).stdout(Stdio::null()).spawn().unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    while !path.join("ready").exists() {
        assert!(Instant::now() < deadline && child.try_wait().unwrap().is_none(), "the child does not become ready");
        std::thread::sleep(Duration::from_millis(5));
    }
    child
}

/// The contents that `child` wrote.
fn model_of_the_child() -> Model {
    let directory = tempfile::tempdir().unwrap();
    let mut model = Model::new();
    fill(&Db::open(directory.path(), tiny()).unwrap(), 7, &mut model);
    model
}

#[test]
fn a_second_process_can_only_read_until_the_writer_dies() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store");
    let mut child = start_writer(directory.path());
    let refused = Db::open(&path, tiny()).unwrap_err();
    assert!(matches!(&refused, Error::AlreadyOpen { path: found } if *found == path), "{refused}");
    assert!(matches!(Db::destroy(&path), Err(Error::AlreadyOpen { .. })));
    let model = model_of_the_child();
    assert!(contents(&read(&path)) == model);
    child.kill().unwrap();
    child.wait().unwrap();
    // A reader of a store that was not recovered shows every acknowledged write, and changes no byte of the store.
    let before = files(&path);
    let reader = read(&path);
    assert!(contents(&reader) == model);
    assert!(files(&path) == before, "a reader changed files");
    // A writer may open the store while the reader has it open. It recovers and keeps the reader's files; the store
    // cannot be destroyed meanwhile.
    let db = Db::open(&path, tiny()).unwrap();
    let mut after = model.clone();
    fill(&db, 8, &mut after);
    db.compact().unwrap();
    db.close().unwrap();
    assert!(matches!(Db::destroy(&path), Err(Error::AlreadyOpen { .. })));
    assert!(contents(&reader) == model);
    drop(reader);
    assert!(contents(&read(&path)) == after);
    Db::destroy(&path).unwrap();
}

#[test]
fn a_read_only_file_system_can_be_read() {
    with_private_mounts("a_read_only_file_system_can_be_read", || {
        let Some(disk) = Ext4::new("a_read_only_file_system_can_be_read", 64 << 20) else {
            return;
        };
        let path = disk.path().join("store");
        let db = Db::open(&path, tiny()).unwrap();
        let mut model = Model::new();
        fill(&db, 3, &mut model);
        db.close().unwrap();
        // A closed store keeps files open until its last handle is dropped.
        drop(db);
        disk.make_read_only();
        let reader = read(&path);
        assert!(contents(&reader) == model);
        assert_eq!(reader.stats().last_number, 4000);
        let refused = Db::open(&path, tiny()).unwrap_err();
        assert!(refused.to_string().contains("LOCK") && refused.to_string().contains("Read-only"), "{refused}");
        drop(reader);
    });
}

/// A copy of a store's files, such as a backup, may lack the lock file; a reader does not create it.
#[test]
fn a_store_without_a_lock_file_can_be_read() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open(directory.path(), tiny()).unwrap();
    let mut model = Model::new();
    fill(&db, 4, &mut model);
    db.close().unwrap();
    std::fs::remove_file(directory.path().join("LOCK")).unwrap();
    assert!(contents(&read(directory.path())) == model);
    assert!(!directory.path().join("LOCK").exists());
}

#[test]
fn a_reader_does_not_create_a_store() {
    let directory = tempfile::tempdir().unwrap();
    for path in [directory.path().to_owned(), directory.path().join("absent")] {
        assert!(matches!(ReadOnlyDb::open(&path, tiny()), Err(Error::NoStore { .. })));
    }
    assert!(files(directory.path()).is_empty() && !directory.path().join("absent").exists());
}

/// A regression test: a write in a forked child stored into a log that the child has not mapped, which killed the
/// child. Now every call is an error, dropping is harmless, and the parent is not affected.
#[test]
fn a_forked_child_gets_errors_and_does_no_harm() {
    let directory = tempfile::tempdir().unwrap();
    let db = Db::open_with(Arc::new(PosixStorage::new(directory.path())), tiny()).unwrap();
    let mut model = Model::new();
    fill(&db, 5, &mut model);
    let (snapshot, mut iter) = (db.snapshot(), db.iter().unwrap());
    iter.seek_first().unwrap();
    let reader = read(directory.path());
    let transaction = db.transaction().unwrap();
    transaction.put("c", "3").unwrap();
    let staged = |key: &str| {
        let mut batch = db.staged_batch().unwrap().with_memory(1);
        batch.put(key, "4").unwrap();
        batch.put([key, "5"].concat(), "5").unwrap();
        assert!(batch.spilled_bytes() > 0);
        batch
    };
    let (mut staged_one, staged_other) = (staged("d"), staged("e"));
    let mut ingest = db.ingest().unwrap();
    (0..40_000_u32).for_each(|number| ingest.put([&b"i"[..], &number.to_be_bytes()].concat(), "6").unwrap());
    // SAFETY: the child only calls the store, whose calls return at once there, and then `_exit`. It may allocate,
    // since glibc makes its allocator usable in forked children.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: a plain call; if anything below hangs, the alarm ends the child.
        unsafe { libc::alarm(20) };
        let forked = |result: Result<(), Error>| matches!(result, Err(Error::Forked));
        let checks = [
            forked(db.put("a", "1")),
            forked(db.delete("a")),
            forked(db.get("a").map(drop)),
            forked(db.flush()),
            forked(db.sync()),
            forked(db.iter().map(drop)),
            forked(db.verify().map(drop)),
            forked(snapshot.get("a").map(drop)),
            forked(snapshot.multi_get(&["a"]).map(drop)),
            forked(iter.step()),
            forked(db.snapshot().get("a").map(drop)),
            forked(db.relaxed_snapshot(Duration::MAX).get("a").map(drop)),
            forked(db.contains_key("a").map(drop)),
            forked(db.take("a").map(drop)),
            forked(db.pop_first().map(drop)),
            forked(reader.get("a").map(drop)),
            forked(reader.refresh()),
            forked(db.update("a", |_| None).map(drop)),
            forked(db.transaction().map(drop)),
            forked(transaction.get("a").map(drop)),
            forked(transaction.commit()),
            forked(staged_one.get("d").map(drop)),
            forked(staged_one.put("d", "1")),
            forked(staged_one.iter().map(drop)),
            forked(staged_one.commit()),
            forked(db.staged_batch().map(drop)),
            forked(ingest.put("j", "1")),
            forked(ingest.commit().map(drop)),
            forked(db.close()),
        ];
        drop((snapshot, iter, reader, staged_other));
        let failed = checks.iter().position(|passed| !passed);
        // SAFETY: ends the child without the exit handlers of the test harness.
        unsafe { libc::_exit(failed.map_or(0, |at| at as i32 + 1)) };
    }
    assert!(child > 0);
    let mut status = 0;
    // SAFETY: `status` is an integer to be filled; the child is this test's own.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child died of signal {}", libc::WTERMSIG(status));
    assert_eq!(libc::WEXITSTATUS(status), 0, "check number {} failed in the child", libc::WEXITSTATUS(status));
    // The parent can still write, and the child's close has not released the lock.
    assert!(matches!(Db::open(directory.path(), tiny()), Err(Error::AlreadyOpen { .. })));
    db.put("b", "2").unwrap();
    assert_eq!(snapshot.get("b").unwrap(), None);
    assert_eq!(iter.key(), model.keys().next().map(|key| &key[..]));
    iter.step().unwrap();
    transaction.commit().unwrap();
    // The child has not removed the files of these.
    assert_eq!(staged_one.get("d").unwrap().as_deref(), Some(&b"4"[..]));
    staged_one.commit().unwrap();
    staged_other.commit().unwrap();
    ingest.commit().unwrap();
    db.sync().unwrap();
    db.close().unwrap();
    let reopened = Db::open(directory.path(), tiny()).unwrap();
    assert_eq!(reopened.iter().unwrap().count(), model.len() + 2 + 4 + 40_000);
}
