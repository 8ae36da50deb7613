//! What background work does next, and what its threads share.
//!
//! Priority goes to what a stalled writer waits for: incorporation first, then the trunk's jobs, then removal. On a full disk
//! (`full_disk`) the jobs are those that free space, and they go first where incorporation found no room. Choosing a job is the
//! trunk's pure picker; here it meets the view, the memory and the state of the disk.

use super::compaction_request::CompactionRequest;
use super::task_control::RunningTasks;
use super::version_cleanup::LastReclaim;
use crate::disk::{Job, Version};
use crate::engine::engine::Engine;
use crate::engine::space::full_disk;
use crate::engine::state::budget::DEBT_START;
use crate::engine::state::view::{Generation, View};
use crate::merge::Retention;
use crate::util::sync::{Arc, AtomicBool, AtomicUsize, Condvar, Mutex, Ordering};
use crate::util::{Error, Result, SequenceNumber};
use std::time::Duration;

/// Generations that are incorporated at a time: of three (`GENERATIONS_MAX`) one is written to.
const INCORPORATIONS_MAX: usize = 2;

/// What the pool shares.
#[derive(Default)]
pub(crate) struct Scheduler {
    pub(crate) state: Mutex<SchedulerState>,
    /// There may be something to do.
    pub(crate) wake: Condvar,
    /// Something was done.
    pub(crate) progress: Condvar,
    /// Asks running work to give up.
    cancel: AtomicBool,
    /// How many want that no merge runs. Changes under the lock of `state`.
    paused: AtomicUsize,
    pub(crate) running: RunningTasks,
    /// Held by whoever removes dead files (`removal.rs`).
    pub(crate) removing: Mutex<()>,
}

#[derive(Default)]
pub(crate) struct SchedulerState {
    pub(crate) stopped: bool,
    /// The ends of the generations that are being incorporated, in the order in which they will be part of the tree.
    pub(crate) incorporating: Vec<SequenceNumber>,
    pub(crate) draining: bool,
    pub(crate) running: usize,
    /// How many of those that run are jobs.
    pub(crate) jobs: usize,
    /// The newest job found no room.
    pub(crate) job_failed: bool,
    /// The newest incorporation found no room: what frees some goes first.
    pub(crate) needs_room: bool,
    /// How many of those that run stand still because of a pause.
    pub(crate) parked: usize,
    /// What callers of `compact` wait for.
    pub(crate) requests: Vec<Arc<CompactionRequest>>,
    /// Read-only openers kept dead files from removal.
    pub(crate) no_removal_until: Option<Duration>,
    /// When to look next whether a full disk has room again.
    pub(crate) full_disk_retry_at: Option<Duration>,
    pub(crate) reclaim: LastReclaim,
}

impl SchedulerState {
    pub(crate) fn start(&mut self, task: &Task) {
        self.running += 1;
        self.jobs += usize::from(task.kind() == TaskKind::Job);
    }
}

/// One thing to do.
pub(crate) enum Task {
    Incorporate(Arc<Generation>, SequenceNumber),
    Job(Job, Option<Arc<CompactionRequest>>),
    Remove,
    /// Hand what waits in a Membuffer over to its partitions.
    Drain(Arc<Generation>),
    /// Take versions out of memory that no snapshot needs any more.
    CleanVersions,
    /// Make or grow the ballast.
    Ballast,
    /// Look for room on a full disk.
    Relieve,
}

/// Which tasks a thread of the pool takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerRole {
    All,
    /// Those that make room in memory.
    Memory,
}

/// What a task was, once it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// Of the generation with this end.
    Incorporate(SequenceNumber),
    Job,
    Other,
}

impl Task {
    pub(crate) fn kind(&self) -> TaskKind {
        match self {
            Self::Incorporate(_, end) => TaskKind::Incorporate(*end),
            Self::Job(..) => TaskKind::Job,
            Self::Drain(_) | Self::Remove | Self::CleanVersions | Self::Ballast | Self::Relieve => TaskKind::Other,
        }
    }
}
impl Scheduler {
    /// Lets idle workers look again.
    pub(crate) fn wake(&self) {
        // Under the lock, so that a worker between looking and waiting does not miss it.
        let _state = self.state.lock();
        self.wake.notify_all();
    }

    /// Waits until something was done, or a moment.
    pub(crate) fn wait_a_moment(&self) {
        let mut state = self.state.lock();
        if !state.stopped {
            self.progress.wait_for(&mut state, Duration::from_millis(20));
        }
    }

