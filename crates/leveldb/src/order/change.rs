//! Converts one batch of the caller to a batch of the store.

use super::bucket::Known;
use super::fences::Fences;
use super::layout;
use crate::comparator::Comparator;
use alluvium::{Db, WriteBatch};
use std::collections::BTreeMap;

/// See the module. Nothing is written before `finish`.
pub struct Change<'a> {
    db: &'a Db,
    comparator: &'a Comparator,
    fences: Fences,
    fences_changed: bool,
    /// The buckets after the batch.
    known: Known,
    next: u64,
    /// The writes to the store, by its keys; `None` deletes.
    pending: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
}

/// The result.
pub struct Done {
    /// The batch for the store.
    pub batch: WriteBatch,
    /// The new fences, if they changed.
    pub fences: Option<Fences>,
    /// The cached buckets after the batch.
    pub known: Known,
    /// The number of the next new bucket.
    pub next: u64,
}

impl<'a> Change<'a> {
    /// Starts an empty change. `known` are the cached buckets; `next` is the number of the next new one.
    pub fn new(db: &'a Db, comparator: &'a Comparator, fences: &Fences, known: Known, next: u64) -> Self {
        let fences = fences.clone();
        Self { db, comparator, fences, fences_changed: false, known, next, pending: BTreeMap::new() }
    }

    /// Sets a key. Replaces a key that compares as equal, including its spelling.
    pub fn put(&mut self, key: &[u8], value: &[u8]) -> alluvium::Result<()> {
        let position = self.fences.position(self.comparator, key);
        let number = self.fences.bucket(position);
        let bucket = self.known.bucket(self.db, number, self.comparator)?;
        let at = match bucket.search(self.comparator, key) {
            Ok(at) => {
                if bucket.key(at) != key {
                    self.pending.insert(layout::data_key(number, bucket.key(at)), None);
                }
                bucket.remove(at);
                at
            }
            Err(at) => at,
        };
        bucket.insert(at, key, value.len());
        let is_last_bucket = position + 1 == self.fences.buckets();
        let split = bucket.split_at(at, is_last_bucket);
        self.pending.insert(layout::data_key(number, key), Some(value.to_vec()));
        if let Some(at) = split {
            self.split(position, at)?;
        }
        Ok(())
    }

    /// Deletes a key, if it exists.
    pub fn delete(&mut self, key: &[u8]) -> alluvium::Result<()> {
        let position = self.fences.position(self.comparator, key);
        let number = self.fences.bucket(position);
        let bucket = self.known.bucket(self.db, number, self.comparator)?;
        let Ok(at) = bucket.search(self.comparator, key) else { return Ok(()) };
        self.pending.insert(layout::data_key(number, bucket.key(at)), None);
        bucket.remove(at);
        if bucket.is_empty() && position > 0 {
            self.known.remove(number);
            self.fences.remove(position);
            self.fences_changed = true;
            self.pending.insert(layout::fence_key(number), None);
        }
        Ok(())
    }

    /// Moves the keys of a bucket from a position on to a new bucket behind it.
    fn split(&mut self, position: usize, at: usize) -> alluvium::Result<()> {
        let (number, new) = (self.fences.bucket(position), self.next);
        let moved = self.known.bucket(self.db, number, self.comparator)?.split_off(at);
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
        self.known.insert(new, moved);
        self.next += 1;
        Ok(())
    }

    /// The batch for the store.
    pub fn finish(mut self) -> Done {
        let mut batch = WriteBatch::new();
        for (key, value) in self.pending {
            match value {
                Some(value) => batch.put(key, value),
                None => batch.delete(key),
            };
        }
        let fences = self.fences_changed.then_some(self.fences);
        self.known.shrink();
        Done { batch, fences, known: self.known, next: self.next }
    }
}
