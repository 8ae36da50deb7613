//! The choice of the next piece of background work: one table, most urgent first.
//!
//! A choice is made under the lock of the scheduler's state. What a disk component has to do is its own pure picker's
//! choice; here it meets the state of memory and of the disk.

use super::background::Background;
use crate::disk::{Job, JobKind, Version};
use crate::engine::memory::version_cleanup;
use crate::engine::scheduler::SchedulerState;
use crate::engine::scheduler::task::{Task, WorkerRole};
use crate::engine::space::full_disk::SPACE_CHECK;
use crate::engine::state::budget::DEBT_START;
use crate::engine::state::view::View;
use crate::util::sync::Arc;
use std::cell::Cell;

/// Generations that are incorporated at a time. Of the three that there may be (`GENERATIONS_MAX`), one is written to.
const INCORPORATIONS_MAX: usize = 2;

/// What a line of the table comes to.
enum Choice {
    /// This task is next.
    Run(Task),
    /// Nothing may run now.
    Wait,
    /// The next line decides.
    Pass,
}

impl From<Option<Task>> for Choice {
    fn from(task: Option<Task>) -> Self {
        task.map_or(Self::Pass, Self::Run)
    }
}

type Line = fn(&Background, &mut SchedulerState, WorkerRole) -> Choice;

/// Which workers take the work of a line, and whether they do during a pause.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Taken {
    /// By workers of the role `All`; also during a pause.
    ByAll,
    /// By every worker; also during a pause, because writers wait for it.
    ByEvery,
    /// By workers of the role `All`; not during a pause.
    UnlessPaused,
    /// The same, and not while a caller waits for all work to end.
    UnlessAwaited,
}

/// The priorities, most urgent first.
const PRIORITIES: [(Taken, Line); 21] = [
    (Taken::ByEvery, expire),
    (Taken::ByAll, grow_ballast),
    (Taken::ByAll, leave_full_disk),
    (Taken::ByAll, retry_backed_off),
    (Taken::ByAll, remove_files_on_full_disk),
    (Taken::ByEvery, free_space_for_memory),
    (Taken::ByEvery, incorporate),
    (Taken::ByEvery, drain_membuffer),
    (Taken::ByEvery, populate_index),
    (Taken::ByEvery, clean_up_versions),
    (Taken::UnlessPaused, free_space),
    (Taken::UnlessAwaited, job_after_quiet_flush),
    (Taken::UnlessPaused, needed_job),
    (Taken::UnlessPaused, requested_job),
    (Taken::ByAll, look_for_expired),
    (Taken::ByAll, look_for_deleted_values),
    (Taken::UnlessPaused, job_that_frees),
    (Taken::UnlessPaused, job_for_scans),
    (Taken::UnlessPaused, remove_files),
    (Taken::UnlessAwaited, look_for_deleted_values_when_quiet),
    (Taken::UnlessAwaited, job_when_quiet),
];

/// The most urgent task for a worker; `None` if there is nothing to do, or nothing may run.
pub(crate) fn choose(background: &Background, state: &mut SchedulerState, role: WorkerRole) -> Option<Task> {
    for (taken, line) in PRIORITIES {
        let is_open = match taken {
            Taken::ByEvery => true,
            Taken::ByAll => role == WorkerRole::All,
            Taken::UnlessPaused => role == WorkerRole::All && !background.scheduler.is_paused(),
            Taken::UnlessAwaited => role == WorkerRole::All && !background.scheduler.is_paused() && state.awaited == 0,
        };
        if is_open {
            match line(background, state, role) {
                Choice::Run(task) => return Some(task),
                Choice::Wait => return None,
                Choice::Pass => {}
            }
        }
    }
    None
}

/// First, because readers wait for it in a way; by any worker, because merges take long. One at a time.
fn expire(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    let now = || background.scheduler.clock.now();
    let is_due = !state.expiring && background.read.expiry.due().is_some_and(|due| now() >= due);
    is_due.then_some(Task::Expire).into()
}

fn look_for_expired(background: &Background, _: &mut SchedulerState, _: WorkerRole) -> Choice {
    background.is_look_due(background.scheduler.clock.now()).then_some(Task::LookForExpired).into()
}

fn look_for_deleted_values(background: &Background, _: &mut SchedulerState, _: WorkerRole) -> Choice {
    let is_due = background.is_look_for_values_due(background.scheduler.clock.now());
    is_due.then_some(Task::LookForDeletedValues).into()
}

fn look_for_deleted_values_when_quiet(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    let is_quiet = is_calm(background) && state.jobs == 0 && !background.health.is_full();
    let is_due = is_quiet && background.is_quiet_look_for_values_due(background.scheduler.clock.now());
    is_due.then_some(Task::LookForDeletedValues).into()
}

