//! The Membuffer: the nodes that are in the hash index and not yet in the skiplist (FloDB §3.1, §4.1 to §4.3).
//!
//! FloDB copies entries from a hash table of its own into the skiplist. Here one hash index finds the keys of both levels, and an entry's
//! node lies in the arena from the beginning, so that draining copies nothing: nodes are sorted, by partition, and linked by multi-insert. A
//! get never needs the order, so only scans and incorporation wait for a drain, and a key never is in two places.
//!
//! Any thread. Writers only `push` to feeds of their own (`feed.rs`). Whoever needs order hands the feeds' nodes over to the
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
use super::feed::{Feed, Taking};
use super::memtable::{MemoryComponent, Memtable};
use super::order;
use crate::base::arena::Offset;
use crate::base::planted::{self, Bug};
use crate::base::sync::{Arc, AtomicBool, AtomicUsize, Condvar, Mutex, MutexGuard, Ordering};

/// Keys that a partition should have: enough that sorting and linking them pays, few enough that they stay in the processor's
/// cache meanwhile and that a short scan waits for microseconds.
const PARTITION_KEYS: u64 = if cfg!(feature = "model-checking") { 2 } else { 1024 };
/// Nodes whose towers reach this high are the sample that boundaries are learned from: one key in 128, chosen by the hashes.
const SAMPLED_HEIGHT: usize = if cfg!(feature = "model-checking") { 1 } else { 8 };
/// A sweep is due when so large a part of a Memtable has come in since the last one: FloDB's share of the Membuffer (§5.1).
const SHARE_PART: usize = 4;
/// The number of keys at which boundaries are learned again, over that of the last time.
const LEARN_AGAIN: u64 = 4;

/// See the module.
#[derive(Debug, Default)]
pub struct Membuffer {
    state: Mutex<State>,
    /// A partition is no longer busy.
    ended: Condvar,
    /// Feeds that nobody has read yet; a lock of its own, so that a writer with a new feed does not wait for a drain.
    new_feeds: Mutex<Vec<Taking>>,
    /// Nothing is waiting and nothing more will come.
    finished: AtomicBool,
    /// Bytes of the Memtable at the last sweep, and whether it is time for the next one.
    swept_bytes: AtomicUsize,
    sweep_due: AtomicBool,
    /// See `Memtable::drain_one_by_one`.
    one_by_one: AtomicBool,
}

#[derive(Debug, Default)]
struct State {
    feeds: Vec<Taking>,
    boundaries: Arc<Boundaries>,
    /// What waits in each partition; empty until there is something.
    waiting: Vec<Vec<Offset>>,
    busy: Vec<bool>,
    busy_count: usize,
    /// Nodes that came so far, and the number of them at which boundaries are learned next.
    came: u64,
    learn_at: u64,
}

/// A range of keys that is drained: partitions `from..to` of some boundaries.
#[derive(Clone, Debug, Default)]
pub struct Cleared {
    boundaries: Arc<Boundaries>,
    from: usize,
    to: usize,
}

impl Cleared {
    /// All keys.
    pub fn everything() -> Self {
        Self { boundaries: Arc::default(), from: 0, to: 1 }
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
    /// Takes note of a new feed, before anything is pushed to it.
    pub fn add(&self, feed: &Feed) {
        self.new_feeds.lock().push(feed.taking());
    }

    /// Whether a drain would find nothing, now and later.
    fn is_finished(&self) -> bool {
        self.finished.load(Ordering::Acquire)
    }
}

impl State {
    /// Hands the nodes that writers pushed over to the partitions.
    fn take_feeds(&mut self, memtable: &Memtable) {
        self.feeds.append(&mut memtable.membuffer.new_feeds.lock());
        let mut came = Vec::new();
        self.feeds.retain_mut(|feed| feed.take(memtable.arena(), |node| came.push(node)));
        self.came += came.len() as u64;
        if self.came >= self.learn_at.max(2 * PARTITION_KEYS) && self.busy_count == 0 {
            self.learn(memtable, &mut came);
        }
        self.waiting.resize_with(self.boundaries.partitions(), Vec::new);
        self.busy.resize(self.boundaries.partitions(), false);
        for_each_fetched(memtable, &came, |node| {
            let partition = self.boundaries.partition_of(memtable.node(node).encoded_key());
            self.waiting[partition].push(node);
        });
    }

