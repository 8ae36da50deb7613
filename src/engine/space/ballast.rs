//! The ballast: a file that only reserves space on the disk. On a full disk it is released, so that deletes can be
//! logged, Memtables incorporated and nodes compacted, which frees more space (`docs/recovery.md`, Full disk).
//!
//! Any thread. Background work creates and grows the ballast; writers do not.
//!
//! Invariants:
//! 1. `bytes` is the length of the file, and all its blocks are allocated; 0 if there is no file. It changes under
//!    `changing`.
//! 2. Nothing depends on the file: a failure to create, shrink or find it is not an error of the store, except for a
//!    full disk.

use crate::engine::directory::store_files::BALLAST;
use crate::engine::state::budget::GENERATIONS_MAX;
use crate::io::{OpenMode, Storage};
use crate::util::Result;
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering};
use std::fmt;

/// A reserve for space that is not computed: small branch files are mostly overhead (each has at least five pages, and
/// an incorporation may write several), and the manifest grows, too.
const BYTES_MIN: u64 = 512 << 10;
/// The ballast grows by at least this part of what is needed, so that it follows a filling Memtable in few steps.
const GROWTH_PART: u64 = 4;
/// Space for merges: this part of the tree, but at least a small leaf and at most two Memtables. Larger leaves are
/// split by reference until their parts fit.
const MERGE_PART: u64 = 16;
const MERGE_BYTES_MIN: u64 = 1 << 20;
const MERGE_MEMTABLES_MAX: u64 = 2;

/// The inputs from which the size of the ballast is computed, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BallastNeeds {
    /// The size of all Memtables.
    pub(crate) memory: u64,
    /// The size of the tree.
    pub(crate) tree: u64,
    /// The size of a full Memtable.
    pub(crate) memtable: u64,
    /// The size of a log segment.
    pub(crate) segment: u64,
}

impl BallastNeeds {
    /// The size that the ballast needs: for the incorporation of all Memtables, with what may be added until the next
    /// check; for a log segment with deletes; and for a merge. It grows with the store, up to less than six Memtables.
    pub(crate) fn bytes(self) -> u64 {
        let Self { memory, tree, memtable, segment } = self;
        let memory_soon = (memory + (memory * 3).min(memtable / 2)).min(memory.max(Self::memory_max(memtable)));
        let log = segment.min(memory + tree);
        (BYTES_MIN + memory_soon * 9 / 8 + log).next_multiple_of(64 << 10) + self.merge_bytes()
    }

    /// The greatest size of all Memtables, apart from large writes.
    fn memory_max(memtable: u64) -> u64 {
        GENERATIONS_MAX as u64 * memtable
    }

    /// The greatest size that the ballast needs while the tree does not grow.
    fn bytes_max(self) -> u64 {
        Self { memory: self.memory.max(Self::memory_max(self.memtable)), ..self }.bytes()
    }

    /// The part of the ballast that is reserved for merges, because only merges free space.
    pub(crate) fn merge_bytes(self) -> u64 {
        let most = (self.memtable * MERGE_MEMTABLES_MAX).max(MERGE_BYTES_MIN);
        let least = self.tree.min(MERGE_BYTES_MIN);
        (self.tree / MERGE_PART).clamp(least, most).next_multiple_of(64 << 10)
    }

    /// The space that must be free beyond the ballast before puts are accepted again after a full disk. *Otherwise:*
    /// they fill the disk again at once.
    pub(crate) fn margin(self) -> u64 {
        self.bytes() / 4 + 2 * self.segment
    }
}

/// See the module.
pub(crate) struct Ballast {
    storage: Arc<dyn Storage>,
    bytes: AtomicU64,
    changing: Mutex<()>,
    /// The size that could not be reserved last, for another reason than a full disk. `grow` tries again only when more
    /// is needed.
    failed_bytes: AtomicU64,
}

impl Ballast {
    /// Finds the ballast of an earlier opening, if there is one.
    pub(crate) fn find(storage: &Arc<dyn Storage>) -> Self {
        // Opened for reading only: the content has no meaning, and a file that cannot be opened is not used.
        let found = storage.open(BALLAST, OpenMode::Read).and_then(|file| file.length());
        Self {
            storage: Arc::clone(storage),
            bytes: AtomicU64::new(found.unwrap_or(0)),
            changing: Mutex::new(()),
            failed_bytes: AtomicU64::new(0),
        }
    }

