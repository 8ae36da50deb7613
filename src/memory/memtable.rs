//! The Memtable: all versions of one generation, by key and number (FloDB §4.1, cLSM §3).
//!
//! Any thread may read at any time, without latch, lock or wait. A writer `prepare`s outside any latch and then
//! `place`s under the latch of the key (`protocol.md`, W); so two `place`s of one key never overlap, and one key's numbers
//! rise. `place`s of different keys race freely.
//!
//! Invariants:
//! 1. A key has at most one node. `prepare` only looks whether there is one; `place` decides, under the latch, by the
//!    compare-and-swap in level 0 of the list, which meets any node that came in meanwhile.
//! 2. Nothing of a prepared version can be found before `place`. When `place` returns, `get` and cursors find it. In
//!    between, for a new key: the node, whose newest version is complete, is linked into level 0 (cursors see it, and
//!    gets whose index window is full), then into the index (all other gets do), then into the higher levels.
//!    For a key that has a node: the one `Release` store of its newest version does all at once.
//! 3. So the step at which a get of that key begins to see the version is one instant: the index slot, or for a key
//!    that the index leaves out the link in level 0, or the store of the newest version. A cursor may see it earlier
//!    than a get does, which nobody can tell: a cursor's reader works at a snapshot, and every number up to that was
//!    placed before (`protocol.md`, Snapshots).
//! 4. A chain's numbers fall from newest to oldest. Nothing is ever unlinked or changed, so a reader may stop anywhere.
//! 5. A pending version is skipped until its batch's state word is `COMMITTED`, a `Release` store that all readers load
//!    with `Acquire`: one store shows all entries of the batch (`version.rs`, invariant 3).

use super::hash_index::{HashIndex, Lookup};
use super::node::{Node, Target, body_bytes, tower_bytes};
use super::skiplist::{Skiplist, Splice, height_for};
use super::version::{BATCH_COMMITTED, Version, new_state, state, version_bytes};
use crate::base::arena::{Arena, Offset};
use crate::base::hash::encoded_key_hash;
use crate::base::planted::{self, Bug};
use crate::base::sync::{AtomicBool, AtomicU64, Ordering};
use crate::base::{KeyspaceId, Kind, SequenceNumber, limits};
use crossbeam_utils::CachePadded;

/// One generation's sorted memory.
#[derive(Debug)]
pub struct Memtable {
    id: u64,
    pub(super) arena: Arena,
    pub(super) list: Skiplist,
    index: HashIndex,
    soft_bytes: usize,
    /// Bytes in use before the first entry.
    empty_bytes: usize,
    /// Whether something was placed. It changes once, so that readers who look here share the line.
    has_entries: AtomicBool,
    counts: CachePadded<Counts>,
}

#[derive(Debug, Default)]
struct Counts {
    keys: AtomicU64,
    versions: AtomicU64,
}

/// A version that lies ready in a Memtable's memory and has no number yet. Good for one `place` in that Memtable;
/// dropped, it wastes its memory until the Memtable is recycled.
#[derive(Debug)]
#[must_use]
pub struct Prepared {
    memtable: u64,
    hash: u64,
    version: Offset,
    /// The key's node, ready to be linked unless `linked`.
    node: Offset,
    linked: bool,
    splice: Splice,
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
    pub(super) fn new(arena: Arena, soft_bytes: usize) -> Self {
        let index = HashIndex::new(&arena, soft_bytes);
        let list = Skiplist::new(&arena);
        let empty_bytes = arena.used_bytes();
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Self {
            id,
            arena,
            list,
            index,
            soft_bytes,
            empty_bytes,
            has_entries: AtomicBool::new(false),
            counts: CachePadded::default(),
        }
    }

    /// Writes a version, and a node where the key has none, into memory that nobody sees yet, and looks for the node's
    /// position. May fault pages; call it outside any latch. `hash` is `key_hash` of the key. Cannot fail as long as
    /// callers stop at `is_full` and hold no more than the slack under way.
    pub fn prepare(&self, keyspace: KeyspaceId, user_key: &[u8], hash: u64, kind: Kind, value: &[u8]) -> Prepared {
        assert!(user_key.len() <= limits::KEY_BYTES_MAX && value.len() <= limits::VALUE_BYTES_MAX);
        let target = Target::new(keyspace, user_key);
        let mut splice = self.list.start();
        let found = match self.index.find(&self.arena, hash, |place| self.has_key(place, &target)) {
            Lookup::Found(node) => Some(node),
            Lookup::Absent | Lookup::Unknown => self.list.find(&self.arena, &target, &mut splice).map(Node::place),
        };
        let (node, version) = match found {
            Some(node) => (node, self.arena.allocate(version_bytes(value.len()))),
            None => self.write_node(target, hash, value.len()),
        };
        // SAFETY: allocated just now with room for exactly this value.
        unsafe { Version::write(&self.arena, version, kind, value) };
        Prepared { memtable: self.id, hash, version, node, linked: found.is_some(), splice }
    }

