//! The parts of an open store, shared by its handle, its snapshots and iterators, and its background threads.

use super::background::memory_arbiter::MemoryArbiter;
use super::background::tasks::Scheduler;
use super::directory::locks::Guard;
use super::read::read_path::ReadPath;
use super::space::ballast::Ballast;
use super::space::full_disk::FullDiskRecovery;
use super::state::budget::Budget;
use super::state::health::Health;
use super::state::rate_limit::RateLimit;
use super::tools::live_stats::Publisher;
use super::types::options::Options;
use super::write::backpressure::{BackgroundSpeed, Delays};
use super::write::range_conflicts::RangeConflicts;
use super::write::writer_threads::Threads;
use crate::disk::Component;
use crate::format::manifest_edit::ManifestEdit;
use crate::io::Clock;
use crate::log::{Log, NameSegment};
use crate::manifest::Manifest;
use crate::memory::MemtablePool;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Condvar, Mutex, RwLock};
use crate::util::{Error, FileNumber, FileNumbers, Result, SequenceNumber};
use crossbeam_utils::CachePadded;
use std::collections::HashMap;
use std::ops::Deref;
use std::time::Duration;

/// What the edit mutex guards: the manifest, and what of its state is needed when edits come.
pub(crate) struct Edits {
    pub(crate) manifest: Manifest,
    /// The value files that each live branch file lists, where it lists any.
    pub(crate) branch_values: HashMap<FileNumber, Vec<FileNumber>>,
}

impl Edits {
    /// What the log calls for every new segment.
    pub(crate) fn name_segment(edits: &Arc<Mutex<Self>>) -> NameSegment {
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
pub(crate) enum Driver {
    /// Threads of the store's own.
    Threads,
    /// Whoever calls: a call that would wait for background work does it. No thread is started, and time is what the storage
    /// says, so what the store does is a pure function of the calls (`db/deterministic.rs`).
    Deterministic,
}

/// A store open for writing.
pub(crate) struct Engine {
    /// What reading needs, by itself: snapshots and iterators hold this part alone.
    pub(crate) read: Arc<ReadPath>,
    pub(crate) options: Options,
    pub(crate) budget: Budget,
    /// What is decided by time is decided by this.
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) numbers: Arc<FileNumbers>,
    pub(crate) threads: Arc<Threads>,
    /// In a line of its own, since every writer looks there and hardly anybody writes.
    pub(crate) range_conflicts: CachePadded<RangeConflicts>,
    /// Whether transactions may still commit. Closing waits for those that do; all else that writes borrows the handle that is closed.
    pub(crate) commits: RwLock<bool>,
    /// `Stats::conflicts`.
    pub(crate) conflicts: AtomicU64,
    /// `Stats::retried_updates`.
    pub(crate) retried_updates: AtomicU64,
    pub(crate) memtables: Arc<MemtablePool>,
    pub(crate) memory_arbiter: MemoryArbiter,
    pub(crate) log: Arc<Log>,
    /// This process's log generation, and the number from which it counts.
    pub(crate) log_epoch: u64,
    pub(crate) log_start: SequenceNumber,
    pub(crate) disk: Component,
    pub(crate) edits: Arc<Mutex<Edits>>,
    /// When the next background sync is due, where there are any.
    pub(crate) sync_due: Mutex<Duration>,
    pub(crate) ballast: Ballast,
    pub(crate) full_disk_recovery: FullDiskRecovery,
    pub(crate) health: Health,
    pub(crate) speed: BackgroundSpeed,
    pub(crate) delays: Delays,
    pub(crate) write_limit: RateLimit,
    /// Every number up to this one is in branch files.
    pub(crate) incorporated: AtomicU64,
    /// One switch of generations at a time; `room` tells waiting writers that a generation was incorporated.
    pub(crate) switching: Mutex<()>,
    pub(crate) room: Condvar,
    pub(crate) work: Scheduler,
    pub(crate) driver: Driver,
    /// Whether a write without a log record happened, so that closing must flush.
    pub(crate) unlogged: AtomicBool,
    pub(crate) publisher: Publisher,
    pub(crate) lock: Mutex<Option<Guard>>,
}

/// A store that is open for writing can be read.
impl Deref for Engine {
    type Target = ReadPath;

    fn deref(&self) -> &ReadPath {
        &self.read
    }
}

impl Engine {
    /// Makes everything up to a number durable.
    pub(crate) fn sync_through(&self, number: SequenceNumber) -> Result<()> {
        let synced = self.log.sync_through(&self.sequencer, number, &|| self.values.sync());
        synced.inspect_err(|error| {
            if !matches!(error, Error::Closed) {
                self.poison(error);
            }
        })
    }

    /// After an internal failure: no more writes, reads go on. What the kernel has is still trusted at the next opening.
    pub(crate) fn poison(&self, error: &Error) {
        self.health.poison(error);
        self.log.halt(&error.to_string());
        self.wake_all();
    }

    /// After a failed sync: as `poison`, and the next opening must not trust the kernel's copies either.
    pub(crate) fn poison_disk(&self, error: &Error) {
        self.health.poison(error);
        self.log.poison(&error.to_string());
        self.wake_all();
    }

    fn wake_all(&self) {
        self.work.wake();
        self.room.notify_all();
    }
}

impl std::fmt::Debug for Engine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store").field("path", &self.storage.path()).finish_non_exhaustive()
    }
}
