//! Shadows: copies of segments that writers write first (`docs/recovery.md`, H). A shadow is a mapped file in the
//! store's directory that is never synced after it was made, since the pages of a file that is synced are
//! write-protected by each sync and fault again. `writeback.rs` copies a shadow's bytes to its segment. Where mappings
//! cannot be trusted, a shadow is memory of the process.
//!
//! Shadows are taken by the thread that makes a segment, one at a time. Any thread may do the rest: an idle shadow
//! belongs to the thread that takes it out of the list.
//!
//! Invariants:
//! 1. A shadow belongs to the segment with the same sector 0. The shadow gets it first. The segment's header is
//!    durable, and the manifest names the segment, before there is a record. So a named segment without its shadow has
//!    lost records, unless a new life has begun since.
//! 2. A shadow is reused for another segment only when its own segment has all of its bytes durably, and a header that
//!    says so (`Writeback::finish`).
//! 3. A shadow's file was filled with zeroes and synced when it was made: its blocks exist, whatever writes it back and
//!    however full the disk is. It is made anew at every opening, so that no earlier copy shares its blocks.
//! 4. The `ChunkOwners` belong to the memory, which serves one segment after the other.
//! 5. There are at most `SHADOWS_MAX`. A segment without one is mapped itself. The same happens if idle writers own
//!    most chunks of every free shadow.

use super::private_memory::PrivateMemory;
use crate::format::log_segment::PAGE_BYTES;
use crate::io::{MappedFile, Storage};
use crate::log::basics::chunk_owners::ChunkOwners;
use crate::log::basics::names::{Role, file_name};
use crate::log::basics::segment_size::SegmentSize;
use crate::log::basics::zeroes::write_zeroes;
use crate::util::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::util::{FileNumber, FileNumbers, Result};

/// The current one, the next one, and one that is being written back: the memory budget allows for as many mapped
/// segments.
const SHADOWS_MAX: usize = 3;
/// The pages of larger shadows are faulted in when the shadow is made. An idle store with a small one touches only
/// those that it uses.
const PREPARED_FROM_BYTES: usize = 128 << 10;

/// A shadow. See the module.
#[derive(Clone, Debug)]
pub struct Shadow {
    /// Its file's number; `None` if it is memory of the process.
    pub number: Option<FileNumber>,
    /// Its bytes.
    pub map: Arc<dyn MappedFile>,
    /// Its length and that of its chunks.
    pub size: SegmentSize,
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
    storage: Arc<dyn Storage>,
    numbers: Arc<FileNumbers>,
    /// Whether they are files.
    mapped: bool,
    idle: Mutex<Vec<Shadow>>,
    made: AtomicUsize,
    bytes: AtomicU64,
    refused: AtomicU64,
}

impl Shadows {
    /// No shadows yet.
    pub fn new(storage: &Arc<dyn Storage>, numbers: &Arc<FileNumbers>) -> Self {
        Self {
            storage: Arc::clone(storage),
            numbers: Arc::clone(numbers),
            mapped: storage.maps_safely(),
            idle: Mutex::new(Vec::with_capacity(SHADOWS_MAX)),
            made: AtomicUsize::new(0),
            bytes: AtomicU64::new(0),
            refused: AtomicU64::new(0),
        }
    }

    /// Whether they are files that outlive the process. If not, every write must be written back before it returns.
    pub fn are_mapped(&self) -> bool {
        self.mapped
    }

    /// Whether all of them serve segments. One must then be finished before the next segment is made.
    pub fn are_used_up(&self) -> bool {
        self.made.load(Ordering::Relaxed) >= SHADOWS_MAX && self.idle.lock().is_empty()
    }

    /// A shadow for a segment of this size; `None` if `SHADOWS_MAX` are in use, or if there is no space for another
    /// one.
    pub fn take(&self, size: SegmentSize) -> Option<Shadow> {
        let others = {
            let mut idle = self.idle.lock();
            let fits = |shadow: &Shadow| shadow.size == size && shadow.owners.leave_enough();
            if let Some(at) = idle.iter().position(fits) {
                return Some(idle.swap_remove(at));
            }
            // The size has changed, or idle writers own too much of them.
            std::mem::take(&mut *idle)
        };
        others.iter().for_each(|shadow| self.remove(shadow));
        if self.mapped && self.made.load(Ordering::Relaxed) >= SHADOWS_MAX {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        // Usually a full disk. The log continues without a shadow; the statistics count it.
        let Ok(shadow) = self.make(size) else {
            self.refused.fetch_add(1, Ordering::Relaxed);
            return None;
        };
        self.made.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(size.bytes() as u64, Ordering::Relaxed);
        Some(shadow)
    }

    fn make(&self, size: SegmentSize) -> Result<Shadow> {
        let owners = Arc::new(ChunkOwners::new(size.chunks));
        if !self.mapped {
            let map: Arc<dyn MappedFile> = Arc::new(PrivateMemory::new(self.storage.path(), size.bytes()));
            return Ok(Shadow { number: None, map, size, owners });
        }
        let number = self.numbers.take();
        let name = file_name(number, Role::Shadow);
        let made = write_zeroes(&*self.storage, &name, size.bytes()).and_then(|()| self.storage.map(&name));
        let map = made.inspect_err(|_| {
            // A file that cannot be removed now is found again at the next opening.
            let _ = self.storage.remove(&name);
        })?;
        if size.bytes() >= PREPARED_FROM_BYTES {
            map.prepare(0, size.bytes());
        }
        Ok(Shadow { number: Some(number), map, size, owners })
    }

    /// Keeps a shadow for the next segment. Requires that it belongs to no segment (invariant 2).
    pub fn give_back(&self, shadow: Shadow) {
        self.idle.lock().push(shadow);
    }

    /// Removes a shadow for good. Requires that it belongs to no segment.
    pub fn remove(&self, shadow: &Shadow) {
        if let Some(number) = shadow.number {
            // A file that cannot be removed now is found again at the next opening.
            let _ = self.storage.remove(&file_name(number, Role::Shadow));
        }
        self.made.fetch_sub(1, Ordering::Relaxed);
        self.bytes.fetch_sub(shadow.size.bytes() as u64, Ordering::Relaxed);
    }

    /// Removes those that serve no segment.
    pub fn remove_idle(&self) {
        let idle = std::mem::take(&mut *self.idle.lock());
        idle.iter().for_each(|shadow| self.remove(shadow));
    }

    /// Whether every shadow serves a segment.
    pub fn has_no_idle(&self) -> bool {
        self.idle.lock().is_empty()
    }

    /// Bytes of all shadows.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of segments that got no shadow.
    pub fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }
}