    /// Allocates node and version side by side, so that a read of the one fetches the other, and writes the node.
    fn write_node(&self, target: Target<'_>, hash: u64, value_bytes: usize) -> (Offset, Offset) {
        self.index.touch(&self.arena, hash);
        self.allocate_node(target, hash, value_bytes)
    }

    fn allocate_node(&self, target: Target<'_>, hash: u64, value_bytes: usize) -> (Offset, Offset) {
        let height = height_for(hash);
        let (tower, body) = (tower_bytes(height), body_bytes(target.user_key().len()));
        let node = self.arena.allocate(tower + body + version_bytes(value_bytes)).plus(tower);
        let version = node.plus(body);
        // SAFETY: tower and body were allocated around `node` just now.
        unsafe { Node::write(&self.arena, node, height, target, version) };
        (node, version)
    }

    /// Writes a node with one numbered version. For `bulk`, whose thread alone has the Memtable.
    pub(super) fn write_entry(
        &self,
        target: Target<'_>,
        hash: u64,
        kind: Kind,
        value: &[u8],
        number: SequenceNumber,
    ) -> Offset {
        let (node, version) = self.allocate_node(target, hash, value.len());
        // SAFETY: allocated just now with room for exactly this value.
        let version = unsafe { Version::write(&self.arena, version, kind, value) };
        version.number_it(number, Offset::NULL, Offset::NULL);
        node
    }

    /// The hash of a node's key; asks for its line of the index. For `bulk`.
    pub(super) fn hash_of(&self, node: Offset) -> u64 {
        let hash = encoded_key_hash(self.node(node).encoded_key());
        self.index.prefetch(&self.arena, hash);
        hash
    }

    /// Brings a node into the index. For `bulk`.
    pub(super) fn enter(&self, hash: u64, node: Offset) {
        self.index.insert(&self.arena, hash, node);
    }

    /// Counts what `bulk` has brought in.
    pub(super) fn count_filled(&self, keys: u64, versions: u64) {
        self.counts.keys.fetch_add(keys, Ordering::Relaxed);
        self.counts.versions.fetch_add(versions, Ordering::Relaxed);
        self.has_entries.store(versions > 0, Ordering::Relaxed);
    }

