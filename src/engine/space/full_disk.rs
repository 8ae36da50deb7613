//! What happens on a full disk (`docs/recovery.md`, Full disk). Any thread; `try_leave_full` is background work.
//!
//! Who finds no room calls `meet_full_disk`: puts are refused from then on, and the ballast is given up, so that what frees
//! space finds room; but for the part that merges need, which goes only to them, or where nothing can be merged. Background
//! work then writes Memtables with deletes out, compacts where deletes are dense, and tries to get the ballast back with a
//! margin beside it; once it has, the store takes puts again.

use super::ballast::Needs;
use crate::engine::engine::{Driver, Engine};
use crate::util::sync::{AtomicBool, Mutex, Ordering};
use crate::util::{Error, Result};
use std::time::Duration;

/// How often background work looks for room.
pub(crate) const LOOK: Duration = Duration::from_millis(200);
/// Deletes are gathered for so long before they are written out, unless they fill this part of a Memtable.
const GATHER: Duration = Duration::from_secs(1);
const GATHER_PART: usize = 16;
/// How long a delete waits for room at most.
const DELETE_PATIENCE: Duration = Duration::from_secs(5);
/// How long it waits at a time, where it does background work itself.
const MOMENT: Duration = Duration::from_millis(20);

/// What finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpaceNeed {
    /// The log, or a Memtable that is written out.
    Memory,
    /// A Memtable that is written out, while nothing can be merged.
    LastResort,
    /// A merge that frees space.
    Merge,
}

/// What a full disk has made the store do. Any thread.
#[derive(Debug, Default)]
pub(crate) struct FullDiskRecovery {
    /// When a Memtable was written out for its deletes last.
    switched: Mutex<Option<Duration>>,
    /// The newest Memtable may hold deletes.
    deletes: AtomicBool,
}

impl Engine {
    /// What the ballast must have room for now.
    pub(crate) fn ballast_needs(&self) -> Needs {
        let view = self.view.load();
        Needs {
            memory: view.generations.iter().map(|generation| generation.memtable.bytes() as u64).sum(),
            tree: view.disk.bytes(),
            memtable: self.budget.memtable as u64,
            segment: self.budget.segment as u64,
        }
    }

    /// Whether background work should grow the ballast.
    pub(crate) fn wants_ballast(&self) -> bool {
        !self.health.is_full() && self.ballast.is_short(self.ballast_needs())
    }

    /// Makes or grows the ballast. Where the disk is too full for that, what there is of it stays: it has room for what is in
    /// memory so far, and no more may come.
    pub(crate) fn grow_ballast(&self) -> Result<()> {
        match self.ballast.grow(self.ballast_needs()) {
            Err(error) if error.is_disk_full() => {
                self.enter_full(&error);
                Ok(())
            }
            done => done,
        }
    }

    /// Something found no room. Refuses puts from here on; true where room was made, so that it is worth trying again.
    pub(crate) fn meet_full_disk(&self, error: &Error, need: SpaceNeed) -> bool {
        self.enter_full(error);
        let keep = if need == SpaceNeed::Memory { self.ballast_needs().merge_bytes() } else { 0 };
        // First what nobody needs.
        let made = self.log.drop_spares() > 0 || self.ballast.give_up(keep);
        if made {
            self.disk.clear_failures();
        }
        made
    }

    /// Refuses puts from here on.
    pub(crate) fn enter_full(&self, error: &Error) {
        if !self.health.is_full() {
            // There may be some from before.
            self.note_delete();
        }
        self.log.set_scarce(true);
        self.health.enter_full(error);
    }

    /// Files were removed: on a full disk their room is held for merges, and what found none may try again.
    pub(crate) fn room_came_back(&self) {
        if self.health.is_full() {
            self.ballast.retake(self.ballast_needs());
            self.disk.clear_failures();
        }
    }

    /// Lets those merges try again for which there is room by now. Where the storage does not say how much there is, all of them.
    pub(crate) fn retry_backed_off(&self) {
        let available = self.storage.available().ok().flatten();
        self.disk.release_backoff(available.unwrap_or(u64::MAX));
    }

    /// A delete came in while the disk is full.
    pub(crate) fn note_delete(&self) {
        self.full_disk_recovery.deletes.store(true, Ordering::Relaxed);
    }

    /// On a full disk: takes puts again if there is room by now; else has deletes in memory written out, so that compaction
    /// can act on them. Whether it did either.
    pub(crate) fn try_leave_full(&self) -> bool {
        if !self.health.is_full() {
            return false;
        }
        if self.ballast.restore(self.ballast_needs()) {
            self.disk.clear_failures();
            self.log.set_scarce(false);
            self.health.leave_full();
            self.room.notify_all();
            return true;
        }
        self.ballast.retake(self.ballast_needs());
        // Whoever switches already is doing the same, or waits for room.
        let Some(_switching) = self.switching.try_lock() else { return false };
        let view = self.view.load_full();
        let memtable = &view.newest().memtable;
        let deletes = !memtable.is_empty() && self.full_disk_recovery.deletes.load(Ordering::Relaxed);
        if !deletes || view.generations.len() > 1 || !self.is_gathered(memtable.bytes()) {
            return false;
        }
        // Before the switch: what comes later is in the next Memtable, or stands in this one and was seen.
        self.full_disk_recovery.deletes.store(false, Ordering::Relaxed);
        self.switch(&view);
        true
    }

    /// For a delete that finds no room in the log: waits a moment for background work, as long as that gets anywhere, but
    /// not for ever: `patience` begins with the first wait. False where it is no use.
    pub(crate) fn wait_for_room(&self, patience: &mut Option<Duration>) -> bool {
        if self.health.blocking_error().is_err() {
            return false;
        }
        let started = *patience.get_or_insert_with(|| self.clock.now());
        match self.driver {
            Driver::Threads => self.work.wait_a_moment(),
            Driver::Deterministic => {
                if !self.step() {
                    self.clock.sleep(MOMENT);
                }
            }
        }
        self.clock.now().saturating_sub(started) < DELETE_PATIENCE
    }

    fn is_gathered(&self, bytes: usize) -> bool {
        let mut switched = self.full_disk_recovery.switched.lock();
        let now = self.clock.now();
        let enough = bytes >= self.budget.memtable / GATHER_PART
            || switched.is_none_or(|last| now.saturating_sub(last) >= GATHER);
        if enough {
            *switched = Some(now);
        }
        enough
    }
}
