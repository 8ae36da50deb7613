//! The threads of a pool: leading, following, and running what is due.
//!
//! Invariants:
//! 1. At most one thread leads: it waits for the signal while `is_led` is set. Only it, or a thread that finds no
//!    leader, takes wake-ups from the bells.
//! 2. A thread that begins a run while nobody leads first wakes an idle thread or starts one, which becomes the leader.
//!    If the system refuses a thread, the next thread that ends its run leads; until then wake-ups wait.
//! 3. A thread that ends a run looks for the next one itself, then leads if nobody does, then follows.
//! 4. Threads that were idle all the time for `IDLE` end. The leader ends only if the pool has no members.

use super::bell::GROUP;
use super::dispatch::Started;
use super::lane::Next;
use super::waiting;
use super::worker_pool::{Shared, State};
use crate::io::{Clock, SystemClock};
use crate::util::sync::{Arc, MutexGuard};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// How long threads that are not needed stay.
const IDLE: Duration = Duration::from_secs(1);
/// How long the leader waits if no timer is set: that only bounds what a missing wake-up would cost.
const LEAD_MAX: Duration = Duration::from_secs(60);

/// What a thread does after it has looked.
enum Step {
    Continue,
    End,
}

impl Shared {
    /// Wakes an idle thread, or starts one, that becomes the leader.
    pub(super) fn find_leader(self: &Arc<Self>, state: &mut State) -> std::io::Result<()> {
        if state.idle > 0 {
            self.follow.notify_one();
            return Ok(());
        }
        let shared = Arc::clone(self);
        let started = std::thread::Builder::new().name("alluvium-pool".into()).spawn(move || shared.serve());
        // The new thread waits for the lock that the caller holds.
        started.map(|_detached| state.threads += 1)
    }

    /// The life of a thread.
    fn serve(self: &Arc<Self>) {
        let mut state = self.state.lock();
        while let Step::Continue = self.step(&mut state) {}
        state.threads -= 1;
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
            if !state.is_led {
                // If it fails: invariant 2.
                let _ = self.find_leader(state);
            }
            self.perform(state, started);
            return Step::Continue;
        }
        if state.is_led { self.follow(state, now) } else { self.lead(state, now) }
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
        if state.is_surplus(now) {
            return Step::End;
        }
        state.idle += 1;
        self.follow.wait_for(state, IDLE);
        state.idle -= 1;
        if !state.is_led {
            // This thread was needed.
            state.fewest_idle = state.fewest_idle.min(state.idle);
        }
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

    /// Whether the calling thread, which would follow, should end. Every `IDLE`, as many threads end as were idle all
    /// the time.
    fn is_surplus(&mut self, now: Duration) -> bool {
        if now.saturating_sub(self.fewest_since) >= IDLE {
            self.surplus = self.fewest_idle;
            (self.fewest_idle, self.fewest_since) = (self.idle + 1, now);
        }
        let ends = self.surplus > 0;
        if ends {
            self.surplus -= 1;
            self.fewest_idle = self.fewest_idle.saturating_sub(1);
        }
        ends
    }
}
