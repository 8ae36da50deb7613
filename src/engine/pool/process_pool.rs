//! The pool of the process, for all stores that name no thread count. Any thread.
//!
//! It is made for the first of them and stays; its threads end when they have nothing to do.
//!
//! Invariant: a forked child makes a pool of its own. It leaks its copy of the parent's, whose lock may be held by a
//! thread that does not exist here. There is no lock around the pool itself for the same reason.

use super::worker_pool::WorkerPool;
use crate::util::sync::Arc;
use arc_swap::ArcSwapOption;

static POOL: ArcSwapOption<WorkerPool> = ArcSwapOption::const_empty();

/// The pool of this process. `workers` counts if the pool does not exist yet.
pub(crate) fn of_process(workers: usize) -> Arc<WorkerPool> {
    loop {
        let found = POOL.load_full();
        if let Some(pool) = &found
            && pool.is_of_this_process()
        {
            return Arc::clone(pool);
        }
        let pool = WorkerPool::new(workers);
        let before = POOL.compare_and_swap(&found, Some(Arc::clone(&pool)));
        let is_stored = match (&*before, &found) {
            (Some(before), Some(found)) => Arc::ptr_eq(before, found),
            (before, found) => before.is_none() && found.is_none(),
        };
        if is_stored {
            // The parent's pool, if there is one, is not dropped.
            std::mem::forget(found);
            return pool;
        }
    }
}
