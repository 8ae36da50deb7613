//! The keys of one bucket in the caller's order, as a writer knows them, side by side in one piece of memory.

use super::layout;
use crate::comparator::Comparator;
use alluvium::Db;
use std::collections::HashMap;
use std::collections::hash_map::Entry::{Occupied, Vacant};
use std::ops::Range;

/// Keys that a bucket has at most. More make every write of a new key and every seek read more; fewer take more memory for fences.
const KEYS_MAX: usize = 64;
/// Bytes that more than one key of it may have, with their values: a scan holds a bucket in memory.
const BYTES_MAX: usize = 256 << 10;
/// Memory for buckets that are kept for later writes.
const KEPT_BYTES: usize = 16 << 20;
/// So many may be read before that is looked at.
const READS_BETWEEN: usize = 64;

/// A key's place, and how much it takes in the store.
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
    /// In order. Keys that are gone leave gaps in `keys`.
    places: Vec<Place>,
}

impl Bucket {
    /// Reads a bucket's keys.
    pub fn load(db: &Db, bucket: u64, comparator: &Comparator) -> alluvium::Result<Self> {
        let mut loaded = Self::default();
        let mut pairs = db.prefix(layout::data_key(bucket, &[]))?;
        pairs.seek_first()?;
        while pairs.valid() {
            loaded.insert(loaded.places.len(), layout::user_key(pairs.key()), pairs.value().len());
            pairs.step()?;
        }
        let keys = &loaded.keys;
        loaded.places.sort_by(|one, other| comparator.compare(one.of(keys), other.of(keys)));
        Ok(loaded)
    }

    /// Where a key is, or where it would have to be.
    pub fn search(&self, comparator: &Comparator, key: &[u8]) -> Result<usize, usize> {
        self.places.binary_search_by(|place| comparator.compare(place.of(&self.keys), key))
    }

    /// The key at a place.
    pub fn key(&self, at: usize) -> &[u8] {
        self.places[at].of(&self.keys)
    }

    /// Brings a key to a place.
    pub fn insert(&mut self, at: usize, key: &[u8], value_bytes: usize) {
        let begin = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        let bytes = u32::try_from(key.len() + value_bytes).unwrap_or(u32::MAX);
        self.places.insert(at, Place { begin, end: self.keys.len() as u32, bytes });
    }

    /// Takes the key at a place out.
    pub fn remove(&mut self, at: usize) {
        self.places.remove(at);
        // Gaps that are more than the keys are not worth their memory.
        if self.keys.len()
            > 2 * self.places.iter().map(|place| place.range().len()).sum::<usize>() + BYTES_MAX / KEYS_MAX
        {
            *self = self.copy(0..self.places.len());
        }
    }

    /// Whether no key is left.
    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    /// Where it must be split, now that the key at `inserted` came, if at all: in the middle, or before that key where it was put behind
    /// all others, as by a program that writes in order.
    pub fn split_at(&self, inserted: usize, is_last_bucket: bool) -> Option<usize> {
        let keys = self.places.len();
        let bytes: u64 = self.places.iter().map(|place| u64::from(place.bytes)).sum();
        if keys <= KEYS_MAX && (bytes <= BYTES_MAX as u64 || keys < 2) {
            return None;
        }
        Some(if is_last_bucket && inserted + 1 == keys { inserted } else { keys / 2 })
    }

    /// Takes the keys from a place on out.
    pub fn split_off(&mut self, at: usize) -> Self {
        let behind = self.copy(at..self.places.len());
        *self = self.copy(0..at);
        behind
    }

    /// All keys.
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

/// The buckets that a writer knows.
#[derive(Default)]
pub struct Known {
    buckets: HashMap<u64, Bucket>,
    reads: usize,
}

impl Known {
    /// A bucket, read where it is not known yet.
    pub fn bucket(&mut self, db: &Db, number: u64, comparator: &Comparator) -> alluvium::Result<&mut Bucket> {
        match self.buckets.entry(number) {
            Occupied(known) => Ok(known.into_mut()),
            Vacant(unknown) => {
                self.reads += 1;
                Ok(unknown.insert(Bucket::load(db, number, comparator)?))
            }
        }
    }

    /// Takes note of a bucket.
    pub fn insert(&mut self, number: u64, bucket: Bucket) {
        self.buckets.insert(number, bucket);
    }

    /// Forgets a bucket.
    pub fn remove(&mut self, number: u64) {
        self.buckets.remove(&number);
    }

    /// Forgets every other one where they are too many.
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
