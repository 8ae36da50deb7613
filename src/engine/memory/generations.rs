//! The stack of memory generations: when to switch to a new one, and waiting for incorporations (`docs/concurrency.md`,
//! G2).
//!
//! Any thread. Order of locks: `switching`, then the scheduler's state; nothing is locked inside a switch but the view.

use crate::engine::events::Events;
use crate::engine::memory::write_space::{LargeWrite, Switch, WriteSpace};
use crate::engine::read::read_path::ReadPath;
use crate::engine::resources::shared_memory::{
    IDLE_AFTER, KEPT_BYTES, MEMTABLE_BYTES_SMALL, MemoryUser, NewestMemtable, SharedMemory,
};
use crate::engine::scheduler::{Driver, Scheduler};
use crate::engine::shared_components::SharedComponents;
use crate::engine::state::budget::{Budget, GENERATIONS_MAX};
use crate::engine::state::delays::Delays;
use crate::engine::state::generation::Generation;
use crate::engine::state::health::Health;
use crate::engine::state::view::View;
use crate::engine::types::events::Event;
use crate::memory::{Memtable, MemtablePool};
use crate::util::planted::planted;
use crate::util::sync::{Arc, AtomicU64, Mutex, MutexGuard, Ordering};
use crate::util::{Error, Result, SequenceNumber};
use std::sync::Weak;
use std::time::Duration;

/// While generations fill within this time, the next one is larger.
const GROWS_WITHIN: Duration = Duration::from_secs(30);
/// By this factor. So the generations of the beginning are few, and take little longer to incorporate than a large one.
const GROWTH: usize = 4;

/// See the module.
pub(crate) struct Generations {
    read: Arc<ReadPath>,
    pub(crate) memtables: Arc<MemtablePool>,
    health: Arc<Health>,
    scheduler: Arc<Scheduler>,
    pub(crate) delays: Delays,
    events: Events,
    /// Writes that wait for memory, and since when there are some.
    stalls: Mutex<(usize, Duration)>,
    budget: Budget,
    /// Every number up to this one is in branch files.
    incorporated: AtomicU64,
    /// One switch at a time.
    switching: Mutex<()>,
    pub(crate) space: WriteSpace,
    /// When the newest generation began, nanoseconds.
    began: AtomicU64,
    /// The size of the newest generation when it was last seen to grow, and when that was.
    activity: Mutex<(usize, Duration)>,
    memory: Arc<SharedMemory>,
    /// Itself, as a member of `memory`.
    own: Weak<dyn MemoryUser>,
}

impl Generations {
    pub(crate) fn new(
        shared: &SharedComponents,
        memtables: Arc<MemtablePool>,
        memory: &Arc<SharedMemory>,
        incorporated: SequenceNumber,
    ) -> Arc<Self> {
        let now = shared.scheduler.clock.now();
        let generations = Arc::new_cyclic(|own: &Weak<Self>| Self {
            read: Arc::clone(&shared.read),
            memtables,
            health: Arc::clone(&shared.health),
            scheduler: Arc::clone(&shared.scheduler),
            delays: Delays::default(),
            events: shared.events.clone(),
            stalls: Mutex::default(),
            budget: shared.budget,
            incorporated: incorporated.0.into(),
            switching: Mutex::new(()),
            space: WriteSpace::new(),
            began: AtomicU64::new(now.as_nanos() as u64),
            activity: Mutex::new((0, now)),
            memory: Arc::clone(memory),
            own: Weak::<Self>::clone(own),
        });
        memory.add(Weak::clone(&generations.own));
        generations
    }

    /// Every number up to this one is in branch files.
    pub(crate) fn incorporated(&self) -> SequenceNumber {
        SequenceNumber(self.incorporated.load(Ordering::Acquire))
    }

    /// Notes that the generation with this last number is in branch files.
    pub(crate) fn note_incorporated(&self, end: SequenceNumber) {
        self.incorporated.store(end.0, Ordering::Release);
        self.scheduler.note_memory_freed();
    }

    /// Whether to switch away from a generation: because of its memory, or because of the value files that are removed
    /// only with it. A few keys with large values that are updated in place fill the disk and no memory.
    pub(crate) fn is_full(&self, generation: &Generation) -> bool {
        generation.memtable.is_full() || generation.value_bytes() >= self.budget.value_files
    }

    /// Whether a switch because of the log budget frees enough log. Otherwise a log that waits for a slow incorporation
    /// would cut memory into ever smaller generations. A few keys that are updated in place fill the log and no memory:
    /// then the newest generation alone has half of the log.
    pub(crate) fn is_worth_switching(&self, generation: &Generation) -> bool {
        let waiting = self.read.view.load().generations.len() > 1;
        generation.memtable.bytes() * 4 > generation.memtable.soft_bytes() || !waiting
    }

