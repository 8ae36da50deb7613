//! Receives the progress of a run.

/// Receives progress, from any thread. The default methods do nothing.
pub trait Progress: Sync {
    /// A workload begins; `operations` is their number, if known.
    fn begin(&self, _engine: &str, _workload: &str, _operations: Option<u64>) {}
    /// This many operations are done.
    fn done(&self, _operations: u64) {}
    /// The operations are done; background work is awaited.
    fn settling(&self) {}
    /// The workload is over.
    fn end(&self) {}
}

/// Ignores progress.
impl Progress for () {}
