//! Handles to single components of the store, for benchmarks: thin layers over private modules. Compiled only for tests
//! or with the feature `testing`. Not part of the public interface, so it may change at any time.
//!
//! A handle belongs to one thread, except where noted. Each call does what the store does at that place and nothing more. Sizes, keys and
//! measurements are up to the caller.

mod cache;
mod filters;
pub mod fuzz;
mod ranges;

use crate::branch::{BranchBuilder, BranchContext, BranchResources, Compression, ExtentMemory, file_name};
use crate::cache::{FileTable, PageCache};
use crate::format::log_record::Operation;
use crate::format::page::SMALL_PAYLOAD_BYTES;
use crate::format::sorted_page::{SortedPage, SortedPageBuilder, tag};
use crate::io::{PosixStorage, Storage};
use crate::log::{Log, LogIdentity, LogOptions, LogResources, LogWriter};
use crate::memory::{MemoryComponent, Memtable, MemtablePool, MemtableWriter};
use crate::merge::vec_cursor::VecCursor;
use crate::merge::{Cursor, MergeCursor};
use crate::util::hash::key_hash;
use crate::util::sequencer::{Sequencer, Slot};
use crate::util::sync::Arc;
use crate::util::{DatabaseId, FileNumber, FileNumbers, KeyspaceId, Kind, Result, SequenceNumber, key};
use std::path::Path;

pub use crate::db::{DeterministicDb, LogOnlyWriter, open_small, open_tuned};
pub use crate::disk::TrunkOptions;
pub use crate::merge::vec_cursor::VecEntry as Entry;
pub use crate::util::random::splitmix64;
pub use cache::{CachePart, CachedPage};
pub use filters::{FilterPart, MapletPart};
pub use ranges::{RunsPart, VisitRun, tombstone};

const KEYSPACE: KeyspaceId = KeyspaceId::DEFAULT;

/// An entry that puts a value at a user key.
pub fn entry(user_key: &[u8], number: u64, value: &[u8]) -> Entry {
    Entry::new(key::encoded(KEYSPACE, user_key), number, Kind::Put, value)
}

/// A Memtable, written by one thread, or by one for each handle of `share`.
pub struct MemtablePart {
    pool: Arc<MemtablePool>,
    memtable: Arc<Memtable>,
    writer: MemtableWriter,
    last: SequenceNumber,
}

impl MemtablePart {
    /// An empty Memtable that is full at `soft_bytes`.
    pub fn new(component: MemoryComponent, soft_bytes: usize) -> Self {
        let pool = MemtablePool::new(component, soft_bytes);
        Self { memtable: pool.take(), pool, writer: MemtableWriter::default(), last: SequenceNumber::ZERO }
    }

    /// Replaces the Memtable by an empty one from the pool, as a switch of generations does.
    pub fn clear(&mut self) {
        self.memtable = self.pool.take();
    }

    /// Replaces the Memtable by an empty one in the same memory. Requires that it has no other handle.
    pub fn emptied(self) -> Self {
        drop(self.memtable);
        let (memtable, writer) = (self.pool.take(), MemtableWriter::default());
        Self { memtable, pool: self.pool, writer, last: SequenceNumber::ZERO }
    }

    /// Another thread's handle to the same Memtable. No two handles may insert the same key: its latch is not taken.
    pub fn share(&self) -> Self {
        let (pool, memtable) = (Arc::clone(&self.pool), Arc::clone(&self.memtable));
        Self { pool, memtable, writer: MemtableWriter::default(), last: SequenceNumber::ZERO }
    }

    /// Puts a value: hash, `prepare` and `place`.
    pub fn insert(&mut self, user_key: &[u8], value: &[u8]) {
        let hash = key_hash(KEYSPACE, user_key);
        self.memtable.attach(&mut self.writer, 1);
        let mut prepared = self.memtable.prepare(&mut self.writer, (KEYSPACE, user_key, hash), Kind::Put, value);
        self.last = SequenceNumber(self.last.0 + 1);
        self.memtable.place(&mut self.writer, &mut prepared, self.last, SequenceNumber::ZERO);
    }

