//! The log as the store uses it: syncs, the sync interval, and what happens after a failure. Any thread.
//!
//! The pool syncs at the interval while it is *armed*, so that a store without unsynced data costs nothing.
//!
//! Invariants:
//! 1. While a number is taken and not synced, the pool is armed, or the thread that took the number is about to arm it.
//!    Disarming first clears the flag and then reads the counter by a read-modify-write. A writer takes its number, a
//!    read-modify-write as well, and then reads the flag. If the number comes first, the disarming thread sees it and
//!    arms again; otherwise the writer finds the flag cleared.
//! 2. Arming starts the interval. So a power loss takes at most what was written in one interval, and what is written
//!    during the sync that follows.

use super::directory::locks::LockCheck;
use super::latency::Call;
use super::read::read_path::ReadPath;
use super::scheduler::Scheduler;
use super::shared_components::SharedComponents;
use super::state::health::Health;
use crate::engine::pool::Lane;
use crate::log::Log;
use crate::util::sync::{Arc, AtomicBool, Mutex, Ordering};
use crate::util::{Error, Result, SequenceNumber};
use std::time::Duration;

/// The log of this opening of the store: its log epoch, and the first number in it.
pub(crate) struct OpenedLog {
    pub(crate) log: Arc<Log>,
    pub(crate) epoch: u64,
    pub(crate) start: SequenceNumber,
    /// Writes of earlier epochs that recovery discarded.
    pub(crate) discarded: u64,
}

/// See the module.
pub(crate) struct DurableLog {
    pub(crate) log: Arc<Log>,
    /// The log epoch of this opening of the store, and the first number in it.
    pub(crate) epoch: u64,
    pub(crate) start: SequenceNumber,
    /// Writes of earlier epochs that recovery discarded.
    pub(crate) discarded: u64,
    read: Arc<ReadPath>,
    health: Arc<Health>,
    scheduler: Arc<Scheduler>,
    lock: Arc<LockCheck>,
    /// `None`: there are no background syncs.
    interval: Option<Duration>,
    /// When the next background sync is due.
    due: Mutex<Duration>,
    /// Whether the pool looks at the interval. Always, with `Driver::Deterministic`.
    is_armed: AtomicBool,
}

impl DurableLog {
    pub(crate) fn new(
        shared: &SharedComponents,
        opened: OpenedLog,
        interval: Option<Duration>,
        lock: Arc<LockCheck>,
    ) -> Arc<Self> {
        let OpenedLog { log, epoch, start, discarded } = opened;
        let interval = interval.filter(|interval| !interval.is_zero());
        Arc::new(Self {
            log,
            epoch,
            start,
            discarded,
            read: Arc::clone(&shared.read),
            health: Arc::clone(&shared.health),
            scheduler: Arc::clone(&shared.scheduler),
            lock,
            interval,
            due: Mutex::new(next_sync(shared.scheduler.clock.now(), interval)),
            is_armed: AtomicBool::new(true),
        })
    }

    /// Makes every write up to a number durable.
    pub(crate) fn sync_through(&self, number: SequenceNumber) -> Result<()> {
        if self.log.synced() >= number {
            return Ok(());
        }
        self.check_lock()?;
        let _timed = self.read.latencies.time(Call::Sync);
        let read = &self.read;
        let synced = self.log.sync_through(&read.sequencer, number, &|| read.values.sync());
        synced.inspect_err(|error| {
            if !matches!(error, Error::Closed) {
                self.poison(error);
            }
        })
    }

    /// Returns once the kernel has the record of a write.
    #[inline]
    pub(crate) fn write_through(&self, number: SequenceNumber) -> Result<()> {
        self.log.write_through(&self.read.sequencer, number).map_err(|error| {
            if matches!(error, Error::Closed) {
                return error;
            }
            self.poison(&error);
            // Not the error itself: the write has its number, so a full disk is no reason to repeat it.
            self.health.check().err().unwrap_or(error)
        })
    }

    /// Makes every write before the call durable.
    pub(crate) fn sync(&self) -> Result<()> {
        self.health.check()?;
        self.sync_through(self.read.sequencer.last())
    }

    /// Syncs if the interval has passed since the last background sync. Returns false if there was nothing to sync.
    pub(crate) fn sync_when_due(&self) -> Result<bool> {
        if self.scheduler.clock.now() < *self.due.lock() {
            return Ok(false);
        }
        let last = self.read.sequencer.last_relaxed();
        let is_behind = last > self.log.synced();
        if is_behind {
            self.sync_through(last)?;
        }
        *self.due.lock() = next_sync(self.scheduler.clock.now(), self.interval);
        Ok(is_behind)
    }

    /// Notes that a number was taken.
    #[inline]
    pub(crate) fn note_write(&self) {
        if !self.is_armed.load(Ordering::Acquire) {
            self.arm();
        }
    }

    #[cold]
    fn arm(&self) {
        if !self.is_armed.swap(true, Ordering::AcqRel) {
            *self.due.lock() = next_sync(self.scheduler.clock.now(), self.interval);
            self.scheduler.wake_log(Lane::Finish);
        }
    }

    /// Whether the pool looks at the interval.
    pub(crate) fn is_armed(&self) -> bool {
        self.is_armed.load(Ordering::Acquire)
    }

    /// Disarms if nothing is unsynced; without an interval, if nothing was written after `seen`. Returns whether it is
    /// armed.
    pub(crate) fn is_armed_after(&self, seen: SequenceNumber) -> bool {
        let settled = if self.interval.is_some() { self.log.synced() } else { seen };
        if self.read.sequencer.last_relaxed() > settled {
            return true;
        }
        self.is_armed.store(false, Ordering::Release);
        let is_armed = self.read.sequencer.last() > settled;
        if is_armed {
            self.is_armed.store(true, Ordering::Release);
        }
        is_armed
    }

    /// How long it is until the next background sync.
    pub(crate) fn time_until_sync(&self) -> Duration {
        self.due.lock().saturating_sub(self.scheduler.clock.now())
    }

    /// Stops the store if the writer's lock file was removed or replaced. Whoever makes something durable, or removes a
    /// file, calls this before. No sync has failed, so there is no poison mark.
    pub(crate) fn check_lock(&self) -> Result<()> {
        self.lock.check().inspect_err(|error| self.poison(error))
    }

    /// After an internal failure: the store takes no more writes; reads go on. The next opening still trusts what the
    /// kernel has.
    pub(crate) fn poison(&self, error: &Error) {
        self.health.poison(error);
        self.log.halt(error);
        self.scheduler.wake_all();
    }

    /// For a writer that could not get room in the log: if the log has failed, so has the store. *Otherwise,* where the
    /// writer itself has made a segment, the store would refuse writes and its statistics would not say why.
    pub(crate) fn note_failure(&self) {
        if let Err(error @ Error::ReadOnly { .. }) = self.log.check() {
            self.health.poison(&error);
            self.scheduler.wake_all();
        }
    }

    /// After a failed sync: like `poison`, and the next opening does not trust what the kernel has.
    pub(crate) fn poison_disk(&self, error: &Error) {
        self.health.poison(error);
        self.log.poison(error);
        self.scheduler.wake_all();
    }
}

/// When the next background sync is due.
fn next_sync(now: Duration, interval: Option<Duration>) -> Duration {
    interval.map_or(Duration::MAX, |interval| now.saturating_add(interval))
}
