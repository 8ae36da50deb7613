//! Who wants to see how far a run is.

/// Is told of progress, from any thread. All methods do nothing unless written otherwise.
pub trait Watch: Sync {
    /// A workload begins; `operations` is how many there will be, if that is known.
    fn begin(&self, _engine: &str, _workload: &str, _operations: Option<u64>) {}
    /// So many operations are done.
    fn done(&self, _operations: u64) {}
    /// The operations are done; background work is waited for.
    fn settling(&self) {}
    /// The workload is over.
    fn end(&self) {}
}

/// Nobody.
impl Watch for () {}
