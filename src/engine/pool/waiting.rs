//! A run that only waits (for a rate limit, for the end of a pause, for another run) gives its place to others.

use super::dispatch::RunId;
use super::worker_pool::Shared;
use crate::util::sync::Arc;
use std::cell::RefCell;

thread_local! {
    /// The run of this thread.
    static RUN: RefCell<Option<(Arc<Shared>, RunId)>> = const { RefCell::new(None) };
}

/// Calls `wait`, which may take long and uses neither processor nor disk. If the calling thread is in a run of a pool,
/// the run does not count against the pool's limits meanwhile. Requires that the caller holds no lock that a run needs.
pub(crate) fn while_waiting<T>(wait: impl FnOnce() -> T) -> T {
    let _waits = RUN.with_borrow(Clone::clone).map(|(pool, run)| {
        pool.set_waiting(run, true);
        Waits { pool, run }
    });
    wait()
}

struct Waits {
    pool: Arc<Shared>,
    run: RunId,
}

impl Drop for Waits {
    fn drop(&mut self) {
        self.pool.set_waiting(self.run, false);
    }
}

/// Notes which run the calling thread is in.
pub(super) fn set_run(run: Option<(Arc<Shared>, RunId)>) {
    RUN.set(run);
}
