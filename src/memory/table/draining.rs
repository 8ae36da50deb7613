//! Drains: link the nodes of the Membuffer into the skiplist, in order. Any thread; a drain may wait for another one of
//! the same partition. `buffer/membuffer.rs` has the invariants.

use super::memtable::Memtable;
use super::order;
use crate::memory::buffer::boundaries::Boundaries;
use crate::memory::buffer::insert_queue::{InsertQueue, QueueReader};
use crate::memory::buffer::membuffer::{DrainedRange, Membuffer, State};
use crate::util::arena::Offset;
use crate::util::planted::planted;
use crate::util::sync::{Arc, MutexGuard, Ordering};

/// Keys of a partition. Enough that one sort and one multi-insert are worth it. Few enough that a short scan beside
/// writers waits only for microseconds: most often it is the first one to drain its partition.
const PARTITION_KEYS: u64 = if cfg!(feature = "model-checking") { 2 } else { 128 };
/// Boundaries are learned from the nodes whose towers are at least this high: one key in 16, chosen by the hashes.
const SAMPLED_HEIGHT: usize = if cfg!(feature = "model-checking") { 1 } else { 5 };
/// Boundaries are learned (again) once this many times the keys of a partition wait in one.
const UNEVEN_FACTOR: u64 = if cfg!(feature = "model-checking") { 1 } else { 4 };
/// Boundaries are also learned (again) once there are this many times the keys of all partitions: scans may have drained
/// them all the time.
const GROWN_FACTOR: u64 = if cfg!(feature = "model-checking") { 2 } else { 8 };
/// As many nodes are handed over at once, unless boundaries are learned.
const SLICE_NODES: usize = if cfg!(feature = "model-checking") { 2 } else { 512 };
/// Queued nodes are handed over when a Memtable has grown by this part since the last time, so that the first scan after
/// a while does not find all of them. (FloDB's Membuffer is a quarter: §5.1.)
const HAND_OVER_PART: usize = 16;
/// Boundaries are not learned again before the number of keys has grown by this factor, however uneven partitions are.
const LEARN_AGAIN_FACTOR: u64 = 4;

impl State {
    /// Whether nodes of a partition wait or are being linked.
    fn has_work(&self, partition: usize) -> bool {
        self.busy[partition] || !self.waiting[partition].is_empty()
    }

    /// Wants all nodes that are in the insert queues now. True if there are any.
    fn want_queued(&mut self, memtable: &Memtable) -> bool {
        let new = std::mem::replace(&mut *memtable.membuffer.new_queues.lock(), Offset::NULL);
        self.queues.extend(QueueReader::of_list(memtable.arena(), new));
        self.waiting.resize_with(self.boundaries.partitions(), Vec::new);
        self.busy.resize(self.boundaries.partitions(), false);
        self.queues.iter_mut().fold(false, |any, queue| any | queue.want(memtable.arena()))
    }

    /// Hands a slice of the wanted nodes over to the partitions. True if more are left.
    fn hand_over_some(&mut self, memtable: &Memtable) -> bool {
        let mut moved = std::mem::take(&mut self.moved);
        self.queues.iter_mut().for_each(|queue| queue.take(memtable.arena(), &mut moved, SLICE_NODES));
        self.arrived += moved.len() as u64;
        // Not if none has come: a sealed Memtable keeps its boundaries.
        if !moved.is_empty() && self.is_learning_due() {
            self.learn(memtable, &mut moved);
        }
        for_each_fetched(memtable, &moved, |node| {
            let partition = &mut self.waiting[self.boundaries.partition_of(memtable.node(node).encoded_key())];
            partition.push(node);
            self.is_uneven |= partition.len() as u64 > UNEVEN_FACTOR * PARTITION_KEYS;
        });
        moved.clear();
        self.moved = moved;
        let is_left = self.queues.iter().any(|queue| !queue.has_no_more());
        self.queues.retain(|queue| !queue.is_at_end());
        is_left
    }