fn grow_ballast(background: &Background, _: &mut SchedulerState, _: WorkerRole) -> Choice {
    background.space.wants_adjustment().then_some(Task::GrowBallast).into()
}

fn leave_full_disk(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    let is_due = background.health.is_full() && is_space_check_due(background, state);
    is_due.then_some(Task::LeaveFullDisk).into()
}

/// Jobs that found no space may be chosen again once there is enough.
fn retry_backed_off(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    if !background.health.is_full() && background.disk.is_backed_off() && is_space_check_due(background, state) {
        background.space.retry_backed_off();
    }
    Choice::Pass
}

/// The files that a merge replaced are still there when it ends: their space is for the next merge.
fn remove_files_on_full_disk(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    if background.health.is_full() { remove_files(background, state, WorkerRole::All) } else { Choice::Pass }
}

/// On a full disk where the latest incorporation found no space.
fn free_space_for_memory(background: &Background, state: &mut SchedulerState, role: WorkerRole) -> Choice {
    if !background.health.is_full() || !state.needs_space {
        return Choice::Pass;
    }
    if let Some(job) = pick_to_free_space(background, state).filter(|_| !background.scheduler.is_paused()) {
        // A job that is dropped gives its claim back.
        return if role == WorkerRole::All { Choice::Run(Task::Job(job, None)) } else { Choice::Wait };
    }
    // Another incorporation would take the space that the running merge needs.
    if state.has_working_job() { Choice::Wait } else { Choice::Pass }
}

fn incorporate(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    let view = background.read.view.load();
    if view.oldest_switched(&state.incorporating).is_some() && has_too_many_runs(background, state, &view) {
        let (retention, is_running) = (background.retention(), Cell::new(false));
        let job = pick_from_newest(background, |version| {
            let (job, runs) = background.disk.pick_room(version, &retention);
            is_running.set(runs);
            job
        });
        // By any worker: otherwise it might wait until the others have ended long merges.
        if let Some(job) = job {
            return Choice::Run(Task::Job(job, None));
        }
        if is_running.get() {
            return Choice::Pass;
        }
        // What cannot be merged is no reason for writers to wait for ever.
    }
    if !state.incorporating.is_empty() && !may_incorporate_another(background, state, &view) {
        return Choice::Pass;
    }
    let oldest = view.oldest_switched(&state.incorporating);
    oldest.map(|(generation, end)| Task::Incorporate(generation, end)).into()
}

/// Whether another incorporation would exceed the bound on the runs that a read meets in a node, and should wait for merges.
fn has_too_many_runs(background: &Background, state: &SchedulerState, view: &View) -> bool {
    let runs = view.disk.newest_runs();
    let is_at_bound = runs.is_some_and(|runs| runs.count + state.incorporating.len() >= runs.bound);
    let scheduler = &background.scheduler;
    is_at_bound && !scheduler.is_paused() && !scheduler.is_closing() && !background.health.is_full()
}

/// Two at a time, because one of them waits for the disk half of the time. Not while merges are behind, because
/// merges would have one worker less. Nor on a full disk, where one would take the space that the other needs.
fn may_incorporate_another(background: &Background, state: &SchedulerState, view: &View) -> bool {
    let unit = background.disk.branch_bytes().max(background.budget.memtable as u64);
    let is_behind = view.disk.debt() > unit * DEBT_START;
    state.incorporating.len() < INCORPORATIONS_MAX && !is_behind && !background.health.is_full()
}

fn drain_membuffer(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    let view = background.read.view.load();
    let is_due = !state.draining && view.newest().memtable.is_drain_due();
    is_due.then(|| Task::Drain(Arc::clone(view.newest()))).into()
}

/// Writers would otherwise wait for the kernel, which clears each page at its first touch.
fn populate_index(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    let view = background.read.view.load();
    let memtable = &view.newest().memtable;
    let is_due = !state.populating && !memtable.has_index_pages() && memtable.bytes() > 0;
    is_due.then(|| Task::PopulateIndex(Arc::clone(view.newest()))).into()
}

fn clean_up_versions(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    let now = background.scheduler.clock.now();
    let Some(cleanup) = version_cleanup::is_due(&background.read, state.last_cleanup, now) else { return Choice::Pass };
    state.last_cleanup = cleanup;
    Choice::Run(Task::CleanVersions)
}

/// On a full disk only the jobs run that free space.
fn free_space(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    if !background.health.is_full() {
        return Choice::Pass;
    }
    pick_to_free_space(background, state).map(|job| Task::Job(job, None)).into()
}

fn needed_job(background: &Background, _: &mut SchedulerState, _: WorkerRole) -> Choice {
    if background.health.is_full() {
        return Choice::Pass;
    }
    let retention = background.retention();
    pick_from_newest(background, |version| background.disk.pick(version, &retention))
        .map(|job| Task::Job(job, None))
        .into()
}