    /// The size of the ballast.
    pub(crate) fn bytes(&self) -> u64 {
        // Relaxed: an estimate for readers; changes check it again under the lock.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the ballast is too small.
    pub(crate) fn is_too_small(&self, needs: BallastNeeds) -> bool {
        let needed = needs.bytes();
        needed > self.bytes() && needed > self.failed_bytes.load(Ordering::Relaxed)
    }

    /// Creates or grows the ballast.
    ///
    /// # Errors
    /// Only if the disk is full. The ballast then keeps its size.
    pub(crate) fn grow(&self, needs: BallastNeeds) -> Result<()> {
        let _changing = self.changing.lock();
        if !self.is_too_small(needs) {
            return Ok(());
        }
        let needed = needs.bytes();
        self.reserve((needed + needed / GROWTH_PART).min(needs.bytes_max()), 0)
    }

    /// After a full disk: grows the ballast to the size that is needed, if that leaves the margin free. Returns false
    /// if the disk has too little space for both.
    pub(crate) fn restore(&self, needs: BallastNeeds) -> bool {
        let _changing = self.changing.lock();
        self.reserve(needs.bytes().max(self.bytes()), needs.margin()).is_ok()
    }

    /// On a full disk: grows the ballast to the part for merges, if it is smaller and there is space.
    pub(crate) fn reserve_for_merges(&self, needs: BallastNeeds) {
        let _changing = self.changing.lock();
        if self.bytes() < needs.merge_bytes() {
            // If this fails, it is retried after the next merge.
            let _ = self.reserve(needs.merge_bytes(), 0);
        }
    }

    /// Releases the space of the ballast, except for `keep` bytes. Returns false if it is not larger than that.
    pub(crate) fn release(&self, keep: u64) -> bool {
        let _changing = self.changing.lock();
        if self.bytes() <= keep {
            return false;
        }
        let released = if keep == 0 { self.storage.remove(BALLAST) } else { self.truncate(keep) };
        // A ballast that cannot be truncated is not used any more.
        self.bytes.store(if released.is_ok() { keep } else { 0 }, Ordering::Relaxed);
        released.is_ok()
    }

    /// Grows the ballast to `bytes`, if another `margin` bytes are free. Requires `changing`.
    fn reserve(&self, bytes: u64, margin: u64) -> Result<()> {
        let before = self.bytes();
        match self.try_reserve(before, bytes, margin) {
            Ok(()) => self.bytes.store(bytes, Ordering::Relaxed),
            Err(error) => {
                let is_restored = before > 0 && self.truncate(before).is_ok();
                if !is_restored {
                    self.bytes.store(0, Ordering::Relaxed);
                    // The file may not exist. The next opening finds one that cannot be removed.
                    let _ = self.storage.remove(BALLAST);
                }
                if error.is_disk_full() {
                    return Err(error);
                }
                self.failed_bytes.store(bytes, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn try_reserve(&self, before: u64, bytes: u64, margin: u64) -> Result<()> {
        let mode = if before == 0 {
            // Removes a file that this opening could not open.
            let _ = self.storage.remove(BALLAST);
            OpenMode::Create
        } else {
            OpenMode::ReadWrite
        };
        // If the file system reports its free space, a nearly full disk is not filled by a vain attempt.
        let more = (bytes + margin).saturating_sub(before);
        if self.storage.available()?.is_some_and(|available| available < more) {
            return Err(crate::util::Error::io(
                "reserve space in",
                &self.storage.path_of(BALLAST),
                std::io::ErrorKind::StorageFull.into(),
            ));
        }
        let file = self.storage.open(BALLAST, mode)?;
        file.reserve(bytes + margin)?;
        if margin > 0 { file.set_length(bytes) } else { Ok(()) }
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.storage.open(BALLAST, OpenMode::ReadWrite)?.set_length(bytes)
    }
}

/// Removes the ballast of a store that is not open, for an opening that finds no space. Returns false if there is none.
pub(crate) fn remove_in(storage: &dyn Storage) -> bool {
    storage.remove(BALLAST).is_ok()
}

impl fmt::Debug for Ballast {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ballast").field("bytes", &self.bytes()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::simulated::SimulatedStorage;

    const NEEDS: BallastNeeds = BallastNeeds { memory: 0, tree: 0, memtable: 32 << 20, segment: 8 << 20 };

    fn on(disk: &SimulatedStorage) -> Ballast {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        Ballast::find(&storage)
    }

    #[test]
    fn the_ballast_grows_with_the_store_up_to_six_memtables() {
        assert!(NEEDS.bytes() <= 640 << 10);
        assert!(BallastNeeds { memory: 4096, tree: 4096, ..NEEDS }.bytes() <= 768 << 10);
        let mut last = 0;
        for shift in 12..44 {
            let memory = (1 << (shift - 3)).min(3 * NEEDS.memtable);
            let bytes = BallastNeeds { memory, tree: 1 << shift, ..NEEDS }.bytes();
            assert!(bytes >= last && bytes <= 6 * NEEDS.memtable, "{bytes} at {shift}");
            last = bytes;
        }
        // Besides the space for a merge there is enough for the Memtables, however large the tree is.
        for memory in [1 << 20, 31 << 20, 96 << 20] {
            let needs = BallastNeeds { memory, tree: 1 << 40, ..NEEDS };
            assert!(needs.bytes() - needs.merge_bytes() >= memory * 9 / 8 && needs.merge_bytes() >= NEEDS.memtable);
        }
    }

    #[test]
    fn the_ballast_is_created_grown_found_again_and_released() {
        let disk = SimulatedStorage::new(1);
        let ballast = on(&disk);
        assert!(ballast.bytes() == 0 && ballast.is_too_small(NEEDS));
        ballast.grow(NEEDS).unwrap();
        assert!(ballast.bytes() >= NEEDS.bytes() && !ballast.is_too_small(NEEDS));
        assert!(disk.used() >= ballast.bytes());
        let larger = BallastNeeds { memory: 1 << 20, ..NEEDS };
        assert!(ballast.is_too_small(larger));
        ballast.grow(larger).unwrap();
        assert!(!ballast.is_too_small(larger));
        let found = on(&disk.kill());
        assert_eq!(found.bytes(), ballast.bytes());
        assert!(found.release(64 << 10) && !found.release(64 << 10));
        assert_eq!((found.bytes(), disk.used()), (64 << 10, 64 << 10));
        assert!(found.release(0) && !found.release(0));
        assert_eq!((found.bytes(), disk.used()), (0, 0));
    }

    #[test]
    fn a_full_disk_keeps_the_ballast_and_restores_it_with_a_margin() {
        let disk = SimulatedStorage::new(2);
        let ballast = on(&disk);
        let small = BallastNeeds { segment: 64 << 10, memtable: 1 << 20, ..NEEDS };
        ballast.grow(small).unwrap();
        let held = ballast.bytes();
        disk.set_capacity(Some(held + 4096));
        let larger = BallastNeeds { memory: 1 << 20, ..small };
        assert!(ballast.grow(larger).unwrap_err().is_disk_full());
        assert_eq!((ballast.bytes(), disk.used()), (held, held), "the size changed by a failed attempt to grow");
        assert!(ballast.release(0));
        disk.set_capacity(Some(larger.bytes()));
        assert!(!ballast.restore(larger), "there is space for the ballast, but not for the margin");
        assert_eq!((ballast.bytes(), disk.used()), (0, 0));
        disk.set_capacity(Some(larger.bytes() + larger.margin()));
        assert!(ballast.restore(larger));
        assert_eq!((ballast.bytes(), disk.used()), (larger.bytes(), larger.bytes()), "the margin is not free");
    }

    #[test]
    fn a_failure_to_create_the_ballast_is_no_error() {
        let disk = SimulatedStorage::new(3);
        let ballast = on(&disk);
        disk.inject("(create nth=1) -> eio");
        ballast.grow(NEEDS).unwrap();
        assert_eq!(ballast.bytes(), 0);
        assert!(!ballast.is_too_small(NEEDS), "the same size is tried again");
        let larger = BallastNeeds { memory: 8 << 20, ..NEEDS };
        assert!(ballast.is_too_small(larger));
        ballast.grow(larger).unwrap();
        assert!(ballast.bytes() > 0);
    }
}
