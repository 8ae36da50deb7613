//! Counters in a file that parent and child map: what a child stores outlives it, whatever the instant of its death.
//!
//! Any thread of either process. Every counter has a cache line of its own; all accesses are atomic. Writers' counters are
//! written by their own thread, but for `synced`, which only rises (`soak/mod.rs`, 2).

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
    /// What the child is doing: see `PHASES`.
    Phase,
    /// Lives begun; their numbers rise over all runs on one directory.
    Lives,
    /// Times that the store was opened.
    Opened,
    /// Longest opening, microseconds.
    OpenLongest,
    /// Gets whose answer was checked, those of `multi_get` included.
    Gets,
    /// Pairs that scans and iterators returned, all checked.
    Scanned,
    /// Snapshots that were held to be exact.
    Snapshots,
    /// Calls of `sync`.
    Syncs,
    /// Calls of `flush`.
    Flushes,
    /// Times that everything on disk was read and checked.
    Verified,
    /// Operations in flight at a death that were found whole.
    InFlight,
    /// Acknowledged operations that a forced cut discarded, none of them synced.
    Cut,
    /// Set from before a forced cut until its outcome is on the board.
    CutPending,
    /// Bytes of live keys and values, at the last opening.
    LiveBytes,
}

/// Names of the phases.
pub const PHASES: [&str; 5] = ["starting", "opening", "checking what is there", "working", "closing"];

/// The counters.
#[derive(Clone, Debug)]
pub struct Board {
    mapped: Arc<dyn MappedFile>,
}

impl Board {
    /// All zero, in a directory that has none.
    pub fn create(directory: &Path) -> std::io::Result<()> {
        std::fs::write(directory.join(FILE), vec![0; BYTES])
    }

    /// The one of a directory.
    pub fn open(directory: &Path) -> Result<Self> {
        let mapped = PosixStorage::new(directory).map(FILE)?;
        if mapped.length() != BYTES {
            let (expected, found) = (format!("{BYTES} bytes"), format!("{} bytes", mapped.length()));
            return Err(alluvium::Error::corruption(mapped.path(), 0, "board of a soak", expected, found));
        }
        Ok(Self { mapped })
    }

    /// The operation that a writer has begun.
    pub fn begun(&self, writer: u64) -> &AtomicU64 {
        self.line(writer as usize * OF_WRITER)
    }

    /// The last operation that returned to a writer.
    pub fn acknowledged(&self, writer: u64) -> &AtomicU64 {
        self.line(writer as usize * OF_WRITER + 1)
    }

    /// Every operation of a writer up to this one was synced.
    pub fn synced(&self, writer: u64) -> &AtomicU64 {
        self.line(writer as usize * OF_WRITER + 2)
    }

    /// A counter of the whole soak.
    pub fn total(&self, total: Total) -> &AtomicU64 {
        self.line(WRITERS_MAX * OF_WRITER + total as usize)
    }

    /// Its value.
    pub fn get(&self, total: Total) -> u64 {
        self.total(total).load(Ordering::Acquire)
    }

    /// Adds to it.
    pub fn add(&self, total: Total, more: u64) {
        self.total(total).fetch_add(more, Ordering::AcqRel);
    }

    fn line(&self, at: usize) -> &AtomicU64 {
        assert!(at < BYTES / LINE);
        // SAFETY: the mapping is page-aligned and BYTES long (checked in `open`), so `at * LINE + 8` lies inside; both
        // processes reach these bytes only through an `AtomicU64`. The reference cannot outlive `self`, which keeps the map.
        unsafe { &*self.mapped.pointer().add(at * LINE).cast::<AtomicU64>() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_one_mapping_stores_another_reads_and_a_file_of_another_length_is_refused() {
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
