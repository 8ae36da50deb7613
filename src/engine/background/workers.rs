//! Background work: one pool for incorporation, trunk jobs and the removal of files.
//!
//! `tasks` says what comes next; executing is here, and `publish` makes what came out part of the store.
//!
//! One thread more than there are workers does nothing but what memory waits for. *Else:* while every worker was in a long merge nobody
//! wrote a full Memtable out, and writers stood for a quarter of a second.

use super::publish::Incorporated;
use super::task_control::{Running, TaskControl};
use super::tasks::{Task, TaskKind, WorkerRole};
use crate::disk::{FailureCause, FromMemory, Job, Load, Outcome};
use crate::engine::directory::locks;
use crate::engine::engine::{Driver, Engine};
use crate::engine::read::item_invalidation;
use crate::engine::space::full_disk::{self, SpaceNeed};
use crate::engine::state::rate_limit::Class;
use crate::engine::state::view::Generation;
use crate::engine::types::stats::BackgroundKind;
use crate::merge::Retention;
use crate::util::planted::{self, Bug};
use crate::util::sync::{Arc, Ordering};
use crate::util::{Error, Result, SequenceNumber};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

impl Engine {
    /// The life of a thread of the pool.
    pub(crate) fn work(self: &Arc<Self>, role: WorkerRole) {
        loop {
            let next = catch_unwind(AssertUnwindSafe(|| self.next_task(role)));
            let task = match next.map_err(|panic| panicked(&*panic)) {
                Ok(Some(task)) => task,
                Ok(None) => return,
                Err(error) => return self.poison(&error),
            };
            let kind = task.kind();
            let done = catch_unwind(AssertUnwindSafe(|| self.perform(task)));
            self.finish_task(kind, done.unwrap_or_else(|panic| Err(panicked(&*panic))));
        }
    }

    fn next_task(&self, role: WorkerRole) -> Option<Task> {
        let mut state = self.work.state.lock();
        loop {
            if state.stopped {
                return None;
            }
            // While merges stand still the workers that hold them cannot look after the room on the disk. *Else:* with one worker, in a
            // merge when a pause began, nobody grew the ballast until the end of the pause, and who waited for quiet waited for that.
            let role = if self.work.is_paused() { WorkerRole::All } else { role };
            if self.health.check().is_ok()
                && let Some(task) = self.pick(&mut state, role)
            {
                state.start(&task);
                return Some(task);
            }
            // The timeout only bounds what a wake-up that nobody thought of would cost; but room comes back without one.
            let patience = if self.health.is_full() { full_disk::LOOK } else { Duration::from_secs(1) };
            self.work.wake.wait_for(&mut state, patience);
        }
    }

    /// Once it returns the task is gone. (A job refers to nodes of its tree: while it lives their files do, and nobody may be told that
    /// all is quiet.)
    fn perform(&self, task: Task) -> Result<()> {
        let now = self.clock.now();
        let of_kind = |kind| Running::new(kind, Load::default(), now);
        let running = self.work.running.begin(match &task {
            Task::Incorporate(generation, end) => {
                let bytes = match self.user_bytes_between(generation.start(), *end) {
                    // From before the opening.
                    0 => generation.memtable.bytes() as u64,
                    bytes => bytes,
                };
                let entries = generation.memtable.entries();
                Running::new(BackgroundKind::Incorporate, Load { bytes, entries, ..Load::default() }, now)
            }
            Task::Job(job, request) => Running::of_job(job.scope(), request.clone(), now),
            Task::Remove => of_kind(BackgroundKind::Remove),
            Task::Drain(_) => of_kind(BackgroundKind::Drain),
            Task::CleanVersions => of_kind(BackgroundKind::CleanVersions),
            Task::Ballast | Task::Relieve => of_kind(BackgroundKind::KeepSpace),
        });
        // By a drop: a panic must not leave it in the list.
        let _listed = Listed(self, &running);
        self.perform_listed(task, &running)
    }

    fn perform_listed(&self, task: Task, running: &Running) -> Result<()> {
        match task {
            Task::Incorporate(generation, end) => self.incorporate(generation, end, running),
            Task::Job(job, _) => {
                let was_full = self.health.is_full();
                self.run_job(&job, running).inspect_err(|error| {
                    if error.is_disk_full() {
                        let cause = if was_full { FailureCause::DiskFullBefore } else { FailureCause::FoundNoSpace };
                        self.disk.note_failed(&job, cause);
                    }
                })
            }
            Task::Remove => {
                self.remove_dead_files()?;
                // What a failed merge had written is no new room: it would be tried for ever.
                if !self.work.state.lock().job_failed {
                    self.room_came_back();
                }
                Ok(())
            }
            Task::Drain(generation) => {
                generation.memtable.drain_waiting();
                self.work.drained();
                Ok(())
            }
            Task::CleanVersions => {
                self.reclaim_versions();
                Ok(())
            }
            Task::Ballast => self.grow_ballast(),
            Task::Relieve => {
                self.try_leave_full();
                Ok(())
            }
        }
    }

