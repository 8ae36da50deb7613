//! The Memtable: all versions of one generation, by key and number (FloDB §4.1, cLSM §3).
//!
//! Any thread may read at any time, without a latch or a lock, and without waiting for a writer. A writer calls
//! `prepare` outside any latch, and then `place` under the latch of the key (`docs/concurrency.md`, W). So two calls of
//! `place` for one key never overlap, and the numbers of one key rise. Calls for different keys run concurrently.
//!
//! Invariants:
//! 1. A key has at most one node. `prepare` only searches for it. `place` decides, under the latch, in the hash index;
//!    or in level 0 of the list, if the key's window in the index is full.
//! 2. A prepared version cannot be found before `place`. When `place` returns, `get` finds it. A cursor finds it once
//!    the Membuffer was drained around it (`buffer/membuffer.rs`). Gets begin to see the version at one instant: the
//!    store of the index slot; or, for a key that the index has no slot for, of the link in level 0; or, for a key that
//!    has a node, the `Release` store of the node's newest version.
//! 3. The numbers of a chain fall from newest to oldest. A version leaves its chain only if no snapshot needs it: none
//!    has a number from the version's own up to, but without, that of the next newer version. So a reader at a snapshot
//!    finds its version however slow it is. A slow reader of the newest version detects that it was replaced
//!    (`entry/version.rs`, invariant 2) and restarts.
//! 4. A pending version is skipped until its batch's state word is `BATCH_COMMITTED`. All readers load that word with
//!    `Acquire`, so one `Release` store shows all entries of the batch (`entry/version.rs`, invariant 3). The version
//!    below a pending one stays in the chain until then.
//! 5. The single-level kind (`MemoryComponent::Skiplist`) links each node at once, and removes nothing from a chain.

use super::key_range::KeyRange;
use super::range_tombstones::TombstoneSet;
use super::retained_versions::{RetainedVersions, RetainingNode};
use super::writer::{MemtableWriter, WriterSlot};
use crate::memory::buffer::component::MemoryComponent;
use crate::memory::buffer::insert_queue::{self, InsertQueue};
use crate::memory::buffer::membuffer::{LastBoundaries, Membuffer, queue_capacity};
use crate::memory::entry::class::Class;
use crate::memory::entry::hash_index::{HashIndex, Lookup};
use crate::memory::entry::node::{Node, Target, body_bytes, tower_bytes};
use crate::memory::entry::skiplist::{OnEqual, Skiplist, Splice, height_for};
use crate::memory::entry::version::{BATCH_COMMITTED, Version, block_bytes, state};
use crate::merge::RangeTombstones;
use crate::util::arena::{Arena, Offset};
use crate::util::hash::encoded_key_hash;
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::util::{KeyspaceId, Kind, SequenceNumber, key, limits};

/// Largest piece of the arena that a writer reserves for itself.
const PIECE_BYTES_MAX: usize = 32 << 10;

/// The memory of one generation.
#[derive(Debug)]
pub struct Memtable {
    pub(super) id: u64,
    arena: Arena,
    pub(crate) list: Skiplist,
    pub(crate) index: HashIndex,
    pub(crate) membuffer: Membuffer,
    pub(super) component: MemoryComponent,
    soft_bytes: usize,
    /// Bytes in use before the first entry.
    empty_bytes: usize,
    /// Changes rarely, so readers can share its cache line.
    pub(crate) key_range: KeyRange,
    /// The first of the writer slots.
    writer_slots: Mutex<Offset>,
    /// The number of versions that were placed without a writer.
    pub(super) versions_without_writer: AtomicU64,
    pub(crate) retained: RetainedVersions,
    range_tombstones: TombstoneSet,
}

/// A version in a Memtable's memory that has no number yet. Valid for one `place` in that Memtable. If it is dropped,
/// its memory is unused until the Memtable is recycled.
#[derive(Debug)]
#[must_use]
pub struct Prepared {
    pub(super) memtable: u64,
    pub(super) hash: u64,
    pub(super) version: Offset,
    /// The key's node. Until `place`, a new unpublished node, unless `has_node`.
    pub(super) node: Offset,
    pub(super) has_node: bool,
    /// Of an operand: what it makes together with the version that has the place and number `folded_onto`, and perhaps with
    /// operands down to the number `folded_through`. `NULL` if there is none.
    pub(super) folded: Offset,
    pub(super) folded_onto: (Offset, SequenceNumber),
    pub(super) folded_through: SequenceNumber,
    /// Placing the version left an older one in the chain.
    pub(super) retains_older: bool,
    pub(super) ends_long_chain: bool,
    pub(super) splice: Option<Splice>,
}

