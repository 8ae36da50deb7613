//! Creates Memtables in recycled memory, so that a switch of generations causes no page faults. Memory that no Memtable
//! has needed for a while is released, and belongs to other owners until a Memtable needs it again.
//!
//! Any thread may take a Memtable. Its memory returns to the pool when its last `Arc` is dropped.

use super::memtable::Memtable;
use crate::memory::buffer::component::MemoryComponent;
use crate::memory::entry::hash_index::index_bytes;
use crate::util::arena::{ARENA_BYTES_MAX, ArenaPool};
use crate::util::sync::Arc;

/// Address space beyond the soft size, for writes in progress when a Memtable becomes full: dozens of the largest
/// batches (`limits::BATCH_BYTES_MAX`), including versions and nodes. It costs nothing until it is used.
const SLACK_BYTES: usize = 1536 << 20;
/// Arenas in use while no reader holds old views, and recycled ones: one is filled, and two are incorporated.
const ARENAS_MAX: usize = 3;

/// Memtables of one size.
#[derive(Debug)]
pub struct MemtablePool {
    component: MemoryComponent,
    soft_bytes: usize,
    arenas: Arc<ArenaPool>,
}

impl MemtablePool {
    /// A pool of Memtables that are full at `soft_bytes` of keys, values and their overhead. The index takes another
    /// quarter. The size is limited to what 32-bit offsets allow.
    pub fn new(component: MemoryComponent, soft_bytes: usize) -> Arc<Self> {
        // Divided by five quarters for the index; less a page for rounding.
        let soft_bytes = soft_bytes.min((ARENA_BYTES_MAX - SLACK_BYTES) / 5 * 4 - (4 << 10));
        let arenas = ArenaPool::new(soft_bytes + index_bytes(soft_bytes), SLACK_BYTES, ARENAS_MAX);
        Arc::new(Self { component, soft_bytes, arenas })
    }

    /// An empty Memtable.
    pub fn take(self: &Arc<Self>) -> Arc<Memtable> {
        Arc::new(Memtable::new(self.arenas.take(), self.soft_bytes, self.component))
    }

    /// Returns to the system the memory that no Memtable has needed since the last call.
    pub fn release_unused(&self) {
        self.arenas.release_unused();
    }

    /// Bytes that are reserved for Memtables and that no Memtable has.
    pub fn spare_bytes(&self) -> usize {
        ARENAS_MAX.saturating_sub(self.arenas.count()) * self.arenas.soft_bytes()
    }

    /// Resident bytes of all Memtables, including memory kept for reuse.
    #[cfg(test)]
    pub fn bytes_resident(&self) -> usize {
        self.arenas.resident_bytes()
    }
}
