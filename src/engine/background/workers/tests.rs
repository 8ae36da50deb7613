//! Tests of two generations that are incorporated concurrently, and of a merge that finds no space.

use super::*;
use crate::db::DeterministicDb;
use crate::engine::types::options::{DiskComponent, LevelsOptions, Options};
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::util::sync::Arc;
use std::time::Duration;

/// A store with two full generations, of which the newer deletes a key that the older puts, and the tasks that
/// incorporate them.
fn store_with_two_incorporations(disk: &SimulatedStorage) -> (DeterministicDb, [Task; 2]) {
    let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
    let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
    let background = &db.engine.background;
    db.put("key", "value").unwrap();
    background.generations.switch(&background.generations.lock()).unwrap();
    db.delete("key").unwrap();
    background.generations.switch(&background.generations.lock()).unwrap();
    let tasks = std::array::from_fn(|_| {
        let mut state = background.scheduler.state.lock();
        let task = priorities::choose(background, &mut state, WorkerRole::Memory).unwrap();
        state.begin(&task);
        task
    });
    assert!(
        priorities::choose(background, &mut background.scheduler.state.lock(), WorkerRole::Memory).is_none(),
        "a third task was chosen"
    );
    (db, tasks)
}

fn perform(background: &Background, task: Task) -> Result<()> {
    let kind = task.kind();
    let done = background.perform(task);
    background.finish_task(kind, done.clone());
    done
}

/// The newer generation is published after the older one. *Otherwise:* the tree holds the older version above the newer
/// one; and a power loss between the two loses the older generation, because the edit says that its log is not needed.
#[test]
fn the_older_generation_is_published_first() {
    let (db, [older, newer]) = store_with_two_incorporations(&SimulatedStorage::new(1));
    let background = &db.engine.background;
    std::thread::scope(|scope| {
        let newer = scope.spawn(|| perform(background, newer));
        std::thread::sleep(Duration::from_millis(50));
        assert_eq!(
            background.read.view.load().generations.len(),
            3,
            "the newer generation did not wait for the older one"
        );
        perform(background, older).unwrap();
        newer.join().unwrap().unwrap();
    });
    assert_eq!(background.read.view.load().generations.len(), 1);
    assert_eq!(db.get("key").unwrap(), None, "the tombstone was dropped, as if there were no older version");
    db.verify().unwrap();
}

/// The older incorporation finds no space: the newer one removes its files, and is repeated after the older one.
#[test]
fn the_newer_incorporation_gives_up_if_the_older_failed() {
    let disk = SimulatedStorage::new(1);
    let (db, [older, newer]) = store_with_two_incorporations(&disk);
    let background = &db.engine.background;
    std::thread::scope(|scope| {
        let newer = scope.spawn(|| perform(background, newer));
        std::thread::sleep(Duration::from_millis(50));
        disk.inject("(create name~.branch) -> enospc");
        assert!(perform(background, older).unwrap_err().is_disk_full());
        assert!(matches!(newer.join().unwrap(), Err(Error::Closed)));
    });
    assert_eq!(background.read.view.load().generations.len(), 3);
    assert!(background.scheduler.state.lock().needs_space, "the failed incorporation does not request space");
    disk.clear_faults();
    while db.step() {}
    assert_eq!(background.read.view.load().generations.len(), 1);
    assert_eq!(db.get("key").unwrap(), None);
    db.verify().unwrap();
    let known = background.read.view.load().disk.branches().len();
    let files = disk.list().unwrap().iter().filter(|name| name.ends_with(".branch")).count();
    assert_eq!(files, known, "the files of the incorporation that gave up are still there");
}

/// Once, the files of a merge that had found no space were still there when the next merge began, which found no space
/// either and counted as failed, too. At last nothing was left to try, and the disk stayed full although half of the data
/// was deleted.
#[test]
fn a_merge_without_space_gives_back_what_it_took() {
    let disk = SimulatedStorage::new(1);
    let levels = LevelsOptions { file_bytes: Some(4096), ..LevelsOptions::leveled() };
    let options = Options {
        memory_budget: Some(1 << 20),
        background_threads: Some(1),
        disk_component: Some(DiskComponent::Levels(levels)),
        ..Options::default()
    };
    let db = DeterministicDb::open(Arc::new(disk.clone()), options).unwrap();
    let key = |number: u32| format!("key{number:04}");
    (0..200).for_each(|number| db.put(key(number), [1; 100]).unwrap());
    db.flush().unwrap();
    (0..100).for_each(|number| db.delete(key(number * 2)).unwrap());
    db.flush().unwrap();
    let background = &db.engine.background;
    background.space.enter_full(&Error::DiskFull { reason: "a file".into() });
    let task = {
        let mut state = background.scheduler.state.lock();
        let task = Task::Job(priorities::pick_to_free_space(background, &state).unwrap(), None);
        state.begin(&task);
        task
    };
    let branches = || disk.list().unwrap().iter().filter(|name| name.ends_with(".branch")).count();
    let before = branches();
    // The second of several files.
    disk.inject("(create name~.branch nth=2) -> enospc");
    assert!(perform(background, task).unwrap_err().is_disk_full());
    assert_eq!(branches(), before, "the failed merge has left a file");
    disk.clear_faults();
    while db.step() {}
    assert!(!background.health.is_full() && db.iter().unwrap().count() == 100);
}
