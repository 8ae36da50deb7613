//! The threads of a pool: leading, following, and running what is due.
//!
//! Two kinds of threads, because a thread cannot raise its priority again: those that do tasks (the lanes `Work` and
//! `Memory`), at a low priority, so that threads of the program get the processors of a busy machine first; and the
//! others, one of which leads, for the lanes of the log, which writers may wait for.
//!
//! Invariants:
//! 1. At most one thread leads: it waits for the signal while `is_led` is set. Only it, or a thread that finds no
//!    leader, takes wake-ups from the bells.
//! 2. A thread of the log that begins a run while nobody leads first wakes an idle thread or starts one, which becomes
//!    the leader. If the system refuses a thread, the next one of the log that ends its run leads; until then wake-ups
//!    wait.
//! 3. A thread of the log that ends a run looks for the next one itself, then leads if nobody does, then follows.
//! 4. A thread of the log hands a task over: `handed` has at most as many as there are task threads that idle or begin.
//!    A task thread idles only while `handed` is empty. So no task waits for the end of another one. If the system
//!    refuses a thread, the task waits for the first task thread that ends its task; without any, the thread that found
//!    the task runs it.
//! 5. A task thread that ends a task takes the next one itself. It never takes a run of the log; before it idles, it
//!    raises the signal if one is queued, because the end of its task may have made room for it.
//! 6. Threads that were idle all the time for `IDLE` end (`idlers.rs`). The leader ends only if the pool has no members.

use super::bell::GROUP;
use super::dispatch::Started;
use super::idlers::IDLE;
use super::lane::{LOG_LANES, Next, TASK_LANES};
use super::waiting;
use super::worker_pool::{Shared, State};
use crate::io::{Clock, SystemClock, lower_priority};
use crate::util::sync::{Arc, MutexGuard};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// How long the leader waits if no timer is set: that only bounds what a missing wake-up would cost.
const LEAD_MAX: Duration = Duration::from_secs(60);

/// What a thread is for. See the module.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Log,
    Tasks,
}

/// What a thread does after it has looked.
enum Step {
    Continue,
    End,
}

impl Shared {
    /// Wakes an idle thread of the log, or starts one, that becomes the leader.
    pub(super) fn find_leader(self: &Arc<Self>, state: &mut State) -> std::io::Result<()> {
        if state.followers.count() > 0 {
            self.follow.notify_one();
            return Ok(());
        }
        self.start(state, Kind::Log)
    }

    fn start(self: &Arc<Self>, state: &mut State, kind: Kind) -> std::io::Result<()> {
        let shared = Arc::clone(self);
        let name = match kind {
            Kind::Log => "alluvium-pool",
            Kind::Tasks => "alluvium-tasks",
        };
        let started = std::thread::Builder::new().name(name.into()).spawn(move || shared.serve(kind));
        // The new thread waits for the lock that the caller holds.
        started.map(|_detached| {
            state.threads += 1;
            if kind == Kind::Tasks {
                (state.task_threads, state.beginning) = (state.task_threads + 1, state.beginning + 1);
            }
        })
    }

    /// The life of a thread.
    fn serve(self: &Arc<Self>, kind: Kind) {
        match kind {
            Kind::Log => {
                let mut state = self.state.lock();
                while let Step::Continue = self.step(&mut state) {}
                state.threads -= 1;
            }
            Kind::Tasks => {
                lower_priority();
                let mut state = self.state.lock();
                state.beginning -= 1;
                while let Step::Continue = self.step_for_tasks(&mut state) {}
                (state.threads, state.task_threads) = (state.threads - 1, state.task_threads - 1);
            }
        }
    }

