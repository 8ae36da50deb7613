//! The keys of one bucket in the caller's order, as a writer knows them.

use super::layout;
use crate::comparator::Comparator;
use alluvium::Db;

/// Keys that a bucket has at most.
const KEYS_MAX: usize = 128;
/// Bytes that more than one key of it may have, with their values: a scan holds a bucket in memory.
const BYTES_MAX: usize = 256 << 10;

/// A key and how much it takes.
pub struct Entry {
    /// As it was put last.
    pub key: Box<[u8]>,
    bytes: usize,
}

/// See the module.
#[derive(Default)]
pub struct Bucket {
    entries: Vec<Entry>,
    bytes: usize,
}

impl Bucket {
    /// Reads a bucket's keys.
    pub fn load(db: &Db, bucket: u64, comparator: &Comparator) -> alluvium::Result<Self> {
        let mut entries = Vec::new();
        for pair in db.prefix(layout::data_key(bucket, &[]))? {
            let (key, value) = pair?;
            let key: Box<[u8]> = layout::user_key(&key).into();
            let bytes = key.len() + value.len();
            entries.push(Entry { key, bytes });
        }
        entries.sort_by(|one, other| comparator.compare(&one.key, &other.key));
        let bytes = entries.iter().map(|entry| entry.bytes).sum();
        Ok(Self { entries, bytes })
    }

    /// Where a key is, or where it would have to be.
    pub fn search(&self, comparator: &Comparator, key: &[u8]) -> Result<usize, usize> {
        self.entries.binary_search_by(|entry| comparator.compare(&entry.key, key))
    }

    /// The key at a place.
    pub fn key(&self, at: usize) -> &[u8] {
        &self.entries[at].key
    }

    /// Brings a key to a place.
    pub fn insert(&mut self, at: usize, key: &[u8], value: &[u8]) {
        let bytes = key.len() + value.len();
        self.entries.insert(at, Entry { key: key.into(), bytes });
        self.bytes += bytes;
    }

    /// Takes the key at a place out.
    pub fn remove(&mut self, at: usize) -> Entry {
        let entry = self.entries.remove(at);
        self.bytes -= entry.bytes;
        entry
    }

    /// Whether no key is left.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Where it must be split, now that the key at `inserted` came, if at all: in the middle, or before that key where it was put behind
    /// all others, as by a program that writes in order.
    pub fn split_at(&self, inserted: usize, is_last_bucket: bool) -> Option<usize> {
        let keys = self.entries.len();
        if keys <= KEYS_MAX && (self.bytes <= BYTES_MAX || keys < 2) {
            return None;
        }
        Some(if is_last_bucket && inserted + 1 == keys { inserted } else { keys / 2 })
    }

    /// Takes the keys from a place on out.
    pub fn split_off(&mut self, at: usize) -> Self {
        let entries = self.entries.split_off(at);
        let bytes = entries.iter().map(|entry| entry.bytes).sum();
        self.bytes -= bytes;
        Self { entries, bytes }
    }

    /// All keys.
    pub fn keys(&self) -> impl Iterator<Item = &[u8]> {
        self.entries.iter().map(|entry| &*entry.key)
    }
}
