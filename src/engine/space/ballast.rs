//! The ballast: a file that holds room on the disk and nothing else. On a full disk it is given up, so that deletes can be
//! logged, Memtables written out and nodes compacted, which brings space back (`docs/recovery.md`, Full disk).
//!
//! Any thread; background work makes and grows it, never a writer.
//!
//! Invariants:
//! 1. `bytes` is the length of the file, all of it the file's own blocks; 0 where there is none. It changes under `changing`.
//! 2. Nothing depends on the file: what cannot be made, cut or found again is no error of the store's, but for a full disk.

use crate::engine::directory::store_files::BALLAST;
use crate::engine::state::budget::GENERATIONS_MAX;
use crate::io::{OpenMode, Storage};
use crate::util::Result;
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering};
use std::fmt;

/// What it is beyond what can be counted: small branch files are mostly overhead (each has at least five pages, and an
/// incorporation may make several), and the manifest grows, too.
const BYTES_MIN: u64 = 512 << 10;
/// It grows by at least a quarter, so that a Memtable that fills is followed in few steps.
const GROWTH: u64 = 4;
/// Room for merging: this part of the tree, but a small leaf in any case, and at most so many Memtables. Larger leaves are
/// split by reference until their parts fit.
const MERGE_PART: u64 = 16;
const MERGE_BYTES_MIN: u64 = 1 << 20;
const MERGE_MEMTABLES_MAX: u64 = 2;

/// What decides how large the ballast is to be, bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BallastNeeds {
    /// In all Memtables.
    pub(crate) memory: u64,
    /// In the tree.
    pub(crate) tree: u64,
    /// A full Memtable.
    pub(crate) memtable: u64,
    /// A log segment.
    pub(crate) segment: u64,
}

impl BallastNeeds {
    /// The Memtables to write out, with what may be added until the ballast is looked at again; a log segment for the
    /// deletes; and a merge. So it grows with the store, up to less than six Memtables.
    pub(crate) fn bytes(self) -> u64 {
        let Self { memory, tree, memtable, segment } = self;
        let memory_soon = (memory + (memory * 3).min(memtable / 2)).min(memory.max(Self::memory_most(memtable)));
        let log = segment.min(memory + tree);
        (BYTES_MIN + memory_soon * 9 / 8 + log).next_multiple_of(64 << 10) + self.merge_bytes()
    }

    /// Bytes in all Memtables at most, but for large writes.
    fn memory_most(memtable: u64) -> u64 {
        GENERATIONS_MAX as u64 * memtable
    }

    /// As many as they will ever be while the tree is as it is.
    fn bytes_most(self) -> u64 {
        Self { memory: self.memory.max(Self::memory_most(self.memtable)), ..self }.bytes()
    }

    /// The part of it that is for merges alone: only they free space.
    pub(crate) fn merge_bytes(self) -> u64 {
        let most = (self.memtable * MERGE_MEMTABLES_MAX).max(MERGE_BYTES_MIN);
        let least = self.tree.min(MERGE_BYTES_MIN);
        (self.tree / MERGE_PART).clamp(least, most).next_multiple_of(64 << 10)
    }

    /// What must be free beyond the ballast before writes go on after a full disk; else they would fill it again at once.
    pub(crate) fn margin(self) -> u64 {
        self.bytes() / 4 + 2 * self.segment
    }
}

/// See the module.
pub(crate) struct Ballast {
    storage: Arc<dyn Storage>,
    bytes: AtomicU64,
    changing: Mutex<()>,
    /// What could not be made for another reason than a full disk is not tried again before so much more is needed.
    given_up_on: AtomicU64,
}

impl Ballast {
    /// The ballast that an earlier opening left, or none.
    pub(crate) fn find(storage: &Arc<dyn Storage>) -> Self {
        // Read only: its bytes mean nothing, and whatever keeps it from being read keeps it from being used.
        let found = storage.open(BALLAST, OpenMode::Read).and_then(|file| file.length());
        Self {
            storage: Arc::clone(storage),
            bytes: AtomicU64::new(found.unwrap_or(0)),
            changing: Mutex::new(()),
            given_up_on: AtomicU64::new(0),
        }
    }

