//! The full disk (`docs/recovery.md`, Full disk). Any thread; `try_leave_full` is background work.
//!
//! A thread that finds no space calls `meet_full_disk`. From then on puts are refused, and the ballast is given up, so
//! that work which frees space finds some; one part of it goes only to merges, or to memory if nothing can be merged.
//! Background work then incorporates Memtables with deletes, compacts where deletes are dense, and tries to get the
//! ballast back with a margin; once it has it, the store takes puts again.

use super::ballast::{Ballast, ReserveInputs};
use super::deleted_values::DeletedValues;
use super::in_vain::InVain;
use crate::disk::{Component, JobKind};
use crate::engine::changes::change_log::ChangeLog;
use crate::engine::memory::generations::Generations;
use crate::engine::read::read_path::ReadPath;
use crate::engine::scheduler::{Driver, Scheduler};
use crate::engine::shared_components::SharedComponents;
use crate::engine::state::budget::Budget;
use crate::engine::state::freeing::Freeing;
use crate::engine::state::health::Health;
use crate::log::Log;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Mutex, Ordering};
use crate::util::{Error, Result, SequenceNumber};
use std::time::Duration;

/// How often background work checks for space.
pub(crate) const SPACE_CHECK: Duration = Duration::from_millis(200);
/// How often it checks the size of the ballast while the disk is not full.
const BALLAST_CHECK: Duration = Duration::from_millis(5);
/// It checks again earlier if the reserve grew by this part.
const BALLAST_CHECK_PART: u64 = 8;
/// Deletes are gathered for this long before they are incorporated, unless they fill `1 / GATHER_PART` of a Memtable.
const GATHER: Duration = Duration::from_secs(1);
const GATHER_PART: usize = 16;
/// A merge that found no space is tried again once there is more by this part, and by so much at least.
const ROOM_GROWTH_PART: u64 = 8;
const ROOM_GROWTH_MIN: u64 = 64 << 10;
/// The part of the ballast that merges leave to the rewrites of small files without their dead part. *Otherwise:* a merge takes
/// all space and frees none, because its files are shared, and then there is none for a rewrite.
const REWRITE_BYTES: u64 = 128 << 10;
/// A job may write so many times what it reads, because small files are mostly overhead.
const OUTPUT_PART: u64 = 2;
/// The part of the reserve that puts of writes that free space may take while the disk is full, and the part of the ballast
/// if it is smaller. *Otherwise:* nothing merges what they overwrite, because it has no tombstones. So they could take
/// all of the reserve, and nothing would be left for deletes.
const FREEING_PART: u64 = 8;
const FREEING_BALLAST_PART: u64 = 4;
/// The longest time that a write waits for space.
const PATIENCE: Duration = Duration::from_secs(5);

/// How many times a put waits for a moment in a store without threads, where time stands still while background work runs.
const WAITS_MAX: u32 = 500;

/// What finds no space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SpaceNeed {
    /// The log, or an incorporation.
    Memory,
    /// A merge that frees space.
    Merge,
    /// The rewrite of a file without its dead part: it frees space at once, and merges do only after some of these.
    Rewrite,
    /// Anything, while there is no other work that may free space.
    LastResort,
}

/// The latest check of the ballast's size.
#[derive(Default)]
struct BallastCheck {
    /// The next one is due then, or if the reserve is greater than this.
    due_at: Duration,
    due_above: u64,
    is_out_of_date: bool,
}

/// A put that waits for space.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PutWait {
    began: Duration,
    /// When background work was last seen that may free space.
    busy_at: Duration,
    count: u32,
}

/// The space of a store's disk: the ballast, and the state of a full disk.
pub(crate) struct Space {
    pub(crate) ballast: Ballast,
    pub(crate) deleted_values: DeletedValues,
    /// Ranges whose space is to be freed.
    pub(crate) freeing: Freeing,
    read: Arc<ReadPath>,
    log: Arc<Log>,
    disk: Arc<Component>,
    health: Arc<Health>,
    changes: Arc<ChangeLog>,
    generations: Arc<Generations>,
    scheduler: Arc<Scheduler>,
    budget: Budget,
    ballast_check: Mutex<BallastCheck>,
    /// When a Memtable was switched away from for its deletes last.
    switched: Mutex<Option<Duration>>,
    /// Whether the newest Memtable may hold deletes.
    has_deletes: AtomicBool,
    /// The room in which a merge on the full disk failed last, or in which failed ones were let try again.
    tried_room: Mutex<Option<u64>>,
    /// When a put has waited in vain.
    in_vain: InVain,
    /// Bytes that puts of writes that free space may still take while the disk is full (rule F9).
    left_for_freeing: AtomicU64,
}

