//! The state of each writing thread: its number slot, its half-used log chunk, its place in the Memtable, its counters.
//!
//! A thread borrows a state for one operation. Between operations the state is in a cell that the thread and the store
//! share. When the thread ends, the state goes to the store's pool, and the next new thread continues with it and its
//! log chunk. So there are only as many states as threads that ever wrote at once. A store that closes takes all states,
//! which refer to the mapped log, also out of the cells of threads that live on, and waits for those that are borrowed
//! (`docs/concurrency.md`, X1).
//!
//! At most `CELLS_MAX` threads have a cell; others take a state from the pool for each operation. *Otherwise:* each of
//! hundreds of threads that rarely write holds a log chunk and a piece of the Memtable, most of it unused.

use super::backpressure::WriterDelay;
use crate::log::LogWriter;
use crate::memory::MemtableWriter;
use crate::util::planted::planted;
use crate::util::sequencer::Slot;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, Backoff, Mutex, Ordering};
use crossbeam_utils::CachePadded;
use crossbeam_utils::atomic::AtomicCell;
use std::cell::RefCell;
use std::sync::Weak;

/// More threads than write at once on most machines.
const CELLS_MAX: usize = 64;
/// The cells of threads that have ended are removed once per this many operations of threads without a cell.
const CLEANUP_INTERVAL: u64 = 1024;

/// The counters of one thread; other threads only read them.
#[derive(Debug, Default)]
pub(crate) struct WriteCounters {
    pub(crate) writes: AtomicU64,
    pub(crate) user_bytes: AtomicU64,
    pub(crate) logged_bytes: AtomicU64,
    pub(crate) slowed_writes: AtomicU64,
    pub(crate) slowed_ns: AtomicU64,
    pub(crate) garbage_slowed_writes: AtomicU64,
    pub(crate) garbage_slowed_ns: AtomicU64,
}

impl WriteCounters {
    /// Adds to a counter that only the calling thread writes, so a plain store suffices.
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }
}

/// See the module.
pub(crate) struct ThreadState {
    pub(crate) slot: Arc<Slot>,
    pub(crate) writer: LogWriter,
    pub(crate) memory: MemtableWriter,
    pub(crate) counters: Arc<CachePadded<WriteCounters>>,
    pub(crate) delay: WriterDelay,
}

/// The states and counters of all writing threads of one store.
pub(crate) struct WriterThreads {
    #[expect(clippy::vec_box, reason = "a state moves between pool, cell and operation as a pointer")]
    idle: Mutex<Vec<Box<ThreadState>>>,
    /// One for each state that was made.
    counters: Mutex<Vec<Arc<CachePadded<WriteCounters>>>>,
    /// No state is made any more. Changes under the lock of `counters`; otherwise only a hint.
    is_retired: CachePadded<AtomicBool>,
    /// The cells of all threads that have one. Those of threads that have ended are removed later.
    cells: Mutex<Vec<Arc<StateCell>>>,
    /// Operations of threads that got no cell.
    without_cell: AtomicU64,
}

/// All states of a store that closes. Dropping them releases their log chunks.
pub(crate) struct RetiredStates {
    #[expect(clippy::vec_box, reason = "as in `WriterThreads`")]
    _states: Vec<Box<ThreadState>>,
}

/// Holds a thread's state between its operations.
type StateCell = AtomicCell<Option<Box<ThreadState>>>;
const _: () = assert!(StateCell::is_lock_free());

/// A thread's cell for one store.
struct ThreadCell {
    threads: Weak<WriterThreads>,
    cell: Arc<StateCell>,
}

impl Drop for ThreadCell {
    fn drop(&mut self) {
        if let (Some(threads), Some(state)) = (self.threads.upgrade(), self.cell.take()) {
            threads.idle.lock().push(state);
        }
    }
}

thread_local! {
    /// The thread's cells, one for each store that it writes to.
    static THREAD_CELLS: RefCell<Vec<ThreadCell>> = const { RefCell::new(Vec::new()) };
}

