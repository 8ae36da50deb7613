//! Placing versions: the steps of a write under its key's latch, and what they do with the versions below.
//!
//! See the module `memtable` for the rules of callers, and its invariants 1 to 4.

use super::memtable::{BatchState, Memtable, Prepared};
use super::writer::{MemtableWriter, WriterSlot, add_spare};
use crate::memory::buffer::component::MemoryComponent;
use crate::memory::entry::hash_index::Inserted;
use crate::memory::entry::node::{Node, Target};
use crate::memory::entry::version::{BATCH_COMMITTED, BATCH_PENDING, Version, make_state, state};
use crate::merge::RangeTombstones;
use crate::util::arena::Offset;
use crate::util::planted::planted;
use crate::util::sync::Ordering;
use crate::util::{KeyspaceId, Kind, SequenceNumber};

impl Memtable {
    /// Numbers a prepared version and publishes it. The caller holds the key's latch and has sealed the record.
    /// `number` is greater than every number of the key in this Memtable. `newest_snapshot` is at least the number of
    /// every snapshot that was published before `number` was taken. Never blocks, allocates or fails.
    pub fn place(
        &self,
        writer: &mut MemtableWriter,
        prepared: &mut Prepared,
        number: SequenceNumber,
        newest_snapshot: SequenceNumber,
    ) {
        if !prepared.folded.is_null() {
            self.place_folded(writer, prepared, number, newest_snapshot);
        } else if let Some(older) = self.link(writer, prepared, number, Offset::NULL) {
            self.remove_or_retain(writer, prepared, older, newest_snapshot);
        }
    }

    /// Places the fold of an operand, if the version that it was folded with is still the newest, or else the operand.
    #[inline(never)]
    fn place_folded(
        &self,
        writer: &mut MemtableWriter,
        prepared: &mut Prepared,
        number: SequenceNumber,
        newest_snapshot: SequenceNumber,
    ) {
        let node = self.node(prepared.node);
        let newest = node.newest(self.arena());
        let (operand, folded) = (self.version(prepared.version), self.version(prepared.folded));
        let holds = self.fold_holds(prepared, newest, newest_snapshot);
        let (placed, unused) = if holds { (folded, operand) } else { (operand, folded) };
        (prepared.version, prepared.folded) = (placed.place(), Offset::NULL);
        if holds && placed.kind() == Kind::Merge {
            // Invariant 1 of `folding`.
            let below = self.below_folded(newest, prepared.folded_through);
            placed.set_number(number, below, Offset::NULL);
            node.set_newest(placed);
            let removed = self.remove_folded(writer, newest, below);
            writer.count(self.arena(), 1 - removed);
        } else if let Some(older) = self.link(writer, prepared, number, Offset::NULL) {
            self.remove_or_retain(writer, prepared, older, newest_snapshot);
        }
        add_spare(writer, unused);
    }

    /// The state of the writer's next batch, pending. Requires `attach` for all entries of the batch.
    pub fn batch_state(&self, writer: &MemtableWriter) -> BatchState {
        assert_eq!(writer.memtable, self.id, "the writer is attached to another memtable");
        // All entries of the previous batch that used it have cleared their batch word (rule M8).
        WriterSlot::at(self.arena(), writer.slot).state.store(BATCH_PENDING, Ordering::Release);
        BatchState { memtable: self.id, place: writer.slot }
    }

    /// The state of a batch that also deletes ranges, pending. No other batch uses its word, so that readers of the range
    /// tombstones need not check whose it is.
    pub fn batch_state_of_range_delete(&self) -> BatchState {
        let place = self.arena().allocate(size_of::<u32>());
        // SAFETY: just allocated with this length.
        unsafe { make_state(self.arena(), place) };
        BatchState { memtable: self.id, place }
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

    /// Publishes all versions of a batch at once. The caller still holds all latches.
    pub fn commit<'p>(
        &self,
        writer: &mut MemtableWriter,
        batch: BatchState,
        entries: impl Iterator<Item = &'p mut Prepared>,
        newest_snapshot: SequenceNumber,
    ) {
        assert_eq!(batch.memtable, self.id, "the batch's state belongs to another memtable");
        // SAFETY: `batch_state` of this Memtable (checked above) returned the place of a writer slot, whose first field
        // is a state word.
        let state = unsafe { state(self.arena(), batch.place) };
        planted!(state.store(BATCH_COMMITTED, Ordering::Release), Bug::BatchClearedFirst => ());
        for entry in entries {
            let version = self.version(entry.version);
            version.clear_batch();
            let older = version.previous();
            if !older.is_null() {
                let older = self.version(older);
                if entry.folded.is_null() || !self.take_fold(writer, entry, older, newest_snapshot) {
                    self.remove_or_retain(writer, entry, older, newest_snapshot);
                }
            }
        }
        planted!(Bug::BatchClearedFirst => {
            state.store(BATCH_COMMITTED, Ordering::Release);
        });
    }

    /// Puts the fold of a batch's operand in the operand's place, if it holds. Until the commit, readers skipped the operand
    /// and needed the version below. True if that is gone now, too.
    #[inline(never)]
    fn take_fold(
        &self,
        writer: &mut MemtableWriter,
        prepared: &mut Prepared,
        older: Version<'_>,
        newest_snapshot: SequenceNumber,
    ) -> bool {
        let (operand, folded) = (self.version(prepared.version), self.version(prepared.folded));
        // Invariant 5: the operand was placed.
        let holds = self.removes_versions() && self.fold_holds(prepared, older, newest_snapshot);
        prepared.folded = Offset::NULL;
        if !holds {
            add_spare(writer, folded);
            return false;
        }
        let replaces = folded.kind() == Kind::Merge;
        let below = if replaces { self.below_folded(older, prepared.folded_through) } else { older.place() };
        folded.set_number(operand.number(), below, Offset::NULL);
        self.node(prepared.node).set_newest(folded);
        prepared.version = folded.place();
        add_spare(writer, operand);
        if replaces {
            let removed = self.remove_folded(writer, older, below);
            writer.count(self.arena(), -removed);
        }
        replaces
    }

