//! The Memtable: all versions of one generation, by key and number (FloDB §4.1, cLSM §3).
//!
//! Any thread may read at any time, without latch, lock or wait. A writer `prepare`s outside any latch and then
//! `place`s under the latch of the key (`protocol.md`, W); so two `place`s of one key never overlap, and one key's numbers
//! rise. `place`s of different keys race freely.
//!
//! Invariants:
//! 1. A key has at most one node. `prepare` only looks whether there is one; `place` decides, under the latch, in the hash
//!    index, or, where the key's window of that is full, in level 0 of the list.
//! 2. Nothing of a prepared version can be found before `place`. When `place` returns, `get` finds it; a cursor does, once what is in
//!    the Membuffer was drained around it (`membuffer.rs`). The step at which gets begin to see the version is one instant: the
//!    index slot, or for a key that the index leaves out the link in level 0, or for a key that has a node the one `Release` store of
//!    its newest version.
//! 3. A chain's numbers fall from newest to oldest. A version leaves its chain only where no snapshot needs it: none with a number from
//!    its own up to, without, that of the next newer version. So a reader at a snapshot finds its version however slow it is; and a
//!    reader of the newest version that was overtaken finds that out (`version.rs`, invariant 2) and begins again.
//! 4. A pending version is skipped until its batch's state word is `COMMITTED`, a `Release` store that all readers load
//!    with `Acquire`: one store shows all entries of the batch (`version.rs`, invariant 3). What it is placed on stays until then.
//! 5. The single-level kind (`MemoryComponent::Skiplist`) links at once, and takes nothing out of a chain.

use super::key_range::KeyRange;
use super::range_tombstones::TombstoneSet;
use super::retained_versions::{RetainedVersions, RetainingNode};
use super::writer::{MemtableWriter, WriterSlot};
use crate::memory::buffer::component::MemoryComponent;
use crate::memory::buffer::insert_queue::{self, InsertQueue};
use crate::memory::buffer::membuffer::{Membuffer, queue_capacity};
use crate::memory::entry::class::Class;
use crate::memory::entry::hash_index::{HashIndex, Inserted, Lookup};
use crate::memory::entry::node::{Node, Target, body_bytes, tower_bytes};
use crate::memory::entry::skiplist::{OnEqual, Skiplist, Splice, height_for};
use crate::memory::entry::version::{BATCH_COMMITTED, BATCH_PENDING, Version, block_bytes, make_state, state};
use crate::merge::RangeTombstones;
use crate::util::arena::{Arena, Offset};
use crate::util::hash::encoded_key_hash;
use crate::util::planted::{self, Bug};
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::util::{KeyspaceId, Kind, SequenceNumber, key, limits};

/// Largest piece of the arena that a writer takes for itself.
const PIECE_BYTES_MAX: usize = 32 << 10;

/// One generation's memory.
#[derive(Debug)]
pub struct Memtable {
    id: u64,
    arena: Arena,
    pub(crate) list: Skiplist,
    pub(crate) index: HashIndex,
    pub(crate) membuffer: Membuffer,
    component: MemoryComponent,
    soft_bytes: usize,
    /// Bytes in use before the first entry.
    empty_bytes: usize,
    /// It changes rarely, so that readers who look here share the line.
    pub(crate) key_range: KeyRange,
    /// The first of the writers' desks.
    writer_slots: Mutex<Offset>,
    /// Versions that were placed without a writer.
    versions_without_writer: AtomicU64,
    pub(crate) retained: RetainedVersions,
    range_tombstones: TombstoneSet,
}

/// A version that lies ready in a Memtable's memory and has no number yet. Good for one `place` in that Memtable;
/// dropped, it wastes its memory until the Memtable is recycled.
#[derive(Debug)]
#[must_use]
pub struct Prepared {
    memtable: u64,
    hash: u64,
    version: Offset,
    /// The key's node; before `place`, one of its own that is ready to be shown, unless `has_node`.
    node: Offset,
    has_node: bool,
    /// Placing it left an older version in the chain.
    retains_older: bool,
    splice: Option<Splice>,
}