    /// Returns once `full` is no longer the newest generation: switches, and waits for an incorporation if the stack
    /// has its full height.
    pub(crate) fn make_room(&self, full: &Arc<Generation>) -> Result<()> {
        let mut switching = self.switching.lock();
        let mut stall = Stall { generations: self, since: None };
        loop {
            self.health.check()?;
            let view = self.read.view.load_full();
            if !Arc::ptr_eq(view.newest(), full) {
                return Ok(());
            }
            if planted!(view.generations.len() < GENERATIONS_MAX, Bug::GenerationsWithoutBound => true) {
                return self.switch_from(&view).map(|_| ());
            }
            drop(view);
            // Checked only now: a blocking error that other work has resolved since must not prevent a switch.
            self.health.blocking_error()?;
            stall.begin();
            self.scheduler.wait_for_memory(&mut switching);
        }
    }

    /// As `make_room`, for a background thread. False if it would have to wait: for memory, or for a thread that waits for
    /// memory and so for the caller's work.
    pub(crate) fn make_room_at_once(&self, full: &Arc<Generation>) -> Result<bool> {
        let Some(_switching) = self.try_lock() else { return Ok(false) };
        let view = self.read.view.load_full();
        if !Arc::ptr_eq(view.newest(), full) {
            return Ok(true);
        }
        if view.generations.len() >= GENERATIONS_MAX {
            return Ok(false);
        }
        self.switch_from(&view).map(|_| true)
    }

    /// Locks switches, for `switch`.
    #[cfg(test)]
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.switching.lock()
    }

    /// Locks switches, unless another thread has.
    pub(crate) fn try_lock(&self) -> Option<MutexGuard<'_, ()>> {
        self.switching.try_lock()
    }

    /// Switches to a new generation (rule G2). Returns the last number of the old one.
    pub(crate) fn switch(&self, _switching: &MutexGuard<'_, ()>) -> Result<SequenceNumber> {
        self.switch_from(&self.read.view.load_full())
    }

    fn switch_from(&self, view: &View) -> Result<SequenceNumber> {
        self.switch_to(view, self.next_bytes(&view.newest().memtable))
    }

    /// The size that the next generation should have.
    fn next_bytes(&self, newest: &Memtable) -> usize {
        let largest = self.memtables.soft_bytes();
        let began = Duration::from_nanos(self.began.load(Ordering::Relaxed));
        let has_grown = newest.is_full() && self.scheduler.clock.now().saturating_sub(began) < GROWS_WITHIN;
        (if has_grown { newest.soft_bytes() * GROWTH } else { newest.soft_bytes() }).min(largest)
    }

    /// Takes a Memtable of up to `wanted` bytes. A smaller one if the system has no address space for that.
    fn take(&self, wanted: usize, switch: &Switch<'_>) -> Result<Arc<Memtable>> {
        let mut bytes = wanted;
        loop {
            match self.memtables.take_sized(bytes, switch.slack_bytes()) {
                Ok(memtable) => return Ok(memtable),
                Err(_) if bytes > MEMTABLE_BYTES_SMALL => bytes = (bytes / GROWTH).max(MEMTABLE_BYTES_SMALL),
                Err(error) => {
                    let what = "reserve address space for a Memtable of the store in";
                    return Err(Error::io(what, self.read.storage.path(), error));
                }
            }
        }
    }

    fn switch_to(&self, view: &View, wanted: usize) -> Result<SequenceNumber> {
        let old = Arc::clone(view.newest());
        let granted = self.memory.grant(wanted);
        let switch = self.space.begin_switch();
        let memtable = self.take(granted, &switch)?;
        let new = Arc::new(Generation::pending(memtable, &self.read.value_file_refs));
        self.read.view.update(|current| {
            let mut generations = Vec::with_capacity(current.generations.len() + 1);
            generations.push(Arc::clone(&new));
            generations.extend(current.generations.iter().cloned());
            (generations, current.disk.clone())
        });
        let end = self.read.sequencer.last();
        new.set_start(end);
        old.set_end(end);
        switch.published();
        self.note_began();
        self.scheduler.wake_workers();
        if granted < wanted {
            self.memory.ask_others(&self.own, granted);
        }
        Ok(end)
    }

    fn note_began(&self) {
        let now = self.scheduler.clock.now();
        self.began.store(now.as_nanos() as u64, Ordering::Relaxed);
        *self.activity.lock() = (0, now);
    }

    /// Announces a write that needs this much memory, before it loads the view.
    pub(crate) fn enter(&self, bytes: usize) -> Option<LargeWrite<'_>> {
        self.space.enter(bytes)
    }

    /// Notes whether the newest generation has grown since the last call. If it belongs to an idle store that shares its
    /// memory, gives its memory back. To be called about once a second.
    pub(crate) fn note_activity(&self) {
        let bytes = self.read.view.load().newest().memtable.bytes();
        let now = self.scheduler.clock.now();
        let idle = {
            let mut activity = self.activity.lock();
            if activity.0 != bytes {
                *activity = (bytes, now);
            }
            now.saturating_sub(activity.1)
        };
        if idle >= IDLE_AFTER && self.memory.is_shared() && self.newest().soft_bytes > KEPT_BYTES {
            self.give_up_newest();
        }
    }

    /// Inserts a generation that was read from the log, below the one that new writes go to.
    pub(crate) fn insert_recovered(&self, generation: Arc<Generation>) {
        self.read.view.update(|current| {
            let mut generations = current.generations.clone();
            generations.insert(1, generation);
            (generations, current.disk.clone())
        });
        self.scheduler.wake_workers();
    }

    /// Switches if the newest generation may have this number, so that it is incorporated without waiting for more writes;
    /// unless memory is full, or another thread has the lock: it may be waiting for memory, and so for the caller's work.
    pub(crate) fn switch_soon(&self, number: SequenceNumber) -> Result<()> {
        let Some(switching) = self.try_lock() else { return Ok(()) };
        let view = self.read.view.load_full();
        let is_there = number > view.newest_start() && !view.newest().memtable.is_empty();
        if is_there && view.generations.len() < GENERATIONS_MAX {
            self.switch(&switching)?;
        }
        Ok(())
    }

    /// Incorporates everything that is in memory now: switches if the newest generation holds anything, and waits.
    pub(crate) fn incorporate_all(&self) -> Result<()> {
        self.incorporate_all_unless(&|| false)
    }

    /// The same; stops waiting once `is_cancelled`.
    pub(crate) fn incorporate_all_unless(&self, is_cancelled: &dyn Fn() -> bool) -> Result<()> {
        self.health.check()?;
        let end = {
            let switching = self.switching.lock();
            let view = self.read.view.load_full();
            if !view.newest().memtable.is_empty() {
                self.switch(&switching)?
            } else if let Some(end) = view.generations.get(1).and_then(|generation| generation.end()) {
                end
            } else {
                return Ok(());
            }
        };
        self.wait_until(|| self.incorporated() >= end || is_cancelled())
    }

    /// Waits until `done`. An error if background work cannot get there.
    pub(crate) fn wait_until(&self, mut done: impl FnMut() -> bool) -> Result<()> {
        self.scheduler.wait_until(|| {
            let is_done = done();
            if !is_done {
                self.health.blocking_error()?;
            }
            Ok(is_done)
        })
    }

    /// How many threads may fill generations while the store opens.
    pub(crate) fn threads_at_open(&self) -> usize {
        match self.scheduler.driver() {
            Driver::Threads => self.budget.workers,
            Driver::Deterministic => 1,
        }
    }
}

