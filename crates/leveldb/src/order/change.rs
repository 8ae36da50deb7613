//! One batch of a caller's, on its way to a batch of the store.

use super::bucket::Bucket;
use super::fences::Fences;
use super::layout;
use crate::comparator::Comparator;
use alluvium::{Db, WriteBatch};
use std::collections::{BTreeMap, HashMap};

/// See the module. Nothing is written before it is finished.
pub struct Change<'a> {
    db: &'a Db,
    comparator: &'a Comparator,
    fences: Fences,
    fences_changed: bool,
    /// Buckets as they will be.
    buckets: HashMap<u64, Bucket>,
    next: u64,
    /// What the store will be told, by its keys; `None` deletes.
    pending: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

/// What came of it.
pub struct Done {
    /// For the store.
    pub batch: WriteBatch,
    /// The fences from there on, where they changed.
    pub fences: Option<Fences>,
    /// The keys of buckets from there on.
    pub buckets: HashMap<u64, Bucket>,
    /// The next bucket's number.
    pub next: u64,
}

impl<'a> Change<'a> {
    /// Nothing yet. `buckets` are some that are known; `next` is the number of the next new one.
    pub fn new(
        db: &'a Db,
        comparator: &'a Comparator,
        fences: &Fences,
        buckets: HashMap<u64, Bucket>,
        next: u64,
    ) -> Self {
        let fences = fences.clone();
        Self { db, comparator, fences, fences_changed: false, buckets, next, pending: BTreeMap::new() }
    }

    /// Sets a key; what compares as equal is replaced, spelling and all.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> alluvium::Result<()> {
        let position = self.fences.position(self.comparator, key);
        let number = self.fences.bucket(position);
        let bucket = known(&mut self.buckets, self.db, self.comparator, number)?;
        let at = match bucket.search(self.comparator, key) {
            Ok(at) => {
                let old = bucket.remove(at);
                if *old.key != *key {
                    self.pending.insert(layout::data_key(number, &old.key), None);
                }
                at
            }
            Err(at) => at,
        };
        bucket.insert(at, key, value);
        let is_last_bucket = position + 1 == self.fences.buckets();
        let split = bucket.split_at(at, is_last_bucket);
        self.pending.insert(layout::data_key(number, key), Some(value.to_vec()));
        if let Some(at) = split {
            self.split(position, at)?;
        }
        Ok(())
    }

    /// Removes a key, if it is there.
    pub fn delete(&mut self, key: &[u8]) -> alluvium::Result<()> {
        let position = self.fences.position(self.comparator, key);
        let number = self.fences.bucket(position);
        let bucket = known(&mut self.buckets, self.db, self.comparator, number)?;
        let Ok(at) = bucket.search(self.comparator, key) else { return Ok(()) };
        let old = bucket.remove(at);
        self.pending.insert(layout::data_key(number, &old.key), None);
        if bucket.is_empty() && position > 0 {
            self.buckets.remove(&number);
            self.fences.remove(position);
            self.fences_changed = true;
            self.pending.insert(layout::fence_key(number), None);
        }
        Ok(())
    }

    /// Moves the keys of a bucket from a place on to a new one behind it.
    fn split(&mut self, position: usize, at: usize) -> alluvium::Result<()> {
        let (number, new) = (self.fences.bucket(position), self.next);
        let Some(bucket) = self.buckets.get_mut(&number) else { return Ok(()) };
        let moved = bucket.split_off(at);
        for key in moved.keys() {
            let from = layout::data_key(number, key);
            let value = match self.pending.get(&from) {
                Some(value) => value.clone(),
                None => self.db.get(&from)?,
            };
            self.pending.insert(from, None);
            self.pending.insert(layout::data_key(new, key), value);
        }
        let lower = moved.key(0);
        self.pending.insert(layout::fence_key(new), Some(lower.to_vec()));
        self.fences.add_behind(position, lower, new);
        self.fences_changed = true;
        self.buckets.insert(new, moved);
        self.next += 1;
        Ok(())
    }

    /// The batch for the store.
    pub fn finish(self) -> Done {
        let mut batch = WriteBatch::new();
        for (key, value) in self.pending {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        let fences = self.fences_changed.then_some(self.fences);
        Done { batch, fences, buckets: self.buckets, next: self.next }
    }
}

/// A bucket's keys, read where nobody knows them yet.
fn known<'b>(
    buckets: &'b mut HashMap<u64, Bucket>,
    db: &Db,
    comparator: &Comparator,
    number: u64,
) -> alluvium::Result<&'b mut Bucket> {
    use std::collections::hash_map::Entry;
    match buckets.entry(number) {
        Entry::Occupied(known) => Ok(known.into_mut()),
        Entry::Vacant(unknown) => Ok(unknown.insert(Bucket::load(db, number, comparator)?)),
    }
}
