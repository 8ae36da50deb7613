//! A store that is sorted by the caller's comparator, on top of one that is sorted by bytes.
//!
//! Keys are stored in *buckets* of about forty neighbours. The *fences* between buckets are kept in memory in the
//! comparator's order, one per bucket. A get searches the fences and then reads one key of the store. A scan reads
//! bucket after bucket and sorts each. A bucket that exceeds its limit is split in the same batch as the write that
//! filled it, like a B-tree leaf. So the log, snapshots and recovery of the underlying store need no change for
//! comparators. `layout` has the bytes.
//!
//! Any thread. Invariants:
//! 1. Bucket `i` of the fences holds the keys from fence `i` up to, but not including, fence `i + 1`, in the
//!    comparator's order. The first bucket has no lower fence. Keys that compare as equal are one key: at most one of
//!    them is stored.
//! 2. Fences and data change in one batch of the store, so they match at every sequence number. Only `Ordered::write`
//!    changes them, under its lock.
//! 3. `version` is odd while a batch that changes the fences is being written. A get that reads an even version, takes
//!    the fences, reads the data, and then reads the same version has used matching fences. A snapshot is taken under
//!    the lock.

mod bucket;
mod change;
mod cursor;
mod fences;
mod layout;
mod name;

use crate::comparator::Comparator;
use crate::status::Status;
use alluvium::{Db, Error, Operation, Snapshot, WriteBatch, WriteOptions};
use arc_swap::ArcSwap;
use bucket::Known;
use change::Change;
use fences::Fences;
use parking_lot::{Mutex, MutexGuard};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use cursor::OrderedCursor;
pub use name::check_absent;

/// How often a get retries because the fences changed, before it takes the lock so that they cannot.
const OPTIMISTIC_READS: usize = 4;
/// See the module.
pub struct Ordered {
    comparator: Arc<Comparator>,
    fences: ArcSwap<Fences>,
    version: AtomicU64,
    writer: Mutex<Writer>,
}

/// The writer's state.
struct Writer {
    /// Cached buckets; they equal those in the store.
    known: Known,
    /// The number of the next new bucket.
    next: u64,
}

/// A snapshot of the store and its fences.
#[derive(Clone)]
pub struct OrderedSnapshot {
    data: Snapshot,
    fences: Arc<Fences>,
}

impl Ordered {
    /// Opens the ordered view of an open store that is empty or has this comparator. A store with another comparator is
    /// an error.
    pub fn open(db: &Db, path: &Path, comparator: Arc<Comparator>) -> Result<Self, Status> {
        name::check(db, path, &comparator.name())?;
        let (fences, next) = Fences::load(db, &comparator)?;
        let writer = Mutex::new(Writer { known: Known::default(), next });
        Ok(Self { comparator, fences: ArcSwap::from_pointee(fences), version: AtomicU64::new(0), writer })
    }

    /// Returns the newest value of a key.
    pub fn get(&self, db: &Db, key: &[u8]) -> alluvium::Result<Option<Vec<u8>>> {
        for _ in 0..OPTIMISTIC_READS {
            let before = self.version.load(Ordering::Acquire);
            if before.is_multiple_of(2) {
                let found = self.find(&self.fences.load(), &Source::Newest(db), key)?;
                if self.version.load(Ordering::Acquire) == before {
                    return Ok(found);
                }
            }
            std::thread::yield_now();
        }
        let _unchanging = self.writer.lock();
        self.find(&self.fences.load(), &Source::Newest(db), key)
    }

    /// Returns the value of a key at a snapshot.
    pub fn get_at(&self, snapshot: &OrderedSnapshot, key: &[u8]) -> alluvium::Result<Option<Vec<u8>>> {
        self.find(&snapshot.fences, &Source::Snapshot(&snapshot.data), key)
    }

