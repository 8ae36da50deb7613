//! The log of one opening of a store: its state, and how it starts. The other files of this folder add its operations.

use super::files::{self, FreeFile};
use super::log_task::{Due, LogTask};
use super::poison::{self, Halt};
use super::recovery::OldSegment;
use super::segment::{Segment, segment_file_bytes};
use super::settings::{LogIdentity, LogOptions, LogResources, Namer, Waker};
use super::shadow::copy::Shadows;
use crate::format::log_segment::Mark;
use crate::io::Storage;
use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use crate::util::{Error, FileNumbers, Result, SequenceNumber};
use crossbeam_utils::CachePadded;

/// Bytes of chunks in a segment that is made on a full disk, but at least one chunk.
const SCARCE_SEGMENT_BYTES: usize = 256 << 10;

/// Whether a thread leads a group commit.
#[derive(Debug, Default)]
pub(super) struct SyncState {
    pub(super) leading: bool,
}

/// The log of one opening of the store. See the module.
#[derive(Debug)]
pub struct Log {
    pub(super) storage: Arc<dyn Storage>,
    pub(super) identity: LogIdentity,
    pub(super) numbers: Arc<FileNumbers>,
    pub(super) options: LogOptions,
    pub(super) namer: Namer,
    pub(super) waker: Waker,
    pub(super) shadows: Shadows,
    /// Chunks of a standard segment.
    pub(super) chunks: usize,
    /// See `set_scarce`.
    pub(super) scarce: AtomicBool,
    pub(super) halted: AtomicBool,
    pub(super) halt: Mutex<Option<Halt>>,
    pub(super) synced: CachePadded<AtomicU64>,
    /// Bytes of chunks in use and of adopted segments.
    pub(super) bytes: AtomicU64,
    /// Locked while a segment is made; one thread at a time. `sealing` likewise, while segments are sealed.
    pub(super) making: Mutex<()>,
    pub(super) sealing: Mutex<()>,
    pub(super) sync: Mutex<SyncState>,
    pub(super) sync_ended: Condvar,
    pub(super) state: Mutex<State>,
    /// Signals that there is a next segment, or that it could not be made.
    pub(super) next_changed: Condvar,
    /// Signals that the log threads have work.
    pub(super) work: Condvar,
}

#[derive(Debug)]
pub(super) struct State {
    pub(super) current: Arc<Segment>,
    pub(super) next: Option<Arc<Segment>>,
    /// Why there is no next segment.
    pub(super) next_error: Option<Error>,
    pub(super) dedicated: Vec<Arc<Segment>>,
    pub(super) retiring: Vec<Arc<Segment>>,
    pub(super) sealed: Vec<Arc<Segment>>,
    pub(super) old: Vec<OldSegment>,
    pub(super) free: Vec<FreeFile>,
    pub(super) due: Due,
    pub(super) mark_counter: u64,
    pub(super) manifest_edit: u64,
}

impl State {
    /// A mark with the current state.
    pub(super) fn next_mark(&mut self, synced_through: SequenceNumber) -> Mark {
        self.mark_counter += 1;
        Mark { counter: self.mark_counter, synced_through, manifest_edit: self.manifest_edit }
    }
}

impl Log {
    /// Starts a log epoch with its first segment. Requires that the `LogRecovered` edit of the earlier epochs is
    /// durable, and that no segment has this epoch. With `memory`, writers write segments there first; requires that no
    /// shadow of an earlier epoch is needed any more.
    pub fn create(resources: LogResources, identity: LogIdentity, options: LogOptions) -> Result<Arc<Self>> {
        let LogResources { storage, memory, numbers, name_segment, wake } = resources;
        let LogOptions { segment_bytes, chunk_bytes, .. } = options;
        if chunk_bytes == 0 || !chunk_bytes.is_multiple_of(IO_ALIGNMENT) || chunk_bytes > segment_bytes {
            let message = format!("log segments of {segment_bytes} bytes in chunks of {chunk_bytes}");
            return Err(Error::InvalidArgument(message));
        }
        let chunks = segment_bytes / chunk_bytes;
        let synced = SequenceNumber(identity.first.0.saturating_sub(1));
        poison::remove_poison(&*storage)?;
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
            // Writers add segments here, and a write must not allocate. The log threads are rarely two segments behind.
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
            waker: Waker(wake),
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

    /// Bytes of shared memory in use for shadows.
    pub fn memory_bytes(&self) -> u64 {
        self.shadows.bytes()
    }

    /// The number of segments that have no shadow for lack of shared memory.
    pub fn memory_refused(&self) -> u64 {
        self.shadows.refused()
    }

    /// Whether the log exceeds its budget, so that a switch of the memory generation should free some of it.
    pub fn over_budget(&self) -> bool {
        self.bytes() > self.options.budget_bytes
    }

    /// Whether a writer that uses up the current segment finds the next one ready.
    #[cfg(feature = "async")]
    pub fn has_segment_ready(&self) -> bool {
        self.state.lock().next.is_some()
    }

    /// Sets whether the disk is full. If so, segments are as small as possible, and no file is kept for reuse, so that
    /// little space is enough for many deletes and many openings.
    pub fn set_scarce(&self, scarce: bool) {
        self.scarce.store(scarce, Ordering::Relaxed);
        if !scarce {
            // A segment that could not be made is tried again before a writer gets the error.
            let mut state = self.state.lock();
            state.next_error = None;
            self.wake(&mut state, LogTask::MakeReady);
        }
    }

    /// Chunks of the next segment.
    pub(super) fn chunks_of_next(&self) -> usize {
        chunks_where(self.scarce.load(Ordering::Relaxed), self.options)
    }

    /// Notes that a manifest edit was synced. A mark records it, so that its loss is detected.
    pub fn note_manifest_edit(&self, edit: u64) {
        let mut state = self.state.lock();
        if edit > state.manifest_edit {
            state.manifest_edit = edit;
            self.leave_mark(&mut state);
        }
    }

    /// Leaves a mark with the current state in the current segment. The next sync makes it durable.
    pub(super) fn leave_mark(&self, state: &mut State) {
        let mark = state.next_mark(self.synced());
        state.current.write_mark(mark);
    }
}

/// Chunks of a segment that is made now.
fn chunks_where(scarce: bool, options: LogOptions) -> usize {
    let chunks = options.segment_bytes / options.chunk_bytes;
    if scarce { (SCARCE_SEGMENT_BYTES / options.chunk_bytes).clamp(1, chunks) } else { chunks }
}
