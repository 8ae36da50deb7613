//! Two generations that are incorporated side by side.

use super::*;
use crate::db::DeterministicDb;
use crate::engine::types::options::Options;
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;

/// A store with two full generations, of which the newer deletes what the older puts, and the tasks that incorporate them.
fn begun(disk: &SimulatedStorage) -> (DeterministicDb, [Task; 2]) {
    let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
    let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
    let inner = &db.inner;
    db.put("key", "value").unwrap();
    inner.switch(&inner.view.load_full());
    db.delete("key").unwrap();
    inner.switch(&inner.view.load_full());
    let tasks = std::array::from_fn(|_| {
        let mut state = inner.work.state.lock();
        let task = inner.pick(&mut state, WorkerRole::Memory).unwrap();
        state.start(&task);
        task
    });
    assert!(inner.pick(&mut inner.work.state.lock(), WorkerRole::Memory).is_none(), "more than there are");
    (db, tasks)
}

fn perform(inner: &Engine, task: Task) -> Result<()> {
    let kind = task.kind();
    let done = inner.perform(task);
    inner.finish_task(kind, done.clone());
    done
}

/// What the newer one wrote out is not there before the older one is. *Else:* the tree holds the older version above the newer; and a
/// power loss between the two loses what the older one held, since the edit says that the log is not needed.
#[test]
fn the_older_of_two_is_published_first() {
    let (db, [older, newer]) = begun(&SimulatedStorage::new(1));
    let inner = &db.inner;
    std::thread::scope(|scope| {
        let newer = scope.spawn(|| perform(inner, newer));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(inner.view.load().generations.len(), 3, "it did not wait for its turn");
        perform(inner, older).unwrap();
        newer.join().unwrap().unwrap();
    });
    assert_eq!(inner.view.load().generations.len(), 1);
    assert_eq!(db.get("key").unwrap(), None, "the deletion was left out, as if nothing had been below");
    db.verify().unwrap();
}

/// The older one found no room: the newer one's files go, and are made again behind it.
#[test]
fn the_newer_of_two_gives_up_where_the_older_failed() {
    let disk = SimulatedStorage::new(1);
    let (db, [older, newer]) = begun(&disk);
    let inner = &db.inner;
    std::thread::scope(|scope| {
        let newer = scope.spawn(|| perform(inner, newer));
        std::thread::sleep(Duration::from_millis(50));
        disk.inject("(create name~.branch) -> enospc");
        assert!(perform(inner, older).unwrap_err().is_disk_full());
        assert!(matches!(newer.join().unwrap(), Err(Error::Closed)));
    });
    assert_eq!(inner.view.load().generations.len(), 3);
    assert!(inner.work.state.lock().needs_room, "nobody makes room for the older one");
    disk.clear_faults();
    while db.step() {}
    assert_eq!(inner.view.load().generations.len(), 1);
    assert_eq!(db.get("key").unwrap(), None);
    db.verify().unwrap();
    let known = inner.view.load().disk.branches().len();
    let files = disk.list().unwrap().iter().filter(|name| name.ends_with(".branch")).count();
    assert_eq!(files, known, "what it gave up is still there");
}
