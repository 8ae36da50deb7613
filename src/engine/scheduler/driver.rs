//! The driver: which threads run the background work of a store.

/// Which threads run the background work of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Driver {
    /// The threads of a pool.
    Threads,
    /// The calling threads: a call that would wait for background work runs it. No thread is started, and all timers
    /// use the simulated clock of the storage, so the store is a pure function of its calls (`DeterministicDb`).
    Deterministic,
}

/// The background work of a store, as the scheduler sees it with `Driver::Deterministic`.
pub(crate) trait RunNext: Send + Sync {
    /// Runs one piece of background work in the calling thread. Returns false if there is none, or none is due yet.
    fn run_next(&self) -> bool;
}