    /// Links a version, with its number set, in front of its key's chain. Returns the version that was newest before.
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
            planted!(version.number() == SequenceNumber::ZERO, Bug::BlockNumberNotCleared => true),
            "a prepared version is placed once"
        );
        if !prepared.has_node {
            self.key_range.widen(Target::of(self.node(prepared.node)).user_key());
            version.set_number(number, Offset::NULL, batch);
            match self.publish_node(writer, prepared) {
                Ok(()) => {
                    writer.count(self.arena(), 1);
                    return None;
                }
                // Another thread has added the key meanwhile; the prepared node stays unused.
                Err(found) => prepared.node = found.place(),
            }
        }
        let node = self.node(prepared.node);
        let newest = node.newest(self.arena());
        debug_assert!(
            planted!(newest.number() < number, Bug::NumberBeforeLatch => true),
            "numbers of one key are placed in rising order"
        );
        version.set_number(number, newest.place(), batch);
        node.set_newest(version);
        writer.count(self.arena(), 1);
        Some(newest)
    }

    /// Publishes a new node, unless the key has one already: then fails with that node.
    fn publish_node(&self, writer: &mut MemtableWriter, prepared: &Prepared) -> Result<(), Node<'_>> {
        let node = self.node(prepared.node);
        let target = Target::of(node);
        if self.component == MemoryComponent::Skiplist {
            self.list.link(self.arena(), node, &mut prepared.splice.unwrap_or_else(|| self.list.start()))?;
            self.index.insert(self.arena(), prepared.hash, node.place());
            return Ok(());
        }
        match self.index.find_or_insert(self.arena(), prepared.hash, node.place(), |place| self.has_key(place, &target))
        {
            Inserted::Found(found) => return Err(self.node(found)),
            Inserted::New => {
                if let Some(queue) = writer.queue.as_mut().filter(|queue| queue.remaining() > 0) {
                    queue.push(self.arena(), node.place());
                    return Ok(());
                }
            }
            Inserted::Full => {}
        }
        self.link_one(node)
    }

    /// Removes the version below a placed one from the chain, if no snapshot needs it (invariant 3), and with an operand
    /// what lies below that. An operand that was placed needs what is below.
    fn remove_or_retain<'a>(
        &'a self,
        writer: &mut MemtableWriter,
        prepared: &mut Prepared,
        mut older: Version<'a>,
        newest_snapshot: SequenceNumber,
    ) {
        let placed = self.version(prepared.version);
        if planted!(placed.kind() == Kind::Merge, Bug::OperandAlone => false) {
            prepared.ends_long_chain = self.ends_long_chain(placed);
            return;
        }
        if !self.removes_versions() {
            return;
        }
        loop {
            let look = older.look();
            let Some(spares) = writer.spares.as_mut().filter(|_| look.number() > newest_snapshot) else {
                prepared.retains_older = true;
                return;
            };
            placed.set_previous(look.previous());
            spares.add(older);
            // A version further down the chain is retained for a snapshot; the writer of the version above it has noted
            // its node. Or it belongs to an operand.
            writer.count(self.arena(), -1);
            if look.kind() != Kind::Merge || look.previous().is_null() {
                return;
            }
            older = self.version(look.previous());
        }
    }

    /// Frees a prepared version that will not be placed.
    pub fn withdraw(&self, writer: &mut MemtableWriter, prepared: &Prepared) {
        assert_eq!(prepared.memtable, self.id, "prepared in another memtable");
        if prepared.has_node {
            add_spare(writer, self.version(prepared.version));
        }
        if !prepared.folded.is_null() {
            add_spare(writer, self.version(prepared.folded));
        }
    }

    /// Places entries that were not prepared in this Memtable, because a switch happened between preparation and number.
    /// All memory that it needs comes from the arena's slack. Requires what `place` requires; a batch becomes visible
    /// at once, with its range tombstones.
    pub fn place_without_writer<'e>(
        &self,
        entries: impl ExactSizeIterator<Item = ((KeyspaceId, &'e [u8], u64), Kind, &'e [u8])>,
        tombstones: RangeTombstones,
        number: SequenceNumber,
    ) {
        if entries.len() == 0 {
            return self.add_range_tombstones(tombstones);
        }
        let mut writer = MemtableWriter::temporary(self.id);
        let has_tombstones = !tombstones.is_empty();
        let batch = (entries.len() > 1 || has_tombstones).then(|| self.batch_state_of_range_delete());
        if let Some(batch) = batch.filter(|_| has_tombstones) {
            self.add_pending_range_tombstones(tombstones, batch);
        }
        self.versions_without_writer.fetch_add(entries.len() as u64, Ordering::Relaxed);
        for (key, kind, value) in entries {
            let mut prepared = self.prepare(&mut writer, key, kind, value);
            // The replaced version stays in the chain.
            self.link(&mut writer, &mut prepared, number, batch.map_or(Offset::NULL, |batch| batch.place));
        }
        if let Some(batch) = batch {
            // SAFETY: `make_state` initialised it above.
            unsafe { state(self.arena(), batch.place) }.store(BATCH_COMMITTED, Ordering::Release);
        }
    }
}
