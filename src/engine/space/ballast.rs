//! The ballast: a file of reserved blocks. On a full disk it is released, so that deletes can be logged, Memtables
//! incorporated and nodes compacted, which frees more space (`docs/recovery.md`, Full disk).
//!
//! The space that this takes is the *reserve*. While the disk has several times as much free space, the ballast is at
//! most a fortieth of the tree. When less is free, it takes the whole reserve, so that puts, merges and other programs
//! leave that much.
//!
//! Any thread. Background work creates and changes the ballast; writers do not.
//!
//! Invariants:
//! 1. `bytes` is the length of the file, and all its blocks are allocated; 0 if there is no file. It changes under
//!    `changing`.
//! 2. Nothing depends on the file: a failure to create, shrink or find it is not an error of the store, except for a
//!    full disk.

use crate::engine::directory::store_files::BALLAST;
use crate::engine::state::budget::GENERATIONS_MAX;
use crate::io::{OpenMode, Storage};
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering};
use crate::util::{Error, Result};
use std::fmt;

/// On a disk with much free space the ballast is at most this part of the tree, but at least `SMALL_BYTES_MIN` once
/// there is a tree.
const DATA_PART: u64 = 40;
/// See `DATA_PART`. Also the steps of its size.
const SMALL_BYTES_MIN: u64 = 64 << 10;
/// With less than this many reserves free, the ballast takes the whole reserve.
const SCARCE_BELOW: u64 = 4;
/// It gets small again once this many reserves are free.
const PLENTY_FROM: u64 = 6;
/// The ballast grows by at least this part of what is needed, so that it follows a filling Memtable in few steps.
const GROWTH_PART: u64 = 4;
/// A part of the reserve for space that is not computed: small branch files are mostly overhead (each has at least five pages, and
/// an incorporation may write several), and the manifest grows, too.
const BYTES_MIN: u64 = 512 << 10;
/// Space for merges: this part of the tree, but at least a small leaf and at most two Memtables. Larger leaves are
/// split by reference until their parts fit.
const MERGE_PART: u64 = 16;
const MERGE_BYTES_MIN: u64 = 1 << 20;
const MERGE_MEMTABLES_MAX: u64 = 2;

/// The inputs from which the reserve is computed, in bytes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReserveInputs {
    /// The size of all Memtables.
    pub(crate) memory: u64,
    /// The size of the tree.
    pub(crate) tree: u64,
    /// The size of a full Memtable.
    pub(crate) memtable: u64,
    /// The size of a log segment.
    pub(crate) segment: u64,
}

impl ReserveInputs {
    /// The whole reserve: for the incorporation of all Memtables, with what may be added until the next check; for a log
    /// segment with deletes; and for a merge. It grows with the store, up to less than six Memtables.
    pub(crate) fn bytes(self) -> u64 {
        let Self { memory, tree, memtable, segment } = self;
        let memory_max = GENERATIONS_MAX as u64 * memtable;
        let memory_soon = (memory + (memory * 3).min(memtable / 2)).min(memory.max(memory_max));
        let log = segment.min(memory + tree);
        (BYTES_MIN + memory_soon * 9 / 8 + log).next_multiple_of(64 << 10) + self.merge_bytes()
    }

    /// The greatest reserve while the tree does not grow.
    fn bytes_max(self) -> u64 {
        Self { memory: self.memory.max(GENERATIONS_MAX as u64 * self.memtable), ..self }.bytes()
    }

    /// The size of the ballast on a disk with much free space.
    fn small_bytes(self) -> u64 {
        if self.tree == 0 {
            return 0;
        }
        let part = self.tree / DATA_PART / SMALL_BYTES_MIN * SMALL_BYTES_MIN;
        part.max(SMALL_BYTES_MIN).min(self.bytes())
    }

    /// The part of the reserve for merges, because only merges free space.
    pub(crate) fn merge_bytes(self) -> u64 {
        let most = (self.memtable * MERGE_MEMTABLES_MAX).max(MERGE_BYTES_MIN);
        let least = self.tree.min(MERGE_BYTES_MIN);
        (self.tree / MERGE_PART).clamp(least, most).next_multiple_of(64 << 10)
    }

