//! Values in memory one by one, apart from the pages that they came from (SkipStore §5.4.1, the KV item cache). Where memory is small
//! beside the data, and what is asked for most lies scattered over it, a page of the cache holds one item that somebody wants and
//! dozens that nobody does. Any thread may call anything.
//!
//! The paper's cache is asked first of all; this one answers for the tree alone: readers ask it once the memory components have said
//! no, so a put need not know of it, and add what they had to read the device for, so it is empty where all pages fit; and where leaves
//! are larger than a page of 4 KiB (compressed, or values of 1 KiB), since their memory could not become that of items.
//!
//! Invariants (the race that each closes):
//! 1. An item is the newest version of its key in the tree: each change of what the tree holds begins with `begin_change`, and has
//!    forgotten every key that it brings something new of before a reader can see the changed tree.
//! 2. An item is added only if no change has begun since the reader looked at `stamp`, which it does *before* it takes its view: a
//!    change begins when the memory component that it brings can no longer change, so a reader whose stamp counts it has searched all
//!    of it, or its tree; if it asks for a snapshot, then for one that sees all of that component. *Else:* a reader that searched a memory
//!    component before a key was put there, or does not see what was put there, could add the old version after the key was forgotten.
//! 3. `begin_change` goes through all shards, so once it has returned every item from before it is seen by `invalidate`.
//! 4. An older version than the newest is answered for by the tree alone: an item that is newer than what is asked for is no answer.
//! 5. The shards' memory is at most `limit`, which follows what the items are worth: while few gets are answered beside many
//!    leaves missed (by scans, which find nothing here), it sinks to an eighth of what it may be.

use super::item_shard::{Item, ItemShard};
use crate::util::SequenceNumber;
use crate::util::planted::{self, Bug};
use crate::util::sync::{AtomicU64, AtomicUsize, Mutex, Ordering};
use crossbeam_utils::CachePadded;

/// A shard has at least this much, if there are several.
const SHARD_BYTES_MIN: usize = 1 << 20;
/// More shards than threads ask at the same moment.
const SHARDS_MAX: usize = 256;
/// The limit is changed by an eighth of the most, and is never less than that, so that what items are worth shows.
const STEPS: usize = 8;
/// Items are worth their memory where they answer one get for so many leaves that are missed.
const MISSES_A_HIT: u64 = 16;

/// What the cache has, and has answered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ItemStatistics {
    /// Items.
    pub items: u64,
    /// Look-ups that found one.
    pub hits: u64,
}

#[derive(Debug, Default)]
struct Shard {
    items: ItemShard,
    /// Changes that have begun.
    begun: u64,
    hits: u64,
}

/// See the module.
#[derive(Debug)]
pub struct ItemCache {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    /// Bytes that a shard may have.
    limit: AtomicUsize,
    limit_max: AtomicUsize,
    bytes: CachePadded<AtomicUsize>,
    /// Items in all shards.
    count: CachePadded<AtomicUsize>,
    begun: AtomicU64,
    /// Hits when what they are worth was asked last.
    hits_before: AtomicU64,
}