impl Space {
    pub(crate) fn new(
        shared: &SharedComponents,
        log: &Arc<Log>,
        generations: &Arc<Generations>,
        changes: &Arc<ChangeLog>,
    ) -> Arc<Self> {
        Arc::new(Self {
            ballast: Ballast::find(&shared.read.storage),
            deleted_values: DeletedValues::default(),
            freeing: Freeing::default(),
            read: Arc::clone(&shared.read),
            log: Arc::clone(log),
            disk: Arc::clone(&shared.disk),
            health: Arc::clone(&shared.health),
            changes: Arc::clone(changes),
            generations: Arc::clone(generations),
            scheduler: Arc::clone(&shared.scheduler),
            budget: shared.budget,
            ballast_check: Mutex::default(),
            switched: Mutex::default(),
            has_deletes: AtomicBool::default(),
            tried_room: Mutex::default(),
            in_vain: InVain::default(),
            left_for_freeing: AtomicU64::new(0),
        })
    }

    /// The current inputs of the reserve.
    fn reserve_inputs(&self) -> ReserveInputs {
        let view = self.read.view.load();
        ReserveInputs {
            memory: view.generations.iter().map(|generation| generation.memtable.bytes() as u64).sum(),
            tree: view.disk.bytes(),
            memtable: self.budget.memtable as u64,
            segment: self.budget.segment as u64,
        }
    }

    /// Whether background work should change the size of the ballast.
    pub(crate) fn wants_adjustment(&self) -> bool {
        if self.health.is_full() {
            return false;
        }
        let (now, inputs) = (self.scheduler.clock.now(), self.reserve_inputs());
        let mut check = self.ballast_check.lock();
        if now >= check.due_at || inputs.bytes() > check.due_above {
            let due_above = inputs.bytes() + inputs.bytes() / BALLAST_CHECK_PART;
            let is_out_of_date = self.ballast.is_out_of_date(inputs);
            *check = BallastCheck { due_at: now + BALLAST_CHECK, due_above, is_out_of_date };
        }
        check.is_out_of_date
    }

    /// Changes the size of the ballast. If the disk is too full for that, the ballast keeps its size, which suffices for
    /// what is in memory so far, and puts are refused.
    pub(crate) fn adjust_ballast(&self) -> Result<()> {
        self.ballast_check.lock().is_out_of_date = false;
        match self.ballast.adjust(self.reserve_inputs()) {
            Err(error) if error.is_disk_full() && self.give_up_changes() => self.adjust_ballast(),
            Err(error) if error.is_disk_full() => {
                self.enter_full(&error);
                Ok(())
            }
            done => done,
        }
    }

    /// Closing: an emptied store gives its ballast back. On a full disk the next opening needs it.
    pub(crate) fn close(&self) {
        if !self.health.is_full() {
            // Growing may find no space; then the ballast stays as it is.
            let _ = self.ballast.adjust(self.reserve_inputs());
        }
    }

    /// Something found no space. Gives up what is kept for followers; if there is nothing, refuses puts from now on. Returns true if
    /// space was freed, so that another try is worthwhile.
    pub(crate) fn meet_full_disk(&self, error: &Error, need: SpaceNeed) -> bool {
        if self.give_up_changes() {
            return true;
        }
        self.enter_full(error);
        let keep = match need {
            SpaceNeed::Memory => self.ballast.part_for_merges(self.reserve_inputs()),
            SpaceNeed::Merge => REWRITE_BYTES,
            SpaceNeed::Rewrite | SpaceNeed::LastResort => 0,
        };
        // Spare log files are removed first, because they are not needed.
        let has_freed = self.log.drop_spares() > 0 || self.ballast.release(keep);
        if has_freed {
            self.disk.clear_failures();
        }
        if need != SpaceNeed::Memory {
            *self.tried_room.lock() = self.room();
        }
        has_freed
    }

    /// Something found no space: gives up what is kept for followers, before anything of the store suffers. Returns false if there is
    /// nothing.
    pub(crate) fn give_up_changes(&self) -> bool {
        let has_freed = self.changes.give_up();
        if has_freed {
            self.disk.clear_failures();
        }
        has_freed
    }

