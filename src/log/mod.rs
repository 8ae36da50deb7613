//! The log: per-thread chunks of one mapped segment file (`design.md`, The log, ways (a) and (b); SplinterDB §4, per-thread
//! write-ahead logs; cLSM §4, records out of order that recovery puts right).
//!
//! Any thread may call anything; a `LogWriter` belongs to one thread at a time. `make_ready` and `finish` are for
//! the log keepers' threads. The parts:
//!
//! - `writer`: the write path, no lock and no system call but at the end of a chunk.
//! - `segment`: a mapped file and who owns which chunk of it.
//! - `keeper`: makes the next segment and pages ahead ready; seals retired segments; recycling.
//! - `shadow`: segments in shared memory; `write_out` brings them to their files, `shadow_reader` reads them back.
//! - `group_sync`: one `fdatasync` for many.
//! - `files`: names, making and reusing files.
//! - `halt`: what stops the log.
//! - `recovery`: reads everything back; needs no `Log`.
//! - `salvage`: reads what can be read, for `verify` and repair.
//!
//! Invariants, beside those of the parts:
//! 1. A segment goes through current (or dedicated), retiring, sealed, free or gone, under the state lock. Every
//!    record sealed anywhere is in a segment that is current, dedicated or retiring, or in one that was synced after
//!    its last record was sealed (the state *sealed*). So a sync that waits until all numbers `<= n` are sealed and
//!    *then* lists and syncs current, dedicated and retiring segments has made all records `<= n` durable.
//! 2. Order of locks: making, sealing, sync, state. Nothing waits for the disk under the state lock.
//! 3. Numbers known as synced (`synced`, marks) only rise, and are written only after the sync returned.

mod files;
mod group_sync;
mod halt;
mod maintenance;
pub mod recovery;
pub mod salvage;
mod segment;
mod shadow;
mod shadow_reader;
mod writeback;
mod writer;

pub use files::{POISON, Role, file_name, parse_file_name};
pub use halt::read_poison;
pub use maintenance::LogTask;
pub use recovery::{Access, LogContents, OldSegment, Recovered, RecoveryInput, recover};
pub use shadow::remove_all as remove_shadows;
pub use writer::LogWriter;

use crate::format::log_segment::Mark;
use crate::io::{Life, SharedMemory, Storage};
use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use crate::util::{DatabaseId, Error, FileNumber, FileNumbers, Result, SequenceNumber};
use crossbeam_utils::CachePadded;
use files::FreeFile;
use group_sync::SyncState;
use halt::Halt;
use maintenance::Due;
use segment::{Segment, segment_file_bytes};
use shadow::Shadows;

/// Bytes of chunks in a segment that is made on a full disk, but for one chunk at least.
const SCARCE_SEGMENT_BYTES: usize = 256 << 10;

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
struct Namer(NameSegment);

impl std::fmt::Debug for Namer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Namer")
    }
}

/// The log of one opening of the store. See the module.
#[derive(Debug)]
pub struct Log {
    storage: Arc<dyn Storage>,
    identity: LogIdentity,
    numbers: Arc<FileNumbers>,
    options: LogOptions,
    namer: Namer,
    shadows: Shadows,
    /// Chunks of a standard segment.
    chunks: usize,
    /// See `set_scarce`.
    scarce: AtomicBool,
    halted: AtomicBool,
    halt: Mutex<Option<Halt>>,
    synced: CachePadded<AtomicU64>,
    /// Bytes of chunks in use and of adopted segments.
    bytes: AtomicU64,
    /// One makes segments ready at a time, and one seals them.
    making: Mutex<()>,
    sealing: Mutex<()>,
    sync: Mutex<SyncState>,
    sync_ended: Condvar,
    state: Mutex<State>,
    /// A next segment is there, or could not be made.
    next_changed: Condvar,
    /// The keepers have work.
    work: Condvar,
}

#[derive(Debug)]
struct State {
    current: Arc<Segment>,
    next: Option<Arc<Segment>>,
    /// Why there is no next one.
    next_error: Option<Error>,
    dedicated: Vec<Arc<Segment>>,
    retiring: Vec<Arc<Segment>>,
    sealed: Vec<Arc<Segment>>,
    old: Vec<OldSegment>,
    free: Vec<FreeFile>,
    due: Due,
    mark_counter: u64,
    manifest_edit: u64,
}

impl State {
    /// The mark that says what is known now.
    fn next_mark(&mut self, synced_through: SequenceNumber) -> Mark {
        self.mark_counter += 1;
        Mark { counter: self.mark_counter, synced_through, manifest_edit: self.manifest_edit }
    }
}

