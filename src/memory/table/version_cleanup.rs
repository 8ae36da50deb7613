//! Version cleanup: removes versions that no snapshot needs any more from their chains (cLSM §3.2.1: a version is
//! removed with the last snapshot that needs it).
//!
//! An overwrite removes the version that it replaces, unless a snapshot needs that version. Then it leaves the version
//! in the chain and notes the node. Version cleanup checks the noted nodes again after snapshots have been dropped.
//!
//! Any thread, one at a time for a Memtable (the lock `cleanup_ended`). Each node is cleaned under the latch of its
//! key.
//!
//! Invariants: a version below one with a number above `through` is not removed (`docs/concurrency.md`, S6), and neither
//! is one below an operand (O2).

use super::memtable::Memtable;
use super::retained_versions::RetainingNode;
use super::writer::Spares;
use crate::memory::entry::class::Class;
use crate::memory::entry::version::block_bytes;
use crate::util::arena::Offset;
use crate::util::planted::planted;
use crate::util::sync::Ordering;
use crate::util::{Kind, SequenceNumber};

impl Memtable {
    /// Notes a key with more than one version. Takes a lock, so it is called after the write is done.
    pub fn note_retained(&self, node: RetainingNode) {
        self.retained.nodes.lock().push(node.place());
    }

    /// Whether `clean_versions` might find anything.
    pub fn has_retained(&self) -> bool {
        !self.retained.nodes.lock().is_empty()
    }

    /// Removes the versions that none of `pins` needs; `pins` is in ascending order. `latched` calls its second
    /// argument with the latch of the hash held. Everything up to `through` was numbered before the pins were read, so
    /// a snapshot that is not among them has at least that number (`docs/concurrency.md`, S2). Returns the number of
    /// removed versions.
    pub fn clean_versions(
        &self,
        pins: &[SequenceNumber],
        through: SequenceNumber,
        mut latched: impl FnMut(u64, &mut dyn FnMut()),
    ) -> u64 {
        let cleanup_ended = self.retained.cleanup_ended.lock();
        if *cleanup_ended {
            return 0;
        }
        let mut nodes = std::mem::take(&mut *self.retained.nodes.lock());
        nodes.sort_unstable_by_key(|node| node.0);
        nodes.dedup();
        let mut removed = 0;
        nodes.retain(|node| {
            let mut more = false;
            latched(self.hash_of(*node), &mut || more = self.clean_chain(*node, pins, through, &mut removed));
            more
        });
        self.retained.nodes.lock().append(&mut nodes);
        self.retained.removed.fetch_add(removed, Ordering::Relaxed);
        removed
    }

    /// Cleans the chain of one key, whose latch is held. True if versions remain that snapshots need.
    fn clean_chain(&self, node: Offset, pins: &[SequenceNumber], through: SequenceNumber, removed: &mut u64) -> bool {
        let mut above = self.node(node).newest(self.arena());
        let mut retains = false;
        while let Some(version) = self.older(above) {
            // Needed by pins from the version's own number up to, but without, the number of the version above.
            let first = pins.partition_point(|pin| *pin < version.number());
            let needed = above.number() > through || pins.get(first).is_some_and(|pin| *pin < above.number());
            retains |= needed;
            // An operand needs what is below it.
            if needed || planted!(above.kind() == Kind::Merge, Bug::OperandAlone => false) {
                above = version;
            } else {
                above.set_previous(version.previous());
                *removed += 1;
                self.retained.spare_bytes.fetch_add(block_bytes(version.class()), Ordering::Relaxed);
                self.retained.spares.lock().get_or_insert_default().add(version);
                self.retained.has_spares.store(true, Ordering::Relaxed);
            }
        }
        retains
    }

    /// Moves the shared spare blocks of a class to a writer that has none of this class.
    pub(crate) fn take_shared_spares(&self, spares: &mut Spares, class: Class) {
        if spares.has(class) {
            return;
        }
        if let Some(shared) = &mut *self.retained.spares.lock() {
            spares.take_all(shared, class);
        }
        let first = (!spares.first(class).is_null()).then(|| self.version(spares.first(class)));
        let taken = std::iter::successors(first, |block| self.older(*block)).count();
        self.retained.spare_bytes.fetch_sub(taken * block_bytes(class), Ordering::Relaxed);
    }
}