    /// Whether it is full.
    pub fn is_full(&self) -> bool {
        self.memtable.is_full()
    }

    /// Drains every partition.
    pub fn drain(&self) {
        self.memtable.drain_all();
    }

    /// Makes drains insert entries one by one, not by multi-insert.
    pub fn drain_one_by_one(&self) {
        self.memtable.drain_one_by_one();
    }

    /// Inserts new ascending keys into the skiplist alone, by one multi-insert or by single inserts.
    pub fn insert_into_list(&self, user_keys: &[[u8; 8]], value: &[u8], by_multi_insert: bool) {
        self.memtable.insert_into_list(user_keys, value, by_multi_insert);
    }

    /// Returns the full Memtable, to be sealed by another thread, and continues with an empty one.
    pub fn switch(&mut self) -> FullPart {
        FullPart(std::mem::replace(&mut self.memtable, self.pool.take()))
    }

    /// Appends the newest value to `out`: the hash index, then the node's versions.
    pub fn get(&self, user_key: &[u8], out: &mut Vec<u8>) -> bool {
        let hash = key_hash(KEYSPACE, user_key);
        self.memtable.get(KEYSPACE, user_key, hash, SequenceNumber::MAX, out).is_some()
    }

    /// A cursor over it. Its `seek` drains what it needs and searches the skiplist.
    pub fn cursor(&self) -> CursorPart {
        CursorPart(Box::new(self.memtable.cursor_at(SequenceNumber::MAX)))
    }
}

/// An immutable Memtable.
pub struct FullPart(Arc<Memtable>);

impl FullPart {
    /// Seals it and drains every partition.
    pub fn seal_and_drain(&self) {
        self.0.seal();
        self.0.drain_all();
    }
}

/// Any sorted source.
pub struct CursorPart(Box<dyn Cursor>);

impl CursorPart {
    /// The merge of sources, newest first.
    pub fn merge(sources: Vec<Vec<Entry>>) -> Self {
        Self(Box::new(MergeCursor::new(sources.into_iter().map(VecCursor::new).collect())))
    }

    /// Moves to an encoded key (`entry`), or to the next one. Returns whether there is an entry.
    pub fn seek(&mut self, encoded_key: &[u8]) -> Result<bool> {
        self.0.seek(encoded_key, SequenceNumber::MAX)?;
        Ok(self.0.valid())
    }

    /// Moves to the first entry.
    pub fn seek_first(&mut self) -> Result<bool> {
        self.0.seek_first()?;
        Ok(self.0.valid())
    }

    /// Moves to the next entry. Returns whether there is one. Requires that the cursor is on an entry.
    pub fn step(&mut self) -> Result<bool> {
        self.0.next()?;
        Ok(self.0.valid())
    }
}

/// A log with one writer. The caller also does the work of the log threads.
pub struct LogPart {
    log: Arc<Log>,
    sequencer: Sequencer,
    slot: Arc<Slot>,
    writer: LogWriter,
}

impl LogPart {
    /// A new log in a directory.
    pub fn create(directory: &Path, segment_bytes: usize, chunk_bytes: usize) -> Result<Self> {
        let storage: Arc<dyn Storage> = Arc::new(PosixStorage::new(directory));
        let identity = LogIdentity { database: DatabaseId(1), epoch: 1, life: None, first: SequenceNumber(1) };
        let options = LogOptions {
            segment_bytes,
            chunk_bytes,
            budget_bytes: 8 * segment_bytes as u64,
            // There is no log thread here. *Otherwise:* a writer that fills a segment before `maintain` waits for ever.
            deterministic: true,
            scarce: false,
        };
        let numbers = Arc::new(FileNumbers::new(FileNumber(1)));
        // No manifest records its segments.
        let (name_segment, wake) = (Box::new(|_, _| Ok(0)), Box::new(|_| ()));
        let resources = LogResources { clock: storage.clock(), storage, numbers, name_segment, wake };
        let log = Log::create(resources, identity, options)?;
        let sequencer = Sequencer::new(SequenceNumber::ZERO);
        let handle = Self { slot: sequencer.register(), writer: log.writer(), log, sequencer };
        handle.maintain()?;
        Ok(handle)
    }