impl Log {
    /// Starts a generation with its first segment. Requires that the `LogRecovered` edit of the generations before is
    /// durable, and a generation that no segment has. With `memory` segments are written there first; requires that no twin of an
    /// earlier generation is needed any more.
    pub fn create(
        storage: Arc<dyn Storage>,
        memory: Option<Arc<dyn SharedMemory>>,
        identity: LogIdentity,
        numbers: Arc<FileNumbers>,
        options: LogOptions,
        name_segment: NameSegment,
    ) -> Result<Arc<Self>> {
        let LogOptions { segment_bytes, chunk_bytes, .. } = options;
        if chunk_bytes == 0 || !chunk_bytes.is_multiple_of(IO_ALIGNMENT) || chunk_bytes > segment_bytes {
            let message = format!("log segments of {segment_bytes} bytes in chunks of {chunk_bytes}");
            return Err(Error::InvalidArgument(message));
        }
        let chunks = segment_bytes / chunk_bytes;
        let synced = SequenceNumber(identity.first.0.saturating_sub(1));
        halt::forget_poison(&*storage)?;
        let mark = Some(Mark { counter: 1, synced_through: synced, manifest_edit: 0 });
        let shadows = Shadows::new(memory, segment_file_bytes(chunks, chunk_bytes), chunks);
        let shadow = if options.scarce { None } else { shadows.take(&*storage) };
        let plan = files::Plan {
            identity: &identity,
            chunks: chunks_where(options.scarce, options),
            chunk_bytes,
            dedicated: false,
            mark,
            shadow: shadow.as_ref(),
        };
        let current = Arc::new(files::create_segment(&*storage, numbers.take(), plan)?);
        let edit = files::name_segment(&*storage, &current, synced, &name_segment)?;
        let state = State {
            current,
            next: None,
            next_error: None,
            dedicated: Vec::new(),
            // Writers put segments here, and a write allocates nothing; the keeper is rarely two behind.
            retiring: Vec::with_capacity(8),
            sealed: Vec::new(),
            old: Vec::new(),
            free: Vec::new(),
            due: Due::ALL,
            mark_counter: 1,
            manifest_edit: 0,
        };
        let log = Arc::new(Self {
            storage,
            identity,
            numbers,
            options,
            chunks,
            scarce: AtomicBool::new(options.scarce),
            halted: AtomicBool::new(false),
            halt: Mutex::new(None),
            synced: CachePadded::new(AtomicU64::new(synced.0)),
            bytes: AtomicU64::new(0),
            making: Mutex::new(()),
            sealing: Mutex::new(()),
            sync: Mutex::new(SyncState::default()),
            sync_ended: Condvar::new(),
            state: Mutex::new(state),
            next_changed: Condvar::new(),
            work: Condvar::new(),
            namer: Namer(name_segment),
            shadows,
        });
        log.note_manifest_edit(edit);
        Ok(log)
    }

    /// Every number up to this one is durable.
    pub fn synced(&self) -> SequenceNumber {
        SequenceNumber(self.synced.load(Ordering::Acquire))
    }

    /// Bytes of log that are not recycled yet: chunks handed out, and adopted segments.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of shared memory that segments are written to first.
    pub fn memory_bytes(&self) -> u64 {
        self.shadows.bytes()
    }

    /// How many segments were to be written to shared memory and found none.
    pub fn memory_refused(&self) -> u64 {
        self.shadows.refused()
    }

    /// Whether a switch of the memory generation should make room.
    pub fn over_budget(&self) -> bool {
        self.bytes() > self.options.budget_bytes
    }

    /// Whether a writer that uses up the current segment finds the next one made.
    #[cfg(feature = "async")]
    pub fn has_segment_ready(&self) -> bool {
        self.state.lock().next.is_some()
    }

    /// Whether the disk is full: from then on segments are as small as they may be, and no file is kept for reuse, so that little
    /// room carries many deletes and many openings.
    pub fn set_scarce(&self, scarce: bool) {
        self.scarce.store(scarce, Ordering::Relaxed);
        if !scarce {
            // What could not be made is tried again before a writer is told that it could not.
            let mut state = self.state.lock();
            state.next_error = None;
            self.wake(&mut state, LogTask::MakeReady);
        }
    }

    /// Chunks of the segment that comes next.
    fn chunks_of_next(&self) -> usize {
        chunks_where(self.scarce.load(Ordering::Relaxed), self.options)
    }

    /// Notes that an edit of the manifest was synced, so that its loss would be noticed.
    pub fn note_manifest_edit(&self, edit: u64) {
        let mut state = self.state.lock();
        if edit > state.manifest_edit {
            state.manifest_edit = edit;
            self.leave_mark(&mut state);
        }
    }

    /// Leaves a mark of what is known in the current segment; the next sync makes it durable.
    fn leave_mark(&self, state: &mut State) {
        let mark = state.next_mark(self.synced());
        state.current.write_mark(mark);
    }
}

/// Chunks of a segment that is made now.
fn chunks_where(scarce: bool, options: LogOptions) -> usize {
    let chunks = options.segment_bytes / options.chunk_bytes;
    if scarce { (SCARCE_SEGMENT_BYTES / options.chunk_bytes).clamp(1, chunks) } else { chunks }
}

#[cfg(test)]
mod tests;
