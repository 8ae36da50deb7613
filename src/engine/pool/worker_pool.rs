//! The pool, and a store's membership in it. Any thread.

use super::bell::{Bell, GROUP, Group, Seat};
use super::dispatch::{Dispatch, MemberId, RunId, Started};
use super::idlers::Idlers;
use super::lane::PoolClient;
use super::signal::Signal;
use crate::io::{Clock, SystemClock};
use crate::util::fork::ForkCount;
use crate::util::sync::{Arc, Condvar, Mutex};
use std::collections::VecDeque;
use std::time::Duration;

/// A pool of threads. When the last handle is dropped, its threads end.
pub(crate) struct WorkerPool {
    pub(super) shared: Arc<Shared>,
    process: ForkCount,
}

/// What the threads of a pool share.
pub(super) struct Shared {
    pub(super) state: Mutex<State>,
    /// Wakes the leader.
    pub(super) signal: Arc<Signal>,
    /// Wakes a thread that may become the leader.
    pub(super) follow: Condvar,
    /// Wakes a task thread.
    pub(super) task: Condvar,
    /// A run of a store that leaves has ended.
    ended: Condvar,
}

/// See `threads.rs` for what is about threads.
pub(super) struct State {
    pub(super) dispatch: Dispatch,
    pub(super) groups: Vec<Arc<Group>>,
    /// Threads that were started and have not ended.
    pub(super) threads: usize,
    /// Threads of the log that wait to follow the leader.
    pub(super) followers: Idlers,
    /// Task threads: all of them, those that have not begun yet, and those that wait for a task.
    pub(super) task_threads: usize,
    pub(super) beginning: usize,
    pub(super) waiting_for_task: Idlers,
    /// Tasks that no thread has taken yet.
    pub(super) handed: VecDeque<Started>,
    /// Whether a thread waits for the signal, and until when it does.
    pub(super) is_led: bool,
    pub(super) led_until: Duration,
    /// The pool was dropped.
    pub(super) is_over: bool,
}

impl WorkerPool {
    /// A pool with this many workers; threads are started when they are needed.
    pub(crate) fn new(workers: usize) -> Arc<Self> {
        let state = State {
            dispatch: Dispatch::new(workers),
            groups: Vec::new(),
            threads: 0,
            followers: Idlers::default(),
            task_threads: 0,
            beginning: 0,
            waiting_for_task: Idlers::default(),
            handed: VecDeque::new(),
            is_led: false,
            led_until: Duration::ZERO,
            is_over: false,
        };
        let shared = Shared {
            state: Mutex::new(state),
            signal: Arc::default(),
            follow: Condvar::new(),
            task: Condvar::new(),
            ended: Condvar::new(),
        };
        Arc::new(Self { shared: Arc::new(shared), process: ForkCount::current() })
    }

    /// Whether this process made it.
    pub(super) fn is_of_this_process(&self) -> bool {
        self.process.is_current()
    }

    /// Takes a store into the pool. Every lane runs once, and then when `bell` asks for it. At most `workers` threads
    /// run its tasks. An error if no thread can be started.
    pub(crate) fn enter(
        self: &Arc<Self>,
        client: Arc<dyn PoolClient>,
        bell: &Arc<Bell>,
        workers: usize,
    ) -> std::io::Result<Membership> {
        let mut state = self.shared.state.lock();
        let member = state.dispatch.free_place();
        if member / GROUP == state.groups.len() {
            state.groups.push(Arc::default());
        }
        let group = Arc::clone(&state.groups[member / GROUP]);
        bell.take_seat(Seat { group, bit: (member % GROUP) as u32, signal: Arc::clone(&self.shared.signal) });
        state.dispatch.enter(member, client, Arc::clone(bell), workers);
        let led = if state.is_led { Ok(()) } else { self.shared.find_leader(&mut state) };
        // From here on a failure ends the membership.
        let membership = Membership { pool: Arc::clone(self), member };
        drop(state);
        self.shared.signal.raise();
        led.map(|()| membership)
    }

    /// The number of its threads.
    #[cfg(test)]
    pub(super) fn threads(&self) -> usize {
        self.shared.state.lock().threads
    }
}

impl Shared {
    /// Sets whether a run only waits.
    pub(super) fn set_waiting(&self, run: RunId, is_waiting: bool) {
        self.state.lock().dispatch.set_waiting(run, is_waiting, SystemClock.now());
        if is_waiting {
            self.signal.raise();
        }
    }

    /// A run has ended for which somebody waits.
    pub(super) fn note_ended(&self) {
        self.ended.notify_all();
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.shared.state.lock().is_over = true;
        self.shared.signal.raise();
        self.shared.follow.notify_all();
        self.shared.task.notify_all();
    }
}

impl std::fmt::Debug for WorkerPool {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("WorkerPool").finish_non_exhaustive()
    }
}

/// A store in a pool. When it is dropped, the store leaves: runs of the store that are in progress are waited for. Must
/// not be dropped in a forked child, nor in a run of the store.
#[derive(Debug)]
pub(crate) struct Membership {
    pool: Arc<WorkerPool>,
    member: MemberId,
}

impl Drop for Membership {
    fn drop(&mut self) {
        let shared = &self.pool.shared;
        let mut state = shared.state.lock();
        state.dispatch.begin_leaving(self.member);
        while state.dispatch.is_running(self.member) {
            shared.ended.wait(&mut state);
        }
        let left = state.dispatch.leave(self.member);
        let is_unused = state.dispatch.is_unused();
        drop(state);
        if is_unused {
            // The leader waits without a limit as long as there are members.
            shared.signal.raise();
        }
        drop(left);
    }
}
