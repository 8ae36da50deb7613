//! Running the scheduler's tasks: what the pool's threads do in the lanes `Work` and `Memory`.
//!
//! `priorities` chooses the task, `tree_publisher` makes its result part of the store.
//!
//! The lane `Memory` takes only tasks that free memory, while every thread of `Work` is busy. *Otherwise:* while every
//! thread is in a long merge, no full Memtable is incorporated, and writers wait for a quarter of a second.

use super::background::Background;
use super::priorities;
use super::task_control::TaskControl;
use crate::disk::{FailureCause, Job, JobKind, Load};
use crate::engine::memory::version_cleanup;
use crate::engine::pool::Next;
use crate::engine::resources::rate_limit::Class;
use crate::engine::scheduler::running_tasks::RunningTask;
use crate::engine::scheduler::task::{Task, TaskKind, WorkerRole};
use crate::engine::scheduler::{RunNext, SchedulerState};
use crate::engine::space::full_disk::{SPACE_CHECK, SpaceNeed};
use crate::engine::types::events::Event;
use crate::engine::types::stats::BackgroundKind;
use crate::merge::{Filtered, Filtering};
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Background {
    /// Runs the most urgent task for a role.
    pub(super) fn work(&self, role: WorkerRole) -> Next {
        let next = catch_unwind(AssertUnwindSafe(|| self.next_task(role)));
        let task = match next.map_err(|panic| panic_error(&*panic)) {
            Ok(Ok(task)) => task,
            Ok(Err(next)) => return next,
            Err(error) => {
                self.log.poison(&error);
                return Next::WhenWoken;
            }
        };
        // There may be something for another thread.
        self.scheduler.ask_for_workers();
        let kind = task.kind();
        let done = catch_unwind(AssertUnwindSafe(|| self.perform(task)));
        self.finish_task(kind, done.unwrap_or_else(|panic| Err(panic_error(&*panic))));
        Next::Again
    }

    /// The most urgent task, or when to look again.
    fn next_task(&self, role: WorkerRole) -> std::result::Result<Task, Next> {
        let mut state = self.scheduler.state.lock();
        if state.stopped {
            return Err(Next::WhenWoken);
        }
        // The threads that wait in paused merges cannot do anything else. *Otherwise:* with one worker, in a merge when
        // a pause began, the ballast was not grown until the end of the pause, and a caller that waited for idleness
        // waited for that.
        let role = if self.scheduler.is_paused() { WorkerRole::All } else { role };
        self.begin_next(&mut state, role).ok_or_else(|| self.look_again(&state))
    }

    /// When something becomes due by itself.
    fn look_again(&self, state: &SchedulerState) -> Next {
        let now = self.scheduler.clock.now();
        if self.health.check().is_err() {
            return Next::WhenWoken;
        }
        // Space on the disk comes back without a wake-up.
        let for_space = (self.health.is_full() || self.disk.is_backed_off()).then_some(now + SPACE_CHECK);
        let removal = state.no_removal_until.filter(|until| *until > now && self.obsolete_files.are_any());
        let cleanup = version_cleanup::is_postponed_until(&self.read, state.last_cleanup, now);
        let looks = &self.space.deleted_values;
        let values = looks.is_wanted().then(|| looks.not_before().max(now + SPACE_CHECK));
        // A tick that runs says at its end when the next one is due.
        let expiry = if state.expiring { None } else { self.expiry_due() };
        let due = for_space.into_iter().chain(removal).chain(cleanup).chain(values).chain(expiry).min();
        due.map_or(Next::WhenWoken, |due| Next::After(due.saturating_sub(now)))
    }

    fn begin_next(&self, state: &mut SchedulerState, role: WorkerRole) -> Option<Task> {
        self.health.check().ok()?;
        let task = priorities::choose(self, state, role)?;
        state.begin(&task);
        Some(task)
    }

    /// Runs a task. When it returns, the task is dropped. (A job refers to nodes of its tree: while it lives their
    /// files do, and the store must not count as idle.)
    pub(super) fn perform(&self, task: Task) -> Result<()> {
        let now = self.scheduler.clock.now();
        let of_kind = |kind| RunningTask::new(kind, Load::default(), now);
        let listed = self.scheduler.running.begin(match &task {
            Task::Incorporate(generation, end) => {
                let bytes = match self.throttle.user_bytes_between(generation.start(), *end) {
                    // From before the opening.
                    0 => generation.memtable.bytes() as u64,
                    bytes => bytes,
                };
                let entries = generation.memtable.entries();
                RunningTask::new(BackgroundKind::Incorporate, Load { bytes, entries, ..Load::default() }, now)
            }
            Task::Job(job, request) => RunningTask::of_job(job.scope(), request.clone(), now),
            Task::Remove => of_kind(BackgroundKind::Remove),
            Task::Drain(_) => of_kind(BackgroundKind::Drain),
            Task::PopulateIndex(_) => of_kind(BackgroundKind::PopulateIndex),
            Task::CleanVersions => of_kind(BackgroundKind::CleanVersions),
            Task::Expire => {
                // Not listed: it takes a moment, and an idle store whose pairs wait for their time stays idle.
                self.expire();
                self.scheduler.state.lock().expiring = false;
                return Ok(());
            }
            Task::GrowBallast | Task::LeaveFullDisk | Task::LookForExpired | Task::LookForDeletedValues => {
                of_kind(BackgroundKind::KeepSpace)
            }
        });
        let running = listed.task();
        let is_event = running.is_of_files();
        if is_event {
            self.events.add(|| Event::Began(running.describe(now)));
        }
        let done = self.perform_listed(task, running);
        if is_event {
            self.events.add(|| {
                let task = running.describe(self.scheduler.clock.now());
                Event::Ended { task, error: done.as_ref().err().map(ToString::to_string) }
            });
        }
        done
    }

    fn perform_listed(&self, task: Task, running: &RunningTask) -> Result<()> {
        match task {
            Task::Incorporate(generation, end) => self.incorporate(generation, end, running),
            Task::Job(job, _) => {
                let was_full = self.health.is_full();
                let scope = job.scope();
                self.space.make_room_for(scope.kind, scope.load.bytes);
                self.run_job(&job, running).or_else(|error| {
                    if error.is_disk_full() {
                        let cause = if was_full { FailureCause::DiskFullBefore } else { FailureCause::FoundNoSpace };
                        self.disk.note_failed(&job, cause);
                        // What it wrote, before another job is picked. *Otherwise:* that one finds no space either, counts
                        // as failed, too, and so on, until nothing is left to try and the disk stays full.
                        self.obsolete_files.remove()?;
                    }
                    Err(error)
                })
            }
            Task::Remove => {
                self.obsolete_files.remove()?;
                // The files of a failed merge are no new space: otherwise it would be tried again and again.
                if !self.scheduler.state.lock().job_failed {
                    self.space.space_was_freed();
                }
                Ok(())
            }
            Task::Drain(generation) => {
                generation.memtable.drain_waiting();
                self.scheduler.state.lock().draining = false;
                Ok(())
            }
            Task::PopulateIndex(generation) => {
                generation.memtable.populate_index();
                self.scheduler.state.lock().populating = false;
                Ok(())
            }
            Task::CleanVersions => {
                version_cleanup::run(&self.read);
                Ok(())
            }
            Task::Expire => Ok(()),
            Task::LookForExpired => self.look_for_expired_space(),
            Task::LookForDeletedValues => self.look_for_deleted_values(),
            Task::GrowBallast => self.space.adjust_ballast(),
            Task::LeaveFullDisk => {
                self.space.try_leave_full();
                Ok(())
            }
        }
    }

    fn run_job(&self, job: &Job, running: &RunningTask) -> Result<()> {
        if let Some(charge) = job.charge() {
            self.publisher.publish(charge, None)?;
        }
        let rewrites_all = running.request.as_ref().is_some_and(|request| request.range.filters.is_some());
        let filters = self.compaction_filters.current().map(|filters| Filtering::new(filters, rewrites_all));
        if self.run_once(job, running, filters.clone())? == Published::No {
            // A snapshot was taken meanwhile (rule F4).
            self.publisher.filter_counters.note_repeated();
            self.run_once(job, running, filters.map(|filters| filters.without_filters()))?;
        }
        self.obsolete_files.remove()
    }

    /// Runs a job with these compaction filters, and publishes it unless they have changed what a snapshot can read.
    fn run_once(&self, job: &Job, running: &RunningTask, filters: Option<Arc<Filtering>>) -> Result<Published> {
        let version = self.read.view.load().disk.clone();
        let retention = self.retention().with_filtering(filters.clone());
        let outcome = self.disk.run(job, &version, &retention, &self.control(running, Class::Merge))?;
        drop(version);
        self.throttle.speed.record_merge(running.written(), running.worked(self.scheduler.clock.now()));
        if let Some(request) = &running.request {
            request.note_done(running.bytes_done(), running.written());
        }
        let filtered = filters.map_or_else(Filtered::default, |filters| filters.take_found());
        self.publisher.filter_counters.note_failed(&filtered);
        let is_published = self.publisher.publish_filtered(outcome, None, &filtered)?;
        Ok(if is_published { Published::Yes } else { Published::No })
    }

    pub(super) fn control<'a>(&'a self, task: &'a RunningTask, class: Class) -> TaskControl<'a> {
        TaskControl {
            scheduler: &self.scheduler,
            write_limits: &self.throttle.write_limits,
            speed: &self.throttle.speed,
            task,
            class,
        }
    }

    pub(super) fn finish_task(&self, kind: TaskKind, result: Result<()>) {
        if result.is_ok() && kind != TaskKind::Other {
            self.health.note_unblocked();
        }
        let gave_up = matches!(result, Err(Error::Closed));
        let disk_full = match result {
            Err(error) if error.is_disk_full() => Some(error),
            Err(Error::Closed) | Ok(()) => None,
            Err(error) => {
                self.log.poison(&error);
                None
            }
        };
        if let Some(error) = &disk_full {
            self.meet_full_disk(kind, error);
        }
        let mut state = self.scheduler.state.lock();
        match kind {
            TaskKind::Incorporate(end) => {
                state.incorporating.retain(|taken| *taken != end);
                if !gave_up {
                    state.needs_space = disk_full.is_some();
                }
            }
            TaskKind::Job(_) => {
                state.jobs -= 1;
                state.job_failed = disk_full.is_some();
                state.needs_space &= disk_full.is_some();
            }
            TaskKind::Other => {}
        }
        state.running -= 1;
        drop(state);
        self.scheduler.note_progress();
    }

    /// A task found no space.
    fn meet_full_disk(&self, kind: TaskKind, error: &Error) {
        if self.space.give_up_changes() {
            return;
        }
        // Whether no job may free space besides this one. (This is only a check: the picked job gives its claim back when it
        // is dropped.)
        let is_last = |needs_space: bool, jobs: usize| {
            let state = self.scheduler.state.lock();
            (state.needs_space || !needs_space)
                && state.jobs == jobs
                && self.disk.pick_to_free_space(&self.read.view.load().disk).is_none()
        };
        let need = match kind {
            TaskKind::Incorporate(_) if is_last(true, 0) => SpaceNeed::LastResort,
            TaskKind::Incorporate(_) | TaskKind::Other => SpaceNeed::Memory,
            TaskKind::Job(JobKind::RewriteLive) => SpaceNeed::Rewrite,
            TaskKind::Job(_) if is_last(false, 1) => SpaceNeed::LastResort,
            TaskKind::Job(_) => SpaceNeed::Merge,
        };
        let is_hopeless = matches!(kind, TaskKind::Incorporate(_)) && need == SpaceNeed::LastResort;
        // A merge for the sake of readers makes way for those that free space.
        let is_worth_retrying = if matches!(kind, TaskKind::Job(_)) && !self.health.is_full() {
            self.space.enter_full(error);
            true
        } else {
            self.space.meet_full_disk(error, need)
        };
        if !is_worth_retrying && is_hopeless {
            self.health.note_blocked(error.clone());
            self.scheduler.wait_for_space(SPACE_CHECK);
        }
    }

    /// Runs one piece of background work in the calling thread. Returns false if there is none, or none is due yet. The
    /// log comes first, because writers wait for it.
    pub(crate) fn step(&self) -> bool {
        let did_something = self.step_once();
        self.events.deliver_here();
        did_something
    }

    fn step_once(&self) -> bool {
        if self.arbiter.rebalance_when_due() {
            self.generations.note_activity();
        }
        let _ = self.incorporate_freed();
        if self.step_sync() || self.step_log() {
            return true;
        }
        let task = {
            let mut state = self.scheduler.state.lock();
            if state.stopped { None } else { self.begin_next(&mut state, WorkerRole::All) }
        };
        let Some(task) = task else { return self.rest_log_when_quiet() };
        let kind = task.kind();
        let done = self.perform(task);
        self.finish_task(kind, done);
        true
    }
}

/// Whether the outcome of a job became part of the store.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Published {
    Yes,
    No,
}

impl RunNext for Background {
    fn run_next(&self) -> bool {
        self.step()
    }
}

/// The error that a panic of background work becomes.
pub(super) fn panic_error(panic: &(dyn std::any::Any + Send)) -> Error {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
    Error::ReadOnly { reason: format!("background work panicked: {text}") }
}

#[cfg(test)]
mod tests;