impl Prepared {
    /// The node, if placing it left an older version in the chain: `Memtable::note_retained` wants to know.
    pub fn retaining_node(&self) -> Option<RetainingNode> {
        self.retains_older.then_some(RetainingNode::new(self.node))
    }
}

/// The state of one batch in one Memtable.
#[derive(Clone, Copy, Debug)]
pub struct BatchState {
    memtable: u64,
    place: Offset,
}

/// The source of ids, so that what was prepared in one Memtable is never placed in another.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

impl Memtable {
    pub(crate) fn new(arena: Arena, soft_bytes: usize, component: MemoryComponent) -> Self {
        let index = HashIndex::new(&arena, soft_bytes);
        let list = Skiplist::new(&arena);
        let empty_bytes = arena.used_bytes();
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            arena,
            list,
            index,
            membuffer: Membuffer::new(component),
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

    /// Adds a range tombstone. Its number is greater than that of every entry that it hides.
    #[cfg(test)]
    pub fn add_range_tombstone(&self, tombstone: &crate::merge::RangeTombstone) {
        self.range_tombstones.add(tombstone);
    }

    /// Whether there are range tombstones.
    #[inline]
    pub fn has_range_tombstones(&self) -> bool {
        self.range_tombstones.is_any()
    }

    /// All range tombstones. Those of a sealed Memtable never change.
    pub fn range_tombstones(&self) -> Arc<RangeTombstones> {
        self.range_tombstones.all()
    }

    /// The newest number `<= at` of a range tombstone over an encoded key; `ZERO` if there is none.
    #[inline]
    pub fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        self.range_tombstones.covering(key, at)
    }

    pub(crate) fn arena(&self) -> &Arena {
        &self.arena
    }

    /// Makes a writer ready for a write of so many entries to this Memtable. Outside any latch. True if somebody should `drain_waiting`.
    pub fn attach(&self, writer: &mut MemtableWriter, entries: usize) -> bool {
        let mut drain_due = false;
        if writer.memtable != self.id {
            writer.move_to(self.id, WriterSlot::make(&self.arena, &mut self.writer_slots.lock()));
        }
        if self.component == MemoryComponent::TwoLevel {
            let capacity = queue_capacity(self.soft_bytes).max(entries as u32);
            if writer.queue.as_ref().is_none_or(|queue| queue.remaining() < entries) {
                let chunk = self.allocate(writer, insert_queue::chunk_bytes(capacity));
                // SAFETY: allocated just now with exactly this length.
                let queue = unsafe { InsertQueue::make(&self.arena, chunk, capacity) };
                drain_due = self.add_queue(&queue);
                writer.queue = Some(queue);
            }
        }
        drain_due
    }

    pub(crate) fn soft_bytes(&self) -> usize {
        self.soft_bytes
    }

    fn allocate(&self, writer: &mut MemtableWriter, bytes: usize) -> Offset {
        writer.allocate(&self.arena, bytes, (self.soft_bytes / 256).min(PIECE_BYTES_MAX))
    }

    /// Writes a version, and a node where the key has none, into memory that nobody sees yet; in the single-level kind also
    /// looks for the node's position. May fault pages; call it outside any latch. `hash` is `key_hash` of the key. Cannot fail as
    /// long as callers stop at `is_full` and hold no more than the slack under way. Requires `attach`.
    pub fn prepare(
        &self,
        writer: &mut MemtableWriter,
        (keyspace, user_key, hash): (KeyspaceId, &[u8], u64),
        kind: Kind,
        value: &[u8],
    ) -> Prepared {
        assert!(user_key.len() <= limits::KEY_BYTES_MAX && value.len() <= limits::VALUE_FILE_BYTES_MIN);
        assert_eq!(writer.memtable, self.id, "the writer writes to another memtable");
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
        let class = Class::of(value.len());
        let (node, version) = match found {
            Some(node) => (node, self.block(writer, class, kind, value)),
            None => {
                self.index.touch(&self.arena, hash);
                let height = height_for(hash);
                let tower = tower_bytes(height);
                let memory = self.allocate(writer, tower + body_bytes(user_key.len()) + block_bytes(class));
                self.write_node(memory.plus(tower), height, target, class, kind, value)
            }
        };
        let has_node = found.is_some();
        Prepared { memtable: self.id, hash, version, node, has_node, retains_older: false, splice }
    }

