//! What the threads of the background work share, and how other threads wait for them. Any thread.
//!
//! A store is given its scheduler when it is opened. The choice of the next task is in `background/priorities.rs`.
//!
//! Invariants:
//! 1. `state` is locked for moments only: never over I/O, a latch or a wait for another lock than those of the choice
//!    of a task.
//! 2. A thread that changes an input of the choice calls `wake_workers`: the pool then lets a thread choose again, after
//!    the change. It also takes the lock, so a task that waits in the middle of its work does not miss it.

use super::compaction_request::CompactionRequest;
use super::driver::{Driver, RunNext};
use super::running_tasks::RunningTasks;
use super::task::Task;
use crate::engine::pool::{self, Bell, Lane, Lanes};
use crate::io::Clock;
use crate::util::sync::{Arc, AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, OnceLock, Ordering};
use crate::util::{Error, Result, SequenceNumber};
use std::sync::Weak;
use std::time::Duration;

/// How long a wait for background work lasts before the waiting thread checks again.
const BETWEEN_CHECKS: Duration = Duration::from_millis(20);
/// The same for a writer that waits for memory.
const MEMORY_WAIT: Duration = Duration::from_millis(100);

/// See the module.
pub(crate) struct Scheduler {
    driver: Driver,
    pub(crate) clock: Arc<dyn Clock>,
    /// What runs a piece of background work in the calling thread; set once, with `Driver::Deterministic`.
    runner: OnceLock<Weak<dyn RunNext>>,
    /// Wakes the pool.
    pub(crate) bell: Arc<Bell>,
    pub(crate) state: Mutex<SchedulerState>,
    /// There may be something to do for a task that waits.
    wake: Condvar,
    /// A task has ended.
    progress: Condvar,
    /// A generation was incorporated, or waiting for that has become useless.
    memory_freed: Condvar,
    /// Asks running tasks to end.
    cancel: AtomicBool,
    /// How many pauses are in force. Changes under the lock of `state`.
    pauses: AtomicUsize,
    /// See `begin_closing`.
    closing: AtomicBool,
    pub(crate) running: RunningTasks,
}

/// The bookkeeping of the background work of a store.
#[derive(Default)]
pub(crate) struct SchedulerState {
    pub(crate) stopped: bool,
    /// The last numbers of the generations that are being incorporated, in the order in which they will become part of
    /// the tree.
    pub(crate) incorporating: Vec<SequenceNumber>,
    pub(crate) draining: bool,
    /// An index is being populated.
    pub(crate) populating: bool,
    /// A tick of the expiry has begun.
    pub(crate) expiring: bool,
    /// Tasks that run.
    pub(crate) running: usize,
    /// How many of them are jobs of the disk component.
    pub(crate) jobs: usize,
    /// How many of them wait for the end of a pause.
    pub(crate) parked: usize,
    /// How many callers wait until nothing is left to do.
    pub(crate) awaited: usize,
    /// A flush for quiet times has begun, and the merge that is to follow has not.
    pub(crate) flushed_when_quiet: bool,
    /// The latest job found no space.
    pub(crate) job_failed: bool,
    /// The latest incorporation found no space: tasks that free some go first.
    pub(crate) needs_space: bool,
    pub(crate) requests: Vec<Arc<CompactionRequest>>,
    /// Read-only openers keep obsolete files until then.
    pub(crate) no_removal_until: Option<Duration>,
    /// When to check next whether a full disk has space again.
    pub(crate) check_space_at: Option<Duration>,
    pub(crate) last_cleanup: LastCleanup,
}

/// The latest cleanup of versions in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LastCleanup {
    /// `SnapshotRegistry::changes` by then.
    pub(crate) changes: u64,
    /// The earliest time of the next one.
    pub(crate) next: Duration,
}

impl SchedulerState {
    /// Notes that a task begins. Only here: a choice that is dropped, because it was a mere check, leaves nothing behind.
    /// *Otherwise:* a check that found a task to populate an index was taken for one that runs, and no other ever ran.
    pub(crate) fn begin(&mut self, task: &Task) {
        self.running += 1;
        match task {
            Task::Job(..) => self.jobs += 1,
            Task::Incorporate(_, end) => self.incorporating.push(*end),
            Task::Drain(_) => self.draining = true,
            Task::PopulateIndex(_) => self.populating = true,
            Task::Expire => self.expiring = true,
            _ => {}
        }
    }