    /// Learns boundaries from the keys there are; what waits comes back to be handed out anew.
    fn learn(&mut self, memtable: &Memtable, came: &mut Vec<Offset>) {
        self.waiting.drain(..).for_each(|mut nodes| came.append(&mut nodes));
        let mut sampled = memtable.linked_as_high_as(SAMPLED_HEIGHT);
        for_each_fetched(memtable, came, |node| {
            if memtable.node(node).height() >= SAMPLED_HEIGHT {
                sampled.push(node);
            }
        });
        let sample = sampled.iter().map(|node| memtable.node(*node).encoded_key()).collect();
        self.boundaries = Arc::new(Boundaries::learn(sample));
        self.learn_at = self.came * LEARN_AGAIN;
    }
}

/// Calls `each` for every node, whose first line was asked for a while before.
fn for_each_fetched(memtable: &Memtable, nodes: &[Offset], mut each: impl FnMut(Offset)) {
    const AHEAD: usize = 12;
    for (at, node) in nodes.iter().enumerate() {
        if let Some(ahead) = nodes.get(at + AHEAD) {
            memtable.prefetch(*ahead);
        }
        each(*node);
    }
}

impl Memtable {
    /// Brings every node that was pushed before the call, and whose key is in the same partition as `key`, into the skiplist; says which
    /// keys that are.
    pub fn drain_around(&self, key: &[u8]) -> Cleared {
        if self.membuffer.is_finished() {
            return Cleared::everything();
        }
        let mut state = self.membuffer.state.lock();
        state.take_feeds(self);
        loop {
            let boundaries = Arc::clone(&state.boundaries);
            let partition = boundaries.partition_of(key);
            if state.busy[partition] && !planted::is(Bug::DrainDoesNotWait) {
                self.membuffer.ended.wait(&mut state);
                // The boundaries may have changed, and another waiter may have been quicker.
                continue;
            }
            self.link_waiting(state, partition);
            return Cleared { boundaries, from: partition, to: partition + 1 };
        }
    }

    /// As `drain_around` for the keys right behind what was cleared, which has an upper bound; adds them to it.
    pub fn drain_behind(&self, cleared: &mut Cleared) {
        let Some(upper) = cleared.upper() else { return };
        let more = self.drain_around(upper);
        let same = Arc::ptr_eq(&more.boundaries, &cleared.boundaries);
        let from = if same { cleared.from } else { more.from };
        *cleared = Cleared { from, ..more };
    }

    /// As `drain_around` for the keys right before what was cleared, which has a lower bound; adds them to it.
    pub fn drain_before(&self, cleared: &mut Cleared) {
        let Some(lower) = cleared.lower() else { return };
        let mut state = self.membuffer.state.lock();
        state.take_feeds(self);
        loop {
            let boundaries = Arc::clone(&state.boundaries);
            let partition = match boundaries.partition_of(lower) {
                // The partition of the last keys before `lower`, which may be a bound of its own.
                at if boundaries.lower(at) == Some(lower) => at - 1,
                within => within,
            };
            if state.busy[partition] && !planted::is(Bug::DrainDoesNotWait) {
                self.membuffer.ended.wait(&mut state);
                continue;
            }
            self.link_waiting(state, partition);
            let same = Arc::ptr_eq(&boundaries, &cleared.boundaries);
            let to = if same { cleared.to } else { partition + 1 };
            *cleared = Cleared { boundaries, from: partition, to };
            return;
        }
    }