    /// On a full disk, before a job that reads `bytes`: gives up the part of the ballast that it may take, if it may need
    /// that. *Otherwise:* it fails, giving the ballast up lets every failed job try again, and the next check takes the space
    /// back. If all of them together take longer than the time between two checks, none fails for good, and so no leaf is
    /// split until its parts find space.
    pub(crate) fn make_room_for(&self, kind: JobKind, bytes: u64) {
        let keep = match kind {
            JobKind::Merge | JobKind::SampleLeaf => REWRITE_BYTES,
            JobKind::RewriteLive => 0,
            // They need next to no space.
            JobKind::Flush | JobKind::Split | JobKind::BuildMaplet | JobKind::Join => return,
        };
        let available = self.read.storage.available().ok().flatten().unwrap_or(0);
        if self.health.is_full() && available / OUTPUT_PART < bytes {
            self.ballast.release(keep);
        }
    }

    /// On a full disk: makes free space the ballast's part for merges. Not while one runs, because it needs this space.
    fn reserve_for_merges(&self) {
        if self.scheduler.state.lock().jobs == 0 {
            self.ballast.reserve_for_merges(self.reserve_inputs());
        }
    }

    /// Refuses puts from now on.
    pub(crate) fn enter_full(&self, error: &Error) {
        if !self.health.is_full() {
            // There may be deletes from before.
            self.note_delete();
            let inputs = ReserveInputs { memory: 0, ..self.reserve_inputs() };
            let part = (inputs.bytes() / FREEING_PART).min(self.ballast.bytes() / FREEING_BALLAST_PART);
            self.left_for_freeing.store(part, Ordering::Relaxed);
        }
        self.log.set_scarce(true);
        self.health.enter_full(error);
        self.deleted_values.want();
        self.scheduler.ask_for_workers();
    }

    /// Files were removed. On a full disk their space is reserved for merges, and jobs that found none may try again.
    pub(crate) fn space_was_freed(&self) {
        if self.health.is_full() {
            self.reserve_for_merges();
            self.disk.clear_failures();
        }
    }

    /// On a full disk: lets merges that found no space try again if there is clearly more by now. *Otherwise:* one that failed
    /// beside an incorporation, which took the space for a moment, is never tried again. Segments of the log go after the
    /// merge that failed, too, and other programs free space.
    fn retry_with_more_room(&self) {
        let Some(room) = self.room() else { return };
        let mut tried = self.tried_room.lock();
        if tried.is_some_and(|tried| room >= tried + (tried / ROOM_GROWTH_PART).max(ROOM_GROWTH_MIN)) {
            *tried = Some(room);
            self.disk.clear_failures();
        }
    }

    /// The space that a merge would find on the full disk; `None` if the storage does not report its free space.
    fn room(&self) -> Option<u64> {
        let available = self.read.storage.available().ok().flatten()?;
        Some(available + self.ballast.bytes())
    }

    /// Lets those jobs try again for which there is enough space by now; all of them if the storage does not report its
    /// free space.
    pub(crate) fn retry_backed_off(&self) {
        let available = self.read.storage.available().ok().flatten();
        self.disk.release_backoff(available.unwrap_or(u64::MAX));
    }

    /// Whether the disk is full, or has so little space that the ballast takes the whole reserve.
    pub(crate) fn is_scarce(&self) -> bool {
        self.health.is_full() || self.ballast.is_scarce(self.reserve_inputs())
    }

    /// Whether work that nobody needs may write so many bytes: afterwards there is still free space of a quarter of the
    /// store. True if the storage has no such figure, false if asking for it fails.
    pub(crate) fn is_ample_for(&self, bytes: u64) -> bool {
        let available = self.read.storage.available().map_or(0, |available| available.unwrap_or(u64::MAX));
        available / 2 >= bytes && available.saturating_sub(bytes) >= self.read.view.load().disk.bytes() / 4
    }

