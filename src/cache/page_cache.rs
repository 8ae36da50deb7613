//! The page cache: bounded by bytes, shared by all branches. Any thread may call anything.
//!
//! Invariants:
//! 1. A key lives in one shard, chosen by its hash; a shard holds at most `shard_bytes`, so the cache never holds more
//!    than the bytes it was made for (plus what callers still pin after eviction).
//! 2. A shard's mutex is held for one operation on its map: no I/O, no allocation of pages, no freeing of pages under it.
//! 3. Pages never change, so it does not matter which of two equal insertions stays.
//!
//! A page's bytes are counted with `ENTRY_BYTES` for the map, the ring and the `Arc`.

use super::clock::Clock;
use super::page::{Page, PageKey, Priority};
use crate::base::FileNumber;
use crate::base::sync::{AtomicUsize, Mutex, Ordering};
use crossbeam_utils::CachePadded;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};

/// A shard holds at least this much, so that the largest leaf (one value just short of a value file) finds room.
const SHARD_BYTES_MIN: usize = 1 << 20;
/// More shards than any machine has cores; each costs a few cache lines.
const SHARDS_MAX: usize = 1024;
/// What an entry costs beside its page.
const ENTRY_BYTES: usize = 128;
/// Pages that one hold of a shard's mutex evicts at most; they are freed after it.
const VICTIMS: usize = 8;

/// What a cache has seen since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Pages asked for and found.
    pub hits: u64,
    /// Pages asked for and not found.
    pub misses: u64,
    /// Pages given up for others.
    pub evictions: u64,
}

/// Mixes file and offset by multiplication; the table uses the lowest and highest bits, the shard those between.
#[derive(Clone, Copy, Debug, Default)]
struct KeyHasher(u64);

impl Hasher for KeyHasher {
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
        self.0 = (product as u64) ^ ((product >> 64) as u64);
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

type KeyHash = BuildHasherDefault<KeyHasher>;

#[derive(Debug, Default)]
struct Shard {
    pages: Clock<PageKey, Page, KeyHash>,
    bytes: usize,
    // Counted under the mutex that a lookup holds anyway: they cost nothing more.
    statistics: CacheStatistics,
}

/// The cache.
#[derive(Debug)]
pub struct PageCache {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    shard_bytes: usize,
    bytes: usize,
    bytes_used: CachePadded<AtomicUsize>,
}

impl PageCache {
    /// A cache that holds at most `bytes`.
    pub fn new(bytes: usize) -> Self {
        let wanted = (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let count = 1 << wanted.ilog2();
        Self {
            shards: (0..count).map(|_| CachePadded::default()).collect(),
            shard_bytes: bytes / count,
            bytes,
            bytes_used: CachePadded::default(),
        }
    }

    fn shard(&self, key: &PageKey) -> &Mutex<Shard> {
        let hash = KeyHash::default().hash_one(key);
        &self.shards[(hash >> 32) as usize & (self.shards.len() - 1)]
    }

    /// The page, if it is here. Holding it pins it.
    pub fn get(&self, key: PageKey) -> Option<Page> {
        let mut shard = self.shard(&key).lock();
        let page = shard.pages.hit(&key).cloned();
        match page {
            Some(_) => shard.statistics.hits += 1,
            None => shard.statistics.misses += 1,
        }
        page
    }

    /// Adds a page and gives up others for it. A page that a shard could not hold is not kept.
    pub fn insert(&self, key: PageKey, page: Page, priority: Priority) {
        let bytes = page.bytes_held() + ENTRY_BYTES;
        if bytes > self.shard_bytes {
            return;
        }
        // A leaf that nobody asks for again goes in the first round, so that a scan does not clear the cache.
        let (credit, credit_max) = match priority {
            Priority::Low => (0, 2),
            Priority::High => (4, 8),
        };
        let mut page = Some(page);
        while page.is_some() {
            let mut victims: [Option<Page>; VICTIMS] = [const { None }; VICTIMS];
            let mut shard = self.shard(&key).lock();
            if shard.pages.contains(&key) {
                return;
            }
            self.make_room(&mut shard, bytes, &mut victims);
            if shard.bytes + bytes <= self.shard_bytes
                && let Some(page) = page.take()
            {
                shard.pages.insert(key, page, credit, credit_max);
                shard.bytes += bytes;
                self.bytes_used.fetch_add(bytes, Ordering::Relaxed);
            }
            // Unlocks before the victims are freed.
            drop(shard);
        }
    }

    fn make_room(&self, shard: &mut Shard, bytes: usize, victims: &mut [Option<Page>; VICTIMS]) {
        for victim in victims {
            if shard.bytes + bytes <= self.shard_bytes {
                return;
            }
            let Some((_, page)) = shard.pages.evict() else { return };
            let freed = page.bytes_held() + ENTRY_BYTES;
            shard.bytes -= freed;
            shard.statistics.evictions += 1;
            self.bytes_used.fetch_sub(freed, Ordering::Relaxed);
            *victim = Some(page);
        }
    }

    /// Whether pages that nobody has asked for yet (a builder's) would find room without driving others out. Shards
    /// fill unevenly, so this says no a little before the cache is full.
    pub fn has_room(&self) -> bool {
        self.bytes_used() < self.bytes - self.bytes / 8
    }

    /// Forgets every page of a file that is gone. Walks the whole cache; for background threads.
    pub fn remove_file(&self, file: FileNumber) {
        for shard in &self.shards {
            let mut removed = Vec::new();
            let mut shard = shard.lock();
            shard.pages.remove_where(|key| key.file == file, &mut removed);
            let freed: usize = removed.iter().map(|page| page.bytes_held() + ENTRY_BYTES).sum();
            shard.bytes -= freed;
            self.bytes_used.fetch_sub(freed, Ordering::Relaxed);
            drop(shard);
        }
    }

    /// Bytes held now.
    pub fn bytes_used(&self) -> usize {
        self.bytes_used.load(Ordering::Relaxed)
    }

    /// Hits, misses and evictions so far.
    pub fn statistics(&self) -> CacheStatistics {
        let mut sum = CacheStatistics::default();
        for shard in &self.shards {
            let one = shard.lock().statistics;
            sum.hits += one.hits;
            sum.misses += one.misses;
            sum.evictions += one.evictions;
        }
        sum
    }
}
