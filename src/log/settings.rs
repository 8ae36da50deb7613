//! What a log needs when it starts: sizes, identity, and how it names its segments in the manifest.

use super::log_task::LogTask;
use crate::io::{Clock, Life, Storage};
use crate::util::sync::Arc;
use crate::util::{DatabaseId, FileNumber, FileNumbers, Result, SequenceNumber};

/// Sizes.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Most bytes of chunks in a segment; rounded down to whole chunks. The first segments are smaller.
    pub segment_bytes: usize,
    /// Most bytes of a chunk, which a thread takes at once; a multiple of `IO_ALIGNMENT`.
    pub chunk_bytes: usize,
    /// When the live log exceeds this many bytes, `over_budget` asks for a switch of the memory generation. Free files
    /// are kept within it.
    pub budget_bytes: u64,
    /// There are no log threads: a thread that needs the next segment makes it itself. For deterministic runs.
    pub deterministic: bool,
    /// The log starts on a full disk; see `Log::set_scarce`.
    pub scarce: bool,
}

/// What the log uses of the store that it belongs to.
pub struct LogResources {
    /// The store's directory.
    pub storage: Arc<dyn Storage>,
    /// Tells how fast segments fill.
    pub clock: Arc<dyn Clock>,
    /// Assigns the numbers of segments and shadows.
    pub numbers: Arc<FileNumbers>,
    /// Names segments in the manifest.
    pub name_segment: NameSegment,
    /// Called when a kind of log work becomes due.
    pub wake: WakeLog,
}

/// What all segments of one opening of the store have in common.
#[derive(Clone, Copy, Debug)]
pub struct LogIdentity {
    /// The store.
    pub database: DatabaseId,
    /// The log epoch: rises with every opening.
    pub epoch: u64,
    /// The life of machine and mount, if it is known.
    pub life: Option<Life>,
    /// The first number that this log epoch will write.
    pub first: SequenceNumber,
}

/// Records a new segment, and the number through which the log is synced, durably in the manifest, before any record is
/// written to the segment. Returns the edit's number. Called without any of the log's locks except `making`.
pub type NameSegment = Box<dyn Fn(FileNumber, SequenceNumber) -> Result<u64> + Send + Sync>;

/// Lets a thread do a kind of log work. Called under the log's state lock by writers, so it must neither wait nor take a
/// lock of the log.
pub type WakeLog = Box<dyn Fn(LogTask) + Send + Sync>;

/// `WakeLog` with a `Debug` implementation.
pub(super) struct Waker(pub(super) WakeLog);

impl std::fmt::Debug for Waker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Waker")
    }
}

/// `NameSegment` with a `Debug` implementation.
pub(super) struct Namer(pub(super) NameSegment);

impl std::fmt::Debug for Namer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Namer")
    }
}
