//! Regression tests of the choice of tasks.

use super::*;
use crate::db::DeterministicDb;
use crate::disk::RequestedRange;
use crate::engine::scheduler::pause::BackgroundPause;
use crate::engine::types::options::Options;
use crate::io::simulated::SimulatedStorage;
use crate::merge::Retention;
use crate::util::Error;
use std::cell::Cell;

fn small_store() -> DeterministicDb {
    let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
    DeterministicDb::open(Arc::new(SimulatedStorage::new(1)), options).unwrap()
}

/// A job ended between a worker's look at the tree and its claim. The worker then merged bundles that were merged
/// already, an assertion stopped it, and the store became read-only.
#[test]
fn a_choice_from_an_outdated_tree_is_repeated() {
    let db = small_store();
    for round in 0..3u8 {
        db.put("key", [round]).unwrap();
        db.flush().unwrap();
    }
    let background = &db.engine.background;
    let looks = Cell::new(0);
    let job = pick_from_newest(background, |version| {
        looks.set(looks.get() + 1);
        if looks.get() == 1 {
            background.read.view.update(|current| (current.generations.clone(), current.disk.clone()));
        }
        background.disk.pick_requested(version, &RequestedRange::ALL, &Retention::default())
    });
    assert!(job.is_some());
    assert_eq!(looks.get(), 2, "the choice from the outdated tree was not repeated");
}

/// On a full disk an incorporation found no space and waits while a merge that frees space runs. *Otherwise:* the
/// worker for memory retries the incorporation concurrently with the merge, and takes the space that the merge needs.
#[test]
fn an_incorporation_waits_for_the_merge_that_frees_space() {
    let db = small_store();
    db.put("key", "value").unwrap();
    let background = &db.engine.background;
    background.generations.switch(&background.generations.lock()).unwrap();
    background.space.enter_full(&Error::DiskFull { reason: "a file".into() });
    let mut state = background.scheduler.state.lock();
    (state.needs_space, state.jobs, state.running) = (true, 1, 1);
    assert!(
        choose(background, &mut state, WorkerRole::Memory).is_none(),
        "the incorporation is retried while the merge runs"
    );
    (state.jobs, state.running) = (0, 0);
    let chosen = choose(background, &mut state, WorkerRole::Memory);
    assert!(
        matches!(chosen, Some(Task::Incorporate(..))),
        "the incorporation is not retried after the merge has ended"
    );
}

/// Regression test: the worker that was woken beside a flush of a quiet time forgot that a merge was to follow. Then ordinary
/// work came first once the flush had ended.
#[test]
fn nothing_comes_between_a_flush_of_a_quiet_time_and_its_merge() {
    let db = small_store();
    let background = &db.engine.background;
    let mut state = background.scheduler.state.lock();
    let next = |state: &mut SchedulerState| job_after_quiet_flush(background, state, WorkerRole::All);
    assert!(matches!(next(&mut state), Choice::Pass));
    (state.flushed_when_quiet, state.jobs, state.running) = (true, 1, 1);
    assert!(matches!(next(&mut state), Choice::Wait) && state.flushed_when_quiet, "while the flush runs");
    (state.jobs, state.running) = (0, 0);
    // There is no merge: the store is empty.
    assert!(matches!(next(&mut state), Choice::Pass) && !state.flushed_when_quiet);
}

/// Waiting for all work looks whether there is some, and drops what it finds. *Otherwise:* that task was taken for one that
/// runs, and no other of its kind ever ran.
#[test]
fn a_choice_that_is_dropped_is_made_again() {
    let options = Options { memory_budget: Some(128 << 20), write_buffer: Some(16 << 20), ..Options::default() };
    let db = DeterministicDb::open(Arc::new(SimulatedStorage::new(1)), options).unwrap();
    db.put("key", "value").unwrap();
    let background = &db.engine.background;
    let mut state = background.scheduler.state.lock();
    let next = |state: &mut SchedulerState| choose(background, state, WorkerRole::Memory);
    for _ in 0..2 {
        assert!(matches!(next(&mut state), Some(Task::PopulateIndex(_))));
    }
    let task = next(&mut state).unwrap();
    state.begin(&task);
    assert!(next(&mut state).is_none(), "one at a time");
    drop(state);
    background.generations.switch(&background.generations.lock()).unwrap();
    let mut state = background.scheduler.state.lock();
    for _ in 0..2 {
        assert!(matches!(next(&mut state), Some(Task::Incorporate(..))));
    }
}

/// Where writers are faster than merges, incorporations once added runs to the root without end.
#[test]
fn an_incorporation_waits_at_the_bound_on_runs() {
    let db = small_store();
    let background = &db.engine.background;
    let pause = BackgroundPause::begin(&background.scheduler);
    let newest_runs = || background.read.view.load().disk.newest_runs().unwrap();
    // The pause holds merges up, and no writer waits for that.
    for round in 0..=newest_runs().bound {
        db.put("key", [round as u8]).unwrap();
        db.flush().unwrap();
    }
    assert!(newest_runs().count > newest_runs().bound);
    db.put("key", "value").unwrap();
    background.generations.switch(&background.generations.lock()).unwrap();
    let mut state = background.scheduler.state.lock();
    let during_pause = choose(background, &mut state, WorkerRole::All);
    assert!(matches!(during_pause, Some(Task::Incorporate(..))), "a writer would wait for the end of the pause");
    drop(state);
    drop(pause);
    let mut state = background.scheduler.state.lock();
    let mut next = |role| choose(background, &mut state, role);
    let merge = next(WorkerRole::Memory);
    assert!(matches!(merge, Some(Task::Job(..))), "no merge makes room");
    assert!(next(WorkerRole::Memory).is_none(), "the running merge makes room");
    drop(state);
    background.scheduler.begin_closing();
    let closing = choose(background, &mut background.scheduler.state.lock(), WorkerRole::Memory);
    assert!(matches!(closing, Some(Task::Incorporate(..))), "closing waits for a merge");
}
