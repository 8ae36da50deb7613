//! The log of one opening of a store: its state, and how it starts. The other files of this folder add its operations.

use super::basics::group::Group;
use super::files::{self, FreeFile};
use super::log_task::{Due, LogTask};
use super::poison::{self, Halt};
use super::recovery::OldSegment;
use super::segment::Segment;
use super::settings::{LogIdentity, LogOptions, LogResources, Namer, Waker};
use super::shadow::shadows::Shadows;
use super::sizing::Sizing;
use crate::format::log_segment::Mark;
use crate::io::{Clock, Storage};
use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, Ordering};
use crate::util::{Error, FileNumbers, Result, SequenceNumber};

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
    pub(super) clock: Arc<dyn Clock>,
    /// See `set_scarce`.
    pub(super) scarce: AtomicBool,
    pub(super) halted: AtomicBool,
    pub(super) halt: Mutex<Option<Halt>>,
    pub(super) synced: Group,
    /// What the kernel has, if shadows are memory of the process.
    pub(super) written: Group,
    /// Bytes of chunks in use and of adopted segments.
    pub(super) bytes: AtomicU64,
    /// Locked while a segment is made; one thread at a time. `sealing` likewise, while segments are sealed.
    pub(super) making: Mutex<()>,
    pub(super) sealing: Mutex<()>,
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
    /// Whether so much of the current segment is in use that a next one should be made.
    pub(super) next_wanted: bool,
    pub(super) sizing: Sizing,
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
    /// All segments but the current one are sealed: the log is closed.
    pub(super) fn note_sealed(&mut self, segments: Vec<Arc<Segment>>) {
        self.retiring.clear();
        self.dedicated.clear();
        self.next = None;
        let current = &self.current;
        self.sealed.extend(segments.into_iter().filter(|segment| !Arc::ptr_eq(segment, current)));
    }

    /// Whether so much of the current segment is in use that the next one should be made ready.
    pub(super) fn is_partly_used(&self) -> bool {
        self.sizing.is_partly_used(self.current.size(), self.current.claimed())
    }

    /// Whether a next segment should be made.
    pub(super) fn wants_next(&self) -> bool {
        self.next_wanted && self.next.is_none()
    }

    /// A mark with the current state.
    pub(super) fn next_mark(&mut self, synced_through: SequenceNumber) -> Mark {
        self.mark_counter += 1;
        Mark { counter: self.mark_counter, synced_through, manifest_edit: self.manifest_edit }
    }
}

impl Log {
    /// Starts a log epoch with its first segment. Requires that the `LogRecovered` edit of the earlier epochs is
    /// durable, and that no segment has this epoch.
    pub fn create(resources: LogResources, identity: LogIdentity, options: LogOptions) -> Result<Arc<Self>> {
        let LogResources { storage, clock, numbers, name_segment, wake } = resources;
        let LogOptions { segment_bytes, chunk_bytes, .. } = options;
        if chunk_bytes == 0 || !chunk_bytes.is_multiple_of(IO_ALIGNMENT) || chunk_bytes > segment_bytes {
            let message = format!("log segments of {segment_bytes} bytes in chunks of {chunk_bytes}");
            return Err(Error::InvalidArgument(message));
        }
        let synced = SequenceNumber(identity.first.0.saturating_sub(1));
        poison::remove_poison(&*storage)?;
        let mark = Some(Mark { counter: 1, synced_through: synced, manifest_edit: 0 });
        let (shadows, sizing) = (Shadows::new(&storage, &numbers), Sizing::new(options, clock.now()));
        let size = sizing.next(options.scarce);
        let shadow = if options.scarce && shadows.are_mapped() { None } else { shadows.take(size) };
        let plan = files::Plan { identity: &identity, size, dedicated: false, mark, shadow: shadow.as_ref() };
        let current = Arc::new(files::create_segment(&*storage, numbers.take(), plan)?);
        let edit = files::name_segment(&*storage, &current, synced, &name_segment)?;
        let state = State {
            current,
            next: None,
            next_wanted: false,
            sizing,
            next_error: None,
            dedicated: Vec::new(),
            // Writers add segments here, and a write must not allocate. The log threads are rarely two segments behind.
            retiring: Vec::with_capacity(8),
            sealed: Vec::new(),
            old: Vec::new(),
            free: Vec::new(),
            due: Due::NONE,
            mark_counter: 1,
            manifest_edit: 0,
        };
        let log = Arc::new(Self {
            storage,
            identity,
            numbers,
            options,
            clock,
            scarce: AtomicBool::new(options.scarce),
            halted: AtomicBool::new(false),
            halt: Mutex::new(None),
            synced: Group::new(synced),
            written: Group::new(synced),
            bytes: AtomicU64::new(0),
            making: Mutex::new(()),
            sealing: Mutex::new(()),
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
        self.synced.reached()
    }

    /// Bytes of log that are not recycled yet: chunks handed out, and adopted segments.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Bytes of all shadows.
    pub fn shadow_bytes(&self) -> u64 {
        self.shadows.bytes()
    }

    /// The number of segments that got no shadow.
    pub fn shadows_refused(&self) -> u64 {
        self.shadows.refused()
    }

    /// Whether the log exceeds its budget, so that a switch of the memory generation should free some of it.
    pub fn over_budget(&self) -> bool {
        self.bytes() > self.options.budget_bytes
    }

    /// Whether writers will find a segment for some time: there is a next one, or hardly any of the current one is in
    /// use.
    #[cfg(feature = "async")]
    pub fn has_segment_ready(&self) -> bool {
        let state = self.state.lock();
        state.next.is_some() || !state.is_partly_used()
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
