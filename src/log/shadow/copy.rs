//! Twins of segments in shared memory (`design.md`, The log, way (b); `docs/recovery.md`, Log memory): a segment with a twin is
//! written there first, since pages of a real file fault again after each write-back and those of memory never do. `write_out` brings
//! a twin's bytes to its segment.
//!
//! Taking: whoever makes a segment, one at a time; removing: whoever holds the log's `making` and `sealing`. The rest: any thread.
//!
//! Invariants:
//! 1. A twin belongs to the segment with the same sector 0. The twin gets it first; the segment's header is durable, and the
//!    manifest names the segment, before there is a record. So a named segment without its twin has lost records, unless the machine
//!    or the mount has begun another life since.
//! 2. A twin goes to another segment only when all of it is in its own one, durably, whose header says so (`Writeback::finish`).
//! 3. A twin is faulted in once: it serves one segment after the other. `ChunkOwners` go with the memory, so they are the twin's.
//! 4. There are at most `SHADOWS_MAX`. Without one a segment is mapped itself; so it is, too, where idle writers own most of each
//!    twin's chunks.

use crate::format::log_segment::PAGE_BYTES;
use crate::io::{MappedFile, SharedMemory, Storage};
use crate::log::chunk_owners::ChunkOwners;
use crate::util::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering};
use std::num::NonZeroU64;

/// The one that is written to, the next one, and one on its way to the disk: what the memory budget has for mapped segments.
const SHADOWS_MAX: usize = 3;

/// The memory of one.
#[derive(Clone, Debug)]
pub struct Shadow {
    /// Its name.
    pub piece: NonZeroU64,
    /// Its bytes.
    pub map: Arc<dyn MappedFile>,
    /// Who may still write where.
    pub owners: Arc<ChunkOwners>,
}

impl Shadow {
    /// Makes it the twin of the segment with this header page. Requires that it is nobody's.
    pub fn begin(&self, page: &[u8; PAGE_BYTES]) {
        debug_assert!(self.map.length() >= PAGE_BYTES);
        // SAFETY: the mapping is longer; marks are written under the log's state lock and only to the current segment's twin, and
        // writers stay out of the header page (`segment`, invariants 1 and 2).
        unsafe { std::ptr::copy_nonoverlapping(page.as_ptr(), self.map.pointer(), PAGE_BYTES) }
    }
}

/// The twins of one opening of the store.
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
    /// None yet, of so many bytes and chunks each; without memory there are none ever.
    pub fn new(memory: Option<Arc<dyn SharedMemory>>, length: usize, chunks: usize) -> Self {
        let idle = Mutex::new(Vec::with_capacity(SHADOWS_MAX));
        Self { memory, length, chunks, idle, made: AtomicUsize::new(0), refused: AtomicU64::new(0) }
    }

    /// Whether all of them serve segments. One is then finished before the next segment is made.
    pub fn are_used_up(&self) -> bool {
        self.memory.is_some() && self.made.load(Ordering::Relaxed) >= SHADOWS_MAX && self.idle.lock().is_empty()
    }

    /// One for a segment; `None` where there is no memory for it, or no room for as many.
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
        // A full tmpfs, most often. The log goes on without; the statistics say so.
        let Ok(map) = memory.create(piece.get(), self.length) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        self.made.fetch_add(1, Ordering::Relaxed);
        Some(Shadow { piece, map, owners: Arc::new(ChunkOwners::new(self.chunks)) })
    }

    /// Keeps a twin for the next segment. Requires that it is nobody's (invariant 2).
    pub fn give_back(&self, shadow: Shadow) {
        self.idle.lock().push(shadow);
    }

    /// Removes a twin for good. Requires that it is nobody's.
    pub fn remove(&self, shadow: &Shadow) {
        if let Some(memory) = &self.memory {
            // What cannot be removed now is found again at the next opening.
            let _ = memory.remove(shadow.piece.get());
            self.made.fetch_sub(1, Ordering::Relaxed);
        }
    }

    /// Removes those that serve no segment.
    pub fn remove_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        idle.iter().for_each(|shadow| self.remove(shadow));
    }

    /// Bytes of all of them.
    pub fn bytes(&self) -> u64 {
        (self.made.load(Ordering::Relaxed) * self.length) as u64
    }

    /// How many segments had to do without, for lack of memory.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}

/// Removes every twin of the store, whoever left it. Requires that nobody has the store open for writing, and that no segment
/// needs one any more.
pub fn remove_all(storage: &dyn Storage) {
    // What cannot be listed or removed now is found again at the next opening.
    let Some(memory) = storage.shared_memory() else { return };
    for piece in memory.list().unwrap_or_default() {
        let _ = memory.remove(piece);
    }
}