/// What the callers of `Db::compact` and `Db::optimize` wait for.
fn requested_job(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    if background.health.is_full() {
        return Choice::Pass;
    }
    let retention = background.retention();
    let open = state.requests.iter().filter(|request| !request.is_cancelled());
    let mut jobs = open.filter_map(|request| {
        let job = pick_from_newest(background, |version| {
            background.disk.pick_requested(version, &request.range, &retention)
        })?;
        Some(Task::Job(job, Some(Arc::clone(request))))
    });
    jobs.next().into()
}

/// What frees the space of deleted ranges; on a full disk too, but one job at a time, as in `pick_to_free_space`.
fn job_that_frees(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    if !background.space.freeing.is_any() || (background.health.is_full() && state.jobs > 0) {
        return Choice::Pass;
    }
    let (retention, is_full) = (background.retention(), background.health.is_full());
    for range in background.ranges_to_free(&retention) {
        let request = range.request();
        let job = pick_from_newest(background, |version| {
            if is_full {
                background.disk.pick_requested_on_full_disk(version, &request, &retention)
            } else {
                background.disk.pick_requested(version, &request, &retention)
            }
        });
        if let Some(job) = job {
            return Choice::Run(Task::Job(job, None));
        }
        let view = background.read.view.load();
        if background.disk.remaining(&view.disk, &request, &retention).is_none() {
            background.space.freeing.remove(&range);
        }
    }
    Choice::Pass
}

/// Merges for which scans have paid.
fn job_for_scans(background: &Background, _: &mut SchedulerState, _: WorkerRole) -> Choice {
    if background.health.is_full() {
        return Choice::Pass;
    }
    pick_from_newest(background, |version| background.disk.pick_for_scans(version))
        .map(|job| Task::Job(job, None))
        .into()
}

fn remove_files(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    let now = background.scheduler.clock.now();
    let is_postponed = state.no_removal_until.is_some_and(|until| now < until);
    (!is_postponed && background.obsolete_files.are_any()).then_some(Task::Remove).into()
}

/// A flush in a quiet time gives a leaf more runs. The merge for which they were flushed comes next, before any other job.
/// *Otherwise:* ordinary work merges some of them first, and the credit does not count it.
fn job_after_quiet_flush(background: &Background, state: &mut SchedulerState, role: WorkerRole) -> Choice {
    if !state.flushed_when_quiet {
        return Choice::Pass;
    }
    if state.jobs > 0 {
        // The flush takes a few milliseconds.
        return Choice::Wait;
    }
    state.flushed_when_quiet = false;
    job_when_quiet(background, state, role)
}

/// Work for readers once nobody writes, one job at a time, and only as long as the disk stays far from full.
fn job_when_quiet(background: &Background, state: &mut SchedulerState, _: WorkerRole) -> Choice {
    if !is_calm(background) || state.jobs > 0 || background.health.is_full() {
        return Choice::Pass;
    }
    let job = pick_from_newest(background, |version| background.disk.pick_when_quiet(version));
    let Some(job) = job.filter(|job| background.space.is_ample_for(job.space_when_quiet())) else {
        return Choice::Pass;
    };
    state.flushed_when_quiet = job.scope().kind == JobKind::Flush;
    Choice::Run(Task::Job(job, None))
}

/// Whether nobody has written for a while.
fn is_calm(background: &Background) -> bool {
    let (last, incorporated) = (background.read.sequencer.last_relaxed(), background.generations.incorporated());
    background.quiet.is_calm(last, incorporated, background.scheduler.clock.now())
}

/// Whether to check now for space on the disk. If so, the next check is due later.
fn is_space_check_due(background: &Background, state: &mut SchedulerState) -> bool {
    let now = background.scheduler.clock.now();
    let is_due = state.check_space_at.is_none_or(|due| now >= due);
    if is_due {
        state.check_space_at = Some(now.saturating_add(SPACE_CHECK));
    }
    is_due
}

/// One at a time: several would take the little space that there is from each other.
pub(super) fn pick_to_free_space(background: &Background, state: &SchedulerState) -> Option<Job> {
    if state.jobs > 0 {
        None
    } else {
        pick_from_newest(background, |version| background.disk.pick_to_free_space(version))
    }
}

/// A job whose claim was made while the tree that it was picked from was the newest. *Otherwise:* between the look at
/// the tree and the claim another job ends, publishes what it merged and gives its claim back; then the same bundles
/// are merged once more, although they are no longer adjacent.
fn pick_from_newest(background: &Background, pick: impl Fn(&Version) -> Option<Job>) -> Option<Job> {
    loop {
        let view = background.read.view.load();
        let job = pick(&view.disk);
        // A thread that gave a claim back before this one was made had published its view before that.
        if job.is_none() || background.read.view.version() == view.version {
            return job;
        }
    }
}

#[cfg(test)]
mod tests;
