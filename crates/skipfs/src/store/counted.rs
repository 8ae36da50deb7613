//! `Counted`: a store that counts what a file system asks of it. Any thread.
//!
//! SkipStore §6.4 gives the operations of each transaction: two gets and two puts to create a file, two gets to read
//! one, two gets and one put to append to one. Tests and the benchmark compare with that.

use super::{Batch, Change, Space, Store, Visitor};
use crate::error::FsResult;
use std::ops::Sub;
use std::sync::atomic::{AtomicU64, Ordering};

/// Operations of a store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Gets.
    pub gets: u64,
    /// Keys that were put.
    pub puts: u64,
    /// Keys that were deleted one by one.
    pub deletes: u64,
    /// Ranges that were deleted.
    pub range_deletes: u64,
    /// Scans, however long.
    pub scans: u64,
    /// Batches.
    pub commits: u64,
}

/// What was counted since an earlier moment.
impl Sub for Counts {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Self {
            gets: self.gets.saturating_sub(earlier.gets),
            puts: self.puts.saturating_sub(earlier.puts),
            deletes: self.deletes.saturating_sub(earlier.deletes),
            range_deletes: self.range_deletes.saturating_sub(earlier.range_deletes),
            scans: self.scans.saturating_sub(earlier.scans),
            commits: self.commits.saturating_sub(earlier.commits),
        }
    }
}

/// A store and its counters. The counters are independent of each other, so `Relaxed` is enough.
#[derive(Debug, Default)]
pub struct Counted<S> {
    store: S,
    gets: AtomicU64,
    puts: AtomicU64,
    deletes: AtomicU64,
    range_deletes: AtomicU64,
    scans: AtomicU64,
    commits: AtomicU64,
}

fn add_one(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl<S> Counted<S> {
    /// Counts the operations of a store from now on.
    pub fn new(store: S) -> Self {
        Self {
            store,
            gets: AtomicU64::new(0),
            puts: AtomicU64::new(0),
            deletes: AtomicU64::new(0),
            range_deletes: AtomicU64::new(0),
            scans: AtomicU64::new(0),
            commits: AtomicU64::new(0),
        }
    }

    /// The store itself.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// What was counted so far.
    pub fn counts(&self) -> Counts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            gets: read(&self.gets),
            puts: read(&self.puts),
            deletes: read(&self.deletes),
            range_deletes: read(&self.range_deletes),
            scans: read(&self.scans),
            commits: read(&self.commits),
        }
    }
}

impl<S: Store> Store for Counted<S> {
    fn get(&self, key: &[u8]) -> FsResult<Option<Vec<u8>>> {
        add_one(&self.gets);
        self.store.get(key)
    }

    fn scan(&self, start: &[u8], end: &[u8], visit: &mut Visitor<'_>) -> FsResult<()> {
        add_one(&self.scans);
        self.store.scan(start, end, visit)
    }

    fn commit(&self, batch: Batch) -> FsResult<()> {
        add_one(&self.commits);
        for change in batch.changes() {
            add_one(match change {
                Change::Put(..) => &self.puts,
                Change::Delete(_) => &self.deletes,
                Change::DeleteRange(..) => &self.range_deletes,
            });
        }
        self.store.commit(batch)
    }

    fn sync(&self) -> FsResult<()> {
        self.store.sync()
    }

    fn space(&self) -> FsResult<Space> {
        self.store.space()
    }

    fn close(&self) -> FsResult<()> {
        self.store.close()
    }
}