    fn finish_task(&self, kind: TaskKind, result: Result<()>) {
        if result.is_ok() && kind != TaskKind::Other {
            self.health.recovered();
        }
        let (mut needs_room, is_incorporation) = (None, matches!(kind, TaskKind::Incorporate(_)));
        let gave_up = matches!(result, Err(Error::Closed));
        match result {
            Err(error) if error.is_disk_full() => needs_room = Some(error),
            Err(Error::Closed) | Ok(()) => {}
            Err(error) => self.poison(&error),
        }
        // Not while there is a job that may free space. (Only a look: its claim goes back by its drop.)
        let hopeless = is_incorporation && needs_room.is_some() && {
            let state = self.work.state.lock();
            state.needs_room && state.jobs == 0 && self.disk.pick_to_free_space(&self.view.load().disk).is_none()
        };
        if let Some(error) = &needs_room {
            let need = match kind {
                TaskKind::Incorporate(_) if hopeless => SpaceNeed::LastResort,
                TaskKind::Incorporate(_) | TaskKind::Other => SpaceNeed::Memory,
                TaskKind::Job => SpaceNeed::Merge,
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
            TaskKind::Incorporate(end) => {
                state.incorporating.retain(|taken| *taken != end);
                if !gave_up {
                    state.needs_room = needs_room.is_some();
                }
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
    fn incorporate(&self, generation: Arc<Generation>, end: SequenceNumber, running: &Running) -> Result<()> {
        self.rebalance_memory();
        let started = self.clock.now();
        // Rule G3: from here the generation never changes.
        self.sequencer.wait_through(end);
        if !planted::is(Bug::IncorporatedAheadOfLog) {
            self.sync_through(end)?;
        }
        let outcome = self.write_out(&generation, end, running);
        // Rule G5: what is older comes first. Where that came to nothing, this is done anew behind it.
        self.work.wait_for_turn(end)?;
        if !self.view.load().is_oldest(&generation) {
            return Err(Error::Closed);
        }
        // It was ended because the store closes: the log has what the Memtable holds.
        let outcome = outcome?.ok_or(Error::Closed)?;
        let segments = self.log.recyclable(end);
        self.commit_outcome(outcome, Some(Incorporated { generation: &generation, end, segments: &segments }))?;
        // Its memory is for the next one.
        drop(generation);
        self.speed.record(running.bytes(), self.clock.now().saturating_sub(started));
        self.incorporated.store(end.0, Ordering::Release);
        self.room.notify_all();
        // Where a read-only opener is at it, the next incorporation does it.
        if let Some(_alone) = locks::to_recycle(&*self.storage)? {
            self.log.recycle(&segments)?;
        }
        self.remove_dead_files()
    }

    /// Writes what the generation holds as files for the tree; `None` where it was ended.
    fn write_out(
        &self,
        generation: &Arc<Generation>,
        end: SequenceNumber,
        running: &Running,
    ) -> Result<Option<Outcome>> {
        let (version, is_oldest) = {
            let view = self.view.load();
            (view.disk.clone(), view.is_oldest(generation))
        };
        // Rule S2: the pins are read after everything in the generation was numbered.
        let retention = Retention::new(self.snapshots.numbers());
        generation.memtable.seal();
        let tombstones = generation.memtable.range_tombstones();
        let mut cursor = item_invalidation::begin(self.cache.items(), generation.memtable.sealed_cursor(), &tombstones);
        let companion = TaskControl { inner: self, running, class: Class::Memory };
        let source = FromMemory { entries: &mut cursor, tombstones: &tombstones, through: end, is_oldest };
        let outcome = self.disk.incorporate(&version, source, &retention, &companion);
        self.speed.note_running(0, Duration::ZERO);
        outcome
    }

    /// About how many bytes users wrote in these numbers; 0 where that was before the opening.
    fn user_bytes_between(&self, before: SequenceNumber, end: SequenceNumber) -> u64 {
        self.user_bytes_through(end.0).saturating_sub(self.user_bytes_through(before.0))
    }

    fn run_job(&self, job: &Job, running: &Running) -> Result<()> {
        let version = self.view.load().disk.clone();
        let retention = Retention::new(self.snapshots.numbers());
        let companion = TaskControl { inner: self, running, class: Class::Merge };
        let outcome = self.disk.run(job, &version, &retention, &companion)?;
        drop(version);
        self.speed.record_merge(running.written(), running.worked(self.clock.now()));
        if let Some(request) = &running.request {
            request.note_done(running.bytes_done(), running.written());
        }
        self.commit_outcome(outcome, None)?;
        self.remove_dead_files()
    }

    /// Does one piece of background work in the calling thread; false where there is none, or none is due yet. The log comes
    /// first, since writers wait for it.
    pub(crate) fn step(&self) -> bool {
        self.rebalance_memory_when_due();
        if self.step_sync() || self.step_log() {
            return true;
        }
        let task = {
            let mut state = self.work.state.lock();
            let task = if state.stopped || self.health.check().is_err() {
                None
            } else {
                self.pick(&mut state, WorkerRole::All)
            };
            if let Some(task) = &task {
                state.start(task);
            }
            task
        };
        let Some(task) = task else { return false };
        let kind = task.kind();
        let done = self.perform(task);
        self.finish_task(kind, done);
        true
    }
}

/// Takes a task off the list of those that run.
struct Listed<'a>(&'a Engine, &'a Arc<Running>);

impl Drop for Listed<'_> {
    fn drop(&mut self) {
        self.0.work.running.end(self.1);
    }
}

/// The error that a panic of background work becomes.
pub(crate) fn panicked(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    Error::ReadOnly { reason: format!("background work panicked: {text}") }
}

#[cfg(test)]
mod tests;
