//! `Resources`: memory, threads and a write limit that several stores share. Any thread.

use super::default_budget::default_budget;
use super::rate_limit::RateLimit;
use super::shared_memory::{MemorySizes, SharedMemory};
use crate::engine::pool::WorkerPool;
use crate::util::fork::ForkCount;
use crate::util::sync::{Arc, AtomicU64, Mutex, OnceLock, Ordering};
use crate::util::{Error, Result};
use std::time::Duration;

/// The smallest budget that a store opens with.
pub(crate) const BUDGET_MIN: u64 = 256 << 10;
/// The largest one, 64 TiB: more than any machine has, and small enough that no sum of parts overflows.
pub(crate) const BUDGET_MAX: u64 = 64 << 40;
/// The most threads that an option may set. A tree rarely has more than a dozen merges that can run side by side, while
/// every thread has a stack and extents of up to 16 MiB; those of 64 threads are 1 GiB.
pub(crate) const THREADS_MAX: usize = 64;
/// How often a changed limit of the machine or the container is noticed.
const LIMIT_CHECK_INTERVAL: Duration = Duration::from_secs(5);

/// Memory, threads and a write limit that several stores share: a budget for all of them instead of one for each. Memory is taken as
/// data is touched, goes to the store that uses it, and is given back some seconds after a store became idle.
///
/// A clone is another handle of the same resources. They are freed with the last handle and the last store.
///
/// Stores that name neither `Options::resources` nor `Options::memory_budget` share the process's default: a quarter of
/// the memory of the machine, or of the lowest limit of the control groups that the process is in, at most 1 GiB. A
/// changed limit is noticed. Two copies of this library in one process have two defaults. After a `fork` the child has a
/// new default, and cannot use resources of the parent.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// use alluvium::{Db, Options, Resources};
/// let resources = Resources::builder().memory(64 << 20).build()?;
/// let options = || Options::new().resources(resources.clone());
/// let index = Db::open(directory.path().join("index"), options())?;
/// let documents = Db::open(directory.path().join("documents"), options())?;
/// assert_eq!(resources.memory(), 64 << 20);
/// # index.close()?;
/// # documents.close()?;
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone)]
pub struct Resources {
    pub(super) inner: Arc<Inner>,
}

pub(super) struct Inner {
    memory: AtomicU64,
    /// Whether the memory follows what the process may use.
    follows_machine: bool,
    threads: Option<usize>,
    write_limit: Arc<RateLimit>,
    process: ForkCount,
    shared: OnceLock<Arc<SharedMemory>>,
    pool: OnceLock<Arc<WorkerPool>>,
    /// When to look next whether the limit has changed, on the clock of any store.
    check_at: Mutex<Option<Duration>>,
}

/// Makes `Resources`. What is not set has the value of the process's default.
///
/// ```
/// use alluvium::Resources;
/// let resources = Resources::builder().memory(256 << 20).threads(2).write_limit(50 << 20).build()?;
/// assert_eq!((resources.memory(), resources.threads()), (256 << 20, Some(2)));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct ResourcesBuilder {
    memory: Option<u64>,
    threads: Option<usize>,
    write_limit: Option<u64>,
}

impl ResourcesBuilder {
    /// The memory budget of all stores together, in bytes. The limits are those of `Options::memory_budget`.
    #[must_use]
    pub fn memory(self, bytes: u64) -> Self {
        Self { memory: Some(bytes), ..self }
    }

    /// The threads that merge in the background, for stores without `Options::background_threads`.
    #[must_use]
    pub fn threads(self, threads: usize) -> Self {
        Self { threads: Some(threads), ..self }
    }

    /// The limit for the background writes of all stores together, in bytes a second, beside the limits of the stores
    /// themselves (`Options::background_write_limit`). `Resources::set_write_limit` changes it.
    #[must_use]
    pub fn write_limit(self, bytes_per_second: u64) -> Self {
        Self { write_limit: Some(bytes_per_second), ..self }
    }

    /// The resources. They take no memory before a store uses them.
    ///
    /// # Errors
    /// `InvalidArgument` for a value that no store could use.
    pub fn build(self) -> Result<Resources> {
        if let Some(bytes) = self.memory.filter(|bytes| !(BUDGET_MIN..=BUDGET_MAX).contains(bytes)) {
            return Err(Error::InvalidArgument(format!(
                "the memory of resources is {bytes} bytes; at least {BUDGET_MIN} are needed, and at most {BUDGET_MAX} allowed"
            )));
        }
        if let Some(threads) = self.threads.filter(|threads| !(1..=THREADS_MAX).contains(threads)) {
            return Err(Error::InvalidArgument(format!(
                "the resources have {threads} threads; at least 1 is needed, and at most {THREADS_MAX} are allowed"
            )));
        }
        let resources = Resources::new(self.memory, self.threads);
        resources.set_write_limit(self.write_limit)?;
        Ok(resources)
    }
}