    /// Takes note of a writer's new feed; true if it is time for a sweep, and nobody was told yet.
    pub(super) fn add_feed(&self, feed: &Feed) -> bool {
        self.membuffer.add(feed);
        let swept = self.membuffer.swept_bytes.load(Ordering::Relaxed);
        self.bytes().saturating_sub(swept) >= self.soft_bytes() / SHARE_PART
            && !self.membuffer.sweep_due.swap(true, Ordering::Relaxed)
    }

    /// Whether enough waits that a sweep pays.
    pub fn is_sweep_due(&self) -> bool {
        self.membuffer.sweep_due.load(Ordering::Relaxed) && !self.membuffer.is_finished()
    }

    /// Brings what waits into the skiplist, so that later scans and the switch find less to do (FloDB §4.2, draining).
    pub fn sweep(&self) {
        self.membuffer.swept_bytes.store(self.bytes(), Ordering::Relaxed);
        self.membuffer.sweep_due.store(false, Ordering::Relaxed);
        self.drain_all();
    }

    /// Brings every node that was pushed before the call into the skiplist, in the order of their keys.
    pub fn drain_all(&self) {
        if self.membuffer.is_finished() {
            return;
        }
        let mut cleared = self.drain_around(&[]);
        while cleared.upper().is_some() {
            self.drain_behind(&mut cleared);
        }
    }

    /// Ends the Memtable's changes, where nobody writes any more: all is drained, and no version leaves its chain.
    pub fn seal(&self) {
        self.reclaim.end();
        self.drain_all();
        self.membuffer.finish();
    }

    /// Links what waits in a partition that is not busy.
    fn link_waiting(&self, mut state: MutexGuard<'_, State>, partition: usize) {
        let mut nodes = std::mem::take(&mut state.waiting[partition]);
        if nodes.is_empty() {
            return;
        }
        let common = state.boundaries.common_bytes(partition);
        state.busy[partition] = true;
        state.busy_count += 1;
        drop(state);
        let _end = BusyPartition { membuffer: &self.membuffer, partition };
        if self.membuffer.one_by_one.load(Ordering::Relaxed) {
            nodes.iter().for_each(|node| self.insert_alone(*node));
            return;
        }
        let key = |node: &Offset| self.node(*node).encoded_key();
        order::sort(self, &mut nodes, common, &mut Vec::new(), |same| {
            same.sort_unstable_by(|a, b| key(a).cmp(key(b)));
            same.len()
        });
        self.multi_insert(&nodes);
    }

    /// Has drains take the nodes as they came and search every one's place from the top: what multi-insert is measured against.
    #[cfg(any(test, feature = "testing"))]
    pub fn drain_one_by_one(&self) {
        self.membuffer.one_by_one.store(true, Ordering::Relaxed);
    }

    /// Brings new keys, rising, into the skiplist alone, by one multi-insert or as so many single inserts; for measurements.
    #[cfg(any(test, feature = "testing"))]
    pub fn insert_into_list(&self, user_keys: &[[u8; 8]], value: &[u8], together: bool) {
        let node = |user_key: &[u8; 8]| {
            let keyspace = crate::base::KeyspaceId::DEFAULT;
            let hash = crate::base::hash::key_hash(keyspace, user_key);
            let target = super::node::Target::new(keyspace, user_key);
            self.write_entry(target, hash, crate::base::Kind::Put, value, crate::base::SequenceNumber(1))
        };
        let nodes: Vec<Offset> = user_keys.iter().map(node).collect();
        match together {
            true => self.multi_insert(&nodes),
            false => nodes.iter().for_each(|node| self.insert_alone(*node)),
        }
    }
}

/// Ends a drain, on every way out.
struct BusyPartition<'a> {
    membuffer: &'a Membuffer,
    partition: usize,
}

impl Drop for BusyPartition<'_> {
    fn drop(&mut self) {
        let mut state = self.membuffer.state.lock();
        state.busy[self.partition] = false;
        state.busy_count -= 1;
        self.membuffer.ended.notify_all();
    }
}

/// Nodes in a chunk of a feed, for a Memtable of a soft size.
pub fn feed_capacity(soft_bytes: usize) -> u32 {
    (soft_bytes / 4096).clamp(14, 1022) as u32
}
