//! The Membuffer: the nodes that are in the hash index and not yet in the skiplist (FloDB §3.1, §4.1 to §4.3).
//!
//! FloDB copies entries from a hash table of its own into the skiplist. Here one hash index finds the keys of both levels, and an entry's
//! node lies in the arena from the beginning, so that draining copies nothing: nodes are sorted, by partition, and linked by
//! multi-insert. A get never needs the order, so only scans wait for a drain, and a key never is in two places. Incorporation sorts
//! what is left by itself, without linking it (`sealed_cursor.rs`).
//!
//! Any thread. Writers only `push` to feeds of their own (`queue.rs`). Whoever needs order hands the feeds' nodes over to the
//! partitions, takes a partition's nodes and links them.
//!
//! Invariants:
//! 1. A node that was pushed is in a feed, or in one partition's list, or with the one thread that links it, or linked.
//! 2. Who links nodes of a partition has it marked busy from the taking to the end. So when a drain of a partition returns, every
//!    node of its keys that was pushed before the drain began is linked: it was taken and linked by this drain, or by one that
//!    this drain waited for.
//! 3. Boundaries change only while no partition is busy, so that invariant 2 holds over a change.
//! 4. Lists are moved and changed under the state's lock; links are made outside it.

use super::boundaries::Boundaries;
use super::component::MemoryComponent;
use super::insert_queue::QueueReader;
use crate::util::arena::Offset;
use crate::util::sync::{Arc, AtomicBool, AtomicUsize, Condvar, Mutex, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct Membuffer {
    pub(crate) state: Mutex<State>,
    /// A partition is no longer busy.
    pub(crate) partition_freed: Condvar,
    /// The first of the feeds that nobody has read yet; a lock of its own, so that a writer with a new feed does not wait for a drain.
    pub(crate) new_queues: Mutex<Offset>,
    /// Nothing is waiting and nothing more will come.
    finished: AtomicBool,
    /// Bytes of the Memtable at the last sweep, and whether it is time for the next one.
    pub(crate) handed_over_bytes: AtomicUsize,
    pub(crate) drain_due: AtomicBool,
    /// See `Memtable::drain_one_by_one`.
    pub(crate) one_by_one: AtomicBool,
}

#[derive(Debug)]
pub(crate) struct State {
    pub(crate) queues: Vec<QueueReader>,
    pub(crate) boundaries: Arc<Boundaries>,
    /// What waits in each partition; empty until there is something.
    pub(crate) waiting: Vec<Vec<Offset>>,
    pub(crate) busy: Vec<bool>,
    pub(crate) busy_count: usize,
    /// Nodes that came so far, and the number of them at which boundaries are learned next.
    pub(crate) arrived: u64,
    pub(crate) learn_at: u64,
}

impl Default for State {
    fn default() -> Self {
        Self {
            queues: Vec::new(),
            boundaries: Boundaries::none(),
            waiting: Vec::new(),
            busy: Vec::new(),
            busy_count: 0,
            arrived: 0,
            learn_at: 0,
        }
    }
}

/// A range of keys that is drained: partitions `from..to` of some boundaries.
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

    /// The least key of it; `None` without a bound.
    pub fn lower(&self) -> Option<&[u8]> {
        self.boundaries.lower(self.from)
    }

    /// The least key behind it; `None` without a bound.
    pub fn upper(&self) -> Option<&[u8]> {
        self.boundaries.upper(self.to - 1)
    }

    /// Whether a key is in it.
    pub fn has(&self, key: &[u8]) -> bool {
        self.lower().is_none_or(|lower| lower <= key) && self.upper().is_none_or(|upper| key < upper)
    }
}

impl Membuffer {
    /// An empty one. Where every node is linked at once, there is nothing to drain, ever.
    pub fn new(component: MemoryComponent) -> Self {
        let finished = AtomicBool::new(component == MemoryComponent::Skiplist);
        Self { finished, ..Self::default() }
    }

    /// Nothing is waiting, and nothing more will come.
    pub fn finish(&self) {
        self.finished.store(true, Ordering::Release);
    }

    /// Whether a drain would find nothing, now and later.
    pub(crate) fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }
}

/// Nodes in a chunk of a feed, for a Memtable of a soft size.
pub fn queue_capacity(soft_bytes: usize) -> u32 {
    (soft_bytes / 4096).clamp(14, 1022) as u32
}