    /// A node of this Memtable.
    pub(super) fn node(&self, place: Offset) -> Node<'_> {
        self.list.node(&self.arena, place)
    }

    /// Gives a prepared version its number and shows it. The caller holds the key's latch and has sealed the record;
    /// `number` is greater than every number that the key has here. Never blocks, allocates or fails.
    pub fn place(&self, prepared: &Prepared, number: SequenceNumber) {
        self.link(prepared, number, Offset::NULL);
    }

    /// The state of a new batch, pending.
    pub fn batch_state(&self) -> BatchState {
        BatchState { memtable: self.id, place: new_state(&self.arena) }
    }

    /// As `place`, but readers skip the version until its batch is committed.
    pub fn place_pending(&self, prepared: &Prepared, number: SequenceNumber, batch: BatchState) {
        assert_eq!(batch.memtable, self.id, "the batch's state belongs to another memtable");
        self.link(prepared, number, batch.place);
    }

    /// Shows all versions of a batch at once.
    pub fn commit(&self, batch: BatchState) {
        assert_eq!(batch.memtable, self.id, "the batch's state belongs to another memtable");
        // SAFETY: `batch_state` made this word in this Memtable's arena, whose life is the Memtable's.
        unsafe { state(&self.arena, batch.place) }.store(BATCH_COMMITTED, Ordering::Release);
    }

    fn link(&self, prepared: &Prepared, number: SequenceNumber, batch: Offset) {
        assert_eq!(prepared.memtable, self.id, "prepared in another memtable");
        // SAFETY: `prepare` of this Memtable wrote the version, in this life of the arena.
        let version = unsafe { Version::at(&self.arena, prepared.version) };
        debug_assert_eq!(version.number(), SequenceNumber::ZERO, "a prepared version is placed once");
        let mut node = self.list.node(&self.arena, prepared.node);
        self.counts.versions.fetch_add(1, Ordering::Relaxed);
        if !self.has_entries.load(Ordering::Relaxed) {
            // Before the entry can be found. Who must see the entry comes after this thread left its slot or returned from its
            // write, and so sees this too.
            self.has_entries.store(true, Ordering::Relaxed);
        }
        if !prepared.linked {
            version.number_it(number, Offset::NULL, batch);
            match self.list.link(&self.arena, node, &mut { prepared.splice }) {
                Ok(()) => {
                    self.index.insert(&self.arena, prepared.hash, node.place());
                    self.counts.keys.fetch_add(1, Ordering::Relaxed);
                    return;
                }
                // The key came in since; its own node stays unused.
                Err(found) => node = found,
            }
        }
        let newest = node.newest(&self.arena);
        debug_assert!(
            newest.number() < number || planted::is(Bug::NumberBeforeLatch),
            "numbers of one key are placed in rising order"
        );
        version.number_it(number, newest.place(), batch);
        node.set_newest(version);
    }

    /// Finds the newest committed version with a number `<= at` and appends its value to `out`. About three cache
    /// misses; one where the key is absent.
    pub fn get(
        &self,
        keyspace: KeyspaceId,
        user_key: &[u8],
        hash: u64,
        at: SequenceNumber,
        out: &mut Vec<u8>,
    ) -> Option<(SequenceNumber, Kind)> {
        if self.is_empty() {
            return None;
        }
        let version = self.visible(self.find(keyspace, user_key, hash)?, at)?;
        out.extend_from_slice(version.value());
        Some((version.number(), version.kind()))
    }

    /// The number of the key's newest committed version.
    #[cfg_attr(not(test), expect(dead_code, reason = "`update` will check with it that nobody wrote since its read"))]
    pub fn newest_number(&self, keyspace: KeyspaceId, user_key: &[u8], hash: u64) -> Option<SequenceNumber> {
        Some(self.visible(self.find(keyspace, user_key, hash)?, SequenceNumber::MAX)?.number())
    }

    /// Bytes that entries take, with what was prepared for them.
    pub fn bytes(&self) -> usize {
        self.arena.used_bytes() - self.empty_bytes
    }

    /// Versions placed.
    pub fn entries(&self) -> u64 {
        self.counts.versions.load(Ordering::Relaxed)
    }

    /// Whether nothing was placed.
    pub fn is_empty(&self) -> bool {
        !self.has_entries.load(Ordering::Relaxed)
    }

    /// Whether it is time for a new generation: the soft size is reached, or the index should take no more.
    pub fn is_full(&self) -> bool {
        self.bytes() >= self.soft_bytes || self.index.is_overfull(self.counts.keys.load(Ordering::Relaxed))
    }

    fn has_key(&self, place: Offset, target: &Target<'_>) -> bool {
        self.list.node(&self.arena, place).order(target).is_eq()
    }

    fn find(&self, keyspace: KeyspaceId, user_key: &[u8], hash: u64) -> Option<Node<'_>> {
        let target = Target::new(keyspace, user_key);
        match self.index.find(&self.arena, hash, |place| self.has_key(place, &target)) {
            Lookup::Found(node) => Some(self.list.node(&self.arena, node)),
            Lookup::Absent => None,
            Lookup::Unknown => self.list.find(&self.arena, &target, &mut self.list.start()),
        }
    }

    /// The newest committed version `<= at` of a node.
    pub(super) fn visible<'a>(&'a self, node: Node<'a>, at: SequenceNumber) -> Option<Version<'a>> {
        self.versions(node).find(|version| version.number() <= at && version.is_committed(&self.arena))
    }

    /// All versions of a node, newest first.
    pub(super) fn versions<'a>(&'a self, node: Node<'a>) -> impl Iterator<Item = Version<'a>> {
        std::iter::successors(Some(node.newest(&self.arena)), |version| self.older(*version))
    }

    /// The version that a version was placed on.
    pub(super) fn older<'a>(&'a self, version: Version<'a>) -> Option<Version<'a>> {
        let place = version.previous();
        // SAFETY: `previous` was the key's newest version when this one was linked (`version.rs`, invariant 2).
        (!place.is_null()).then(|| unsafe { Version::at(&self.arena, place) })
    }
}