    fn step(self: &Arc<Self>, state: &mut MutexGuard<'_, State>) -> Step {
        if state.is_over {
            return Step::End;
        }
        let now = SystemClock.now();
        if !state.is_led {
            state.answer_bells();
        }
        if let Some(started) = state.dispatch.next_run(now) {
            let Some(started) = self.hand_over(state, started) else { return Step::Continue };
            if !state.is_led {
                // If it fails: invariant 2.
                let _ = self.find_leader(state);
            }
            self.perform(state, started);
            return Step::Continue;
        }
        if state.is_led { self.follow(state, now) } else { self.lead(state, now) }
    }

    /// Gives a task to a task thread, or starts one for it. Returns every other run, and a task if the system refuses
    /// a thread.
    fn hand_over(self: &Arc<Self>, state: &mut State, started: Started) -> Option<Started> {
        if !TASK_LANES.contains(&started.lane) {
            return Some(started);
        }
        let is_taken = state.waiting_for_task.count() + state.beginning > state.handed.len();
        if !is_taken && self.start(state, Kind::Tasks).is_err() && state.task_threads == 0 {
            return Some(started);
        }
        state.handed.push_back(started);
        self.task.notify_one();
        None
    }

    /// A step of a task thread.
    fn step_for_tasks(self: &Arc<Self>, state: &mut MutexGuard<'_, State>) -> Step {
        if state.is_over {
            return Step::End;
        }
        let now = SystemClock.now();
        let handed = state.handed.pop_front();
        if let Some(started) = handed.or_else(|| state.dispatch.next_of(&TASK_LANES, now)) {
            self.perform(state, started);
            return Step::Continue;
        }
        if state.dispatch.is_queued(&LOG_LANES) {
            self.signal.raise();
        }
        if state.waiting_for_task.is_surplus(now) {
            return Step::End;
        }
        state.waiting_for_task.begin();
        self.task.wait_for(state, IDLE);
        let is_needed = !state.handed.is_empty();
        state.waiting_for_task.end(is_needed);
        Step::Continue
    }

    fn perform(self: &Arc<Self>, state: &mut MutexGuard<'_, State>, started: Started) {
        let Started { run, client, lane } = started;
        let next = MutexGuard::unlocked(state, || {
            waiting::set_run(Some((Arc::clone(self), run)));
            let next = catch_unwind(AssertUnwindSafe(|| client.run(lane)));
            waiting::set_run(None);
            // Before the run counts as ended: what a store had is gone when it has left.
            drop(client);
            next.unwrap_or(Next::WhenWoken)
        });
        let now = SystemClock.now();
        if state.dispatch.end(run, next, now) {
            self.note_ended();
        }
        // The leader does not know of a timer that was set just now.
        if state.is_led && state.dispatch.look_again_at(now).is_some_and(|due| due < state.led_until) {
            self.signal.raise();
        }
    }

    fn lead(&self, state: &mut MutexGuard<'_, State>, now: Duration) -> Step {
        let was_unused = state.dispatch.is_unused();
        let longest = now + if was_unused { IDLE } else { LEAD_MAX };
        let until = state.dispatch.look_again_at(now).map_or(longest, |due| due.min(longest));
        (state.is_led, state.led_until) = (true, until);
        let is_raised = MutexGuard::unlocked(state, || self.signal.wait(until.saturating_sub(now)));
        state.is_led = false;
        let is_unused = was_unused && !is_raised && state.dispatch.is_unused();
        if is_unused { Step::End } else { Step::Continue }
    }

    fn follow(&self, state: &mut MutexGuard<'_, State>, now: Duration) -> Step {
        if state.followers.is_surplus(now) {
            return Step::End;
        }
        state.followers.begin();
        self.follow.wait_for(state, IDLE);
        let is_needed = !state.is_led;
        state.followers.end(is_needed);
        Step::Continue
    }
}

impl State {
    /// Queues what the bells ask for.
    fn answer_bells(&mut self) {
        for at in 0..self.groups.len() {
            let mut bits = self.groups[at].take();
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                self.dispatch.answer_bell(at * GROUP + bit);
            }
        }
    }
}
