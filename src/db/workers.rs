//! Background work: one pool for incorporation, trunk jobs and the removal of files.
//!
//! Priority goes to what a stalled writer waits for: incorporation first, then the trunk's jobs, then removal. On a full disk
//! (`full_disk`) the jobs are those that free space, and they go first where incorporation found no room. Choosing is the
//! trunk's pure picker and the view; executing is here, and `publish` makes what came out part of the store.
//!
//! One thread more than there are workers does nothing but what memory waits for. *Else:* while every worker was in a long merge nobody
//! wrote a full Memtable out, and writers stood for a quarter of a second.

use super::full_disk::{self, Need};
use super::inner::{Driver, Inner};
use super::locks;
use super::publish::Incorporated;
use super::reclaim::LastReclaim;
use super::view::Generation;
use crate::base::planted::{self, Bug};
use crate::base::sync::{Arc, AtomicBool, Condvar, Mutex, Ordering};
use crate::base::{Error, Result, SequenceNumber};
use crate::disk::trunk::{Job, Tree};
use crate::merge::Retention;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// What the pool shares.
#[derive(Default)]
pub(super) struct Work {
    state: Mutex<WorkState>,
    /// There may be something to do.
    wake: Condvar,
    /// Something was done.
    progress: Condvar,
    /// Asks running jobs to give up.
    pub(super) cancel: AtomicBool,
}

#[derive(Default)]
struct WorkState {
    stopped: bool,
    incorporating: bool,
    sweeping: bool,
    running: usize,
    /// How many of those that run are jobs.
    jobs: usize,
    /// The newest job found no room.
    job_failed: bool,
    /// The newest incorporation found no room: what frees some goes first.
    needs_room: bool,
    /// How many callers wait for everything to be merged.
    compacting: usize,
    /// Read-only openers kept dead files from removal.
    no_removal_until: Option<Duration>,
    /// When to look next whether a full disk has room again.
    relieve_at: Option<Duration>,
    reclaim: LastReclaim,
}

impl WorkState {
    fn start(&mut self, task: &Task) {
        self.running += 1;
        self.jobs += usize::from(task.kind() == TaskKind::Job);
    }
}

/// One thing to do.
enum Task {
    Incorporate(Arc<Generation>, SequenceNumber),
    Job(Job),
    Remove,
    /// Hand what waits in a Membuffer over to its partitions.
    Sweep(Arc<Generation>),
    /// Take versions out of memory that no snapshot needs any more.
    Reclaim,
    /// Make or grow the ballast.
    Ballast,
    /// Look for room on a full disk.
    Relieve,
}

/// Which tasks a thread of the pool takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Duty {
    All,
    /// Those that make room in memory.
    Memory,
}

/// What a task was, once it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TaskKind {
    Incorporate,
    Job,
    Other,
}

impl Task {
    fn kind(&self) -> TaskKind {
        match self {
            Self::Incorporate(..) => TaskKind::Incorporate,
            Self::Job(_) => TaskKind::Job,
            Self::Sweep(_) | Self::Remove | Self::Reclaim | Self::Ballast | Self::Relieve => TaskKind::Other,
        }
    }
}

/// While it lives, idle workers merge what could be merged.
struct CompactWish<'a>(&'a Work);

impl<'a> CompactWish<'a> {
    fn new(work: &'a Work) -> Self {
        work.state.lock().compacting += 1;
        Self(work)
    }
}

impl Drop for CompactWish<'_> {
    fn drop(&mut self) {
        self.0.state.lock().compacting -= 1;
    }
}

impl Work {
    /// Lets idle workers look again.
    pub(super) fn wake(&self) {
        // Under the lock, so that a worker between looking and waiting does not miss it.
        let _state = self.state.lock();
        self.wake.notify_all();
    }

    /// Waits until something was done, or a moment.
    pub(super) fn wait_a_moment(&self) {
        let mut state = self.state.lock();
        if !state.stopped {
            self.progress.wait_for(&mut state, Duration::from_millis(20));
        }
    }

    /// A sweep has ended.
    fn swept(&self) {
        self.state.lock().sweeping = false;
    }

    /// Leaves the removal of dead files alone until then.
    pub(super) fn postpone_removal(&self, until: Duration) {
        self.state.lock().no_removal_until = Some(until);
    }

    /// Tells the pool to end.
    pub(super) fn stop(&self) {
        self.cancel.store(true, Ordering::Release);
        self.state.lock().stopped = true;
        self.wake.notify_all();
        self.progress.notify_all();
    }
}