    /// A block with a version for a key that has a node: a spare one where there is one.
    fn block(&self, writer: &mut MemtableWriter, class: Class, kind: Kind, value: &[u8]) -> Offset {
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
        // SAFETY: allocated just now with exactly this length.
        unsafe { Version::make(&self.arena, place, class, kind, value) };
        place
    }

    /// Writes node and version side by side, so that a read of the one fetches the other.
    fn write_node(
        &self,
        node: Offset,
        height: usize,
        target: Target<'_>,
        class: Class,
        kind: Kind,
        value: &[u8],
    ) -> (Offset, Offset) {
        let version = node.plus(body_bytes(target.user_key().len()));
        // SAFETY: the callers allocated tower, body and block around `node` just now.
        unsafe {
            Node::write(&self.arena, node, height, target, version);
            Version::make(&self.arena, version, class, kind, value);
        }
        (node, version)
    }

    /// Writes a node with one numbered version. For `bulk`, whose thread alone has the Memtable.
    pub(crate) fn write_entry(
        &self,
        target: Target<'_>,
        hash: u64,
        kind: Kind,
        value: &[u8],
        number: SequenceNumber,
    ) -> Offset {
        self.key_range.widen(target.user_key());
        let (height, class) = (height_for(hash), Class::of(value.len()));
        let tower = tower_bytes(height);
        let memory = self.arena.allocate(tower + body_bytes(target.user_key().len()) + block_bytes(class));
        let (node, version) = self.write_node(memory.plus(tower), height, target, class, kind, value);
        self.version(version).set_number(number, Offset::NULL, Offset::NULL);
        node
    }

    /// The hash of a node's key; asks for its line of the index.
    pub(crate) fn hash_of(&self, node: Offset) -> u64 {
        let hash = encoded_key_hash(self.node(node).encoded_key());
        self.index.prefetch(&self.arena, hash);
        hash
    }

    /// Asks for a node's first line.
    pub(crate) fn prefetch(&self, node: Offset) {
        self.arena.prefetch(node);
    }

    /// About so many nodes of about `entries` that are there: a fair sample.
    pub(crate) fn sample(&self, entries: u64, wanted: u64) -> impl Iterator<Item = Offset> {
        self.index.sample(&self.arena, entries, wanted)
    }

    /// Brings a node into the index. For `bulk`.
    pub(crate) fn insert_into_index(&self, hash: u64, node: Offset) {
        self.index.insert(&self.arena, hash, node);
    }

