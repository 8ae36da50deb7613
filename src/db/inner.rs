//! The parts of an open store, shared by its handle, its snapshots and iterators, and its background threads.

use super::backpressure::{BackgroundSpeed, Delays};
use super::ballast::Ballast;
use super::budget::Budget;
use super::full_disk::Relief;
use super::health::Health;
use super::lending::Lending;
use super::live_stats::Publisher;
use super::locks::Guard;
use super::options::Options;
use super::rate_limit::RateLimit;
use super::read_side::ReadSide;
use super::tasks::Work;
use super::threads::Threads;
use super::watches::Watches;
use crate::base::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, RwLock};
use crate::base::{Error, FileNumber, FileNumbers, Result, SequenceNumber};
use crate::disk::trunk::Trunk;
use crate::format::manifest_edit::ManifestEdit;
use crate::io::Clock;
use crate::log::{Log, NameSegment};
use crate::manifest::Manifest;
use crate::memory::MemtablePool;
use crossbeam_utils::CachePadded;
use std::collections::HashMap;
use std::ops::Deref;
use std::time::Duration;

/// What the edit mutex guards: the manifest, and what of its state is needed when edits come.
pub(super) struct Edits {
    pub(super) manifest: Manifest,
    /// The value files that each live branch file lists, where it lists any.
    pub(super) branch_values: HashMap<FileNumber, Vec<FileNumber>>,
}

impl Edits {
    /// What the log calls for every new segment.
    pub(super) fn name_segment(edits: &Arc<Mutex<Self>>) -> NameSegment {
        let edits = Arc::clone(edits);
        Box::new(move |segment, synced| {
            let log_segments_added = vec![segment];
            let edit = ManifestEdit { log_segments_added, log_synced: Some(synced), ..ManifestEdit::default() };
            edits.lock().manifest.append(&edit)
        })
    }
}

/// Who does the background work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Driver {
    /// Threads of the store's own.
    Threads,
    /// Whoever calls: a call that would wait for background work does it. No thread is started, and time is what the storage
    /// says, so what the store does is a pure function of the calls (`db/stepped.rs`).
    Stepped,
}

/// A store open for writing.
pub(super) struct Inner {
    /// What reading needs, by itself: snapshots and iterators hold this part alone.
    pub(super) read: Arc<ReadSide>,
    pub(super) options: Options,
    pub(super) budget: Budget,
    /// What is decided by time is decided by this.
    pub(super) clock: Arc<dyn Clock>,
    pub(super) numbers: Arc<FileNumbers>,
    pub(super) threads: Arc<Threads>,
    /// In a line of its own, since every writer looks there and hardly anybody writes.
    pub(super) watches: CachePadded<Watches>,
    /// Whether transactions may still commit. Closing waits for those that do; all else that writes borrows the handle that is closed.
    pub(super) commits: RwLock<bool>,
    /// `Stats::conflicts`.
    pub(super) conflicts: AtomicU64,
    /// `Stats::overtaken_updates`.
    pub(super) overtaken_updates: AtomicU64,
    pub(super) memtables: Arc<MemtablePool>,
    pub(super) lending: Lending,
    pub(super) log: Arc<Log>,
    /// This process's log generation, and the number from which it counts.
    pub(super) log_generation: u64,
    pub(super) log_start: SequenceNumber,
    pub(super) trunk: Trunk,
    pub(super) edits: Arc<Mutex<Edits>>,
    /// When the next background sync is due, where there are any.
    pub(super) sync_due: Mutex<Duration>,
    pub(super) ballast: Ballast,
    pub(super) relief: Relief,
    pub(super) health: Health,
    pub(super) speed: BackgroundSpeed,
    pub(super) delays: Delays,
    pub(super) write_limit: RateLimit,
    /// Every number up to this one is in branch files.
    pub(super) incorporated: AtomicU64,
    /// One switch of generations at a time; `room` tells waiting writers that a generation was incorporated.
    pub(super) switching: Mutex<()>,
    pub(super) room: Condvar,
    pub(super) work: Work,
    pub(super) driver: Driver,
    /// Whether a write without a log record happened, so that closing must flush.
    pub(super) unlogged: AtomicBool,
    pub(super) publisher: Publisher,
    pub(super) lock: Mutex<Option<Guard>>,
}

/// A store that is open for writing can be read.
impl Deref for Inner {
    type Target = ReadSide;

    fn deref(&self) -> &ReadSide {
        &self.read
    }
}

impl Inner {
    /// Makes everything up to a number durable.
    pub(super) fn sync_through(&self, number: SequenceNumber) -> Result<()> {
        let synced = self.log.sync_through(&self.sequencer, number, &|| self.values.sync());
        synced.inspect_err(|error| {
            if !matches!(error, Error::Closed) {
                self.poison(error);
            }
        })
    }

    /// After an internal failure: no more writes, reads go on. What the kernel has is still trusted at the next opening.
    pub(super) fn poison(&self, error: &Error) {
        self.health.poison(error);
        self.log.halt(&error.to_string());
        self.wake_all();
    }

    /// After a failed sync: as `poison`, and the next opening must not trust the kernel's copies either.
    pub(super) fn poison_disk(&self, error: &Error) {
        self.health.poison(error);
        self.log.poison(&error.to_string());
        self.wake_all();
    }

    fn wake_all(&self) {
        self.work.wake();
        self.room.notify_all();
    }
}

impl std::fmt::Debug for Inner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.storage.path()).finish_non_exhaustive()
    }
}