impl Inner {
    /// The life of a thread of the pool.
    pub(super) fn work(self: &Arc<Self>, duty: Duty) {
        loop {
            let next = catch_unwind(AssertUnwindSafe(|| self.next_task(duty)));
            let task = match next.map_err(|panic| panicked(&*panic)) {
                Ok(Some(task)) => task,
                Ok(None) => return,
                Err(error) => return self.poison(&error),
            };
            let done = catch_unwind(AssertUnwindSafe(|| self.perform(&task)));
            let kind = task.kind();
            // A job refers to nodes of its tree: while it lives their files do, and nobody may be told that all is quiet.
            drop(task);
            self.finish_task(kind, done.unwrap_or_else(|panic| Err(panicked(&*panic))));
        }
    }

    fn next_task(&self, duty: Duty) -> Option<Task> {
        let mut state = self.work.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            if self.health.check().is_ok()
                && let Some(task) = self.pick(&mut state, duty)
            {
                state.start(&task);
                return Some(task);
            }
            // The timeout only bounds what a wake-up that nobody thought of would cost; but room comes back without one.
            let patience = if self.health.is_full() { full_disk::LOOK } else { Duration::from_secs(1) };
            self.work.wake.wait_for(&mut state, patience);
        }
    }

    fn pick(&self, state: &mut WorkState, duty: Duty) -> Option<Task> {
        let full = self.health.is_full();
        if duty == Duty::All {
            if self.wants_ballast() {
                return Some(Task::Ballast);
            }
            if full && state.relieve_at.is_none_or(|due| self.clock.now() >= due) {
                state.relieve_at = Some(self.clock.now().saturating_add(full_disk::LOOK));
                return Some(Task::Relieve);
            }
            // What a merge replaced is still there when it ends: the room for the next one.
            if full && self.may_remove(state) {
                return Some(Task::Remove);
            }
        }
        if full && state.needs_room {
            if let Some(job) = self.pick_reclaim(state) {
                // Dropped, its claim goes back.
                return (duty == Duty::All).then_some(Task::Job(job));
            }
            // What a merge under way is to free, another try would take from it.
            if state.jobs > 0 {
                return None;
            }
        }
        if let Some(task) = self.pick_for_memory(state) {
            return Some(task);
        }
        if duty == Duty::Memory {
            return None;
        }
        let job = if full { self.pick_reclaim(state) } else { self.pick_job(state) };
        if let Some(job) = job {
            return Some(Task::Job(job));
        }
        self.may_remove(state).then_some(Task::Remove)
    }

    fn pick_for_memory(&self, state: &mut WorkState) -> Option<Task> {
        let view = self.view.load();
        if !state.incorporating
            && let Some((generation, end)) = view.oldest_switched()
        {
            state.incorporating = true;
            return Some(Task::Incorporate(generation, end));
        }
        if !state.sweeping && view.newest().memtable.is_sweep_due() {
            state.sweeping = true;
            return Some(Task::Sweep(Arc::clone(view.newest())));
        }
        self.is_reclaim_due(&mut state.reclaim).then_some(Task::Reclaim)
    }

    fn may_remove(&self, state: &WorkState) -> bool {
        let postponed = state.no_removal_until.is_some_and(|until| self.clock.now() < until);
        !postponed && self.has_dead_files()
    }

    /// On a full disk one at a time: they would take from each other the little room that there is.
    fn pick_reclaim(&self, state: &WorkState) -> Option<Job> {
        if state.jobs > 0 { None } else { self.pick_from_newest(|tree| self.trunk.pick_reclaim(tree)) }
    }

    fn pick_job(&self, state: &WorkState) -> Option<Job> {
        let job = self.pick_from_newest(|tree| self.trunk.pick(tree));
        let quiet = |tree: &Tree| self.trunk.pick_quiet(tree, 1);
        job.or_else(|| if state.compacting > 0 { self.pick_from_newest(quiet) } else { None })
    }

    /// A job whose claim was made while the tree that it was picked from was the newest. *Else:* between the look at the tree
    /// and the claim another job ends, publishes what it merged and gives its claim back; then the same bundles are merged
    /// once more, and do not stand side by side any longer.
    fn pick_from_newest(&self, pick: impl Fn(&Tree) -> Option<Job>) -> Option<Job> {
        loop {
            let view = self.view.load();
            let job = pick(&view.tree);
            // Whoever gave a claim back before this one was made had published its view before that.
            if job.is_none() || self.view.version() == view.version {
                return job;
            }
        }
    }

    fn perform(&self, task: &Task) -> Result<()> {
        match task {
            Task::Incorporate(generation, end) => self.incorporate(generation, *end),
            Task::Job(job) => self.run_job(job).inspect_err(|error| {
                if error.is_disk_full() {
                    self.trunk.note_unfit(job);
                }
            }),
            Task::Remove => {
                self.remove_dead_files()?;
                // What a failed merge had written is no new room: it would be tried for ever.
                if !self.work.state.lock().job_failed {
                    self.room_came_back();
                }
                Ok(())
            }
            Task::Sweep(generation) => {
                generation.memtable.sweep();
                self.work.swept();
                Ok(())
            }
            Task::Reclaim => {
                self.reclaim_versions();
                Ok(())
            }
            Task::Ballast => self.grow_ballast(),
            Task::Relieve => {
                self.relieve();
                Ok(())
            }
        }
    }

    fn finish_task(&self, kind: TaskKind, result: Result<()>) {
        if result.is_ok() && kind != TaskKind::Other {
            self.health.recovered();
        }
        let mut needs_room = None;
        match result {
            Err(error) if error.is_disk_full() => needs_room = Some(error),
            Err(Error::Closed) | Ok(()) => {}
            Err(error) => self.poison(&error),
        }
        // Not while there is a job that may free space. (Only a look: its claim goes back by its drop.)
        let hopeless = kind == TaskKind::Incorporate && needs_room.is_some() && {
            let state = self.work.state.lock();
            state.needs_room && state.jobs == 0 && self.trunk.pick_reclaim(&self.view.load().tree).is_none()
        };
        if let Some(error) = &needs_room {
            let need = match kind {
                TaskKind::Incorporate if hopeless => Need::LastResort,
                TaskKind::Incorporate | TaskKind::Other => Need::Memory,
                TaskKind::Job => Need::Merge,
            };
            // A merge that was for readers' sake makes way for those that free space.
            let made = if kind == TaskKind::Job && !self.health.is_full() {
                self.enter_full(error);
                true
            } else {
                self.meet_full_disk(error, need)
            };
            if !made && hopeless {
                self.health.wait_for(error.clone());
            }
            if !made && hopeless && self.driver == Driver::Threads {
                let mut state = self.work.state.lock();
                self.work.progress.notify_all();
                self.room.notify_all();
                if !state.stopped {
                    self.work.wake.wait_for(&mut state, full_disk::LOOK);
                }
            }
        }
        let mut state = self.work.state.lock();
        match kind {
            TaskKind::Incorporate => {
                state.incorporating = false;
                state.needs_room = needs_room.is_some();
            }
            TaskKind::Job => {
                state.jobs -= 1;
                state.job_failed = needs_room.is_some();
                state.needs_room &= needs_room.is_some();
            }
            TaskKind::Other => {}
        }
        state.running -= 1;
        drop(state);
        self.room.notify_all();
        self.work.progress.notify_all();
        self.work.wake();
    }

    /// Brings a switched generation into the tree (rule D1).
    fn incorporate(&self, generation: &Arc<Generation>, end: SequenceNumber) -> Result<()> {
        let started = self.clock.now();
        // Rule G3: from here the generation never changes.
        self.sequencer.wait_through(end);
        if !planted::is(Bug::IncorporatedAheadOfLog) {
            self.sync_through(end)?;
        }
        let tree = Arc::clone(&self.view.load().tree);
        // Rule S2: the pins are read after everything in the generation was numbered.
        let retention = Retention::new(self.pins.numbers());
        let bytes = generation.memtable.bytes() as u64;
        generation.memtable.seal();
        let mut cursor = generation.memtable.sealed_cursor();
        let outcome = self.trunk.incorporate(&tree, &mut cursor, &retention, end)?;
        drop((cursor, tree));
        let segments = self.log.recyclable(end);
        self.commit_outcome(outcome, Some(Incorporated { generation, end, segments: &segments }))?;
        self.speed.record(bytes, self.clock.now().saturating_sub(started));
        self.incorporated.store(end.0, Ordering::Release);
        // Where a read-only opener is at it, the next incorporation does it.
        if let Some(_alone) = locks::to_recycle(&*self.storage)? {
            self.log.recycle(&segments)?;
        }
        self.remove_dead_files()
    }

    fn run_job(&self, job: &Job) -> Result<()> {
        let tree = Arc::clone(&self.view.load().tree);
        let retention = Retention::new(self.pins.numbers());
        let outcome = self.trunk.run(job, &tree, &retention, &self.work.cancel)?;
        drop(tree);
        self.commit_outcome(outcome, None)?;
        self.remove_dead_files()
    }

    /// Waits until `done`, as long as background work can get there; an error where it cannot.
    pub(super) fn wait_for_progress(&self, mut done: impl FnMut(&Self) -> bool) -> Result<()> {
        loop {
            let mut state = self.work.state.lock();
            if done(self) {
                return Ok(());
            }
            self.health.obstacle()?;
            if state.stopped {
                return Err(Error::Closed);
            }
            match self.driver {
                Driver::Threads => {
                    self.work.progress.wait_for(&mut state, Duration::from_millis(50));
                }
                Driver::Stepped => {
                    drop(state);
                    let stepped = self.step();
                    assert!(stepped || done(self), "nothing is left to do, and yet there is something to wait for");
                }
            }
        }
    }

    /// Flushes and merges everything; see `Db::compact`.
    pub(super) fn compact(&self) -> Result<()> {
        self.flush()?;
        let _wish = CompactWish::new(&self.work);
        self.wait_until_quiet()?;
        // On a full disk only what frees space was merged.
        self.health.check_put()
    }

    /// Does one piece of background work in the calling thread; false where there is none, or none is due yet. The log comes
    /// first, since writers wait for it.
    pub(super) fn step(&self) -> bool {
        if self.step_sync() || self.step_log() {
            return true;
        }
        let task = {
            let mut state = self.work.state.lock();
            let task =
                if state.stopped || self.health.check().is_err() { None } else { self.pick(&mut state, Duty::All) };
            if let Some(task) = &task {
                state.start(task);
            }
            task
        };
        let Some(task) = task else { return false };
        let done = self.perform(&task);
        let kind = task.kind();
        drop(task);
        self.finish_task(kind, done);
        true
    }

    /// Waits until nothing runs and nothing is left to do.
    pub(super) fn wait_until_quiet(&self) -> Result<()> {
        loop {
            self.health.check()?;
            if self.driver == Driver::Stepped {
                if !self.step() {
                    return self.health.obstacle();
                }
                self.health.obstacle()?;
            } else {
                let mut state = self.work.state.lock();
                if state.stopped {
                    return Err(Error::Closed);
                }
                if state.running == 0 {
                    let (incorporating, relieve_at) = (state.incorporating, state.relieve_at);
                    let reclaim = state.reclaim;
                    match self.pick(&mut state, Duty::All) {
                        None => return Ok(()),
                        // Only a look: what was picked goes back (a job's claim by its drop).
                        Some(_) => {
                            (state.incorporating, state.relieve_at) = (incorporating, relieve_at);
                            state.sweeping = false;
                            state.reclaim = reclaim;
                        }
                    }
                    // There is something to do, and nobody gets it done.
                    self.health.obstacle()?;
                }
                self.work.wake.notify_all();
                self.work.progress.wait_for(&mut state, Duration::from_millis(20));
            }
        }
    }
}

