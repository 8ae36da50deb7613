//! What a log is given when it starts: sizes, identity, and how it names its segments in the manifest.

use crate::io::Life;
use crate::util::{DatabaseId, FileNumber, Result, SequenceNumber};

/// Sizes.
#[derive(Clone, Copy, Debug)]
pub struct LogOptions {
    /// Bytes of chunks in a segment; rounded down to whole chunks.
    pub segment_bytes: usize,
    /// Bytes of a chunk, what a thread takes at a time; a multiple of `IO_ALIGNMENT`.
    pub chunk_bytes: usize,
    /// Past this many bytes of live log, `over_budget` asks for a switch of the memory generation; free files are kept
    /// within it.
    pub budget_bytes: u64,
    /// No keeper thread runs: whoever needs the next segment makes it in its own thread. For runs that must do the same
    /// in the same order every time.
    pub deterministic: bool,
    /// The log starts on a full disk; see `Log::set_scarce`.
    pub scarce: bool,
}

/// What all segments of one opening of the store have in common.
#[derive(Clone, Copy, Debug)]
pub struct LogIdentity {
    /// The store.
    pub database: DatabaseId,
    /// The log generation: rises with every opening.
    pub epoch: u64,
    /// The life of machine and mount, where it can be told.
    pub life: Option<Life>,
    /// The first number that this generation will write.
    pub first: SequenceNumber,
}

/// Tells the manifest of a new segment, and of the number through which the log is synced, durably, before any record goes there;
/// returns the edit's number. Called without any of the log's locks but `making`.
pub type NameSegment = Box<dyn Fn(FileNumber, SequenceNumber) -> Result<u64> + Send + Sync>;

/// `NameSegment`, which has no text of its own.
pub(super) struct Namer(pub(super) NameSegment);

impl std::fmt::Debug for Namer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Namer")
    }
}