    fn is_learning_due(&self) -> bool {
        let has_grown = self.arrived > GROWN_FACTOR * PARTITION_KEYS * self.boundaries.partitions() as u64;
        (self.is_uneven || has_grown) && self.arrived >= self.learn_at && self.busy_count == 0
    }

    /// Learns boundaries from all keys. Moves waiting nodes back to `moved`, to be distributed again.
    fn learn(&mut self, memtable: &Memtable, moved: &mut Vec<Offset>) {
        self.waiting.drain(..).for_each(|mut nodes| moved.append(&mut nodes));
        let mut sampled = memtable.tall_linked_nodes(SAMPLED_HEIGHT);
        for_each_fetched(memtable, moved, |node| {
            if memtable.node(node).height() >= SAMPLED_HEIGHT {
                sampled.push(node);
            }
        });
        let sample = sampled.iter().map(|node| memtable.node(*node).encoded_key()).collect();
        self.boundaries = Arc::new(Boundaries::learn(sample));
        memtable.membuffer.last_boundaries.set(&self.boundaries);
        self.learn_at = self.arrived * LEARN_AGAIN_FACTOR;
        self.is_uneven = false;
        self.waiting.resize_with(self.boundaries.partitions(), Vec::new);
        self.busy.resize(self.boundaries.partitions(), false);
    }
}

