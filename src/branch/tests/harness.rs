//! A store's directory on the simulated disk, random entries, and the answers of a sorted list as the model.

use crate::branch::{Branch, BranchBuilder, BranchContext, BranchForm, BranchResources, ExtentMemory};
use crate::cache::{FileTable, PageCache};
use crate::format::manifest_edit::BranchMeta;
use crate::io::Storage;
use crate::io::simulated::SimulatedStorage;
use crate::merge::{Cursor, EntryRef};
use crate::util::hash::encoded_key_hash;
use crate::util::random::splitmix64;
use crate::util::sync::Arc;
use crate::util::{DatabaseId, FileNumber, FileNumbers, Kind, Result, SequenceNumber};
use std::cmp::{Ordering, Reverse};

/// SplitMix64.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        splitmix64(&mut self.0)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound.max(1) as u64) as usize
    }

    pub fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owned {
    pub key: Vec<u8>,
    pub number: SequenceNumber,
    pub kind: Kind,
    pub value: Vec<u8>,
}

impl Owned {
    pub fn put(key: &[u8], number: u64, value: &[u8]) -> Self {
        Self { key: key.to_vec(), number: SequenceNumber(number), kind: Kind::Put, value: value.to_vec() }
    }

    pub fn borrow(&self) -> EntryRef<'_> {
        EntryRef { key: &self.key, number: self.number, kind: self.kind, value: &self.value }
    }

    fn order(&self, key: &[u8], number: SequenceNumber) -> Ordering {
        self.borrow().order(key, number)
    }
}

/// Sorts into entry order and drops entries of equal key and number.
pub fn in_order(mut entries: Vec<Owned>) -> Vec<Owned> {
    entries.sort_by(|one, other| (&one.key, Reverse(one.number)).cmp(&(&other.key, Reverse(other.number))));
    entries.dedup_by(|one, other| one.key == other.key && one.number == other.number);
    entries
}

pub fn context_over(
    storage: Arc<dyn Storage>,
    form: impl Into<BranchForm>,
    cache_bytes: usize,
    database: DatabaseId,
) -> Arc<BranchContext> {
    BranchContext::new(BranchResources {
        storage: Arc::clone(&storage),
        database,
        cache: Arc::new(PageCache::new(cache_bytes)),
        files: Arc::new(FileTable::new(storage, 100)),
        numbers: Arc::new(FileNumbers::new(FileNumber(7))),
        form: form.into(),
        extents: ExtentMemory::new(64 << 20),
    })
}

pub struct Store {
    pub disk: SimulatedStorage,
    pub context: Arc<BranchContext>,
}

impl Store {
    pub fn new(form: impl Into<BranchForm>, cache_bytes: usize) -> Self {
        let disk = SimulatedStorage::new(1);
        disk.create_directory().unwrap();
        Self::over(disk, form, cache_bytes, DatabaseId(42))
    }

    /// A new context over a disk, with an empty cache.
    pub fn over(disk: SimulatedStorage, form: impl Into<BranchForm>, cache_bytes: usize, database: DatabaseId) -> Self {
        let context = context_over(Arc::new(disk.clone()), form, cache_bytes, database);
        Self { disk, context }
    }

    /// The same disk with an empty cache.
    pub fn reopened(&self, cache_bytes: usize) -> Self {
        Self::over(self.disk.clone(), self.context.form.compression, cache_bytes, self.context.database)
    }

    pub fn write(&self, entries: &[Owned]) -> BranchMeta {
        let mut builder = BranchBuilder::create(&self.context).unwrap();
        for entry in entries {
            builder.add(entry.borrow()).unwrap();
        }
        assert_eq!(builder.entries(), entries.len() as u64);
        builder.finish().unwrap()
    }

    pub fn open(&self, meta: &BranchMeta) -> Arc<Branch> {
        Branch::new(&self.context, meta.clone())
    }
}

/// Number, kind and value, or nothing.
pub type Answer = Option<(SequenceNumber, Kind, Vec<u8>)>;

pub fn get(branch: &Branch, key: &[u8], at: SequenceNumber) -> Result<Answer> {
    let mut out = Vec::new();
    let found = branch.get(key, encoded_key_hash(key), at, &mut crate::branch::BlockingPages::new(), &mut out)?;
    Ok(found.map(|(number, kind)| (number, kind, out)))
}

pub fn expected_get(entries: &[Owned], key: &[u8], at: SequenceNumber) -> Answer {
    let found = entries.get(entries.partition_point(|entry| entry.order(key, at).is_lt()))?;
    (found.key == key).then(|| (found.number, found.kind, found.value.clone()))
}

/// The expected position of a cursor after `seek`.
pub fn expected_seek(entries: &[Owned], key: &[u8], at: SequenceNumber) -> Option<usize> {
    Some(entries.partition_point(|entry| entry.order(key, at).is_lt())).filter(|at| *at < entries.len())
}

/// The expected position of a cursor after `seek_for_prev`.
pub fn expected_seek_for_prev(entries: &[Owned], key: &[u8], at: SequenceNumber) -> Option<usize> {
    entries.partition_point(|entry| entry.order(key, at).is_le()).checked_sub(1)
}

/// Asserts that the cursor is where the model says.
pub fn assert_position(cursor: &impl Cursor, entries: &[Owned], at: Option<usize>, context: &str) {
    assert_eq!(cursor.valid(), at.is_some(), "{context}");
    if let Some(at) = at {
        assert_eq!(cursor.entry(), entries[at].borrow(), "{context}");
    }
}
