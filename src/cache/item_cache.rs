//! Single values in memory, apart from the pages that they came from (SkipStore §5.4.1, the KV item cache). If memory
//! is small compared to the data and the popular keys are scattered, a cached page contains one popular item and dozens
//! of others. Any thread may call any method.
//!
//! In the paper, gets ask the cache first. This cache answers for the tree only: readers ask it after they found nothing
//! in memory, so a put need not know of it. Readers add values that they had to read from the device, so the cache is
//! empty if all pages fit into memory. Items grow only into memory that the page cache frees, in chunks of the size of
//! the leaf that the reader has just read: frames of another size could not be reused (`io/frames.rs`).
//!
//! Invariants (with the race that each prevents; `docs/concurrency.md`, C6):
//! 1. An item is the newest version of its key in the tree. Each change of the tree begins with `begin_change`, and
//!    invalidates every key with new entries before a reader can see the changed tree.
//! 2. An item is added only if no change has begun since the reader read `stamp`, which it does *before* it takes its
//!    view. A change begins after the generation that it brings is sealed. So a reader whose stamp includes the change
//!    has searched the complete generation, or a tree that contains it. A reader at a snapshot adds a value only if the
//!    snapshot sees that whole generation (`engine::read`). *Otherwise:* a reader that searched a generation before a key
//!    was written to it, or that does not see the new version, could add the old version after the key was
//!    invalidated.
//!    A change that brings no generation, that of a compaction filter, is bracketed by `begin_filtered` and `end_filtered`: a
//!    reader whose stamp lies between the two adds nothing. *Otherwise:* it has searched the old tree, and adds what the
//!    filter has removed.
//! 3. `begin_change` visits all shards. Once it has returned, `invalidate` sees every item added before.
//! 4. If the item is newer than the requested number, the lookup misses, and the tree is searched (`ItemShard::get`).
//! 5. The memory of each shard is at most `limit` (after the limit has changed: once the next item is added). The limit
//!    rises and falls with the hits. While they are few compared with the missed leaves (as with scans, which do not use
//!    this cache), it falls to an eighth of its maximum.

use super::item_shard::{Item, ItemShard};
use crate::util::SequenceNumber;
use crate::util::planted::planted;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, OnceLock, Ordering};
use crossbeam_utils::CachePadded;

/// Minimum size of a shard, if there are several.
const SHARD_BYTES_MIN: usize = 1 << 20;
/// Enough shards that concurrent lookups rarely contend.
const SHARDS_MAX: usize = 256;
/// The limit changes in steps of an eighth of its maximum. Adjustments never lower it below one step, so that the
/// benefit of items stays measurable.
const STEPS: usize = 8;
/// Items are worth their memory if they answer at least one get for this many missed leaves.
const MISSES_PER_HIT: u64 = 16;

/// In `Shard::begun`: nothing is added.
const CLOSED: u64 = 1 << 63;

/// Contents and hits of the cache.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemStatistics {
    /// Number of items.
    pub items: u64,
    /// Lookups that found an item.
    pub hits: u64,
}

type Shards = Box<[CachePadded<Mutex<Shard>>]>;

#[derive(Debug, Default)]
struct Shard {
    items: ItemShard,
    /// Number of tree changes that have begun, as far as this shard knows. No stamp equals it while it has `CLOSED`.
    begun: u64,
    hits: u64,
}

/// See the module documentation.
#[derive(Debug)]
pub struct ItemCache {
    /// Made with the first item, so that a store that is hardly read needs none.
    shards: OnceLock<Shards>,
    shard_count: usize,
    /// Held while the shards are made or a change begins: shards know of every change that has begun (invariant 3).
    begin: Mutex<()>,
    /// Whether a change by a compaction filter is in progress. Changes with `begin` held.
    closed: AtomicBool,
    /// The limit of each shard in bytes.
    limit: AtomicUsize,
    limit_max: AtomicUsize,
    bytes: CachePadded<AtomicUsize>,
    /// The bytes of all item caches in the same memory.
    total_bytes: Arc<CachePadded<AtomicUsize>>,
    /// Items that were added.
    added: AtomicU64,
    /// Items in all shards.
    count: CachePadded<AtomicUsize>,
    /// Number of tree changes that have begun.
    begun: AtomicU64,
    /// The number of hits when the limit was adjusted last.
    hits_before: AtomicU64,
}

