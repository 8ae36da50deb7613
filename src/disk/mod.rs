//! Layer 5: disk components. `trunk` is the STBε-tree; `levels` comes later, beside it.
//!
//! The seam between the store and a disk component (cLSM §2 keeps its disk component behind one as well): a component is
//! immutable trees, and outcomes of work that turn one tree into the next. The store owns when that happens: it logs the
//! edit, publishes the tree and only then lets go of what the tree no longer uses.

use crate::base::sync::{Arc, AtomicBool};
use crate::base::{Kind, Result, SequenceNumber};
use crate::merge::{Cursor, Retention};

pub mod trunk;

/// What readers see of a disk component at one moment: immutable, from any thread, without locks.
pub trait DiskTree: Send + Sync {
    /// The newest version `<= at` of `key`, whose hash is `hash`: its number and kind; its value is appended to `out`.
    fn get(
        &self,
        key: &[u8],
        hash: u64,
        at: SequenceNumber,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>>;
    /// A cursor over all entries. It holds the tree.
    fn cursor(self: Arc<Self>) -> Box<dyn Cursor>;
    /// Bytes of work that waits, for backpressure.
    fn debt(&self) -> u64;
}

/// Makes new trees out of old ones. `incorporate`, `pick` and `run` from any thread without a lock; `apply` under the
/// store's edit mutex, with the newest tree.
pub trait DiskComponent: Send + Sync {
    /// What readers see.
    type Tree: DiskTree;
    /// A piece of work; it holds its claim on a part of the tree until it is dropped.
    type Job: Send;
    /// What came of it.
    type Outcome: Send;
    /// A new tree, the edit that says the same, and what to let go of once the tree is published.
    type Applied;

    /// Writes what `source` has into files. Heavy I/O.
    fn incorporate(
        &self,
        tree: &Self::Tree,
        source: &mut dyn Cursor,
        retention: &Retention,
        through: SequenceNumber,
    ) -> Result<Self::Outcome>;
    /// The most urgent work, if there is any.
    fn pick(&self, tree: &Self::Tree) -> Option<Self::Job>;
    /// Does a job's I/O. Heavy.
    fn run(
        &self,
        job: &Self::Job,
        tree: &Arc<Self::Tree>,
        retention: &Retention,
        cancel: &AtomicBool,
    ) -> Result<Self::Outcome>;
    /// Turns an outcome into an edit and a new tree. Fast.
    fn apply(&self, outcome: Self::Outcome, tree: &Arc<Self::Tree>) -> Self::Applied;
}
