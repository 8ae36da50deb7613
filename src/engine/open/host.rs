//! What a store is given when it is opened.

use crate::engine::memory::arbiter::MemoryArbiter;
use crate::engine::pool::{self, WorkerPool};
use crate::engine::resources::resources::Resources;
use crate::engine::scheduler::{Driver, Scheduler};
use crate::engine::state::budget::StoreConfig;
use crate::engine::types::options::Options;
use crate::io::Clock;
use crate::util::sync::Arc;

/// See the module. Its parts are counted references, so several stores could share them.
pub(crate) struct Host {
    pub(crate) options: Options,
    pub(crate) config: StoreConfig,
    pub(crate) scheduler: Arc<Scheduler>,
    pub(crate) arbiter: Arc<MemoryArbiter>,
    /// Runs the background work. With `Driver::Deterministic` it is not used.
    pub(crate) pool: Arc<WorkerPool>,
}

impl Host {
    /// A scheduler and a memory arbiter for one store. The pool is that of the process, unless the options or
    /// their resources name a number of threads.
    pub(crate) fn new(options: Options, config: StoreConfig, driver: Driver, clock: Arc<dyn Clock>) -> Self {
        let arbiter = MemoryArbiter::new(&options, &config, Arc::clone(&clock));
        let shares = driver == Driver::Threads && options.background_threads.is_none();
        let named = options.resources.as_ref().filter(|_| shares).and_then(Resources::pool);
        let pool = match named {
            Some(pool) => pool,
            None if shares => pool::of_process(config.budget.workers),
            None => WorkerPool::new(config.budget.workers),
        };
        Self { options, config, scheduler: Scheduler::new(driver, clock), arbiter, pool }
    }
}