    /// Its size.
    pub(crate) fn bytes(&self) -> u64 {
        // Relaxed: a figure; who acts on it takes the lock and looks again.
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether it is too small.
    pub(crate) fn is_too_small(&self, needs: BallastNeeds) -> bool {
        let wanted = needs.bytes();
        wanted > self.bytes() && wanted > self.given_up_on.load(Ordering::Relaxed)
    }

    /// Makes or grows it.
    ///
    /// # Errors
    /// That the disk is full; it is then as large as before.
    pub(crate) fn grow(&self, needs: BallastNeeds) -> Result<()> {
        let _changing = self.changing.lock();
        if !self.is_too_small(needs) {
            return Ok(());
        }
        let wanted = needs.bytes();
        self.reserve((wanted + wanted / GROWTH).min(needs.bytes_most()), 0)
    }

    /// After a full disk: brings it to the size that is needed if that leaves the margin free; says whether.
    pub(crate) fn restore(&self, needs: BallastNeeds) -> bool {
        let _changing = self.changing.lock();
        self.reserve(needs.bytes().max(self.bytes()), needs.margin()).is_ok()
    }

    /// On a full disk: holds on to the room for merges, if there is any free and it lacks it.
    pub(crate) fn reserve_for_merges(&self, needs: BallastNeeds) {
        let _changing = self.changing.lock();
        if self.bytes() < needs.merge_bytes() {
            // If not, then after the next merge.
            let _ = self.reserve(needs.merge_bytes(), 0);
        }
    }

    /// Gives its room back to the file system, all but `keep` bytes; false where it had no more than that.
    pub(crate) fn release(&self, keep: u64) -> bool {
        let _changing = self.changing.lock();
        if self.bytes() <= keep {
            return false;
        }
        let given = if keep == 0 { self.storage.remove(BALLAST) } else { self.cut(keep) };
        // One that cannot be cut is left alone from here on.
        self.bytes.store(if given.is_ok() { keep } else { 0 }, Ordering::Relaxed);
        given.is_ok()
    }

    /// Requires `changing`.
    fn reserve(&self, bytes: u64, margin: u64) -> Result<()> {
        let held = self.bytes();
        let made = self.try_reserve(held, bytes, margin);
        match made {
            Ok(()) => self.bytes.store(bytes, Ordering::Relaxed),
            Err(error) => {
                let kept = if held == 0 { None } else { self.cut(held).ok() };
                if kept.is_none() {
                    self.bytes.store(0, Ordering::Relaxed);
                    // There may be no such file; and one that stays is found by the next opening.
                    let _ = self.storage.remove(BALLAST);
                }
                if error.is_disk_full() {
                    return Err(error);
                }
                self.given_up_on.store(bytes, Ordering::Relaxed);
            }
        }
        Ok(())
    }

    fn try_reserve(&self, held: u64, bytes: u64, margin: u64) -> Result<()> {
        let mode = if held == 0 {
            // What another opening left and this one could not open.
            let _ = self.storage.remove(BALLAST);
            OpenMode::Create
        } else {
            OpenMode::ReadWrite
        };
        // Where the file system says how much room there is, a disk that is nearly full is not filled for a try.
        let more = (bytes + margin).saturating_sub(held);
        if self.storage.available()?.is_some_and(|available| available < more) {
            return Err(crate::util::Error::io(
                "reserve room in",
                &self.storage.path_of(BALLAST),
                std::io::ErrorKind::StorageFull.into(),
            ));
        }
        let file = self.storage.open(BALLAST, mode)?;
        file.reserve(bytes + margin)?;
        if margin > 0 { file.set_length(bytes) } else { Ok(()) }
    }

    fn cut(&self, bytes: u64) -> Result<()> {
        self.storage.open(BALLAST, OpenMode::ReadWrite)?.set_length(bytes)
    }
}

/// Removes the ballast of a store that is not open; false where there is none. For an opening that finds no room.
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
    fn it_grows_with_the_store_up_to_some_memtables() {
        assert!(NEEDS.bytes() <= 640 << 10);
        assert!(BallastNeeds { memory: 4096, tree: 4096, ..NEEDS }.bytes() <= 768 << 10);
        let mut last = 0;
        for shift in 12..44 {
            let memory = (1 << (shift - 3)).min(3 * NEEDS.memtable);
            let bytes = BallastNeeds { memory, tree: 1 << shift, ..NEEDS }.bytes();
            assert!(bytes >= last && bytes <= 6 * NEEDS.memtable, "{bytes} at {shift}");
            last = bytes;
        }
        // What is in memory fits beside a merge, whatever lies in the tree.
        for memory in [1 << 20, 31 << 20, 96 << 20] {
            let needs = BallastNeeds { memory, tree: 1 << 40, ..NEEDS };
            assert!(needs.bytes() - needs.merge_bytes() >= memory * 9 / 8 && needs.merge_bytes() >= NEEDS.memtable);
        }
    }

    #[test]
    fn it_is_made_grown_found_again_and_given_up() {
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
    fn on_a_full_disk_it_keeps_what_it_has_and_comes_back_with_a_margin() {
        let disk = SimulatedStorage::new(2);
        let ballast = on(&disk);
        let small = BallastNeeds { segment: 64 << 10, memtable: 1 << 20, ..NEEDS };
        ballast.grow(small).unwrap();
        let held = ballast.bytes();
        disk.set_capacity(Some(held + 4096));
        let larger = BallastNeeds { memory: 1 << 20, ..small };
        assert!(ballast.grow(larger).unwrap_err().is_disk_full());
        assert_eq!((ballast.bytes(), disk.used()), (held, held), "what was there is still there, and no more");
        assert!(ballast.release(0));
        disk.set_capacity(Some(larger.bytes()));
        assert!(!ballast.restore(larger), "there is room for it, but none beside it");
        assert_eq!((ballast.bytes(), disk.used()), (0, 0));
        disk.set_capacity(Some(larger.bytes() + larger.margin()));
        assert!(ballast.restore(larger));
        assert_eq!((ballast.bytes(), disk.used()), (larger.bytes(), larger.bytes()), "the margin is free again");
    }

    #[test]
    fn a_disk_that_refuses_it_does_without() {
        let disk = SimulatedStorage::new(3);
        let ballast = on(&disk);
        disk.inject("(create nth=1) -> eio");
        ballast.grow(NEEDS).unwrap();
        assert_eq!(ballast.bytes(), 0);
        assert!(!ballast.is_too_small(NEEDS), "it is not tried over and over");
        let larger = BallastNeeds { memory: 8 << 20, ..NEEDS };
        assert!(ballast.is_too_small(larger));
        ballast.grow(larger).unwrap();
        assert!(ballast.bytes() > 0);
    }
}
