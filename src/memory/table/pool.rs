//! Creates Memtables in recycled memory, so that a switch of generations causes no page faults. Memory that no Memtable
//! has needed for a while is released, and belongs to other owners until a Memtable needs it again.
//!
//! Any thread may take a Memtable. Its memory returns to the pool when its last `Arc` is dropped. Several stores may
//! share the memory; each has a `MemtablePool` of its own in it.

use super::memtable::Memtable;
use crate::memory::buffer::component::MemoryComponent;
use crate::memory::buffer::membuffer::LastBoundaries;
use crate::memory::entry::hash_index::index_bytes;
use crate::util::arena::{ARENA_BYTES_MAX, ArenaPool};
use crate::util::sync::Arc;
use std::io;

/// The most address space that is ever reserved beyond the soft size.
pub const SLACK_BYTES_MAX: usize = 6 << 30;
/// The largest soft size: what 32-bit offsets can address, less the slack and a page for rounding, divided by five quarters
/// for the index.
pub const MEMTABLE_SOFT_BYTES_MAX: usize = (ARENA_BYTES_MAX - SLACK_BYTES_MAX) / 5 * 4 - (64 << 10);
/// Memtables of full size that a store has at once: one is filled, and two are incorporated.
const MEMTABLES_MAX: usize = 3;

/// The Memtables of one store.
#[derive(Debug)]
pub struct MemtablePool {
    component: MemoryComponent,
    soft_bytes: usize,
    arenas: Arc<ArenaPool>,
    last_boundaries: Arc<LastBoundaries>,
}

/// The memory of a Memtable of this soft size: its entries, and about a quarter for its index.
pub fn memtable_bytes(soft_bytes: usize) -> usize {
    soft_bytes + index_bytes(soft_bytes)
}

/// The memory for the Memtables of one store, if the largest have this soft size.
pub fn memtables_bytes(soft_bytes: usize) -> usize {
    MEMTABLES_MAX * memtable_bytes(soft_bytes).next_multiple_of(4 << 10)
}

impl MemtablePool {
    /// A pool of Memtables with memory of its own. The largest are full at `soft_bytes` of keys, values and their
    /// overhead.
    #[cfg(any(test, feature = "testing"))]
    pub fn new(component: MemoryComponent, soft_bytes: usize) -> Arc<Self> {
        Self::in_memory(&ArenaPool::new(memtables_bytes(soft_bytes)), component, soft_bytes)
    }

    /// A pool of Memtables in this memory, of at most `MEMTABLE_SOFT_BYTES_MAX` each.
    pub fn in_memory(arenas: &Arc<ArenaPool>, component: MemoryComponent, soft_bytes: usize) -> Arc<Self> {
        assert!(soft_bytes <= MEMTABLE_SOFT_BYTES_MAX, "the options allow no larger Memtables");
        Arc::new(Self { component, soft_bytes, arenas: Arc::clone(arenas), last_boundaries: Arc::default() })
    }

    /// The size of the largest Memtables.
    pub fn soft_bytes(&self) -> usize {
        self.soft_bytes
    }

    /// An empty Memtable of the largest size, with much space beyond it.
    #[cfg(any(test, feature = "testing"))]
    pub fn take(&self) -> Arc<Memtable> {
        match self.take_sized(self.soft_bytes, 1536 << 20) {
            Ok(memtable) => memtable,
            Err(error) => panic!("no address space for a Memtable: {error}"),
        }
    }

    /// An empty Memtable that is full at `soft_bytes`. `slack_bytes` of address space are reserved for writes that are in
    /// progress when it becomes full.
    pub fn take_sized(&self, soft_bytes: usize, slack_bytes: usize) -> io::Result<Arc<Memtable>> {
        let soft_bytes = soft_bytes.min(self.soft_bytes);
        let arena = self.arenas.take(memtable_bytes(soft_bytes), slack_bytes.min(SLACK_BYTES_MAX))?;
        Ok(Arc::new(Memtable::new(arena, soft_bytes, self.component, &self.last_boundaries)))
    }

    /// Resident bytes of all Memtables, including memory held for reuse.
    #[cfg(test)]
    pub fn bytes_resident(&self) -> usize {
        self.arenas.resident_bytes()
    }
}