    /// On a full disk: takes bytes for the puts of a write that frees space. False if not as many are left.
    pub(crate) fn take_for_freeing(&self, bytes: u64) -> bool {
        let take = |left: u64| left.checked_sub(bytes);
        self.left_for_freeing.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// Notes a delete on a full disk.
    pub(crate) fn note_delete(&self) {
        self.has_deletes.store(true, Ordering::Relaxed);
    }

    /// On a full disk: takes puts again if there is enough space by now. Otherwise switches the generation if it holds
    /// deletes, so that they are incorporated and compaction can act on them. Returns whether it did either.
    pub(crate) fn try_leave_full(&self) -> bool {
        if !self.health.is_full() {
            return false;
        }
        let restore = || self.ballast.restore(self.reserve_inputs());
        if restore() || (self.give_up_changes() && restore()) {
            self.disk.clear_failures();
            self.log.set_scarce(false);
            self.health.leave_full();
            self.scheduler.note_memory_freed();
            return true;
        }
        self.reserve_for_merges();
        self.retry_with_more_room();
        // A thread that switches already does the same, or waits for space.
        let Some(switching) = self.generations.try_lock() else { return false };
        let view = self.read.view.load_full();
        let memtable = &view.newest().memtable;
        let has_deletes = !memtable.is_empty() && self.has_deletes.load(Ordering::Relaxed);
        if !has_deletes || view.generations.len() > 1 || !self.are_gathered(memtable.bytes()) {
            return false;
        }
        // Before the switch: a later delete is in the next Memtable, or is in this one and was counted.
        self.has_deletes.store(false, Ordering::Relaxed);
        self.generations.switch(&switching).is_ok()
    }

    /// Waits a moment for a delete that finds no space in the log, as long as background work makes progress. `started`
    /// is set by the first wait. Returns false if waiting has become useless.
    pub(crate) fn wait_for_space(&self, started: &mut Option<Duration>) -> bool {
        if self.health.blocking_error().is_err() {
            return false;
        }
        let clock = &self.scheduler.clock;
        let started = *started.get_or_insert_with(|| clock.now());
        self.scheduler.wait_briefly();
        clock.now().saturating_sub(started) < PATIENCE
    }

    /// Whether a large value of so many bytes leaves the reserve free, and the margin (rule F10). True if the storage does not
    /// report its free space.
    pub(crate) fn has_room_for_value(&self, bytes: u64) -> bool {
        let has_room = || {
            let Some(available) = self.read.storage.available().ok().flatten() else { return true };
            let inputs = self.reserve_inputs();
            available >= bytes + inputs.bytes().saturating_sub(self.ballast.bytes()) + inputs.margin()
        };
        has_room() || (self.give_up_changes() && has_room())
    }

    /// Waits a moment for a large value that finds no space, while background work looks for values that newer data hides, and
    /// frees their space. Returns false if waiting is useless.
    pub(crate) fn wait_for_value(&self, wait: &mut Option<PutWait>) -> bool {
        if self.health.blocking_error().is_err() || self.read.value_file_refs.count() == 0 {
            return false;
        }
        if wait.is_none() && !self.deleted_values.in_vain.was_at(self.state()) {
            self.deleted_values.want();
            self.scheduler.ask_for_workers();
        }
        self.wait_while_busy(wait, &self.deleted_values.in_vain)
    }

    /// Waits until puts are taken again, for one with `WriteOptions::waits_for_space` that found the disk full (rule F12).
    /// Returns this or the latest such error if waiting is useless. In a store without threads nothing happens meanwhile.
    /// Waiting goes on while incorporations are blocked: what frees their space may still run.
    #[cold]
    pub(crate) fn wait_until_puts(&self, wait: &mut Option<PutWait>, mut full: Error) -> Result<()> {
        while self.scheduler.driver() == Driver::Threads && self.wait_while_busy(wait, &self.in_vain) {
            match self.health.check_put() {
                Err(error) if error.is_disk_full() => full = error,
                checked => return checked,
            }
        }
        Err(full)
    }

    /// The state of the store in which a wait may be in vain.
    fn state(&self) -> (u64, SequenceNumber) {
        (self.read.view.load().version, self.read.sequencer.last())
    }

    /// Waits a moment, unless background work has done nothing for a while that may free space.
    fn wait_while_busy(&self, wait: &mut Option<PutWait>, in_vain: &InVain) -> bool {
        if wait.is_none() && in_vain.was_at(self.state()) {
            return false;
        }
        let clock = &self.scheduler.clock;
        let now = clock.now();
        let wait = wait.get_or_insert(PutWait { began: now, busy_at: now, count: 0 });
        self.scheduler.wait_briefly();
        let now = clock.now();
        let has_deletes =
            || self.has_deletes.load(Ordering::Relaxed) && !self.read.view.load().newest().memtable.is_empty();
        let is_idle = || self.scheduler.state.lock().is_idle();
        if self.deleted_values.is_wanted() || self.freeing.is_any() || !is_idle() || has_deletes() {
            wait.busy_at = now;
        }
        wait.count += u32::from(self.scheduler.driver() == Driver::Deterministic);
        let goes_on = now.saturating_sub(wait.began) < PATIENCE
            && now.saturating_sub(wait.busy_at) < 2 * SPACE_CHECK
            && wait.count < WAITS_MAX;
        if !goes_on {
            in_vain.note(self.state());
        }
        goes_on
    }

    /// Whether enough deletes are in memory to incorporate them.
    fn are_gathered(&self, bytes: usize) -> bool {
        let mut switched = self.switched.lock();
        let now = self.scheduler.clock.now();
        let is_enough = bytes >= self.budget.memtable / GATHER_PART
            || switched.is_none_or(|last| now.saturating_sub(last) >= GATHER);
        if is_enough {
            *switched = Some(now);
        }
        is_enough
    }
}
