//! Where Memtables come from: recycled memory, so that a switch of generations costs no page faults. What no Memtable has needed for a
//! while is released, and is somebody else's until one needs it again.
//!
//! Any thread may take one. A Memtable's memory comes back by itself when its last `Arc` is dropped.

use super::memtable::Memtable;
use crate::memory::buffer::component::MemoryComponent;
use crate::memory::entry::hash_index::index_bytes;
use crate::util::arena::{ARENA_BYTES_MAX, ArenaPool};
use crate::util::sync::Arc;

/// Address space behind the soft size for what writers have under way when a Memtable fills: dozens of the largest
/// batches (`limits::BATCH_BYTES_MAX`), with what versions and nodes add. It costs nothing until it is used.
const SLACK_BYTES: usize = 1536 << 20;
/// Arenas in use where nobody holds old views, and recycled ones kept: one fills, and two are being incorporated.
const ARENAS_MAX: usize = 3;

/// Memtables of one size.
#[derive(Debug)]
pub struct MemtablePool {
    component: MemoryComponent,
    soft_bytes: usize,
    arenas: Arc<ArenaPool>,
}

impl MemtablePool {
    /// A pool of Memtables that call themselves full at `soft_bytes` of keys, values and what belongs to them. The
    /// index takes another quarter. Sizes out of reach are cut down to what 32-bit offsets allow.
    pub fn new(component: MemoryComponent, soft_bytes: usize) -> Arc<Self> {
        // Five quarters for the index, and a page for rounding.
        let soft_bytes = soft_bytes.min((ARENA_BYTES_MAX - SLACK_BYTES) / 5 * 4 - (4 << 10));
        let arenas = ArenaPool::new(soft_bytes + index_bytes(soft_bytes), SLACK_BYTES, ARENAS_MAX);
        Arc::new(Self { component, soft_bytes, arenas })
    }

    /// An empty Memtable.
    pub fn take(self: &Arc<Self>) -> Arc<Memtable> {
        Arc::new(Memtable::new(self.arenas.take(), self.soft_bytes, self.component))
    }

    /// Gives memory back to the system that no Memtable needed since the last call.
    pub fn release_unused(&self) {
        self.arenas.release_unused();
    }

    /// Bytes that are set apart for Memtables and that none has.
    pub fn spare_bytes(&self) -> usize {
        ARENAS_MAX.saturating_sub(self.arenas.count()) * self.arenas.soft_bytes()
    }

    /// Bytes of memory that all Memtables, those kept for reuse included, occupy now.
    #[cfg(test)]
    pub fn bytes_resident(&self) -> usize {
        self.arenas.resident_bytes()
    }
}