    /// Counts what `bulk` has brought in, all of it linked; nothing more will come.
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
        // SAFETY: places of blocks come from `prepare` and `bulk` of this Memtable and from chains of its own.
        unsafe { Version::at(&self.arena, place) }
    }

    /// Gives a prepared version its number and shows it. The caller holds the key's latch and has sealed the record;
    /// `number` is greater than every number that the key has here, and `newest_snapshot` is at least every snapshot's number that was
    /// published before `number` was taken. Never blocks, allocates or fails.
    pub fn place(
        &self,
        writer: &mut MemtableWriter,
        prepared: &mut Prepared,
        number: SequenceNumber,
        newest_snapshot: SequenceNumber,
    ) {
        if let Some(older) = self.link(writer, prepared, number, Offset::NULL) {
            self.remove_or_retain(writer, prepared, older, newest_snapshot);
        }
    }

    /// The state of the writer's next batch, pending. Requires `attach` for all its entries.
    pub fn batch_state(&self, writer: &MemtableWriter) -> BatchState {
        assert_eq!(writer.memtable, self.id, "the writer writes to another memtable");
        // All entries of the batch that used it before have forgotten it.
        WriterSlot::at(&self.arena, writer.slot).state.store(BATCH_PENDING, Ordering::Release);
        BatchState { memtable: self.id, place: writer.slot }
    }

    /// As `place`, but readers skip the version until its batch is committed.
    pub fn place_pending(
        &self,
        writer: &mut MemtableWriter,
        prepared: &mut Prepared,
        number: SequenceNumber,
        batch: BatchState,
    ) {
        assert_eq!(batch.memtable, self.id, "the batch's state belongs to another memtable");
        self.link(writer, prepared, number, batch.place);
    }

    /// Shows all versions of a batch at once. The caller still holds all latches.
    pub fn commit<'p>(
        &self,
        writer: &mut MemtableWriter,
        batch: BatchState,
        entries: impl Iterator<Item = &'p mut Prepared>,
        newest_snapshot: SequenceNumber,
    ) {
        assert_eq!(batch.memtable, self.id, "the batch's state belongs to another memtable");
        // SAFETY: as in `batch_state`.
        let state = unsafe { state(&self.arena, batch.place) };
        if !planted::is(Bug::BatchForgottenFirst) {
            state.store(BATCH_COMMITTED, Ordering::Release);
        }
        for entry in entries {
            let version = self.version(entry.version);
            version.clear_batch();
            let older = version.previous();
            if !older.is_null() {
                self.remove_or_retain(writer, entry, self.version(older), newest_snapshot);
            }
        }
        if planted::is(Bug::BatchForgottenFirst) {
            state.store(BATCH_COMMITTED, Ordering::Release);
        }
    }

    /// Puts a numbered version in front of its key's chain; gives the version that was there.
    fn link(
        &self,
        writer: &mut MemtableWriter,
        prepared: &mut Prepared,
        number: SequenceNumber,
        batch: Offset,
    ) -> Option<Version<'_>> {
        assert_eq!(prepared.memtable, self.id, "prepared in another memtable");
        let version = self.version(prepared.version);
        debug_assert!(
            version.number() == SequenceNumber::ZERO || planted::is(Bug::BlockNumberKept),
            "a prepared version is placed once"
        );
        if !prepared.has_node {
            self.key_range.widen(Target::of(self.node(prepared.node)).user_key());
            version.set_number(number, Offset::NULL, batch);
            match self.publish_node(writer, prepared) {
                Ok(()) => {
                    writer.count(&self.arena, 1);
                    return None;
                }
                // The key came in since; its own node stays unused.
                Err(found) => prepared.node = found.place(),
            }
        }
        let node = self.node(prepared.node);
        let newest = node.newest(&self.arena);
        debug_assert!(
            newest.number() < number || planted::is(Bug::NumberBeforeLatch),
            "numbers of one key are placed in rising order"
        );
        version.set_number(number, newest.place(), batch);
        node.set_newest(version);
        writer.count(&self.arena, 1);
        Some(newest)
    }

    /// Shows a new node, unless the key has one.
    fn publish_node(&self, writer: &mut MemtableWriter, prepared: &Prepared) -> Result<(), Node<'_>> {
        let node = self.node(prepared.node);
        let target = Target::of(node);
        if self.component == MemoryComponent::Skiplist {
            self.list.link(&self.arena, node, &mut prepared.splice.unwrap_or_else(|| self.list.start()))?;
            self.index.insert(&self.arena, prepared.hash, node.place());
            return Ok(());
        }
        match self.index.find_or_insert(&self.arena, prepared.hash, node.place(), |place| self.has_key(place, &target))
        {
            Inserted::Found(found) => return Err(self.node(found)),
            Inserted::New => {
                if let Some(queue) = writer.queue.as_mut().filter(|queue| queue.remaining() > 0) {
                    queue.push(&self.arena, node.place());
                    return Ok(());
                }
            }
            Inserted::Full => {}
        }
        self.link_one(node)
    }

    /// Searches a node's place and links it, unless its key is there.
    fn link_one<'a>(&'a self, node: Node<'a>) -> Result<(), Node<'a>> {
        let (target, mut splice) = (Target::of(node), self.list.start());
        match self.list.find(&self.arena, &target, &mut splice) {
            Some(found) => Err(found),
            None => self.list.link(&self.arena, node, &mut splice),
        }
    }

    /// Links a node that the index has and the list has not.
    pub(crate) fn insert_one(&self, place: Offset) {
        assert!(self.link_one(self.node(place)).is_ok(), "a node of the Membuffer was in the list");
    }

    /// Links sorted nodes that the index has and the list has not: FloDB's Algorithm 1. Each is seen by itself.
    pub(crate) fn multi_insert(&self, nodes: &[Offset]) {
        let mut splice = self.list.start();
        for (at, place) in nodes.iter().enumerate() {
            if let Some(ahead) = nodes.get(at + 8) {
                self.prefetch(*ahead);
            }
            let node = self.node(*place);
            self.list.advance_splice(&self.arena, &Target::of(node), &mut splice);
            let linked = self.list.link(&self.arena, node, &mut splice);
            assert!(linked.is_ok(), "a node of the Membuffer was in the list");
            self.list.move_splice_to(node, &mut splice);
        }
    }

    /// Linked nodes with keys from one up to, without, another.
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

    /// Linked nodes whose towers reach a height.
    pub(crate) fn tall_linked_nodes(&self, height: usize) -> Vec<Offset> {
        self.list.tall_nodes(&self.arena, height)
    }

    /// Takes the version behind one that was placed out of the chain, where no snapshot needs it (invariant 3).
    fn remove_or_retain(
        &self,
        writer: &mut MemtableWriter,
        prepared: &mut Prepared,
        older: Version<'_>,
        newest_snapshot: SequenceNumber,
    ) {
        let look = older.look();
        if self.component == MemoryComponent::Skiplist {
            return;
        }
        let Some(spares) = writer.spares.as_mut().filter(|_| look.number() > newest_snapshot) else {
            prepared.retains_older = true;
            return;
        };
        self.version(prepared.version).set_previous(look.previous());
        spares.add(older);
        // A version further down the chain is a snapshot's; whoever placed the one above it told of it.
        writer.count(&self.arena, -1);
    }

    /// Gives back what was prepared and will not be placed.
    pub fn withdraw(&self, writer: &mut MemtableWriter, prepared: &Prepared) {
        assert_eq!(prepared.memtable, self.id, "prepared in another memtable");
        if let Some(spares) = writer.spares.as_mut().filter(|_| prepared.has_node) {
            spares.add(self.version(prepared.version));
        }
    }

    /// Places entries that were not prepared: their generation changed between their preparation and their number. All that
    /// it needs comes out of the arena's slack. As for `place`; a batch shows at once.
    pub fn place_without_writer<'e>(
        &self,
        entries: impl ExactSizeIterator<Item = ((KeyspaceId, &'e [u8], u64), Kind, &'e [u8])>,
        number: SequenceNumber,
    ) {
        let mut writer = MemtableWriter::temporary(self.id);
        let batch = (entries.len() > 1).then(|| {
            let place = self.arena.allocate(size_of::<u32>());
            // SAFETY: allocated just now.
            unsafe { make_state(&self.arena, place) };
            place
        });
        self.versions_without_writer.fetch_add(entries.len() as u64, Ordering::Relaxed);
        for (key, kind, value) in entries {
            let mut prepared = self.prepare(&mut writer, key, kind, value);
            // What it replaces stays in the chain.
            self.link(&mut writer, &mut prepared, number, batch.unwrap_or(Offset::NULL));
        }
        if let Some(place) = batch {
            // SAFETY: made above.
            unsafe { state(&self.arena, place) }.store(BATCH_COMMITTED, Ordering::Release);
        }
    }

    /// Bytes that entries take, with what was prepared for them.
    pub fn bytes(&self) -> usize {
        self.arena.used_bytes() - self.empty_bytes
    }

    /// Bytes of these that hold something, or that some writer will use first.
    pub fn live_bytes(&self) -> usize {
        self.bytes().saturating_sub(self.retained.spare_bytes())
    }

    /// Versions that are there.
    pub fn entries(&self) -> u64 {
        let placed = WriterSlot::sum(&self.arena, *self.writer_slots.lock())
            .wrapping_add(self.versions_without_writer.load(Ordering::Relaxed));
        placed.wrapping_sub(self.retained.removed())
    }

    /// Whether nothing was placed.
    pub fn is_empty(&self) -> bool {
        self.key_range.is_empty() && !self.has_range_tombstones()
    }

    /// Whether it is time for a new generation: the soft size is reached. The index has room for more than fits in that.
    pub fn is_full(&self) -> bool {
        self.bytes() >= self.soft_bytes
    }

    /// Whether a node has a key.
    pub(crate) fn has_key(&self, place: Offset, target: &Target<'_>) -> bool {
        self.node(place).order(target).is_eq()
    }
}
