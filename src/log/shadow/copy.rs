//! Shadows: copies of segments in shared memory (`docs/recovery.md`, Log memory, H). A segment with a shadow is written
//! there first, since the pages of a real file fault again after each writeback by the kernel, and those of memory
//! never do. `writeback.rs` copies a shadow's bytes to its segment.
//!
//! Shadows are taken by the thread that makes a segment, one at a time, and removed by the thread that holds the log's
//! `making` and `sealing`. Any thread may do the rest.
//!
//! Invariants:
//! 1. A shadow belongs to the segment with the same sector 0. The shadow gets it first. The segment's header is
//!    durable, and the manifest names the segment, before there is a record. So a named segment without its shadow has
//!    lost records, unless a new life has begun since.
//! 2. A shadow is reused for another segment only when its own segment durably has all of its bytes and a header that
//!    says so (`Writeback::finish`).
//! 3. A shadow's pages are faulted in once; it serves one segment after the other. The `ChunkOwners` belong to the
//!    memory.
//! 4. There are at most `SHADOWS_MAX`. A segment without one is mapped itself. The same happens if idle writers own
//!    most chunks of every free shadow.

use crate::format::log_segment::PAGE_BYTES;
use crate::io::{MappedFile, SharedMemory, Storage};
use crate::log::chunk_owners::ChunkOwners;
use crate::util::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering};
use std::num::NonZeroU64;

/// The current one, the next one, and one that is being written back: the memory budget allows for as many mapped
/// segments.
const SHADOWS_MAX: usize = 3;

/// The memory of a shadow.
#[derive(Clone, Debug)]
pub struct Shadow {
    /// Its name.
    pub piece: NonZeroU64,
    /// Its bytes.
    pub map: Arc<dyn MappedFile>,
    /// The owners of its chunks.
    pub owners: Arc<ChunkOwners>,
}

impl Shadow {
    /// Makes it the shadow of the segment with this header page. Requires that it belongs to no segment.
    pub fn begin(&self, page: &[u8; PAGE_BYTES]) {
        debug_assert!(self.map.length() >= PAGE_BYTES);
        // SAFETY: the mapping is longer; marks are written under the log's state lock and only to the current segment's
        // shadow, and writers do not write to the header page (`segment`, invariants 1 and 2).
        unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), self.map.pointer(), PAGE_BYTES) }
    }
}

/// The shadows of one opening of the store.
#[derive(Debug)]
pub struct Shadows {
    memory: Option<Arc<dyn SharedMemory>>,
    length: usize,
    chunks: usize,
    idle: Mutex<Vec<Shadow>>,
    made: AtomicUsize,
    refused: AtomicU64,
}

impl Shadows {
    /// No shadows yet; each will have this many bytes and chunks. Without shared memory there are never any.
    pub fn new(memory: Option<Arc<dyn SharedMemory>>, length: usize, chunks: usize) -> Self {
        let idle = Mutex::new(Vec::with_capacity(SHADOWS_MAX));
        Self { memory, length, chunks, idle, made: AtomicUsize::new(0), refused: AtomicU64::new(0) }
    }

    /// Whether all of them serve segments. One must then be finished before the next segment is made.
    pub fn are_used_up(&self) -> bool {
        self.memory.is_some() && self.made.load(Ordering::Relaxed) >= SHADOWS_MAX && self.idle.lock().is_empty()
    }

    /// A shadow for a segment; `None` if there is no shared memory, or if `SHADOWS_MAX` are in use.
    pub fn take(&self, storage: &dyn Storage) -> Option<Shadow> {
        let memory = self.memory.as_ref()?;
        {
            let mut idle = self.idle.lock();
            if let Some(at) = idle.iter().position(|shadow| shadow.owners.leave_enough()) {
                return Some(idle.swap_remove(at));
            }
            if self.made.load(Ordering::Relaxed) >= SHADOWS_MAX {
                self.refused.fetch_add(u64::from(!idle.is_empty()), Ordering::Relaxed);
                return None;
            }
        }
        let piece = NonZeroU64::new(storage.random())?;
        // Usually a full tmpfs. The log continues without a shadow; the statistics count it.
        let Ok(map) = memory.create(piece.get(), self.length) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        self.made.fetch_add(1, Ordering::Relaxed);
        Some(Shadow { piece, map, owners: Arc::new(ChunkOwners::new(self.chunks)) })
    }

    /// Keeps a shadow for the next segment. Requires that it belongs to no segment (invariant 2).
    pub fn give_back(&self, shadow: Shadow) {
        self.idle.lock().push(shadow);
    }

    /// Removes a shadow for good. Requires that it belongs to no segment.
    pub fn remove(&self, shadow: &Shadow) {
        if let Some(memory) = &self.memory {
            // A shadow that cannot be removed now is found again at the next opening.
            let _ = memory.remove(shadow.piece.get());
            self.made.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Removes those that serve no segment.
    pub fn remove_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        idle.iter().for_each(|shadow| self.remove(shadow));
    }

    /// Bytes of all shadows.
    pub fn bytes(&self) -> u64 {
        (self.made.load(Ordering::Relaxed) * self.length) as u64
    }

    /// The number of segments without a shadow for lack of memory.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Removes every shadow of the store, including those of earlier processes. Requires that no process has the store open
/// for writing, and that no segment needs a shadow any more.
pub fn remove_all(storage: &dyn Storage) {
    // A shadow that cannot be listed or removed now is found again at the next opening.
    let Some(memory) = storage.shared_memory() else { return };
    for piece in memory.list().unwrap_or_default() {
        let _ = memory.remove(piece);
    }
}