impl Prepared {
    /// The node, if placing the version left an older one in its chain; the caller passes it to
    /// `Memtable::note_retained`.
    pub fn retaining_node(&self) -> Option<RetainingNode> {
        self.retains_older.then_some(RetainingNode::new(self.node))
    }

    /// Whether placing the version has left the key with a long chain of operands, which every read folds.
    pub fn ends_long_chain(&self) -> bool {
        self.ends_long_chain
    }
}

/// What a write stores as a version, and the class of the block that it needs.
#[derive(Clone, Copy)]
pub(super) struct NewVersion<'v> {
    class: Class,
    kind: Kind,
    value: &'v [u8],
}

impl<'v> NewVersion<'v> {
    pub(super) fn new(kind: Kind, value: &'v [u8]) -> Self {
        Self { class: Class::of(value.len()), kind, value }
    }
}

/// The state of one batch in one Memtable.
#[derive(Clone, Copy, Debug)]
pub struct BatchState {
    pub(super) memtable: u64,
    pub(super) place: Offset,
}

/// The memory of a new entry in a Memtable, at most: its node, its version, its place in an insert queue, and its part of
/// what a writer's pieces of the arena leave unused.
pub fn entry_bytes(hash: u64, user_key_bytes: usize, value_bytes: usize) -> usize {
    let entry = tower_bytes(height_for(hash)) + body_bytes(user_key_bytes) + block_bytes(Class::of(value_bytes));
    (entry + size_of::<u64>()) / 2 * 3
}