    /// Waits until no generation that is being incorporated is older than the one with this end; an error where the store closes.
    pub(crate) fn wait_for_turn(&self, end: SequenceNumber) -> Result<()> {
        let mut state = self.state.lock();
        while state.incorporating.first() != Some(&end) {
            if state.stopped {
                return Err(Error::Closed);
            }
            self.progress.wait_for(&mut state, Duration::from_millis(20));
        }
        Ok(())
    }

    /// A sweep has ended.
    pub(crate) fn drained(&self) {
        self.state.lock().draining = false;
    }

    /// Waits until something was done, but not for longer than `patience`; an error where the store closes.
    pub(crate) fn wait_for_progress(&self, patience: Duration) -> Result<()> {
        let mut state = self.state.lock();
        if state.stopped {
            return Err(Error::Closed);
        }
        self.progress.wait_for(&mut state, patience);
        Ok(())
    }

    /// Whether running work is to give up.
    pub(crate) fn is_cancelled(&self) -> bool {
        self.cancel.load(Ordering::Relaxed)
    }

    /// Whether merges are to stand still.
    pub(crate) fn is_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed) > 0
    }

    /// One more wants that no merge runs; where there are threads, returns once none does.
    pub(crate) fn begin_pause(&self, has_threads: bool) {
        let mut state = self.state.lock();
        self.paused.fetch_add(1, Ordering::Relaxed);
        while has_threads && state.jobs > state.parked && !state.stopped {
            self.progress.wait_for(&mut state, Duration::from_millis(20));
        }
    }

    /// One less does.
    pub(crate) fn end_pause(&self) {
        let _state = self.state.lock();
        self.paused.fetch_sub(1, Ordering::Relaxed);
        self.wake.notify_all();
    }

    /// Stands still while there is a pause. For a job's thread.
    pub(crate) fn park(&self, is_cancelled: impl Fn() -> bool) {
        let mut state = self.state.lock();
        state.parked += 1;
        self.progress.notify_all();
        while self.is_paused() && !is_cancelled() {
            self.wake.wait_for(&mut state, Duration::from_millis(20));
        }
        state.parked -= 1;
    }

    /// Leaves the removal of dead files alone until then.
    pub(crate) fn postpone_removal(&self, until: Duration) {
        self.state.lock().no_removal_until = Some(until);
    }

    /// Tells the pool to end.
    pub(crate) fn stop(&self) {
        self.cancel.store(true, Ordering::Release);
        self.state.lock().stopped = true;
        self.wake.notify_all();
        self.progress.notify_all();
    }
}

impl Engine {
    pub(crate) fn pick(&self, state: &mut SchedulerState, role: WorkerRole) -> Option<Task> {
        let full = self.health.is_full();
        if role == WorkerRole::All {
            if self.wants_ballast() {
                return Some(Task::Ballast);
            }
            if full && state.full_disk_retry_at.is_none_or(|due| self.clock.now() >= due) {
                state.full_disk_retry_at = Some(self.clock.now().saturating_add(full_disk::LOOK));
                return Some(Task::Relieve);
            }
            if !full && self.disk.is_backed_off() && state.full_disk_retry_at.is_none_or(|due| self.clock.now() >= due)
            {
                state.full_disk_retry_at = Some(self.clock.now().saturating_add(full_disk::LOOK));
                self.retry_backed_off();
            }
            // What a merge replaced is still there when it ends: the room for the next one.
            if full && self.may_remove(state) {
                return Some(Task::Remove);
            }
        }
        if full && state.needs_room {
            if let Some(job) = self.pick_reclaim(state).filter(|_| !self.work.is_paused()) {
                // Dropped, its claim goes back.
                return (role == WorkerRole::All).then_some(Task::Job(job, None));
            }
            // What a merge under way is to free, another try would take from it.
            if state.jobs > state.parked {
                return None;
            }
        }
        if let Some(task) = self.pick_for_memory(state) {
            return Some(task);
        }
        if role == WorkerRole::Memory {
            return None;
        }
        if self.work.is_paused() {
            return None;
        }
        let task = if full { self.pick_reclaim(state).map(|job| Task::Job(job, None)) } else { self.pick_job(state) };
        if task.is_some() {
            return task;
        }
        self.may_remove(state).then_some(Task::Remove)
    }

    fn pick_for_memory(&self, state: &mut SchedulerState) -> Option<Task> {
        let view = self.view.load();
        if (state.incorporating.is_empty() || self.may_incorporate_beside(state, &view))
            && let Some((generation, end)) = view.oldest_switched(&state.incorporating)
        {
            state.incorporating.push(end);
            return Some(Task::Incorporate(generation, end));
        }
        if !state.draining && view.newest().memtable.is_drain_due() {
            state.draining = true;
            return Some(Task::Drain(Arc::clone(view.newest())));
        }
        self.is_reclaim_due(&mut state.reclaim).then_some(Task::CleanVersions)
    }

