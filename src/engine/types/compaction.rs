//! Options, progress and result of a manual compaction.

use crate::util::sync::{Arc, AtomicBool, Ordering};

/// Which leaves `Db::compact_with` rewrites.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Goal {
    /// Those where a read meets more than one run, and those that may hold versions or deletes that no snapshot needs: the least space,
    /// and one run to read. `Db::compact` and `Db::compact_range`.
    #[default]
    Space,
    /// Only those where a read meets more than one run: reads are as fast, for less rewriting. `Db::optimize`.
    Reads,
}

/// How to compact.
///
/// ```
/// use alluvium::{Cancellation, CompactOptions, Goal};
/// let cancellation = Cancellation::new();
/// let options = CompactOptions { goal: Goal::Reads, cancellation: Some(cancellation.clone()) };
/// // Another thread, or a signal handler's, may end it:
/// cancellation.cancel();
/// ```
#[derive(Clone, Debug, Default)]
pub struct CompactOptions {
    /// What is rewritten.
    pub goal: Goal,
    /// Calls it off.
    pub cancellation: Option<Cancellation>,
}

/// Calls a long operation off, from any thread. Clones are the same one.
#[derive(Clone, Debug, Default)]
pub struct Cancellation(Arc<AtomicBool>);

impl Cancellation {
    /// Not called off.
    pub fn new() -> Self {
        Self::default()
    }

    /// Calls the operation off: it ends within some milliseconds with `Error::Cancelled`. What it has done stays.
    pub fn cancel(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether it was called off.
    pub fn is_cancelled(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// How far `Db::compact_with` is. What is to be done is estimated, and changes where others write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactProgress {
    /// Bytes of branch files read and merged.
    pub bytes_done: u64,
    /// The same, and about how many are still to be.
    pub bytes_total: u64,
}

/// What `Db::compact_with` did. Work that was due anyway, and work for another such call, does not count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactReport {
    /// Bytes of branch files merged.
    pub bytes_read: u64,
    /// Bytes of branch files written.
    pub bytes_written: u64,
}