    /// Whether every running task waits for the end of a pause.
    pub(crate) fn is_idle(&self) -> bool {
        self.running == self.parked
    }

    /// Whether a job works at the moment.
    pub(crate) fn has_working_job(&self) -> bool {
        self.jobs > self.parked
    }
}

impl Scheduler {
    pub(crate) fn new(driver: Driver, clock: Arc<dyn Clock>) -> Arc<Self> {
        Arc::new(Self {
            driver,
            clock,
            runner: OnceLock::new(),
            bell: Arc::default(),
            state: Mutex::default(),
            wake: Condvar::new(),
            progress: Condvar::new(),
            memory_freed: Condvar::new(),
            cancel: AtomicBool::new(false),
            pauses: AtomicUsize::new(0),
            closing: AtomicBool::new(false),
            running: RunningTasks::default(),
        })
    }

    /// Sets what runs background work in calling threads.
    pub(crate) fn set_runner(&self, runner: Weak<dyn RunNext>) {
        let _ = self.runner.set(runner);
    }

    pub(crate) fn driver(&self) -> Driver {
        self.driver
    }

    /// With `Driver::Deterministic`: runs one piece of background work. Returns false if there is none.
    fn run_next(&self) -> bool {
        let runner = self.runner.get().and_then(Weak::upgrade);
        runner.is_some_and(|runner| runner.run_next())
    }

    /// Lets the pool choose again.
    pub(crate) fn wake_workers(&self) {
        drop(self.state.lock());
        self.wake.notify_all();
        self.ask_for_workers();
    }

    /// The same, when no task that waits is concerned. Under any lock.
    pub(crate) fn ask_for_workers(&self) {
        if self.driver == Driver::Threads {
            self.bell.wake(Lanes::TASKS);
        }
    }

    /// Lets the pool do log work. Under any lock.
    pub(crate) fn wake_log(&self, lane: Lane) {
        if self.driver == Driver::Threads {
            self.bell.wake(lane);
        }
    }

    /// Lets every waiting thread check again, after a failure.
    pub(crate) fn wake_all(&self) {
        self.wake_workers();
        // It publishes the failure.
        self.wake_log(Lane::Finish);
        self.memory_freed.notify_all();
    }

    /// Notes that a task has ended.
    pub(crate) fn note_progress(&self) {
        self.memory_freed.notify_all();
        self.progress.notify_all();
        self.wake_workers();
    }

    /// Notes that memory was freed, or that waiting for it has become useless.
    pub(crate) fn note_memory_freed(&self) {
        self.memory_freed.notify_all();
    }

    /// A writer that holds the lock `switching` waits until a generation was incorporated, or for a moment.
    pub(crate) fn wait_for_memory(&self, switching: &mut MutexGuard<'_, ()>) {
        match self.driver {
            Driver::Threads => {
                self.memory_freed.wait_for(switching, MEMORY_WAIT);
            }
            Driver::Deterministic => {
                self.run_next();
            }
        }
    }

    /// Waits until a task has ended, or for a moment.
    pub(crate) fn wait_briefly(&self) {
        match self.driver {
            Driver::Threads => {
                let mut state = self.state.lock();
                if !state.stopped {
                    self.progress.wait_for(&mut state, BETWEEN_CHECKS);
                }
            }
            Driver::Deterministic => {
                if !self.run_next() {
                    self.clock.sleep(BETWEEN_CHECKS);
                }
            }
        }
    }

    /// Waits until no generation that is being incorporated is older than the one with this last number. An error if
    /// the store closes.
    pub(crate) fn wait_for_turn(&self, end: SequenceNumber) -> Result<()> {
        let has_turn = |state: &SchedulerState| state.incorporating.first() == Some(&end);
        if has_turn(&self.state.lock()) {
            return Ok(());
        }
        pool::while_waiting(|| {
            let mut state = self.state.lock();
            while !has_turn(&state) {
                if state.stopped {
                    return Err(Error::Closed);
                }
                self.progress.wait_for(&mut state, BETWEEN_CHECKS);
            }
            Ok(())
        })
    }