    /// Appends the record of a put: body, announcement, number, seal.
    pub fn append(&mut self, user_key: &[u8], value: &[u8]) -> Result<()> {
        let operation = Operation { kind: Kind::Put, keyspace: KEYSPACE, key: user_key, value };
        loop {
            self.log.prepare(&mut self.writer, Kind::Put, operation.encoded_length(), |body| {
                operation.encode(body);
            })?;
            self.sequencer.announce(&self.slot);
            if self.log.is_current(&self.writer) {
                break;
            }
            self.sequencer.leave(&self.slot);
            self.log.cancel(&mut self.writer);
        }
        let number = self.sequencer.take(&self.slot);
        self.log.seal(&mut self.writer, number);
        self.sequencer.leave(&self.slot);
        Ok(())
    }

    /// One round of log maintenance. What was appended so far counts as incorporated. A segment that fills up before is
    /// followed by one that the writer makes itself.
    pub fn maintain(&self) -> Result<()> {
        self.log.maintain(&self.sequencer)?;
        self.log.recycle(&self.log.recyclable(self.sequencer.last()))
    }
}

/// A directory for branch files, and a cache without capacity, so that written pages are not cached.
pub struct BranchPart(Arc<BranchContext>);

impl BranchPart {
    /// Branch files in this directory.
    pub fn new(directory: &Path) -> Self {
        Self::with_cache(directory, 0)
    }

    /// The same with a cache of this capacity.
    fn with_cache(directory: &Path, cache_bytes: usize) -> Self {
        let storage: Arc<dyn Storage> = Arc::new(PosixStorage::new(directory));
        let files = Arc::new(FileTable::new(Arc::clone(&storage), 16));
        let numbers = Arc::new(FileNumbers::new(FileNumber(1)));
        let cache = Arc::new(PageCache::new(cache_bytes));
        Self(BranchContext::new(BranchResources {
            storage,
            database: DatabaseId(1),
            cache,
            files,
            numbers,
            form: Compression::None.into(),
            extents: ExtentMemory::new(16 << 20),
        }))
    }

    /// Writes one file from sorted entries and syncs it. Returns its name.
    pub fn build(&self, entries: &[Entry]) -> Result<String> {
        let mut builder = BranchBuilder::create(&self.0)?;
        for entry in entries {
            builder.add(entry.as_ref())?;
        }
        Ok(file_name(builder.finish()?.file))
    }

    /// Removes a file that `build` wrote.
    pub fn remove(&self, name: &str) -> Result<()> {
        self.0.storage.remove(name)
    }
}

/// An uncompressed leaf of the usual size.
pub struct PagePart(Vec<u8>);

impl PagePart {
    /// Lays out as many of the sorted entries as fit. Returns their number.
    pub fn build(entries: &[Entry]) -> (Self, usize) {
        let mut builder = SortedPageBuilder::default();
        for entry in entries {
            let tag = tag(entry.number, entry.kind);
            let fit = builder.fit(&entry.key, tag, entry.value.len());
            if fit.size > SMALL_PAYLOAD_BYTES {
                break;
            }
            builder.push(&entry.key, tag, &entry.value, fit);
        }
        let mut payload = vec![0; builder.size()];
        builder.encode(&mut payload);
        (Self(payload), builder.count())
    }

