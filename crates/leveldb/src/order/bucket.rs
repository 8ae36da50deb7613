//! The keys of one bucket in the comparator's order, as cached by the writer, in one piece of memory.

use super::layout;
use crate::comparator::Comparator;
use alluvium::Db;
use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::ops::Range;

/// The most keys of a bucket. With more, every write of a new key and every seek reads more; with fewer, fences take
/// more memory.
const KEYS_MAX: usize = 64;
/// The most bytes of a bucket with several keys, values included: a scan holds a bucket in memory.
const BYTES_MAX: usize = 256 << 10;
/// Memory for cached buckets.
const KEPT_BYTES: usize = 16 << 20;
/// Reads of buckets between two checks of that limit.
const READS_BETWEEN: usize = 64;

/// The position of a key, and its size in the store.
#[derive(Clone, Copy)]
struct Place {
    begin: u32,
    end: u32,
    bytes: u32,
}

/// See the module.
#[derive(Default)]
pub struct Bucket {
    keys: Vec<u8>,
    /// In the comparator's order. Removed keys leave gaps in `keys`.
    places: Vec<Place>,
}

impl Bucket {
    /// Reads the keys of a bucket.
    pub fn load(db: &Db, bucket: u64, comparator: &Comparator) -> alluvium::Result<Self> {
        let mut loaded = Self::default();
        let mut pairs = db.prefix(layout::data_key(bucket, &[]))?;
        pairs.seek_first()?;
        while let Some((key, value)) = pairs.pair() {
            loaded.insert(loaded.places.len(), layout::user_key(key), value.len());
            pairs.step()?;
        }
        let keys = &loaded.keys;
        loaded.places.sort_by(|one, other| comparator.compare(one.of(keys), other.of(keys)));
        Ok(loaded)
    }

    /// Returns the position of a key, or the position where it would be inserted.
    pub fn search(&self, comparator: &Comparator, key: &[u8]) -> Result<usize, usize> {
        self.places.binary_search_by(|place| comparator.compare(place.of(&self.keys), key))
    }

    /// Returns the key at a position.
    pub fn key(&self, at: usize) -> &[u8] {
        self.places[at].of(&self.keys)
    }

    /// Inserts a key at a position.
    pub fn insert(&mut self, at: usize, key: &[u8], value_bytes: usize) {
        let begin = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        let bytes = u32::try_from(key.len() + value_bytes).unwrap_or(u32::MAX);
        self.places.insert(at, Place { begin, end: self.keys.len() as u32, bytes });
    }

    /// Removes the key at a position.
    pub fn remove(&mut self, at: usize) {
        self.places.remove(at);
        // Gaps that are larger than the keys waste memory.
        if self.keys.len()
            > 2 * self.places.iter().map(|place| place.range().len()).sum::<usize>() + BYTES_MAX / KEYS_MAX
        {
            *self = self.copy(0..self.places.len());
        }
    }

    /// Whether the bucket has no key.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Returns the position where the bucket must be split after the insert at `inserted`, if at all: in the middle, or
    /// before the new key if it was appended after all others, as by a program that writes in order.
    pub fn split_at(&self, inserted: usize, is_last_bucket: bool) -> Option<usize> {
        let keys = self.places.len();
        let bytes: u64 = self.places.iter().map(|place| u64::from(place.bytes)).sum();
        if keys <= KEYS_MAX && (bytes <= BYTES_MAX as u64 || keys < 2) {
            return None;
        }
        Some(if is_last_bucket && inserted + 1 == keys { inserted } else { keys / 2 })
    }

    /// Removes the keys from a position on and returns them.
    pub fn split_off(&mut self, at: usize) -> Self {
        let behind = self.copy(at..self.places.len());
        *self = self.copy(0..at);
        behind
    }

    /// Iterates over all keys.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.places.iter().map(|place| place.of(&self.keys))
    }

    fn copy(&self, places: Range<usize>) -> Self {
        let mut copy = Self::default();
        for place in &self.places[places] {
            let key = place.of(&self.keys);
            copy.insert(copy.places.len(), key, place.bytes as usize - key.len());
        }
        copy
    }

    fn memory(&self) -> usize {
        self.keys.capacity() + self.places.capacity() * size_of::<Place>()
    }
}

impl Place {
    fn range(self) -> Range<usize> {
        self.begin as usize..self.end as usize
    }

    fn of(self, keys: &[u8]) -> &[u8] {
        &keys[self.range()]
    }
}

/// The buckets that the writer has cached.
#[derive(Default)]
pub struct Known {
    buckets: HashMap<u64, Bucket>,
    reads: usize,
}

impl Known {
    /// Returns a bucket, and reads it if it is not cached yet.
    pub fn bucket(&mut self, db: &Db, number: u64, comparator: &Comparator) -> alluvium::Result<&mut Bucket> {
        match self.buckets.entry(number) {
            Occupied(known) => Ok(known.into_mut()),
            Vacant(unknown) => {
                self.reads += 1;
                Ok(unknown.insert(Bucket::load(db, number, comparator)?))
            }
        }
    }

    /// Adds a bucket.
    pub fn insert(&mut self, number: u64, bucket: Bucket) {
        self.buckets.insert(number, bucket);
    }

    /// Removes a bucket from the cache.
    pub fn remove(&mut self, number: u64) {
        self.buckets.remove(&number);
    }

    /// Removes every other bucket if they take too much memory.
    pub fn shrink(&mut self) {
        if self.reads < READS_BETWEEN {
            return;
        }
        self.reads = 0;
        if self.buckets.values().map(Bucket::memory).sum::<usize>() > KEPT_BYTES {
            let mut stays = false;
            self.buckets.retain(|_, _| {
                stays = !stays;
                stays
            });
        }
    }
}
