//! Options, progress and result of a manual compaction, and its cancellation, which other long operations share.

use crate::util::sync::{Arc, AtomicBool, Ordering};
use crate::util::{Error, Result};

/// Which leaves `Db::compact_with` rewrites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Goal {
    /// Leaves with more than one run, and leaves that may hold versions or deletes that no snapshot needs. The range
    /// then takes the least space and is one run. `Db::compact` and `Db::compact_range` use this.
    #[default]
    Space,
    /// Only leaves with more than one run. Reads are as fast as with `Space`, for less rewriting. `Db::optimize` uses
    /// this.
    Reads,
    /// None. What merges left in memory (`LevelsOptions::buffer_bytes`) is written to files, as the Memtables are, so
    /// that the next opening reads little.
    Recovery,
}

/// Options of `Db::compact_with`.
///
/// ```
/// use alluvium::{Cancellation, CompactOptions, Goal};
/// let cancellation = Cancellation::new();
/// let options = CompactOptions::new().goal(Goal::Reads).cancellation(cancellation.clone());
/// // Another thread, or a signal handler's thread, can cancel the compaction:
/// cancellation.cancel();
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct CompactOptions {
    /// Which leaves are rewritten.
    pub goal: Goal,
    /// Cancels the compaction from another thread.
    pub cancellation: Option<Cancellation>,
}

impl CompactOptions {
    /// The default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the field `goal`.
    #[must_use]
    pub fn goal(self, goal: Goal) -> Self {
        Self { goal, ..self }
    }

    /// Sets the field `cancellation`.
    #[must_use]
    pub fn cancellation(self, cancellation: impl Into<Option<Cancellation>>) -> Self {
        Self { cancellation: cancellation.into(), ..self }
    }
}

/// Cancels a long operation from any thread. All clones refer to the same cancellation.
///
/// ```
/// # let directory = tempfile::tempdir().unwrap();
/// # let db = alluvium::Db::open(directory.path(), alluvium::Options::default())?;
/// use alluvium::{Cancellation, CompactOptions, Error};
/// let cancellation = Cancellation::new();
/// let options = CompactOptions::new().cancellation(cancellation.clone());
/// cancellation.cancel(); // usually from another thread, while the compaction runs
/// assert!(matches!(db.compact_all_with(&options, &mut |_| ()), Err(Error::Cancelled)));
/// # Ok::<(), alluvium::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// A cancellation that has not been requested.
    pub fn new() -> Self {
        Self::default()
    }

    /// Cancels the operation. It returns `Error::Cancelled` within some milliseconds. What a compaction has done stays; of a
    /// checkpoint or a backup nothing stays.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether `cancel` was called.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// `Error::Cancelled` if there is a cancellation, and it was requested.
    pub(crate) fn check(cancellation: Option<&Self>) -> Result<()> {
        if cancellation.is_some_and(Self::is_cancelled) { Err(Error::Cancelled) } else { Ok(()) }
    }
}

/// Progress of `Db::compact_with`. The remaining work is an estimate, and concurrent writes change it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactProgress {
    /// Bytes of branch files that were read and merged.
    pub bytes_done: u64,
    /// `bytes_done` plus the estimated bytes that remain.
    pub bytes_total: u64,
}

/// What `Db::compact_with` did. Background work that was due anyway and work for other calls do not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CompactReport {
    /// Bytes of branch files merged.
    pub bytes_read: u64,
    /// Bytes of branch files written.
    pub bytes_written: u64,
}
