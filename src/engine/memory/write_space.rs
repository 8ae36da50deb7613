//! The address space of a Memtable beyond its soft size: how much the writes need that are in progress when it becomes
//! full. A generation begins with as much as the present writers may need, not with as much as any may ever need.
//!
//! Any thread. Order of locks: `switching` of `Generations`, then this one. A writer locks it for moments.
//!
//! Invariants:
//! 1. A write that needs up to `SMALL_BYTES` of memory is *small*; each writer has one in progress. A Memtable has space
//!    for the small writes of all writers that there were when it was made, and of `WRITERS_SPARE` more. Beyond that
//!    number (`covered`) every write is a large one.
//! 2. A *large* write announces its size before it loads the view. A switch reads the sum, makes the new Memtable with
//!    space for it, and publishes it, all under the lock. So a write whose number belongs to a generation that was not
//!    the newest when it prepared (`Memtable::place_without_writer`) was counted when that generation was made, or has
//!    loaded a view with it.
//! 3. A large write prepares only in a Memtable whose slack has space for all large writes in progress (`fits`).
//!    Otherwise it begins a new generation first.

use crate::memory::{Memtable, SLACK_BYTES_MAX};
use crate::util::sync::{AtomicUsize, Condvar, Mutex, MutexGuard, Ordering};

/// See invariant 1.
pub(crate) const SMALL_BYTES: usize = 16 << 10;
/// What a writer of small writes may use of a Memtable: a write, a piece of the arena, an insert queue.
const WRITER_BYTES: usize = 64 << 10;
/// Writers that may begin while a generation is the newest.
const WRITERS_SPARE: usize = 64;
/// Space for large writes that every Memtable has: without it a single large batch would begin a generation.
const LARGE_BYTES_MIN: usize = 4 << 20;
/// The most that large writes in progress need together; more of them wait.
const LARGE_BYTES_MAX: usize = 2 << 30;
const _: () = assert!(2 * LARGE_BYTES_MAX + (1 << 30) <= SLACK_BYTES_MAX);

/// See the module.
pub(crate) struct WriteSpace {
    state: Mutex<State>,
    /// Signalled when a large write ends.
    ended: Condvar,
    writers: AtomicUsize,
    covered: AtomicUsize,
}

#[derive(Default)]
struct State {
    /// Bytes of the large writes in progress.
    large: usize,
    /// The most in this generation, and in the one before.
    large_most: usize,
    large_most_before: usize,
}

impl WriteSpace {
    pub(crate) fn new() -> Self {
        Self {
            state: Mutex::default(),
            ended: Condvar::new(),
            writers: AtomicUsize::new(0),
            covered: AtomicUsize::new(WRITERS_SPARE),
        }
    }

    /// The slack of a store's first Memtable, before there are writers.
    pub(crate) fn first_slack_bytes() -> usize {
        WRITERS_SPARE * WRITER_BYTES + LARGE_BYTES_MIN
    }

    /// Notes a writer that is about to begin its first write.
    pub(crate) fn add_writer(&self) {
        self.writers.fetch_add(1, Ordering::SeqCst);
    }

    /// Announces a write that needs `bytes` if it is large. Waits while others need too much. To be called before the
    /// view is loaded.
    pub(crate) fn enter(&self, bytes: usize) -> Option<LargeWrite<'_>> {
        if bytes <= SMALL_BYTES && self.writers.load(Ordering::SeqCst) <= self.covered.load(Ordering::SeqCst) {
            return None;
        }
        let bytes = bytes + WRITER_BYTES;
        let mut state = self.state.lock();
        while state.large > 0 && state.large + bytes > LARGE_BYTES_MAX {
            self.ended.wait(&mut state);
        }
        state.large += bytes;
        state.large_most = state.large_most.max(state.large);
        Some(LargeWrite { space: self, bytes })
    }

    /// Begins a switch. The new generation is published before the guard is dropped (invariant 2).
    pub(crate) fn begin_switch(&self) -> Switch<'_> {
        Switch { space: self, writers: self.writers.load(Ordering::SeqCst) + WRITERS_SPARE, state: self.state.lock() }
    }
}

/// A switch of generations in progress.
pub(crate) struct Switch<'a> {
    space: &'a WriteSpace,
    writers: usize,
    state: MutexGuard<'a, State>,
}

impl Switch<'_> {
    /// The slack that the new Memtable needs. Large writes of the near past count, because others like them follow.
    pub(crate) fn slack_bytes(&self) -> usize {
        let large = self.state.large_most.max(self.state.large_most_before);
        let large = (2 * large).next_power_of_two().max(LARGE_BYTES_MIN);
        (self.writers * WRITER_BYTES).min(1 << 30) + large
    }

    /// Notes that the new generation is published.
    pub(crate) fn published(mut self) {
        self.state.large_most_before = self.state.large_most;
        self.state.large_most = self.state.large;
        self.space.covered.store(self.writers.min((1 << 30) / WRITER_BYTES), Ordering::SeqCst);
    }
}

/// A large write in progress.
pub(crate) struct LargeWrite<'a> {
    space: &'a WriteSpace,
    bytes: usize,
}

impl LargeWrite<'_> {
    /// Whether a Memtable has space for all large writes in progress.
    pub(crate) fn fits(&self, memtable: &Memtable) -> bool {
        let small = self.space.covered.load(Ordering::SeqCst) * WRITER_BYTES;
        self.space.state.lock().large + small <= memtable.slack_bytes()
    }
}

impl Drop for LargeWrite<'_> {
    fn drop(&mut self) {
        self.space.state.lock().large -= self.bytes;
        self.space.ended.notify_all();
    }
}