/// The source of ids, which detect that a version was prepared in one Memtable and placed in another.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Memtable {
    pub(crate) fn new(
        arena: Arena,
        soft_bytes: usize,
        component: MemoryComponent,
        last_boundaries: &Arc<LastBoundaries>,
    ) -> Self {
        let index = HashIndex::new(&arena, soft_bytes);
        let list = Skiplist::new(&arena);
        let empty_bytes = arena.used_bytes();
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            arena,
            list,
            index,
            membuffer: Membuffer::new(component, last_boundaries),
            component,
            soft_bytes,
            empty_bytes,
            key_range: KeyRange::default(),
            writer_slots: Mutex::default(),
            versions_without_writer: AtomicU64::new(0),
            retained: RetainedVersions::default(),
            range_tombstones: TombstoneSet::default(),
        }
    }

    /// Adds range tombstones with one number, which is greater than that of every entry that they hide. One thread at a
    /// time (`docs/concurrency.md`, D1).
    pub fn add_range_tombstones(&self, tombstones: RangeTombstones) {
        self.range_tombstones.add(tombstones, None);
    }

    /// Like `add_range_tombstones`, but readers skip them until the batch is committed. The state must come from
    /// `batch_state_of_range_delete`.
    pub fn add_pending_range_tombstones(&self, tombstones: RangeTombstones, batch: BatchState) {
        assert_eq!(batch.memtable, self.id, "the batch's state belongs to another memtable");
        self.range_tombstones.add(tombstones, Some(batch.place));
    }

    /// Follows each of the two calls above, after the batch was committed. It may take milliseconds. `newest_snapshot` as in
    /// `place`.
    pub fn tidy_range_tombstones(&self, newest_snapshot: SequenceNumber) {
        self.range_tombstones.tidy(newest_snapshot);
    }

    /// Whether there are range tombstones.
    #[inline]
    pub fn has_range_tombstones(&self) -> bool {
        self.range_tombstones.is_any()
    }

    /// All range tombstones. Those of a sealed Memtable never change.
    pub fn range_tombstones(&self) -> Arc<RangeTombstones> {
        self.range_tombstones.all(|batch| self.is_committed(batch))
    }

    /// The newest number `<= at` of a range tombstone over an encoded key; `ZERO` if there is none.
    #[inline]
    pub fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        self.range_tombstones.covering(key, at, |batch| self.is_committed(batch))
    }

    /// The end of the keys from `key` on that range tombstones up to `at` cover without a gap; `None` if none covers `key`.
    /// Perhaps less than that, if they came one after the other.
    pub fn covered_until(&self, key: &[u8], at: SequenceNumber) -> Option<Vec<u8>> {
        self.range_tombstones.covered_until(key, at, |batch| self.is_committed(batch))
    }

    /// The first key at or after `key` that range tombstones cover.
    pub fn next_covered(&self, key: &[u8]) -> Option<Vec<u8>> {
        self.range_tombstones.next_covered(key)
    }

    /// Whether the batch with range tombstones whose state is at this place was committed.
    fn is_committed(&self, batch: Offset) -> bool {
        // SAFETY: places of batches with range tombstones come from `batch_state_of_range_delete` of this Memtable.
        unsafe { state(&self.arena, batch) }.load(Ordering::Acquire) == BATCH_COMMITTED
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Whether the pages of the index are present. Otherwise the first puts into a large Memtable are slow: each touches
    /// another page, which the kernel clears first.
    pub fn has_index_pages(&self) -> bool {
        self.arena.is_populated(self.empty_bytes)
    }

    /// Makes a part of the index's pages present (`Arena::populate`); to be called until `has_index_pages`.
    pub fn populate_index(&self) {
        self.arena.populate(self.empty_bytes);
    }

    /// Prepares a writer for a write of this many entries to this Memtable. Called outside any latch. True if somebody
    /// should call `drain_waiting` or `populate_index`.
    pub fn attach(&self, writer: &mut MemtableWriter, entries: usize) -> bool {
        let mut work_due = false;
        if writer.memtable != self.id {
            writer.move_to(self.id, WriterSlot::make(&self.arena, &mut self.writer_slots.lock()));
            work_due = !self.has_index_pages();
        }
        if self.component == MemoryComponent::TwoLevel {
            let capacity = queue_capacity(self.soft_bytes).max(entries as u32);
            if writer.queue.as_ref().is_none_or(|queue| queue.remaining() < entries) {
                let chunk = self.allocate(writer, insert_queue::chunk_bytes(capacity));
                // SAFETY: just allocated with exactly this length.
                let queue = unsafe { InsertQueue::make(&self.arena, chunk, capacity) };
                work_due |= self.add_queue(&queue);
                writer.queue = Some(queue);
            }
        }
        work_due
    }

    /// Whether versions leave their chains (invariants 3 and 5).
    pub(super) fn removes_versions(&self) -> bool {
        self.component == MemoryComponent::TwoLevel
    }

    /// The size at which it is full.
    pub fn soft_bytes(&self) -> usize {
        self.soft_bytes
    }

    /// The bytes of entries that fit beyond the soft size, if no more than that is used yet.
    pub fn slack_bytes(&self) -> usize {
        let filled = self.entry_bytes().max(self.soft_bytes);
        self.arena.capacity_bytes().saturating_sub(self.empty_bytes + filled)
    }

    fn allocate(&self, writer: &mut MemtableWriter, bytes: usize) -> Offset {
        writer.allocate(&self.arena, bytes, (self.soft_bytes / 256).min(PIECE_BYTES_MAX))
    }

    /// Writes a version, and a node if the key has none, into memory that no other thread sees yet. In the single-level
    /// kind it also searches the node's position. May fault pages, so it is called outside any latch. `hash` is
    /// `key_hash` of the key. Cannot fail as long as callers stop at `is_full` and have no more than the slack in
    /// progress. Requires `attach`.
    pub fn prepare(
        &self,
        writer: &mut MemtableWriter,
        (keyspace, user_key, hash): (KeyspaceId, &[u8], u64),
        kind: Kind,
        value: &[u8],
    ) -> Prepared {
        assert!(user_key.len() <= limits::KEY_BYTES_MAX && value.len() <= limits::VALUE_FILE_BYTES_MIN);
        assert_eq!(writer.memtable, self.id, "the writer is attached to another memtable");
        let target = Target::new(keyspace, user_key);
        let mut splice = (self.component == MemoryComponent::Skiplist).then(|| self.list.start());
        let found = match self.index.find(&self.arena, hash, |place| self.has_key(place, &target)) {
            Lookup::Found(node) => Some(node),
            Lookup::Absent if splice.is_none() => None,
            Lookup::Absent | Lookup::Unknown => {
                let splice = splice.get_or_insert_with(|| self.list.start());
                self.list.find(&self.arena, &target, splice).map(Node::place)
            }
        };
        let new = NewVersion::new(kind, value);
        let (node, version) = match found {
            Some(node) => (node, self.block(writer, new)),
            None => {
                self.index.touch(&self.arena, hash);
                let height = height_for(hash);
                let tower = tower_bytes(height);
                let memory = self.allocate(writer, tower + body_bytes(user_key.len()) + block_bytes(new.class));
                self.write_node(memory.plus(tower), height, target, new)
            }
        };
        let has_node = found.is_some();
        Prepared {
            memtable: self.id,
            hash,
            version,
            node,
            has_node,
            folded: Offset::NULL,
            folded_onto: (Offset::NULL, SequenceNumber::ZERO),
            folded_through: SequenceNumber::ZERO,
            retains_older: false,
            ends_long_chain: false,
            splice,
        }
    }

    /// Prefetches what `prepare` reads first of a key with this hash.
    #[inline]
    pub fn prefetch_index(&self, hash: u64) {
        self.index.prefetch(&self.arena, hash);
    }

    /// A block with a version, for a key that has a node. Reuses a spare block if there is one.
    pub(super) fn block(&self, writer: &mut MemtableWriter, new: NewVersion<'_>) -> Offset {
        let NewVersion { class, kind, value } = new;
        if let Some(spares) = &mut writer.spares {
            if self.retained.has_spares() {
                self.take_shared_spares(spares, class);
            }
            if let Some(block) = spares.take(&self.arena, class) {
                block.write(kind, value);
                return block.place();
            }
        }
        let place = self.allocate(writer, block_bytes(class));
        // SAFETY: just allocated with exactly this length.
        unsafe { Version::make(&self.arena, place, class, kind, value) };
        place
    }

    /// Writes a node and its version next to each other, so that reading the one fetches the other.
    fn write_node(&self, node: Offset, height: usize, target: Target<'_>, new: NewVersion<'_>) -> (Offset, Offset) {
        let NewVersion { class, kind, value } = new;
        let version = node.plus(body_bytes(target.user_key().len()));
        // SAFETY: the callers have just allocated tower, body and block around `node`.
        unsafe {
            Node::write(&self.arena, node, height, target, version);
            Version::make(&self.arena, version, class, kind, value);
        }
        (node, version)
    }

    /// Writes a node with one numbered version. For `bulk`, whose thread is the only one with the Memtable.
    pub(crate) fn write_entry(
        &self,
        target: Target<'_>,
        hash: u64,
        kind: Kind,
        value: &[u8],
        number: SequenceNumber,
    ) -> Offset {
        self.key_range.widen(target.user_key());
        let (height, new) = (height_for(hash), NewVersion::new(kind, value));
        let tower = tower_bytes(height);
        let memory = self.arena.allocate(tower + body_bytes(target.user_key().len()) + block_bytes(new.class));
        let (node, version) = self.write_node(memory.plus(tower), height, target, new);
        self.version(version).set_number(number, Offset::NULL, Offset::NULL);
        node
    }

    /// Writes a numbered version above `previous`, for a key that has a node. For `bulk`.
    pub(crate) fn write_version(
        &self,
        kind: Kind,
        value: &[u8],
        number: SequenceNumber,
        previous: Offset,
    ) -> Version<'_> {
        let class = Class::of(value.len());
        let place = self.arena.allocate(block_bytes(class));
        // SAFETY: just allocated with exactly this length.
        let version = unsafe { Version::make(&self.arena, place, class, kind, value) };
        version.set_number(number, previous, Offset::NULL);
        version
    }

    /// The hash of a node's key. Prefetches the key's line of the index.
    pub(crate) fn hash_of(&self, node: Offset) -> u64 {
        let hash = encoded_key_hash(self.node(node).encoded_key());
        self.index.prefetch(&self.arena, hash);
        hash
    }

    /// Prefetches a node's first line.
    pub(crate) fn prefetch(&self, node: Offset) {
        self.arena.prefetch(node);
    }

    /// A uniform sample of about `wanted` of the `entries` nodes.
    pub(crate) fn sample(&self, entries: u64, wanted: u64) -> impl Iterator<Item = Offset> {
        self.index.sample(&self.arena, entries, wanted)
    }

    /// Whether the index has a slot for each entry, as `sample` requires. A batch may be larger than its Memtable.
    pub(crate) fn index_holds(&self, entries: u64) -> bool {
        entries <= self.index.slots()
    }

    /// Inserts a node into the index. For `bulk`.
    pub(crate) fn insert_into_index(&self, hash: u64, node: Offset) {
        self.index.insert(&self.arena, hash, node);
    }

    /// Counts the versions that `bulk` has added, all of them linked. No more will be added.
    pub(crate) fn count_filled(&self, versions: u64) {
        self.membuffer.finish();
        self.versions_without_writer.fetch_add(versions, Ordering::Relaxed);
    }

    /// A node of this Memtable.
    pub(crate) fn node(&self, place: Offset) -> Node<'_> {
        self.list.node(&self.arena, place)
    }

    /// A block of this Memtable.
    pub(crate) fn version(&self, place: Offset) -> Version<'_> {
        // SAFETY: places of blocks come from `prepare` and `bulk` of this Memtable, and from its own chains.
        unsafe { Version::at(&self.arena, place) }
    }

    /// Searches a node's position and links it, unless the list already has its key.
    pub(super) fn link_one<'a>(&'a self, node: Node<'a>) -> Result<(), Node<'a>> {
        let (target, mut splice) = (Target::of(node), self.list.start());
        match self.list.find(&self.arena, &target, &mut splice) {
            Some(found) => Err(found),
            None => self.list.link(&self.arena, node, &mut splice),
        }
    }

    /// Links a node that is in the index and not in the list.
    pub(crate) fn insert_one(&self, place: Offset) {
        assert!(self.link_one(self.node(place)).is_ok(), "a node of the Membuffer is already in the list");
    }

    /// Links sorted nodes that are in the index and not in the list: FloDB's Algorithm 1. Each becomes visible by
    /// itself.
    pub(crate) fn multi_insert(&self, nodes: &[Offset]) {
        let mut splice = self.list.start();
        for (at, place) in nodes.iter().enumerate() {
            if let Some(ahead) = nodes.get(at + 8) {
                self.prefetch(*ahead);
            }
            let node = self.node(*place);
            self.list.advance_splice(&self.arena, &Target::of(node), &mut splice);
            let linked = self.list.link(&self.arena, node, &mut splice);
            assert!(linked.is_ok(), "a node of the Membuffer is already in the list");
            self.list.move_splice_to(node, &mut splice);
        }
    }

    /// The linked nodes with keys from `lower` up to, but without, `upper`.
    pub(crate) fn linked_between(&self, lower: Option<&[u8]>, upper: Option<&[u8]>) -> Vec<Offset> {
        let first = match lower.and_then(key::split) {
            Some((keyspace, user_key)) => {
                let target = Target::new(keyspace, user_key);
                let found = self.list.search(&self.arena, &target, OnEqual::Stop, &mut self.list.start());
                found.map(|(node, _)| node)
            }
            None => self.list.first(&self.arena),
        };
        std::iter::successors(first, |node| self.list.after(&self.arena, *node))
            .take_while(|node| upper.is_none_or(|upper| node.encoded_key() < upper))
            .map(Node::place)
            .collect()
    }

    /// The linked nodes whose towers have at least this height.
    pub(crate) fn tall_linked_nodes(&self, height: usize) -> Vec<Offset> {
        self.list.tall_nodes(&self.arena, height)
    }

    /// Bytes of entries, including prepared ones, and of range tombstones.
    pub fn bytes(&self) -> usize {
        self.entry_bytes() + self.range_tombstones.bytes()
    }

    /// Bytes of entries in the arena, including prepared ones.
    fn entry_bytes(&self) -> usize {
        self.arena.used_bytes() - self.empty_bytes
    }

    /// Bytes of entries that contain something, or that one writer will reuse first.
    pub fn live_bytes(&self) -> usize {
        self.entry_bytes().saturating_sub(self.retained.spare_bytes())
    }

    /// The number of versions.
    pub fn entries(&self) -> u64 {
        let placed = WriterSlot::sum(&self.arena, *self.writer_slots.lock())
            .wrapping_add(self.versions_without_writer.load(Ordering::Relaxed));
        placed.wrapping_sub(self.retained.removed())
    }

    /// Whether nothing was placed.
    pub fn is_empty(&self) -> bool {
        self.key_range.is_empty() && !self.has_range_tombstones()
    }

    /// Whether it is time for a new generation: the soft size is reached. The index has slots for more than fits in
    /// that.
    pub fn is_full(&self) -> bool {
        self.bytes() >= self.soft_bytes
    }

    /// Whether a node has the target's key.
    pub(crate) fn has_key(&self, place: Offset, target: &Target<'_>) -> bool {
        self.node(place).order(target).is_eq()
    }
}
