//! The board: counters in a file that parent and child map. What a child stores survives its death at any instant.
//!
//! Any thread of either process may use it. Every counter has its own cache line; all accesses are atomic. A writer's
//! counters are stored by its own thread, except `synced`, which any thread may raise (`soak/mod.rs`, 2).

use alluvium::Result;
use alluvium::storage::{MappedFile, PosixStorage, Storage};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

const FILE: &str = "board";
const LINE: usize = 64;
const WRITERS_MAX: usize = 64;
const BYTES: usize = (WRITERS_MAX * OF_WRITER + TOTALS) * LINE;
const OF_WRITER: usize = 3;
const TOTALS: usize = 32;

/// A counter of the whole soak.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Total {
    /// What the child is doing; an index into `PHASES`.
    Phase,
    /// Rounds started. Round numbers rise over all runs on one directory.
    Rounds,
    /// How often the store was opened.
    Opened,
    /// The longest open, in microseconds.
    OpenLongest,
    /// Gets whose result was checked, including those of `multi_get`.
    Gets,
    /// Pairs that scans and iterators returned; all were checked.
    Scanned,
    /// Snapshots whose contents were checked exactly.
    Snapshots,
    /// Calls of `sync`.
    Syncs,
    /// Calls of `flush`.
    Flushes,
    /// How often everything on disk was verified.
    Verified,
    /// Operations in flight at a kill that were found complete.
    InFlight,
    /// Acknowledged but unsynced operations that a forced cut discarded.
    Cut,
    /// Set before a forced cut, and cleared once its outcome is on the board.
    CutPending,
    /// Bytes of live keys and values when the store was opened last.
    LiveBytes,
}

/// The names of the phases.
pub const PHASES: [&str; 5] = ["starting", "opening", "checking the contents", "working", "closing"];

/// The mapped counters.
#[derive(Clone, Debug)]
pub struct Board {
    mapped: Arc<dyn MappedFile>,
}

impl Board {
    /// Creates the file, with all counters zero, in a directory that has none.
    pub fn create(directory: &Path) -> std::io::Result<()> {
        std::fs::write(directory.join(FILE), vec![0; BYTES])
    }

    /// Maps the file of a directory.
    pub fn open(directory: &Path) -> Result<Self> {
        let mapped = PosixStorage::new(directory).map(FILE)?;
        if mapped.length() != BYTES {
            let (expected, found) = (format!("{BYTES} bytes"), format!("{} bytes", mapped.length()));
            return Err(alluvium::Error::corruption(mapped.path(), 0, "board of a soak", expected, found));
        }
        Ok(Self { mapped })
    }

    /// The last operation that a writer started.
    pub fn begun(&self, writer: u64) -> &AtomicU64 {
        self.line(writer as usize * OF_WRITER)
    }

    /// The last operation that a writer completed.
    pub fn acknowledged(&self, writer: u64) -> &AtomicU64 {
        self.line(writer as usize * OF_WRITER + 1)
    }

    /// Every operation of a writer up to this one is synced.
    pub fn synced(&self, writer: u64) -> &AtomicU64 {
        self.line(writer as usize * OF_WRITER + 2)
    }

    /// A counter of the whole soak.
    pub fn total(&self, total: Total) -> &AtomicU64 {
        self.line(WRITERS_MAX * OF_WRITER + total as usize)
    }

    /// The value of a counter.
    pub fn get(&self, total: Total) -> u64 {
        self.total(total).load(Ordering::Acquire)
    }

    /// Adds to a counter.
    pub fn add(&self, total: Total, more: u64) {
        self.total(total).fetch_add(more, Ordering::AcqRel);
    }

    fn line(&self, at: usize) -> &AtomicU64 {
        assert!(at < BYTES / LINE);
        // SAFETY: the mapping is page-aligned and BYTES long (checked in `open`), so `at * LINE + 8` lies inside. Both
        // processes access these bytes only through `AtomicU64`. The reference cannot outlive `self`, which owns the
        // mapping.
        unsafe { &*self.mapped.pointer().add(at * LINE).cast::<AtomicU64>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mappings_share_counters_and_a_file_of_wrong_length_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        Board::create(directory.path()).unwrap();
        let (one, other) = (Board::open(directory.path()).unwrap(), Board::open(directory.path()).unwrap());
        one.begun(63).store(1, Ordering::Release);
        one.acknowledged(63).store(2, Ordering::Release);
        one.synced(63).store(3, Ordering::Release);
        one.add(Total::LiveBytes, 4);
        let counts = [other.begun(63), other.acknowledged(63), other.synced(63)].map(|c| c.load(Ordering::Acquire));
        assert_eq!((counts, other.get(Total::LiveBytes), other.get(Total::Phase)), ([1, 2, 3], 4, 0));
        assert!((Total::LiveBytes as usize) < TOTALS);
        std::fs::write(directory.path().join(FILE), "short").unwrap();
        assert!(Board::open(directory.path()).is_err());
    }
}