    fn find(&self, fences: &Fences, source: &Source<'_>, key: &[u8]) -> alluvium::Result<Option<Vec<u8>>> {
        let bucket = fences.bucket(fences.position(&self.comparator, key));
        if let Some(value) = source.get(&layout::data_key(bucket, key))? {
            return Ok(Some(value));
        }
        // The key may be stored with another spelling.
        for pair in source.prefix(&layout::data_key(bucket, &[]))? {
            let (spelling, value) = pair?;
            if self.comparator.compare(layout::user_key(&spelling), key).is_eq() {
                return Ok(Some(value));
            }
        }
        Ok(None)
    }

    /// Applies a batch.
    pub fn write(&self, db: &Db, batch: &WriteBatch, options: WriteOptions) -> alluvium::Result<()> {
        let mut writer = self.writer.lock();
        // Returned only on success, so that the cached buckets always equal those in the store.
        let known = std::mem::take(&mut writer.known);
        let mut change = Change::new(db, &self.comparator, &self.fences.load(), known, writer.next);
        for operation in batch {
            match operation {
                Operation::Put { key, value, .. } => change.put(key, value)?,
                Operation::Delete { key, .. } => change.delete(key)?,
                other => return Err(Error::InvalidArgument(format!("LevelDB's batches have no {other:?}"))),
            }
        }
        let done = change.finish();
        match done.fences {
            None => db.write_with(done.batch, options)?,
            Some(fences) => self.write_with_fences(db, done.batch, fences, options)?,
        }
        writer.next = done.next;
        writer.known = done.known;
        Ok(())
    }

    fn write_with_fences(
        &self,
        db: &Db,
        batch: WriteBatch,
        fences: Fences,
        options: WriteOptions,
    ) -> alluvium::Result<()> {
        self.version.fetch_add(1, Ordering::AcqRel);
        let written = db.write_with(batch, options);
        // A failed write may still have happened, for example if only its sync failed. The store's contents decide.
        let now =
            if written.is_ok() { Ok(fences) } else { Fences::load(db, &self.comparator).map(|(fences, _)| fences) };
        if let Ok(fences) = now {
            self.fences.store(Arc::new(fences));
        }
        self.version.fetch_add(1, Ordering::Release);
        written
    }

    /// Takes a snapshot.
    pub fn snapshot(&self, db: &Db) -> OrderedSnapshot {
        let _unchanging: MutexGuard<'_, Writer> = self.writer.lock();
        OrderedSnapshot { data: db.snapshot(), fences: self.fences.load_full() }
    }

    /// Creates a cursor at a snapshot.
    pub fn cursor(&self, snapshot: OrderedSnapshot) -> OrderedCursor {
        OrderedCursor::new(snapshot, Arc::clone(&self.comparator))
    }

    /// Estimates how many bytes the keys from `from` up to, but not including, `to` occupy. Assumes that all buckets
    /// are equally large.
    pub fn approximate_size(&self, db: &Db, from: &[u8], to: &[u8]) -> alluvium::Result<u64> {
        if self.comparator.compare(from, to).is_ge() {
            return Ok(0);
        }
        let fences = self.fences.load();
        let inside = fences.position(&self.comparator, to) - fences.position(&self.comparator, from) + 1;
        let all = db.approximate_size(layout::all_data())?;
        Ok((u128::from(all) * inside as u128 / fences.buckets() as u128) as u64)
    }
}

/// The state that a get reads.
enum Source<'a> {
    Newest(&'a Db),
    Snapshot(&'a Snapshot),
}

impl Source<'_> {
    fn get(&self, key: &[u8]) -> alluvium::Result<Option<Vec<u8>>> {
        match self {
            Self::Newest(db) => db.get(key),
            Self::Snapshot(snapshot) => snapshot.get(key),
        }
    }

    fn prefix(&self, prefix: &[u8]) -> alluvium::Result<alluvium::Iter> {
        match self {
            Self::Newest(db) => db.prefix(prefix),
            Self::Snapshot(snapshot) => snapshot.prefix(prefix),
        }
    }
}

#[cfg(test)]
mod tests;