    /// Waits until a task has ended, but not longer than `patience`. Returns false with `Driver::Deterministic` if
    /// there was nothing to run. An error if the store closes.
    pub(crate) fn wait_for_progress(&self, patience: Duration) -> Result<bool> {
        if self.driver == Driver::Deterministic {
            return Ok(self.run_next());
        }
        let mut state = self.state.lock();
        if state.stopped {
            return Err(Error::Closed);
        }
        self.progress.wait_for(&mut state, patience);
        Ok(true)
    }

    /// Waits until `check` returns true. `check` is called under the lock and returns an error if background work
    /// cannot get there.
    pub(crate) fn wait_until(&self, mut check: impl FnMut() -> Result<bool>) -> Result<()> {
        loop {
            let mut state = self.state.lock();
            if check()? {
                return Ok(());
            }
            if state.stopped {
                return Err(Error::Closed);
            }
            match self.driver {
                Driver::Threads => {
                    self.progress.wait_for(&mut state, BETWEEN_CHECKS);
                }
                Driver::Deterministic => {
                    drop(state);
                    let has_run = self.run_next();
                    assert!(has_run || check()?, "nothing is left to do, but there is something to wait for");
                }
            }
        }
    }

    /// Waits for a change while `state` is locked: wakes the workers, then waits until one of them has ended a task.
    pub(crate) fn wait_for_workers(&self, state: &mut MutexGuard<'_, SchedulerState>) {
        self.ask_for_workers();
        self.progress.wait_for(state, BETWEEN_CHECKS);
    }

    /// A worker that found no space wakes the threads that wait for it, and waits.
    pub(crate) fn wait_for_space(&self, patience: Duration) {
        if self.driver == Driver::Threads {
            pool::while_waiting(|| {
                let mut state = self.state.lock();
                self.progress.notify_all();
                self.memory_freed.notify_all();
                if !state.stopped {
                    self.wake.wait_for(&mut state, patience);
                }
            });
        }
    }

    /// Whether running tasks should end.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Whether merges are paused.
    pub(crate) fn is_paused(&self) -> bool {
        self.pauses.load(Ordering::Relaxed) > 0
    }

    /// The store closes: what must still be incorporated waits for no merge.
    pub(crate) fn begin_closing(&self) {
        self.closing.store(true, Ordering::Relaxed);
        self.wake_workers();
    }

    /// Whether `begin_closing` was called.
    pub(crate) fn is_closing(&self) -> bool {
        self.closing.load(Ordering::Relaxed)
    }

    /// Begins a pause. If there are threads, returns once no merge works.
    pub(super) fn begin_pause(&self) {
        let state = self.state.lock();
        self.pauses.fetch_add(1, Ordering::Relaxed);
        drop(state);
        // An incorporation may have waited for a merge, and does not during a pause.
        self.wake_workers();
        let mut state = self.state.lock();
        while self.driver == Driver::Threads && state.has_working_job() && !state.stopped {
            self.progress.wait_for(&mut state, BETWEEN_CHECKS);
        }
    }

    pub(super) fn end_pause(&self) {
        let state = self.state.lock();
        self.pauses.fetch_sub(1, Ordering::Relaxed);
        drop(state);
        self.wake_workers();
    }

    /// The thread of a job waits for the end of the pause.
    pub(crate) fn park(&self, is_cancelled: impl Fn() -> bool) {
        pool::while_waiting(|| {
            let mut state = self.state.lock();
            state.parked += 1;
            self.progress.notify_all();
            while self.is_paused() && !is_cancelled() {
                self.wake.wait_for(&mut state, BETWEEN_CHECKS);
            }
            state.parked -= 1;
        });
    }

    /// Postpones the removal of obsolete files.
    pub(crate) fn postpone_removal(&self, until: Duration) {
        self.state.lock().no_removal_until = Some(until);
    }

    /// Ends the tasks.
    pub(crate) fn stop(&self) {
        self.cancel.store(true, Ordering::Release);
        self.state.lock().stopped = true;
        self.wake.notify_all();
        self.progress.notify_all();
    }
}

impl std::fmt::Debug for Scheduler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Scheduler").field("driver", &self.driver).finish_non_exhaustive()
    }
}
