//! What each writing thread keeps for itself: its number slot, its half-used log chunk, its counters.
//!
//! A thread borrows a state for the length of one operation from a thread-local lease; when the thread ends, the lease
//! hands the state back to the store, and the next new thread goes on with it, chunk and all (`protocol.md`, Numbers). So
//! the number of slots is the number of threads that ever wrote at once. Lease and store share the place where the state
//! lies between operations, so that a store that closes takes it, with the mapping of the log, from threads that live on.
//!
//! At most `LEASES_MAX` threads have a lease; more of them take a state from the common pool for each operation. *Else:* hundreds of
//! threads that write now and then hold a log chunk and a piece of the Memtable each, most of it empty.

use crate::log::LogWriter;
use crate::memory::MemtableWriter;
use crate::util::sequencer::Slot;
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering};
use crossbeam_utils::CachePadded;
use crossbeam_utils::atomic::AtomicCell;
use std::cell::RefCell;
use std::sync::Weak;

/// More than write at once on most machines.
const LEASES_MAX: usize = 64;
/// How many operations without a lease go by between two looks for leases whose threads are gone.
const LOOK_EVERY: u64 = 1024;

/// Figures that one thread counts; others only read them.
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
    /// Adds to a counter that only the calling thread writes: no locked instruction needed.
    pub(crate) fn add(counter: &AtomicU64, amount: u64) {
        counter.store(counter.load(Ordering::Relaxed) + amount, Ordering::Relaxed);
    }
}

/// One thread's own things.
pub(crate) struct ThreadState {
    pub(crate) slot: Arc<Slot>,
    pub(crate) writer: LogWriter,
    pub(crate) memory: MemtableWriter,
    pub(crate) counters: Arc<CachePadded<WriteCounters>>,
    pub(crate) delay: super::backpressure::WriterDelay,
}

/// The states of one store that no thread has borrowed, and all counters.
pub(crate) struct WriterThreads {
    #[expect(clippy::vec_box, reason = "a state moves between pool, lease and operation as a pointer")]
    idle: Mutex<Vec<Box<ThreadState>>>,
    counters: Mutex<Vec<Arc<CachePadded<WriteCounters>>>>,
    /// The places of all leases, those of threads that are gone for a while, too.
    places: Mutex<Vec<Arc<Place>>>,
    /// Operations that found no lease.
    declined: AtomicU64,
}

/// Where a thread's state lies between its operations.
type Place = AtomicCell<Option<Box<ThreadState>>>;
const _: () = assert!(Place::is_lock_free());

struct Lease {
    threads: Weak<WriterThreads>,
    place: Arc<Place>,
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let (Some(threads), Some(state)) = (self.threads.upgrade(), self.place.take()) {
            threads.idle.lock().push(state);
        }
    }
}

thread_local! {
    static LEASES: RefCell<Vec<Lease>> = const { RefCell::new(Vec::new()) };
}

impl WriterThreads {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            idle: Mutex::default(),
            counters: Mutex::default(),
            places: Mutex::default(),
            declined: AtomicU64::new(0),
        })
    }

    /// The calling thread's state for one operation; `make` builds one where no idle one is left.
    pub(crate) fn borrow(
        self: &Arc<Self>,
        make: impl FnOnce(Arc<CachePadded<WriteCounters>>) -> ThreadState,
    ) -> Borrowed<'_> {
        let kept = LEASES
            .try_with(|leases| {
                let mut leases = leases.borrow_mut();
                leases.iter_mut().find(|lease| std::ptr::eq(lease.threads.as_ptr(), Arc::as_ptr(self)))?.place.take()
            })
            .unwrap_or_default();
        let state = kept.or_else(|| self.idle.lock().pop()).unwrap_or_else(|| {
            let counters = Arc::new(CachePadded::new(WriteCounters::default()));
            self.counters.lock().push(Arc::clone(&counters));
            Box::new(make(counters))
        });
        Borrowed { threads: self, state: Some(state) }
    }

    /// Sums one counter over all threads.
    pub(crate) fn sum(&self, counter: impl Fn(&WriteCounters) -> &AtomicU64) -> u64 {
        self.counters.lock().iter().map(|counters| counter(counters).load(Ordering::Relaxed)).sum()
    }

    /// Drops every state, so that their log chunks go. For closing, when no operation runs any more.
    pub(crate) fn clear(&self) {
        self.idle.lock().clear();
        self.places.lock().drain(..).for_each(|place| drop(place.take()));
    }

    /// A place for one more lease, where there may be one.
    fn new_place(&self) -> Option<Arc<Place>> {
        let mut places = self.places.lock();
        if places.len() >= LEASES_MAX {
            // WriterThreads without a lease come here after each operation, and the counts are where others write.
            if !self.declined.fetch_add(1, Ordering::Relaxed).is_multiple_of(LOOK_EVERY) {
                return None;
            }
            places.retain(|place| Arc::strong_count(place) > 1);
        }
        if places.len() >= LEASES_MAX {
            return None;
        }
        let place = Arc::new(Place::default());
        places.push(Arc::clone(&place));
        Some(place)
    }

    fn give_back(self: &Arc<Self>, state: Box<ThreadState>) {
        let mut state = Some(state);
        let known = LEASES.try_with(|leases| {
            let mut leases = leases.borrow_mut();
            let lease = leases.iter_mut().find(|lease| std::ptr::eq(lease.threads.as_ptr(), Arc::as_ptr(self)))?;
            state = lease.place.swap(state.take());
            Some(())
        });
        // Locks are taken while the leases are not borrowed: in a model, threads share them.
        if let Ok(None) = known
            && let Some(place) = self.new_place()
        {
            place.store(state.take());
            let _ = LEASES.try_with(|leases| {
                let mut leases = leases.borrow_mut();
                // The moment to forget stores that were closed since.
                leases.retain(|lease| lease.threads.strong_count() > 0);
                leases.push(Lease { threads: Arc::downgrade(self), place });
            });
        }
        // The thread has no lease or is ending, or an operation within an operation took the place: into the common pool.
        if let Some(state) = state {
            self.idle.lock().push(state);
        }
    }
}

/// A borrowed state; goes back when dropped.
pub(crate) struct Borrowed<'a> {
    threads: &'a Arc<WriterThreads>,
    state: Option<Box<ThreadState>>,
}

impl Borrowed<'_> {
    pub(crate) fn state(&mut self) -> &mut ThreadState {
        match &mut self.state {
            Some(state) => state,
            None => unreachable!("a borrowed state is there until drop"),
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