impl WriterThreads {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            idle: Mutex::default(),
            counters: Mutex::default(),
            is_retired: AtomicBool::new(false).into(),
            cells: Mutex::default(),
            without_cell: AtomicU64::new(0),
        })
    }

    /// Borrows a state for one operation of the calling thread. Calls `make` for a new one if none is idle. `None` once
    /// the states are retired.
    #[inline]
    pub(crate) fn borrow(
        self: &Arc<Self>,
        make: impl FnOnce(Arc<CachePadded<WriteCounters>>) -> ThreadState,
    ) -> Option<Borrowed<'_>> {
        if self.is_retired.load(Ordering::Relaxed) {
            return None;
        }
        let own = THREAD_CELLS
            .try_with(|cells| {
                let mut cells = cells.borrow_mut();
                cells.iter_mut().find(|own| std::ptr::eq(own.threads.as_ptr(), Arc::as_ptr(self)))?.cell.take()
            })
            .unwrap_or_default();
        let state = match own {
            Some(state) => state,
            None => self.idle_or_new(make)?,
        };
        Some(Borrowed { threads: self, state: Some(state) })
    }

    /// A state that no thread has, or a new one.
    #[cold]
    fn idle_or_new(
        &self,
        make: impl FnOnce(Arc<CachePadded<WriteCounters>>) -> ThreadState,
    ) -> Option<Box<ThreadState>> {
        if let Some(state) = self.idle.lock().pop() {
            return Some(state);
        }
        Some(Box::new(make(self.new_counters()?)))
    }

    /// The counters of a new state. `None` once the states are retired.
    fn new_counters(&self) -> Option<Arc<CachePadded<WriteCounters>>> {
        let mut counters = self.counters.lock();
        if self.is_retired.load(Ordering::Relaxed) {
            return None;
        }
        let new = Arc::new(CachePadded::new(WriteCounters::default()));
        counters.push(Arc::clone(&new));
        Some(new)
    }

    /// Sums one counter over all threads.
    pub(crate) fn sum(&self, counter: impl Fn(&WriteCounters) -> &AtomicU64) -> u64 {
        self.counters.lock().iter().map(|counters| counter(counters).load(Ordering::Relaxed)).sum()
    }

    /// Takes all states away, and waits for those that operations have borrowed. Later operations get none. For closing.
    pub(crate) fn retire(&self) -> RetiredStates {
        let made = {
            let counters = self.counters.lock();
            self.is_retired.store(true, Ordering::Relaxed);
            counters.len()
        };
        let (mut states, mut backoff) = (Vec::new(), Backoff::new());
        loop {
            states.append(&mut self.idle.lock());
            states.extend(self.cells.lock().iter().filter_map(|cell| cell.take()));
            if planted!(states.len() >= made, Bug::ClosingDoesNotWait => true) {
                return RetiredStates { _states: states };
            }
            backoff.wait();
        }
    }

    /// A new cell, unless there are `CELLS_MAX` already.
    fn new_cell(&self) -> Option<Arc<StateCell>> {
        let mut cells = self.cells.lock();
        if cells.len() >= CELLS_MAX {
            // Rarely, because threads without a cell come here after each operation, and other threads write the
            // reference counts.
            if !self.without_cell.fetch_add(1, Ordering::Relaxed).is_multiple_of(CLEANUP_INTERVAL) {
                return None;
            }
            cells.retain(|cell| Arc::strong_count(cell) > 1);
        }
        if cells.len() >= CELLS_MAX {
            return None;
        }
        let cell = Arc::new(StateCell::default());
        cells.push(Arc::clone(&cell));
        Some(cell)
    }

    /// Puts a state into the thread's cell, or into the pool.
    fn give_back(self: &Arc<Self>, state: Box<ThreadState>) {
        let mut state = Some(state);
        let found = THREAD_CELLS.try_with(|cells| {
            let mut cells = cells.borrow_mut();
            let own = cells.iter_mut().find(|own| std::ptr::eq(own.threads.as_ptr(), Arc::as_ptr(self)))?;
            state = own.cell.swap(state.take());
            Some(())
        });
        // No lock is taken while `THREAD_CELLS` is borrowed, because the threads of a model check share it.
        if let Ok(None) = found
            && let Some(cell) = self.new_cell()
        {
            cell.store(state.take());
            let _ = THREAD_CELLS.try_with(|cells| {
                let mut cells = cells.borrow_mut();
                // Also removes the cells of stores that were closed since.
                cells.retain(|own| own.threads.strong_count() > 0);
                cells.push(ThreadCell { threads: Arc::downgrade(self), cell });
            });
        }
        // The thread has no cell, or is ending, or an operation within this operation has filled the cell.
        if let Some(state) = state {
            self.idle.lock().push(state);
        }
    }
}

/// A borrowed state; given back on drop.
pub(crate) struct Borrowed<'a> {
    threads: &'a Arc<WriterThreads>,
    state: Option<Box<ThreadState>>,
}

impl Borrowed<'_> {
    pub(crate) fn state(&mut self) -> &mut ThreadState {
        match &mut self.state {
            Some(state) => state,
            None => unreachable!("a borrowed state is present until drop"),
        }
    }
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        if let Some(state) = self.state.take() {
            self.threads.give_back(state);
        }
    }
}
