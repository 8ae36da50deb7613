//! A pool of background threads that serves any number of stores. It knows nothing of what it runs: a store is a
//! `PoolClient` with four lanes of work (`lane.rs`).
//!
//! Stores that name no thread count share the pool of the process (`process_pool.rs`); others have one of their own.
//! Threads are started when there is something to run and no thread is free, and end after a second or two without need.
//! *Task threads* have a low priority, and run the tasks of the lanes `Work` and `Memory`; the others run the lanes of the
//! log. One idle thread of those, the *leader*, waits for wake-ups and for the next timer; the others wait to follow it. A
//! leader that finds a run of the log makes another thread the leader first; a task it hands over. So a process whose
//! stores are all idle has one thread.
//!
//! - `lane`: the lanes, and what a store tells the pool.
//! - `bell`: how any thread wakes the pool for a store. `signal`: how it wakes the leader.
//! - `dispatch`: who may run now: queues, limits, timers. Pure.
//! - `worker_pool`: the pool, and a store's membership. `threads`: leading, following, running. `idlers`: who ends.
//! - `process_pool`: the pool of the process. `waiting`: a run that only waits gives its place to others.
//!
//! Invariants:
//! 1. Each lane has its own limit, and a run takes a thread of its own. So no lane waits for another one: work that
//!    writers wait for is never queued behind a sync, nor an incorporation behind merges,
//!    except those that make room in the root (`disk/trunk/plan/run_bound.rs`).
//! 2. In the lanes other than `Work` a store has at most one run at a time.
//! 3. In the lane `Work` a store gets more than half of the workers (but always one) only while no store that has less
//!    than half is queued. What it has above its half does not count against a store that arrives later. So up to half
//!    as many workers more may run.
//! 4. A run that makes no progress for the grace period of its lane (a disk that hangs), and a run that waits for
//!    permission (a rate limit, a pause), does not count against the limits. The number of runs is bounded by
//!    `dispatch::runs_max`; the log's lanes have places that the others cannot take.
//! 5. A wake-up is not lost: what was changed before `Bell::wake` is seen by a run that begins after it.
//! 6. If nobody leads, every thread of the log is in a run or about to look for one, and looks again afterwards.
//! 7. When a membership ends, no run of its store is in progress, and none begins. Runs of other stores are not waited
//!    for.
//! 8. A panic ends its run only. (The store turns it into an error of its own before that.)
//! 9. Order of locks: the pool's state, then what a store's `progress` and `stays_idle` lock for a moment. `Bell::wake` takes only the leader's
//!    gate, for a moment; it may be called under any lock but the pool's.
//! 10. A forked child never touches a pool of its parent (`process_pool.rs`).

mod bell;
mod dispatch;
mod idlers;
mod lane;
mod process_pool;
mod signal;
mod threads;
mod waiting;
mod worker_pool;

pub(crate) use bell::Bell;
pub(crate) use lane::{Lane, Lanes, Next, PoolClient};
pub(crate) use process_pool::of_process;
pub(crate) use waiting::while_waiting;
pub(crate) use worker_pool::{Membership, WorkerPool};

#[cfg(all(test, feature = "model-checking"))]
mod model_tests;
#[cfg(test)]
mod tests;