    /// The space that must be free beyond the reserve before puts are accepted again after a full disk. *Otherwise:*
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

    /// The size that the ballast should get now; `None` if it has a suitable one.
    fn new_size(&self, inputs: ReserveInputs) -> Option<u64> {
        let (bytes, small) = (self.bytes(), inputs.small_bytes());
        if self.is_scarce(inputs) {
            let (needed, most) = (inputs.bytes(), inputs.bytes_max());
            let size = (needed + needed / GROWTH_PART).min(most);
            return (!(needed..=most).contains(&bytes)).then_some(size);
        }
        let is_suitable = bytes <= small && small - bytes <= bytes / GROWTH_PART;
        (!is_suitable).then_some(small)
    }

    /// Whether so little space is free that the ballast takes the whole reserve. False if the storage does not report
    /// its free space.
    pub(crate) fn is_scarce(&self, inputs: ReserveInputs) -> bool {
        let Some(available) = self.storage.available().ok().flatten() else { return false };
        let bytes = self.bytes();
        let reserves = if bytes > inputs.small_bytes() { PLENTY_FROM } else { SCARCE_BELOW };
        available.saturating_add(bytes) < inputs.bytes().saturating_mul(reserves)
    }

    /// Whether `adjust` would change the size.
    pub(crate) fn is_out_of_date(&self, inputs: ReserveInputs) -> bool {
        self.new_size(inputs)
            .is_some_and(|size| size < self.bytes() || size > self.failed_bytes.load(Ordering::Relaxed))
    }

    /// Creates, grows or shrinks the ballast.
    ///
    /// # Errors
    /// Only if the disk is full. The ballast then keeps its size.
    pub(crate) fn adjust(&self, inputs: ReserveInputs) -> Result<()> {
        let _changing = self.changing.lock();
        match self.new_size(inputs) {
            Some(size) if size < self.bytes() => _ = self.shrink(size),
            Some(size) => self.reserve(size, 0)?,
            None => {}
        }
        Ok(())
    }

    /// After a full disk: grows the ballast to the whole reserve, if that leaves the margin free. Returns false if the
    /// disk has too little space for both.
    pub(crate) fn restore(&self, inputs: ReserveInputs) -> bool {
        let _changing = self.changing.lock();
        self.reserve(inputs.bytes().max(self.bytes()), inputs.margin()).is_ok()
    }

    /// On a full disk: grows the ballast to the part for merges, or by as much as there is, if it is smaller.
    pub(crate) fn reserve_for_merges(&self, inputs: ReserveInputs) {
        let _changing = self.changing.lock();
        let (before, wanted) = (self.bytes(), inputs.merge_bytes());
        let available = self.storage.available().ok().flatten().unwrap_or(u64::MAX);
        let size = before.saturating_add(available).min(wanted) / SMALL_BYTES_MIN * SMALL_BYTES_MIN;
        if size > before {
            // If this fails, it is retried after the next merge.
            let _ = self.reserve(size, 0);
        }
    }

    /// The part of the ballast that only merges get: their part of the reserve. If the ballast is small, because another
    /// program took the space before it could grow, then half of that.
    pub(crate) fn part_for_merges(&self, inputs: ReserveInputs) -> u64 {
        let small = inputs.small_bytes();
        if self.bytes() > small { inputs.merge_bytes() } else { inputs.merge_bytes().min(small / 2) }
    }

    /// Releases the space of the ballast, except for `keep` bytes. Returns false if it is not larger than that.
    pub(crate) fn release(&self, keep: u64) -> bool {
        let _changing = self.changing.lock();
        self.bytes() > keep && self.shrink(keep)
    }