impl MemoryUser for Generations {
    fn newest(&self) -> NewestMemtable {
        let view = self.read.view.load();
        let idle = self.scheduler.clock.now().saturating_sub(self.activity.lock().1);
        NewestMemtable {
            soft_bytes: view.newest().memtable.soft_bytes(),
            idle,
            others_wait: view.generations.len() > 1,
        }
    }

    fn give_up_newest(&self) {
        let is_blocked = self.health.check().is_err() || self.health.is_full();
        let Some(_switching) = self.try_lock().filter(|_| !is_blocked) else { return };
        let view = self.read.view.load_full();
        if view.generations.len() == 1 {
            // If there is no address space for a small one either, the large one stays.
            let _ = self.switch_to(&view, MEMTABLE_BYTES_SMALL.min(self.memtables.soft_bytes()));
        }
    }
}

/// A write that waits for memory. It is counted when the wait ends.
struct Stall<'a> {
    generations: &'a Generations,
    since: Option<Duration>,
}

impl Stall<'_> {
    /// Notes that it waits from now on. Does nothing if it waits already.
    fn begin(&mut self) {
        if self.since.is_some() {
            return;
        }
        let now = self.generations.scheduler.clock.now();
        self.since = Some(now);
        let mut stalls = self.generations.stalls.lock();
        if stalls.0 == 0 {
            stalls.1 = now;
            self.generations.events.add(|| Event::Stalled);
        }
        stalls.0 += 1;
    }
}

impl Drop for Stall<'_> {
    fn drop(&mut self) {
        let Some(since) = self.since else { return };
        let now = self.generations.scheduler.clock.now();
        self.generations.delays.note_stalled(now.saturating_sub(since).as_nanos() as u64);
        let mut stalls = self.generations.stalls.lock();
        stalls.0 -= 1;
        if stalls.0 == 0 {
            let lasted = now.saturating_sub(stalls.1);
            self.generations.events.add(|| Event::StallEnded { lasted });
        }
    }
}