impl ItemCache {
    /// A cache that has at most about `bytes`; 0 for none at all.
    pub fn new(bytes: usize) -> Self {
        let wanted = (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let count = 1 << wanted.ilog2();
        let limit = bytes / count;
        Self {
            shards: (0..count).map(|_| CachePadded::default()).collect(),
            limit: AtomicUsize::new(limit),
            limit_max: AtomicUsize::new(limit),
            bytes: CachePadded::default(),
            count: CachePadded::default(),
            begun: AtomicU64::new(0),
            hits_before: AtomicU64::new(0),
        }
    }

    fn shard(&self, hash: u64) -> &Mutex<Shard> {
        // The table takes the bits at both ends.
        &self.shards[(hash >> 24) as usize & (self.shards.len() - 1)]
    }

    /// To be asked for before the view is taken of which something may be added.
    #[inline]
    pub fn stamp(&self) -> u64 {
        self.begun.load(Ordering::Acquire)
    }

    /// The newest version of a key in the tree, if it is here and no newer than `at`: its value is appended to `out`.
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

    /// Adds the newest version of a key in a tree whose view was taken after this stamp.
    pub fn add(&self, stamp: u64, item: Item<'_>) {
        let limit = self.limit.load(Ordering::Relaxed);
        let mut shard = self.shard(item.hash).lock();
        // Invariant 2.
        if shard.begun == stamp || planted::is(Bug::ItemAddedLate) {
            self.change(&mut shard, |items| items.add(item, limit));
        }
    }

    /// Says that what the tree holds is going to change, by a memory component that itself changes no more.
    pub fn begin_change(&self) {
        let begun = self.begun.fetch_add(1, Ordering::AcqRel) + 1;
        // Invariant 3. Of two at once the later count stands: who has it has searched both memory components.
        for shard in &self.shards {
            let mut shard = shard.lock();
            shard.begun = shard.begun.max(begun);
        }
    }

    /// Forgets a key by its hash.
    #[inline]
    pub fn invalidate(&self, hash: u64) {
        if !self.is_empty() && !planted::is(Bug::ItemNotForgotten) {
            self.change(&mut self.shard(hash).lock(), |items| items.invalidate(hash));
        }
    }

    /// Forgets keys. O(items).
    pub fn invalidate_where(&self, mut gone: impl FnMut(&[u8]) -> bool) {
        for shard in &self.shards {
            self.change(&mut shard.lock(), |items| items.invalidate_where(&mut gone));
        }
    }

    /// Takes more memory, or gives some back, by how many hits there were while so many leaves were missed.
    pub fn adjust_limit(&self, missed: u64) {
        let hits = self.statistics().hits;
        let gained = hits.saturating_sub(self.hits_before.swap(hits, Ordering::Relaxed));
        let (most, limit) = (self.limit_max.load(Ordering::Relaxed), self.limit.load(Ordering::Relaxed));
        let step = most / STEPS;
        let is_worth_it = gained * MISSES_A_HIT >= missed;
        let limit = if is_worth_it { limit + step } else { limit.saturating_sub(step) };
        self.set_limit(limit.clamp(step, most));
    }

    /// Changes the memory that it has at most. What it has of that stays the same part, by what items are worth.
    pub fn resize(&self, bytes: usize) {
        let most = bytes / self.shards.len();
        let before = self.limit_max.swap(most, Ordering::Relaxed).max(1);
        let limit = self.limit.load(Ordering::Relaxed) as u128 * most as u128 / before as u128;
        self.set_limit(limit as usize);
    }

    fn set_limit(&self, limit: usize) {
        self.limit.store(limit, Ordering::Relaxed);
        for shard in &self.shards {
            self.change(&mut shard.lock(), |items| items.shrink_to(limit));
        }
    }

    /// Bytes of memory.
    #[inline]
    pub fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Items, and hits so far.
    pub fn statistics(&self) -> ItemStatistics {
        let hits = self.shards.iter().map(|shard| shard.lock().hits).sum();
        ItemStatistics { items: self.count.load(Ordering::Relaxed) as u64, hits }
    }

    #[inline]
    fn is_empty(&self) -> bool {
        self.count.load(Ordering::Relaxed) == 0
    }

    /// Changes a shard's items, and the sums with them.
    fn change(&self, shard: &mut Shard, change: impl FnOnce(&mut ItemShard)) {
        let before = (shard.items.len(), shard.items.bytes());
        change(&mut shard.items);
        let after = (shard.items.len(), shard.items.bytes());
        step(&self.count, before.0, after.0);
        step(&self.bytes, before.1, after.1);
    }
}

fn step(sum: &AtomicUsize, before: usize, after: usize) {
    if after >= before {
        sum.fetch_add(after - before, Ordering::Relaxed);
    } else {
        sum.fetch_sub(before - after, Ordering::Relaxed);
    }
}