    /// Two at a time, since half of the time one waits for the disk. Not where merges are behind, which would be so by one worker
    /// more, nor on a full disk, where the one would take the room that the other looks for.
    fn may_incorporate_beside(&self, state: &SchedulerState, view: &View) -> bool {
        let is_behind = view.disk.debt() > self.budget.memtable as u64 * DEBT_START;
        state.incorporating.len() < INCORPORATIONS_MAX && !is_behind && !self.health.is_full()
    }

    fn may_remove(&self, state: &SchedulerState) -> bool {
        let postponed = state.no_removal_until.is_some_and(|until| self.clock.now() < until);
        !postponed && self.has_dead_files()
    }

    /// On a full disk one at a time: they would take from each other the little room that there is.
    fn pick_reclaim(&self, state: &SchedulerState) -> Option<Job> {
        if state.jobs > 0 { None } else { self.pick_from_newest(|version| self.disk.pick_to_free_space(version)) }
    }

    fn pick_job(&self, state: &SchedulerState) -> Option<Task> {
        let retention = Retention::new(self.snapshots.numbers());
        if let Some(job) = self.pick_from_newest(|version| self.disk.pick(version, &retention)) {
            return Some(Task::Job(job, None));
        }
        let wished = state.requests.iter().filter(|request| !request.is_cancelled()).find_map(|request| {
            let job =
                self.pick_from_newest(|version| self.disk.pick_requested(version, &request.wanted, &retention))?;
            Some(Task::Job(job, Some(Arc::clone(request))))
        });
        let for_scans = |version: &Version| self.disk.pick_for_scans(version);
        wished.or_else(|| Some(Task::Job(self.pick_from_newest(for_scans)?, None)))
    }

    /// A job whose claim was made while the tree that it was picked from was the newest. *Else:* between the look at the tree
    /// and the claim another job ends, publishes what it merged and gives its claim back; then the same bundles are merged
    /// once more, and do not stand side by side any longer.
    pub(crate) fn pick_from_newest(&self, pick: impl Fn(&Version) -> Option<Job>) -> Option<Job> {
        loop {
            let view = self.view.load();
            let job = pick(&view.disk);
            // Whoever gave a claim back before this one was made had published its view before that.
            if job.is_none() || self.view.version() == view.version {
                return job;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::DeterministicDb;
    use crate::disk::RequestedRange;
    use crate::engine::types::options::Options;
    use crate::io::simulated::SimulatedStorage;
    use std::cell::Cell;

    /// Once, a job ended between a worker's look at the tree and its claim; the worker then merged bundles that were merged
    /// already, an assertion stopped it, and the store went read-only.
    #[test]
    fn a_choice_from_an_outdated_tree_is_made_anew() {
        let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
        let db = DeterministicDb::open(Arc::new(SimulatedStorage::new(1)), options).unwrap();
        for round in 0..3u8 {
            db.put("key", [round]).unwrap();
            db.flush().unwrap();
        }
        let inner = &db.inner;
        let looks = Cell::new(0);
        let job = inner.pick_from_newest(|version| {
            looks.set(looks.get() + 1);
            if looks.get() == 1 {
                inner.view.update(|current| (current.generations.clone(), current.disk.clone()));
            }
            inner.disk.pick_requested(version, &RequestedRange::ALL, &Retention::default())
        });
        assert!(job.is_some());
        assert_eq!(looks.get(), 2, "the first choice was from a tree that another had replaced");
    }

    /// On a full disk a merge that frees space runs, and the incorporation found no room. *Else:* the thread for memory tried it again and
    /// again beside the merge, and took the room that the merge was given.
    #[test]
    fn memory_waits_for_the_merge_that_makes_room() {
        let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
        let db = DeterministicDb::open(Arc::new(SimulatedStorage::new(1)), options).unwrap();
        db.put("key", "value").unwrap();
        let inner = &db.inner;
        inner.switch(&inner.view.load_full());
        inner.enter_full(&Error::DiskFull { reason: "a file".into() });
        let mut state = inner.work.state.lock();
        (state.needs_room, state.jobs, state.running) = (true, 1, 1);
        assert!(inner.pick(&mut state, WorkerRole::Memory).is_none(), "it is tried again while the merge runs");
        (state.jobs, state.running) = (0, 0);
        let picked = inner.pick(&mut state, WorkerRole::Memory);
        assert!(matches!(picked, Some(Task::Incorporate(..))), "it is not tried once the merge has ended");
    }
}