impl ItemCache {
    /// A cache of at most about `bytes`, counted in `total_bytes`, too. With 0 the cache stays empty.
    pub fn new(bytes: usize, total_bytes: Arc<CachePadded<AtomicUsize>>) -> Self {
        let wanted = (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let count = 1 << wanted.ilog2();
        let limit = bytes / count;
        Self {
            shards: OnceLock::new(),
            shard_count: count,
            begin: Mutex::default(),
            closed: AtomicBool::new(false),
            limit: AtomicUsize::new(limit),
            limit_max: AtomicUsize::new(limit),
            bytes: CachePadded::default(),
            total_bytes,
            added: AtomicU64::new(0),
            count: CachePadded::default(),
            begun: AtomicU64::new(0),
            hits_before: AtomicU64::new(0),
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // The hash table uses the highest and the lowest bits of the hash.
        &self.shards()[(hash >> 24) as usize & (self.shard_count - 1)]
    }

    fn shards(&self) -> &Shards {
        self.shards.get().unwrap_or_else(|| {
            let _begin = self.begin.lock();
            self.shards.get_or_init(|| {
                let closed = if self.closed.load(Ordering::Relaxed) { CLOSED } else { 0 };
                let begun = self.begun.load(Ordering::Acquire) | closed;
                let shard = || CachePadded::new(Mutex::new(Shard { begun, ..Shard::default() }));
                (0..self.shard_count).map(|_| shard()).collect()
            })
        })
    }

    /// The shards, if they exist.
    fn existing(&self) -> impl Iterator<Item = &CachePadded<Mutex<Shard>>> {
        self.shards.get().into_iter().flatten()
    }

    /// The stamp for `add`. It must be read before the reader takes its view (invariant 2).
    #[inline]
    pub fn stamp(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// Looks up the newest version of a key in the tree. If it is in the cache and not newer than `at`, appends its
    /// value to `out` and returns its number.
    #[inline]
    pub fn get(&self, key: &[u8], hash: u64, at: SequenceNumber, out: &mut Vec<u8>) -> Option<SequenceNumber> {
        if self.is_empty() {
            return None;
        }
        let mut shard = self.shard(hash).lock();
        let number = shard.items.get(key, hash, at, out)?;
        shard.hits += 1;
        Some(number)
    }

    /// Adds the newest version of a key in the tree. The reader must have taken its view after it read `stamp`.
    pub fn add(&self, stamp: u64, item: Item<'_>) {
        let limit = self.limit.load(Ordering::Relaxed);
        let mut shard = self.shard(item.hash).lock();
        // Invariant 2.
        if planted!(shard.begun == stamp, Bug::ItemAddedLate => true) {
            self.added.fetch_add(1, Ordering::Relaxed);
            self.edit(&mut shard, |items| items.add(item, limit));
        }
    }

    /// Announces a change of the tree by a generation that is now sealed.
    pub fn begin_change(&self) {
        let _begin = self.begin.lock();
        let begun = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        // Invariant 3. If two changes begin at once, each shard keeps the larger count: a reader with that count has
        // searched both generations.
        for shard in self.existing() {
            let mut shard = shard.lock();
            shard.begun = shard.begun.max(begun);
        }
    }

    /// Announces a change of the tree by compaction filters. Until `end_filtered` nothing is added. One such change at a time.
    pub fn begin_filtered(&self) {
        {
            let _begin = self.begin.lock();
            self.closed.store(true, Ordering::Relaxed);
            self.existing().for_each(|shard| shard.lock().begun |= CLOSED);
        }
        self.begin_change();
    }

    /// The change that `begin_filtered` has announced can be seen by all readers that take their view from now on.
    pub fn end_filtered(&self) {
        let _begin = self.begin.lock();
        self.closed.store(false, Ordering::Relaxed);
        let begun = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        self.existing().for_each(|shard| shard.lock().begun = begun);
    }

    /// Invalidates the item of a key, given its hash.
    #[inline]
    pub fn invalidate(&self, hash: u64) {
        if planted!(!self.is_empty(), Bug::ItemNotInvalidated => false) {
            self.edit(&mut self.shard(hash).lock(), |items| items.invalidate(hash));
        }
    }

    /// Invalidates the items of all keys for which `gone` returns true. O(items).
    pub fn invalidate_where(&self, mut gone: impl FnMut(&[u8]) -> bool) {
        for shard in self.existing() {
            self.edit(&mut shard.lock(), |items| items.invalidate_where(&mut gone));
        }
    }

    /// Raises or lowers the limit, depending on how many hits there were while `missed` leaves were missed.
    pub fn adjust_limit(&self, missed: u64) {
        let hits = self.statistics().hits;
        let gained = hits.saturating_sub(self.hits_before.swap(hits, Ordering::Relaxed));
        let (max, limit) = (self.limit_max.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed));
        let step = max / STEPS;
        let is_worth_it = gained * MISSES_PER_HIT >= missed;
        let limit = if is_worth_it { limit + step } else { limit.saturating_sub(step) };
        self.set_limit(limit.clamp(step, max));
    }

    /// Changes the maximum of the limit. The limit keeps its share of the maximum.
    pub fn resize(&self, bytes: usize) {
        let max = bytes / self.shard_count;
        let before = self.limit_max.swap(max, Ordering::Relaxed).max(1);
        let limit = self.limit.load(Ordering::Relaxed) as u128 * max as u128 / before as u128;
        self.set_limit(limit as usize);
    }

    fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
        for shard in self.existing() {
            self.edit(&mut shard.lock(), |items| items.shrink_to(limit));
        }
    }

    /// Bytes of memory in use.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// The number of items, and of hits so far.
    pub fn statistics(&self) -> ItemStatistics {
        let hits = self.existing().map(|shard| shard.lock().hits).sum();
        ItemStatistics { items: self.count.load(Ordering::Relaxed) as u64, hits }
    }

    /// A count that rises with every use.
    pub fn uses(&self) -> u64 {
        self.added.load(Ordering::Relaxed) + self.statistics().hits
    }

    /// Removes all items.
    pub fn clear(&self) {
        for shard in self.existing() {
            self.edit(&mut shard.lock(), |items| items.shrink_to(0));
        }
    }

    /// Whether there are no items.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Changes the items of a shard and updates the totals.
    fn edit(&self, shard: &mut Shard, edit: impl FnOnce(&mut ItemShard)) {
        let before = (shard.items.len(), shard.items.bytes());
        edit(&mut shard.items);
        let after = (shard.items.len(), shard.items.bytes());
        add_difference(&self.count, before.0, after.0);
        add_difference(&self.bytes, before.1, after.1);
        add_difference(&self.total_bytes, before.1, after.1);
    }
}

fn add_difference(sum: &AtomicUsize, before: usize, after: usize) {
    if after >= before {
        sum.fetch_add(after - before, Ordering::Relaxed);
    } else {
        sum.fetch_sub(before - after, Ordering::Relaxed);
    }
}