    /// The value of an encoded key.
    pub fn find(&self, encoded_key: &[u8]) -> Option<&[u8]> {
        let page = SortedPage::new(&self.0)?;
        page.find(encoded_key, SequenceNumber::MAX).map(|parts| page.value(&parts))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::hash::{encoded_key_hash, fingerprint};

    /// The benchmarks must measure what the store does: every handle finds exactly what was put into it.
    #[test]
    fn every_handle_works() {
        let keys: Vec<[u8; 8]> = (0..5000_u64).map(|mut state| splitmix64(&mut state).to_be_bytes()).collect();
        let absent = splitmix64(&mut 5000).to_be_bytes();
        let mut memtable = MemtablePart::new(MemoryComponent::TwoLevel, 1 << 20);
        keys.iter().for_each(|key| memtable.insert(key, b"value"));
        let mut out = Vec::new();
        assert!(memtable.get(&keys[7], &mut out) && out == b"value" && !memtable.get(&absent, &mut out));
        assert!(memtable.cursor().seek(&entry(&keys[7], 1, b"").key).unwrap());
        memtable.clear();
        assert!(!memtable.get(&keys[7], &mut out) && !memtable.cursor().seek_first().unwrap());

        let mut entries: Vec<Entry> = keys.iter().map(|key| entry(key, 1, b"value")).collect();
        entries.sort_by(|one, other| one.key.cmp(&other.key));
        let (page, count) = PagePart::build(&entries);
        assert_eq!(page.find(&entries[count - 1].key), Some(&b"value"[..]));
        assert_eq!(page.find(&entries[count].key), None);
        let mut merge = CursorPart::merge(vec![entries.clone(), entries.split_off(4000)]);
        assert!(merge.seek_first().unwrap());
        assert_eq!((1..).find(|_| !merge.step().unwrap()), Some(5000));

        let fingerprints: Vec<u32> = keys.iter().map(|key| FilterPart::fingerprint(key)).collect();
        let filter = FilterPart::build(&fingerprints);
        assert!(fingerprints.iter().all(|fingerprint| filter.may_contain(*fingerprint)));
        let maplet = MapletPart::build(&[fingerprints.clone(), fingerprints[..100].to_vec()]);
        let absent_fingerprint = FilterPart::fingerprint(&absent);
        // `columns` is a set of bits: 1 is the first column, 3 the first two, 4 the third.
        for maplet in [&maplet, &maplet.merged(2, &[absent_fingerprint])] {
            maplet.prefetch(fingerprints[0]);
            filter.prefetch(fingerprints[0]);
            assert!(fingerprints[..100].iter().all(|fingerprint| maplet.columns(*fingerprint) == 3));
            assert!(fingerprints[100..].iter().all(|fingerprint| maplet.columns(*fingerprint) == 1));
        }
        assert_eq!(
            (maplet.columns(absent_fingerprint), maplet.merged(2, &[absent_fingerprint]).columns(absent_fingerprint)),
            (0, 4)
        );
        let own = key::encoded(KEYSPACE, &keys[0]);
        assert_eq!(
            fingerprint(encoded_key_hash(&own)),
            fingerprints[0],
            "filters of branches use the same fingerprint"
        );

        let directory = tempfile::tempdir().unwrap();
        let branches = BranchPart::new(directory.path());
        let name = branches.build(&entries).unwrap();
        assert!(directory.path().join(&name).metadata().unwrap().len() > 1000 * 8);
        branches.remove(&name).unwrap();
        let mut log = LogPart::create(directory.path(), 64 << 10, 16 << 10).unwrap();
        for (round, key) in keys.iter().enumerate() {
            log.append(key, b"value").unwrap();
            if round % 100 == 0 {
                log.maintain().unwrap();
            }
        }
        assert_eq!(log.sequencer.last(), SequenceNumber(5000));
        // More than the small segments with which a log begins have, and nobody makes the next ones meanwhile.
        keys.iter().for_each(|key| log.append(key, &[7; 100]).unwrap());
        assert_eq!(log.sequencer.last(), SequenceNumber(10_000));
    }
}
