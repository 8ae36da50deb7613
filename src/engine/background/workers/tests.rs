//! Two generations that are incorporated side by side.

use super::*;
use crate::db::DeterministicDb;
use crate::engine::types::options::Options;
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::util::sync::Arc;

/// A store with two full generations, of which the newer deletes what the older puts, and the tasks that incorporate them.
fn begun(disk: &SimulatedStorage) -> (DeterministicDb, [Task; 2]) {
    let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
    let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
    let background = &db.engine.background;
    db.put("key", "value").unwrap();
    background.generations.switch(&background.generations.lock());
    db.delete("key").unwrap();
    background.generations.switch(&background.generations.lock());
    let tasks = std::array::from_fn(|_| {
        let mut state = background.scheduler.state.lock();
        let task = priorities::choose(background, &mut state, WorkerRole::Memory).unwrap();
        state.begin(&task);
        task
    });
    assert!(
        priorities::choose(background, &mut background.scheduler.state.lock(), WorkerRole::Memory).is_none(),
        "more than there are"
    );
    (db, tasks)
}

fn perform(background: &Background, task: Task) -> Result<()> {
    let kind = task.kind();
    let done = background.perform(task);
    background.finish_task(kind, done.clone());
    done
}

/// What the newer one wrote out is not there before the older one is. *Else:* the tree holds the older version above the newer; and a
/// power loss between the two loses what the older one held, since the edit says that the log is not needed.
#[test]
fn the_older_of_two_is_published_first() {
    let (db, [older, newer]) = begun(&SimulatedStorage::new(1));
    let background = &db.engine.background;
    std::thread::scope(|scope| {
        let newer = scope.spawn(|| perform(background, newer));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(background.read.view.load().generations.len(), 3, "it did not wait for its turn");
        perform(background, older).unwrap();
        newer.join().unwrap().unwrap();
    });
    assert_eq!(background.read.view.load().generations.len(), 1);
    assert_eq!(db.get("key").unwrap(), None, "the deletion was left out, as if nothing had been below");
    db.verify().unwrap();
}

/// The older one found no room: the newer one's files go, and are made again behind it.
#[test]
fn the_newer_of_two_gives_up_where_the_older_failed() {
    let disk = SimulatedStorage::new(1);
    let (db, [older, newer]) = begun(&disk);
    let background = &db.engine.background;
    std::thread::scope(|scope| {
        let newer = scope.spawn(|| perform(background, newer));
        std::thread::sleep(Duration::from_millis(50));
        disk.inject("(create name~.branch) -> enospc");
        assert!(perform(background, older).unwrap_err().is_disk_full());
        assert!(matches!(newer.join().unwrap(), Err(Error::Closed)));
    });
    assert_eq!(background.read.view.load().generations.len(), 3);
    assert!(background.scheduler.state.lock().needs_space, "nobody makes room for the older one");
    disk.clear_faults();
    while db.step() {}
    assert_eq!(background.read.view.load().generations.len(), 1);
    assert_eq!(db.get("key").unwrap(), None);
    db.verify().unwrap();
    let known = background.read.view.load().disk.branches().len();
    let files = disk.list().unwrap().iter().filter(|name| name.ends_with(".branch")).count();
    assert_eq!(files, known, "what it gave up is still there");
}
