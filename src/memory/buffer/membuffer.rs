//! The Membuffer: the nodes that are in the hash index and not yet in the skiplist (FloDB §3.1, §4.1 to §4.3).
//!
//! FloDB copies entries from a separate hash table into the skiplist. Here one hash index finds the keys of both
//! levels, and a node is in the arena from the beginning, so a drain copies nothing. It sorts the nodes of a partition
//! and links them by multi-insert. A get does not need the order, so only scans wait for a drain, and a key is never in
//! two places. Incorporation sorts the remaining nodes itself, without linking them (`read/sealed_cursor.rs`).
//!
//! Any thread. A writer only pushes nodes to its own insert queue (`insert_queue.rs`). A thread that needs sorted order
//! hands the queued nodes over to the partitions, takes a partition's nodes and links them (`table/draining.rs`).
//!
//! Invariants:
//! 1. A node that was pushed is in an insert queue, or in one partition's list, or taken by the one thread that links
//!    it, or linked.
//! 2. A thread that links nodes of a partition keeps the partition marked busy from taking the nodes until all are
//!    linked. So when a drain of a partition returns, every node of the partition that was pushed before the drain
//!    began is linked: by this drain, or by one that this drain waited for.
//! 3. Boundaries change only while no partition is busy, so invariant 2 also holds across a change.
//! 4. Lists are moved and changed under the state's lock; nodes are linked without it.
//! 5. A thread that hands nodes over goes on until no node is left in a queue that was there when it began, even if it
//!    released the lock in between: a reader of a queue is `wanted` no less far than then.
//! 6. Boundaries change only when a node comes. So those of a sealed Memtable, whose queues are empty, stay.

use super::boundaries::Boundaries;
use super::component::MemoryComponent;
use super::insert_queue::QueueReader;
use crate::util::arena::Offset;
use crate::util::sync::{Arc, AtomicBool, AtomicUsize, Backoff, Condvar, Mutex, MutexGuard, Ordering};
use std::sync::Weak;

/// The boundaries that a store's Memtables have learned last. The next one begins with them, because its keys are most
/// often spread alike. Kept only as long as a Memtable or a scan has them.
#[derive(Debug, Default)]
pub struct LastBoundaries(Mutex<Weak<Boundaries>>);

impl LastBoundaries {
    fn get(&self) -> Arc<Boundaries> {
        self.0.lock().upgrade().unwrap_or_else(Boundaries::none)
    }

    pub(crate) fn set(&self, boundaries: &Arc<Boundaries>) {
        *self.0.lock() = Arc::downgrade(boundaries);
    }
}

/// See the module.
#[derive(Debug)]
pub struct Membuffer {
    pub(crate) state: Mutex<State>,
    pub(crate) last_boundaries: Arc<LastBoundaries>,
    /// Signalled when a partition is no longer busy.
    pub(crate) partition_freed: Condvar,
    /// The first of the insert queues that no drain has read yet. It has its own lock, so that a writer that adds a
    /// queue does not wait for a drain.
    pub(crate) new_queues: Mutex<Offset>,
    /// No node waits, and none will be added.
    finished: AtomicBool,
    /// The Memtable's size when queued nodes were last handed over, and whether it is time to do that again.
    pub(crate) handed_over_bytes: AtomicUsize,
    pub(crate) drain_due: AtomicBool,
    /// See `lock_first`.
    locking_first: AtomicUsize,
    /// See `Memtable::drain_one_by_one`.
    pub(crate) one_by_one: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) queues: Vec<QueueReader>,
    /// Nodes on their way from the queues to the partitions; empty outside of `hand_over_some`.
    pub(crate) moved: Vec<Offset>,
    pub(crate) boundaries: Arc<Boundaries>,
    /// The nodes that wait in each partition. Empty until the first nodes are handed over.
    pub(crate) waiting: Vec<Vec<Offset>>,
    pub(crate) busy: Vec<bool>,
    pub(crate) busy_count: usize,
    /// The number of nodes handed over so far, and the number from which on boundaries may be learned.
    pub(crate) arrived: u64,
    pub(crate) learn_at: u64,
    /// Whether too many nodes waited in some partition.
    pub(crate) is_uneven: bool,
}

impl State {
    fn new(boundaries: Arc<Boundaries>) -> Self {
        Self {
            queues: Vec::new(),
            moved: Vec::new(),
            boundaries,
            waiting: Vec::new(),
            busy: Vec::new(),
            busy_count: 0,
            arrived: 0,
            learn_at: 0,
            is_uneven: false,
        }
    }
}

/// A drained key range: partitions `from..to` of some boundaries.
#[derive(Clone, Debug)]
pub struct DrainedRange {
    pub(crate) boundaries: Arc<Boundaries>,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

impl DrainedRange {
    /// All keys.
    pub fn everything() -> Self {
        Self { boundaries: Boundaries::none(), from: 0, to: 1 }
    }

    /// The least key of the range; `None` if it has no lower bound.
    pub fn lower(&self) -> Option<&[u8]> {
        self.boundaries.lower(self.from)
    }

    /// The least key after the range; `None` if it has no upper bound.
    pub fn upper(&self) -> Option<&[u8]> {
        self.boundaries.upper(self.to - 1)
    }

    /// Whether a key is in the range.
    pub fn contains(&self, key: &[u8]) -> bool {
        self.lower().is_none_or(|lower| lower <= key) && self.upper().is_none_or(|upper| key < upper)
    }
}

impl Membuffer {
    /// An empty Membuffer. In the single-level kind every node is linked at once, so there is never anything to drain.
    pub fn new(component: MemoryComponent, last_boundaries: &Arc<LastBoundaries>) -> Self {
        Self {
            state: Mutex::new(State::new(last_boundaries.get())),
            last_boundaries: Arc::clone(last_boundaries),
            partition_freed: Condvar::new(),
            new_queues: Mutex::new(Offset::NULL),
            finished: AtomicBool::new(component == MemoryComponent::Skiplist),
            handed_over_bytes: AtomicUsize::new(0),
            drain_due: AtomicBool::new(false),
            locking_first: AtomicUsize::new(0),
            one_by_one: AtomicBool::new(false),
        }
    }

    /// Declares that no node waits and none will be added.
    pub fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    /// Whether a drain would find nothing, now and later.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }

    /// Locks `state`. A thread that hands many nodes over makes way (`give_way`).
    pub(crate) fn lock_first(&self) -> MutexGuard<'_, State> {
        self.locking_first.fetch_add(1, Ordering::Relaxed);
        let state = self.state.lock();
        self.locking_first.fetch_sub(1, Ordering::Relaxed);
        state
    }

    /// Releases `state` while other threads wait in `lock_first`, but not for ever: more of them may come. *Otherwise:* a
    /// lock that is released for an instant is taken again before a waiting thread wakes up.
    pub(crate) fn give_way(&self, state: &mut MutexGuard<'_, State>) {
        if self.locking_first.load(Ordering::Relaxed) > 0 {
            MutexGuard::unlocked(state, || self.let_others_first());
        }
    }

    /// The wait of `give_way`.
    fn let_others_first(&self) {
        const ROUNDS: usize = 100;
        let mut backoff = Backoff::new();
        for _ in 0..ROUNDS {
            if self.locking_first.load(Ordering::Relaxed) == 0 {
                return;
            }
            backoff.wait();
        }
    }
}

/// The capacity of an insert queue's chunk, for a Memtable of a soft size.
pub fn queue_capacity(soft_bytes: usize) -> u32 {
    (soft_bytes / 4096).clamp(14, 1022) as u32
}