/// The error that a panic of background work becomes.
pub(super) fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    Error::ReadOnly { reason: format!("background work panicked: {text}") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::SteppedDb;
    use crate::db::options::Options;
    use crate::io::simulated::SimulatedStorage;
    use std::cell::Cell;

    /// Once, a job ended between a worker's look at the tree and its claim; the worker then merged bundles that were merged
    /// already, an assertion stopped it, and the store went read-only.
    #[test]
    fn a_choice_from_an_outdated_tree_is_made_anew() {
        let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
        let db = SteppedDb::open(Arc::new(SimulatedStorage::new(1)), options).unwrap();
        for round in 0..3u8 {
            db.put("key", [round]).unwrap();
            db.flush().unwrap();
        }
        let inner = &db.inner;
        let looks = Cell::new(0);
        let job = inner.pick_from_newest(|tree| {
            looks.set(looks.get() + 1);
            if looks.get() == 1 {
                inner.view.update(|current| (current.generations.clone(), Arc::clone(&current.tree)));
            }
            inner.trunk.pick_quiet(tree, 1)
        });
        assert!(job.is_some());
        assert_eq!(looks.get(), 2, "the first choice was from a tree that another had replaced");
    }

    /// On a full disk a merge that frees space runs, and the incorporation found no room. *Else:* the thread for memory tried it again and
    /// again beside the merge, and took the room that the merge was given.
    #[test]
    fn memory_waits_for_the_merge_that_makes_room() {
        let options = Options { memory_budget: Some(1 << 20), background_threads: Some(1), ..Options::default() };
        let db = SteppedDb::open(Arc::new(SimulatedStorage::new(1)), options).unwrap();
        db.put("key", "value").unwrap();
        let inner = &db.inner;
        inner.switch(&inner.view.load_full());
        inner.enter_full(&Error::DiskFull { reason: "a file".into() });
        let mut state = inner.work.state.lock();
        (state.needs_room, state.jobs, state.running) = (true, 1, 1);
        assert!(inner.pick(&mut state, Duty::Memory).is_none(), "it is tried again while the merge runs");
        (state.jobs, state.running) = (0, 0);
        let picked = inner.pick(&mut state, Duty::Memory);
        assert!(matches!(picked, Some(Task::Incorporate(..))), "it is not tried once the merge has ended");
    }
}