/// Calls `each` for every node, having prefetched its first line.
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
    /// Hands over every node that was queued before the call. Keeps the lock: other scans need the same nodes handed
    /// over, and must not wait for a thread of low priority that gets the lock in between.
    fn hand_over_queues(&self) -> MutexGuard<'_, State> {
        let mut state = self.membuffer.lock_first();
        if state.want_queued(self) {
            self.membuffer.handed_over_bytes.store(self.bytes(), Ordering::Relaxed);
            while state.hand_over_some(self) {}
        }
        state
    }

    /// Links every node that was pushed before the call and whose key is in the same partition as `key`. Returns the
    /// partition's key range.
    pub fn drain_around(&self, key: &[u8]) -> DrainedRange {
        if self.membuffer.is_finished() {
            return DrainedRange::everything();
        }
        let mut state = self.hand_over_queues();
        loop {
            let boundaries = Arc::clone(&state.boundaries);
            let partition = boundaries.partition_of(key);
            if planted!(state.busy[partition], Bug::DrainDoesNotWait => false) {
                self.membuffer.partition_freed.wait(&mut state);
                // The boundaries may have changed, and another thread may have marked the partition busy first.
                continue;
            }
            self.link_waiting(state, partition);
            return DrainedRange { boundaries, from: partition, to: partition + 1 };
        }
    }

    /// Extends `drained`, which has an upper bound, by the partitions after it in which no node waits, up to the one of
    /// `key` or to the end, and by the first one in which nodes wait, which it drains.
    pub fn drain_after(&self, drained: &mut DrainedRange, key: Option<&[u8]>) {
        let Some(upper) = drained.upper() else { return };
        let mut state = self.hand_over_queues();
        loop {
            let boundaries = Arc::clone(&state.boundaries);
            let next = boundaries.partition_of(upper);
            let last = key.map_or(boundaries.partitions() - 1, |key| boundaries.partition_of(key)).max(next);
            let partition = (next..last).find(|at| state.has_work(*at)).unwrap_or(last);
            if planted!(state.busy[partition], Bug::DrainDoesNotWait => false) {
                self.membuffer.partition_freed.wait(&mut state);
                continue;
            }
            self.link_waiting(state, partition);
            let from = if Arc::ptr_eq(&boundaries, &drained.boundaries) { drained.from } else { next };
            *drained = DrainedRange { boundaries, from, to: partition + 1 };
            return;
        }
    }

    /// As `drain_after`, for the partitions before `drained`, which has a lower bound.
    pub fn drain_before(&self, drained: &mut DrainedRange, key: Option<&[u8]>) {
        let Some(lower) = drained.lower() else { return };
        let mut state = self.hand_over_queues();
        loop {
            let boundaries = Arc::clone(&state.boundaries);
            let next = match boundaries.partition_of(lower) {
                // The partition of the last keys before `lower`, which may itself be a boundary.
                at if boundaries.lower(at) == Some(lower) => at - 1,
                within => within,
            };
            let last = key.map_or(0, |key| boundaries.partition_of(key)).min(next);
            let partition = (last + 1..=next).rev().find(|at| state.has_work(*at)).unwrap_or(last);
            if planted!(state.busy[partition], Bug::DrainDoesNotWait => false) {
                self.membuffer.partition_freed.wait(&mut state);
                continue;
            }
            self.link_waiting(state, partition);
            let to = if Arc::ptr_eq(&boundaries, &drained.boundaries) { drained.to } else { next + 1 };
            *drained = DrainedRange { boundaries, from: partition, to };
            return;
        }
    }

    /// Adds a writer's new queue, before any node is pushed to it. True if it is time to hand queued nodes over, and no
    /// earlier call has returned true for it.
    pub(crate) fn add_queue(&self, queue: &InsertQueue) -> bool {
        queue.add_to_list(self.arena(), &mut self.membuffer.new_queues.lock());
        let handed_over = self.membuffer.handed_over_bytes.load(Ordering::Relaxed);
        self.bytes().saturating_sub(handed_over) >= self.soft_bytes() / HAND_OVER_PART
            && !self.membuffer.drain_due.swap(true, Ordering::Relaxed)
    }

    /// Whether it is time to call `drain_waiting`.
    pub fn is_drain_due(&self) -> bool {
        self.membuffer.drain_due.load(Ordering::Relaxed) && !self.membuffer.is_finished()
    }

    /// Hands queued nodes over to the partitions, so that the next scan has to sort only its own partitions. Scans beside
    /// writers do that themselves, at their own priority; this is for the first one after a while. (FloDB
    /// §4.2 drains continuously. Order that no scan needs is cheaper to make at the end, all at once:
    /// `docs/performance.md`.)
    pub fn drain_waiting(&self) {
        self.membuffer.handed_over_bytes.store(self.bytes(), Ordering::Relaxed);
        self.membuffer.drain_due.store(false, Ordering::Relaxed);
        let mut state = self.membuffer.state.lock();
        state.want_queued(self);
        while state.hand_over_some(self) {
            // A scan goes on with what is left, at its own priority.
            self.membuffer.give_way(&mut state);
        }
    }

    /// Links every node that was pushed before the call, in the order of the keys. For small Memtables, tests and
    /// measurements.
    pub fn drain_all(&self) {
        if self.membuffer.is_finished() {
            return;
        }
        let mut drained = self.drain_around(&[]);
        while drained.upper().is_some() {
            self.drain_after(&mut drained, None);
        }
    }

    /// Seals the Memtable: no version leaves its chain from here on. Requires that there are no writers any more.
    pub fn seal(&self) {
        self.retained.end();
        if !self.membuffer.is_finished() {
            self.drain_waiting();
        }
    }

    /// All nodes of the partition of a key, in order, linked or not, and the partition's key range. Waiting nodes are
    /// not linked, and stay for scans that need them linked. For a sealed Memtable.
    pub(crate) fn ordered_around(&self, key: &[u8]) -> (Vec<Offset>, DrainedRange) {
        let mut state = self.membuffer.lock_first();
        let (boundaries, partition) = loop {
            let boundaries = Arc::clone(&state.boundaries);
            let partition = boundaries.partition_of(key);
            if !state.busy.get(partition).is_some_and(|busy| *busy) {
                break (boundaries, partition);
            }
            self.membuffer.partition_freed.wait(&mut state);
        };
        let drained = DrainedRange { boundaries, from: partition, to: partition + 1 };
        let mut waiting = state.waiting.get_mut(partition).map(std::mem::take).unwrap_or_default();
        if waiting.is_empty() {
            drop(state);
            return (self.linked_between(drained.lower(), drained.upper()), drained);
        }
        let common = state.boundaries.common_bytes(partition);
        let busy = self.mark_busy(state, partition);
        self.sort_by_key(&mut waiting, common);
        let linked = self.linked_between(drained.lower(), drained.upper());
        let ordered = self.merge(&waiting, linked);
        self.membuffer.lock_first().waiting[partition] = waiting;
        drop(busy);
        (ordered, drained)
    }

    /// Merges two sorted lists of nodes.
    fn merge(&self, waiting: &[Offset], linked: Vec<Offset>) -> Vec<Offset> {
        if linked.is_empty() {
            return waiting.to_vec();
        }
        let key = |node: &Offset| self.node(*node).encoded_key();
        let mut ordered = Vec::with_capacity(waiting.len() + linked.len());
        let mut waiting = waiting.iter().peekable();
        for node in &linked {
            while let Some(before) = waiting.next_if(|before| key(before) < key(node)) {
                ordered.push(*before);
            }
            ordered.push(*node);
        }
        ordered.extend(waiting);
        ordered
    }

    fn sort_by_key(&self, nodes: &mut Vec<Offset>, common: usize) {
        let key = |node: &Offset| self.node(*node).encoded_key();
        order::sort(self, nodes, common, &mut Vec::new(), |same| {
            same.sort_unstable_by(|a, b| key(a).cmp(key(b)));
            same.len()
        });
    }

    /// Marks a partition busy for this thread, until the result is dropped.
    fn mark_busy<'a>(&'a self, mut state: MutexGuard<'a, State>, partition: usize) -> BusyPartition<'a> {
        state.busy[partition] = true;
        state.busy_count += 1;
        BusyPartition { membuffer: &self.membuffer, partition }
    }

    /// Links the waiting nodes of a partition that is not busy.
    fn link_waiting(&self, mut state: MutexGuard<'_, State>, partition: usize) {
        let mut nodes = std::mem::take(&mut state.waiting[partition]);
        if nodes.is_empty() {
            return;
        }
        let common = state.boundaries.common_bytes(partition);
        let _busy = self.mark_busy(state, partition);
        if self.membuffer.one_by_one.load(Ordering::Relaxed) {
            nodes.iter().for_each(|node| self.insert_one(*node));
            return;
        }
        self.sort_by_key(&mut nodes, common);
        self.multi_insert(&nodes);
    }

    /// Makes drains insert nodes unsorted and one by one, each with a search from the top: the baseline for
    /// multi-insert.
    #[cfg(any(test, feature = "testing"))]
    pub fn drain_one_by_one(&self) {
        self.membuffer.one_by_one.store(true, Ordering::Relaxed);
    }

    /// Links new keys, in rising order, without the index: by one multi-insert or by single inserts. For measurements.
    #[cfg(any(test, feature = "testing"))]
    pub fn insert_into_list(&self, user_keys: &[[u8; 8]], value: &[u8], together: bool) {
        let node = |user_key: &[u8; 8]| {
            let keyspace = crate::util::KeyspaceId::DEFAULT;
            let hash = crate::util::hash::key_hash(keyspace, user_key);
            let target = crate::memory::entry::node::Target::new(keyspace, user_key);
            self.write_entry(target, hash, crate::util::Kind::Put, value, crate::util::SequenceNumber(1))
        };
        let nodes: Vec<Offset> = user_keys.iter().map(node).collect();
        match together {
            true => self.multi_insert(&nodes),
            false => nodes.iter().for_each(|node| self.insert_one(*node)),
        }
    }
}

/// Ends a drain when dropped.
struct BusyPartition<'a> {
    membuffer: &'a Membuffer,
    partition: usize,
}

impl Drop for BusyPartition<'_> {
    fn drop(&mut self) {
        let mut state = self.membuffer.lock_first();
        state.busy[self.partition] = false;
        state.busy_count -= 1;
        self.membuffer.partition_freed.notify_all();
    }
}