impl Resources {
    /// Whether somebody has said how much memory they have. If not, it follows what the process may use.
    pub(crate) fn names_memory(&self) -> bool {
        !self.inner.follows_machine
    }

    /// Makes resources.
    pub fn builder() -> ResourcesBuilder {
        ResourcesBuilder::default()
    }

    pub(super) fn new(memory: Option<u64>, threads: Option<usize>) -> Self {
        let bytes = memory.unwrap_or_else(default_budget);
        let inner = Inner {
            memory: bytes.into(),
            follows_machine: memory.is_none(),
            threads,
            write_limit: Arc::new(RateLimit::new(None)),
            process: ForkCount::current(),
            shared: OnceLock::new(),
            pool: OnceLock::new(),
            check_at: Mutex::default(),
        };
        Self { inner: Arc::new(inner) }
    }

    /// The memory budget of all stores together, in bytes.
    pub fn memory(&self) -> u64 {
        self.inner.memory.load(Ordering::Relaxed)
    }

    /// The threads that merge in the background; `None` if they are derived from the number of cores.
    pub fn threads(&self) -> Option<usize> {
        self.inner.threads
    }

    /// The limit for the background writes of all stores together, in bytes a second.
    pub fn write_limit(&self) -> Option<u64> {
        self.inner.write_limit.get()
    }

    /// Changes the limit for the background writes of all stores together. Running background work follows the new
    /// limit at once. `None` removes the limit.
    ///
    /// ```
    /// let resources = alluvium::Resources::builder().write_limit(20 << 20).build()?;
    /// resources.set_write_limit(Some(50 << 20))?;
    /// assert_eq!(resources.write_limit(), Some(50 << 20));
    /// # Ok::<(), alluvium::Error>(())
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` for a limit of 0.
    pub fn set_write_limit(&self, bytes_per_second: Option<u64>) -> Result<()> {
        if bytes_per_second == Some(0) {
            return Err(Error::InvalidArgument(
                "the write limit of resources is 0 bytes a second; at least 1 is needed, None means no limit".into(),
            ));
        }
        self.inner.write_limit.set(bytes_per_second);
        Ok(())
    }

    /// The write limit, for the stores.
    pub(crate) fn shared_write_limit(&self) -> Arc<RateLimit> {
        Arc::clone(&self.inner.write_limit)
    }

    /// The threads of all stores together, if a number is named.
    pub(crate) fn pool(&self) -> Option<Arc<WorkerPool>> {
        let threads = self.inner.threads?;
        Some(Arc::clone(self.inner.pool.get_or_init(|| WorkerPool::new(threads))))
    }

    /// An error in a forked child, where other threads of the parent may have left locks of the resources locked.
    pub(crate) fn check_process(&self) -> Result<()> {
        if self.inner.process.is_current() { Ok(()) } else { Err(Error::Forked) }
    }

    /// The shared memory. The first store makes it, with the sizes that it derives from `memory`.
    pub(crate) fn shared_memory(&self, sizes: MemorySizes) -> Arc<SharedMemory> {
        Arc::clone(self.inner.shared.get_or_init(|| SharedMemory::new(sizes)))
    }

    /// The budget, if the limit of the machine or the container has changed. Looks only every few seconds.
    pub(crate) fn changed_memory(&self, now: Duration) -> Option<u64> {
        if !self.inner.follows_machine {
            return None;
        }
        let mut check_at = self.inner.check_at.lock();
        // The clocks of several stores may differ; a time far ahead is another clock's.
        let is_due = check_at.is_none_or(|at| now >= at || at > now + LIMIT_CHECK_INTERVAL);
        if !is_due {
            return None;
        }
        *check_at = Some(now + LIMIT_CHECK_INTERVAL);
        let bytes = default_budget();
        (self.inner.memory.swap(bytes, Ordering::Relaxed) != bytes).then_some(bytes)
    }
}

impl std::fmt::Debug for Resources {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Resources")
            .field("memory", &self.memory())
            .field("threads", &self.threads())
            .field("write_limit", &self.write_limit())
            .finish_non_exhaustive()
    }
}