    /// Truncates the ballast, or removes it if nothing is left. Requires `changing`, and that it is not smaller.
    fn shrink(&self, bytes: u64) -> bool {
        let done = if bytes == 0 {
            match self.storage.remove(BALLAST) {
                Err(_) if self.bytes() == 0 => Ok(()),
                done => done,
            }
        } else if bytes < self.bytes() {
            self.truncate(bytes)
        } else {
            Ok(())
        };
        // A ballast that cannot be truncated is not used any more.
        self.bytes.store(if done.is_ok() { bytes } else { 0 }, Ordering::Relaxed);
        done.is_ok()
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
            return Err(self.no_space());
        }
        let file = self.storage.open(BALLAST, mode)?;
        file.reserve(bytes + margin)?;
        if margin > 0 { file.set_length(bytes) } else { Ok(()) }
    }

    fn no_space(&self) -> Error {
        Error::io("reserve space in", &self.storage.path_of(BALLAST), std::io::ErrorKind::StorageFull.into())
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.storage.open(BALLAST, OpenMode::ReadWrite)?.set_length(bytes)
    }
}

/// Takes space from the ballast of a store that is not open, for an opening that finds none: half of it, or all of a small one.
/// Returns false if there is none. *Otherwise,* if it took all: the merges that free space would find none either.
pub(crate) fn halve_in(storage: &dyn Storage) -> bool {
    let halve = || {
        let file = storage.open(BALLAST, OpenMode::ReadWrite)?;
        let half = file.length()? / 2;
        if half >= SMALL_BYTES_MIN { file.set_length(half).map(|()| true) } else { Ok(false) }
    };
    halve().unwrap_or(false) || storage.remove(BALLAST).is_ok()
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

    const INPUTS: ReserveInputs = ReserveInputs { memory: 0, tree: 0, memtable: 32 << 20, segment: 8 << 20 };

    fn on(disk: &SimulatedStorage) -> Ballast {
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        Ballast::find(&storage)
    }

    #[test]
    fn the_reserve_grows_with_the_store_up_to_six_memtables() {
        assert!(INPUTS.bytes() <= 640 << 10);
        assert!(ReserveInputs { memory: 4096, tree: 4096, ..INPUTS }.bytes() <= 768 << 10);
        let mut last = 0;
        for shift in 12..44 {
            let memory = (1 << (shift - 3)).min(3 * INPUTS.memtable);
            let bytes = ReserveInputs { memory, tree: 1 << shift, ..INPUTS }.bytes();
            assert!(bytes >= last && bytes <= 6 * INPUTS.memtable, "{bytes} at {shift}");
            last = bytes;
        }
        // Besides the space for a merge there is enough for the Memtables, however large the tree is.
        for memory in [1 << 20, 31 << 20, 96 << 20] {
            let inputs = ReserveInputs { memory, tree: 1 << 40, ..INPUTS };
            assert!(inputs.bytes() - inputs.merge_bytes() >= memory * 9 / 8 && inputs.merge_bytes() >= INPUTS.memtable);
        }
    }

    /// Once, the ballast of a store of 100 MB took 214 MB, since it followed the memory budget alone.
    #[test]
    fn with_much_space_the_ballast_is_at_most_a_fortieth_of_the_tree() {
        assert_eq!(INPUTS.small_bytes(), 0);
        for (tree, bytes) in [(1, 64 << 10), (2 << 20, 64 << 10), (10 << 20, 256 << 10), (100 << 20, 2560 << 10)] {
            let inputs = ReserveInputs { tree, memory: 96 << 20, ..INPUTS };
            assert_eq!(inputs.small_bytes(), bytes, "{tree}");
        }
        let inputs = ReserveInputs { tree: 1 << 40, ..INPUTS };
        assert_eq!(inputs.small_bytes(), inputs.bytes());
    }

    #[test]
    fn the_ballast_follows_the_tree_and_is_found_again() {
        let disk = SimulatedStorage::new(1);
        let ballast = on(&disk);
        let of = |tree| ReserveInputs { tree, ..INPUTS };
        assert!(ballast.bytes() == 0 && !ballast.is_out_of_date(of(0)) && ballast.is_out_of_date(of(1)));
        ballast.adjust(of(1)).unwrap();
        assert_eq!((ballast.bytes(), disk.used()), (64 << 10, 64 << 10));
        assert!(!ballast.is_out_of_date(of(2 << 20)));
        ballast.adjust(of(100 << 20)).unwrap();
        assert_eq!((ballast.bytes(), disk.used()), (2560 << 10, 2560 << 10));
        assert!(!ballast.is_out_of_date(of(110 << 20)), "it grows in steps");
        assert!(ballast.is_out_of_date(of(97 << 20)));
        let found = on(&disk.kill());
        assert_eq!(found.bytes(), ballast.bytes());
        found.adjust(of(10 << 20)).unwrap();
        assert_eq!((found.bytes(), disk.used()), (256 << 10, 256 << 10));
        assert!(found.release(64 << 10) && !found.release(64 << 10));
        assert_eq!((found.bytes(), disk.used()), (64 << 10, 64 << 10));
        found.adjust(of(0)).unwrap();
        assert!(disk.current_image().is_empty() && found.bytes() == 0 && !found.release(0));
    }

    #[test]
    fn an_opening_takes_half_of_the_ballast_and_the_rest_of_a_small_one() {
        let disk = SimulatedStorage::new(4);
        assert!(!halve_in(&disk));
        on(&disk).adjust(ReserveInputs { tree: 10 << 20, ..INPUTS }).unwrap();
        let sizes = std::iter::from_fn(|| halve_in(&disk).then(|| disk.used()));
        assert_eq!(Vec::from_iter(sizes), [128 << 10, 64 << 10, 0]);
    }

    #[test]
    fn with_little_space_the_ballast_takes_the_whole_reserve() {
        let disk = SimulatedStorage::new(2);
        let ballast = on(&disk);
        let inputs = ReserveInputs { tree: 10 << 20, memory: 1 << 20, segment: 64 << 10, memtable: 1 << 20 };
        let reserve = inputs.bytes();
        disk.set_capacity(Some(SCARCE_BELOW * reserve));
        ballast.adjust(inputs).unwrap();
        assert_eq!(ballast.bytes(), 256 << 10);
        assert_eq!(ballast.part_for_merges(inputs), 128 << 10);
        disk.set_capacity(Some(SCARCE_BELOW * reserve - 4096));
        assert!(ballast.is_out_of_date(inputs));
        ballast.adjust(inputs).unwrap();
        assert!((reserve..=inputs.bytes_max()).contains(&ballast.bytes()) && disk.used() == ballast.bytes());
        assert!(ballast.part_for_merges(inputs) == inputs.merge_bytes() && !ballast.is_out_of_date(inputs));
        disk.set_capacity(Some(PLENTY_FROM * reserve - 4096));
        assert!(!ballast.is_out_of_date(inputs), "it does not change its size to and fro");
        disk.set_capacity(Some(PLENTY_FROM * reserve));
        ballast.adjust(inputs).unwrap();
        assert_eq!(ballast.bytes(), 256 << 10);
    }

    #[test]
    fn a_full_disk_keeps_the_ballast_and_restores_it_with_a_margin() {
        let disk = SimulatedStorage::new(2);
        let ballast = on(&disk);
        let inputs = ReserveInputs { segment: 64 << 10, memtable: 1 << 20, ..INPUTS };
        disk.set_capacity(Some(2 * inputs.bytes()));
        ballast.adjust(inputs).unwrap();
        let held = ballast.bytes();
        disk.set_capacity(Some(held + 4096));
        let larger = ReserveInputs { memory: 1 << 20, ..inputs };
        assert!(ballast.adjust(larger).unwrap_err().is_disk_full());
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
        let inputs = ReserveInputs { tree: 1 << 20, ..INPUTS };
        ballast.adjust(inputs).unwrap();
        assert_eq!(ballast.bytes(), 0);
        assert!(!ballast.is_out_of_date(inputs), "the same size is tried again");
        let larger = ReserveInputs { tree: 8 << 20, ..INPUTS };
        assert!(ballast.is_out_of_date(larger));
        ballast.adjust(larger).unwrap();
        assert!(ballast.bytes() > 0);
    }
}
