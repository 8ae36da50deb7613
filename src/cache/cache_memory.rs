//! The memory of page caches: bounded by bytes, with clock replacement (SplinterDB §5 "Cache"). Several stores may share
//! one; each has a `PageCache` of its own in it. Any thread may call any method.
//!
//! A page belongs to the shard that its table and number determine. Each shard has a mutex and a clock of its own.
//!
//! Invariants:
//! 1. Each shard may use an equal part of the budget (`resize`) that is left after tables, items and what open files
//!    have in memory (`count_metadata`). If these grow, a shard may exceed its part until its next page is inserted. A
//!    table has blocks of slots only where it has pages.
//! 2. Every page in a table has an entry in its shard's ring. An entry without a page is dead: it is left over from a
//!    removed file (`dead` counts them). `remove_table` cleans a ring once at least `DEAD_MIN` of its entries, and more
//!    than half, are dead.
//! 3. A page is evicted after `credit` visits of the hand without a hit. One eviction visits at most `VISITS_MAX` pages
//!    and removes the dead entries that it meets, so the mutex is held for microseconds, whatever the size of the cache.
//!    If all visited pages have credit, the one with the lowest credit is evicted, of those visited since the last dead
//!    entry.
//! 4. A page that was taken out of a table is dropped after a grace period (`page_table`, invariant 2), never under the
//!    mutex.
//! 5. The item caches of stores that use theirs have equal shares of the part for items. A cache that nobody used for
//!    `ITEMS_IDLE_ROUNDS` calls of `share_items` is emptied, if there are others.
//!
//! A page counts with its bytes and `ENTRY_BYTES` for its table entry, its ring entry and its `Arc`.

use super::item_cache::ItemCache;
use super::page::{Page, PageKind};
use super::page_table::{PageTable, Taken};
use crate::io::frames;
use crate::util::planted::planted;
use crate::util::sync::{Arc, AtomicUsize, Mutex, MutexGuard, Ordering};
use crossbeam_utils::CachePadded;
use std::sync::Weak;

/// Minimum size of a shard when the cache is made, unless the cache itself is smaller: the largest leaf (one value just
/// too small for a value file) must fit.
const SHARD_BYTES_MIN: usize = 2 << 20;
/// More shards than any machine has cores. Each costs a few cache lines.
const SHARDS_MAX: usize = 1024;
/// Estimated bytes of an entry in addition to its page.
const ENTRY_BYTES: usize = 128;
/// Most entries that the hand visits for one eviction.
const VISITS_MAX: usize = 128;
/// While more than this plus an eighth of the cache waits for a grace period, new pages are not cached: a stalled
/// reader must not make memory grow.
const RETIRED_BYTES: usize = 4 << 20;
/// Rings with fewer dead entries are not cleaned.
const DEAD_MIN: usize = 32;
/// Pages that a shrinking cache evicts under one lock of a shard.
const SLICE: usize = 32;
/// Items may use at most the cache's size divided by this.
const ITEMS_DIVISOR: usize = 2;
/// See invariant 5.
const ITEMS_IDLE_ROUNDS: u32 = 10;

/// As many kinds of pages as a table can tell apart.
const KINDS: usize = 16;

#[derive(Debug)]
struct Entry {
    /// Weak, so that a dead entry does not keep the table of a removed file.
    table: Weak<PageTable>,
    page: u32,
}

#[derive(Debug, Default)]
struct Shard {
    ring: Vec<Entry>,
    hand: usize,
    dead: usize,
    bytes: usize,
    evictions: u64,
}

/// See the module documentation.
#[derive(Debug)]
pub struct CacheMemory {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    bytes: AtomicUsize,
    /// Bytes of the page tables.
    table_bytes: CachePadded<AtomicUsize>,
    /// Bytes of pages.
    bytes_used: CachePadded<AtomicUsize>,
    /// The same by kind. For statistics.
    bytes_by_kind: CachePadded<[AtomicUsize; KINDS]>,
    /// Bytes of all item caches.
    item_bytes: Arc<CachePadded<AtomicUsize>>,
    /// Bytes that open files have in memory besides their pages.
    metadata_bytes: AtomicUsize,
    /// Bytes of buffered branches, and those that are kept free for them.
    buffer_bytes: AtomicUsize,
    reserved_bytes: AtomicUsize,
    retired: Arc<AtomicUsize>,
    members: Mutex<Vec<Member>>,
}

/// The item cache of one store.
#[derive(Debug)]
struct Member {
    items: Weak<ItemCache>,
    /// `ItemCache::uses` at the last call of `share_items`, and the calls since it changed.
    uses: u64,
    idle_rounds: u32,
}

fn charged_bytes(page: &Page) -> usize {
    page.memory_bytes() + ENTRY_BYTES
}

impl CacheMemory {
    /// Memory of at most `bytes`.
    pub fn new(bytes: usize) -> Arc<Self> {
        let wanted = (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let count = 1 << wanted.ilog2();
        Arc::new(Self {
            shards: (0..count).map(|_| CachePadded::default()).collect(),
            bytes: AtomicUsize::new(bytes),
            table_bytes: CachePadded::default(),
            bytes_used: CachePadded::default(),
            bytes_by_kind: CachePadded::default(),
            item_bytes: Arc::default(),
            metadata_bytes: AtomicUsize::default(),
            buffer_bytes: AtomicUsize::default(),
            reserved_bytes: AtomicUsize::default(),
            retired: Arc::default(),
            members: Mutex::default(),
        })
    }

    /// An item cache in this memory.
    pub(super) fn add_items(&self) -> Arc<ItemCache> {
        let mut members = self.members.lock();
        members.retain(|member| member.items.strong_count() > 0);
        let active = members.iter().filter_map(|member| member.items.upgrade()).filter(|items| !items.is_empty());
        let bytes = self.bytes() / ITEMS_DIVISOR / (active.count() + 1);
        let items = Arc::new(ItemCache::new(bytes, Arc::clone(&self.item_bytes)));
        members.push(Member { items: Arc::downgrade(&items), uses: 0, idle_rounds: 0 });
        items
    }

    /// Divides the part for items among the stores (invariant 5). To be called about once a second.
    pub fn share_items(&self) {
        let mut members = self.members.lock();
        if members.len() < 2 {
            return;
        }
        members.retain(|member| member.items.strong_count() > 0);
        let is_alone = members.len() < 2;
        let mut active = Vec::new();
        for member in &mut *members {
            let Some(items) = member.items.upgrade() else { continue };
            let uses = items.uses();
            member.idle_rounds = if uses == member.uses { member.idle_rounds.saturating_add(1) } else { 0 };
            member.uses = uses;
            if items.is_empty() {
                continue;
            }
            if member.idle_rounds >= ITEMS_IDLE_ROUNDS && !is_alone {
                items.clear();
            } else {
                active.push(items);
            }
        }
        drop(members);
        let share = self.bytes() / ITEMS_DIVISOR / active.len().max(1);
        for items in active {
            items.resize(share);
        }
    }

    fn members(&self) -> Vec<Arc<ItemCache>> {
        self.members.lock().iter().filter_map(|member| member.items.upgrade()).collect()
    }

    /// Counts memory that an open file has besides its pages, as long as the result lives.
    pub fn count_metadata(self: &Arc<Self>, bytes: usize) -> CountedMetadata {
        self.metadata_bytes.fetch_add(bytes, Ordering::Relaxed);
        CountedMetadata { memory: Arc::clone(self), bytes }
    }

    /// Counts the memory of a buffered branch, as long as the result lives.
    pub fn count_buffer(self: &Arc<Self>, bytes: usize) -> CountedBuffer {
        self.buffer_bytes.fetch_add(bytes, Ordering::Relaxed);
        CountedBuffer { memory: Arc::clone(self), bytes }
    }

    /// Keeps memory free for buffered branches, as long as the result lives: buffers fill faster than pages leave.
    pub fn reserve_buffers(self: &Arc<Self>, bytes: usize) -> ReservedBuffers {
        self.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
        self.evict_excess(0);
        ReservedBuffers { memory: Arc::clone(self), bytes }
    }

    /// The bytes of buffered branches.
    #[cfg(test)]
    pub fn buffer_bytes(&self) -> usize {
        self.buffer_bytes.load(Ordering::Relaxed)
    }

    /// The bytes that a shard may use.
    fn shard_bytes(&self) -> usize {
        self.bytes().saturating_sub(self.other_bytes()) / self.shards.len()
    }

    /// The bytes of everything but pages.
    fn other_bytes(&self) -> usize {
        let metadata = self.metadata_bytes.load(Ordering::Relaxed);
        let buffers = self.buffer_bytes.load(Ordering::Relaxed).max(self.reserved_bytes.load(Ordering::Relaxed));
        self.table_bytes.load(Ordering::Relaxed) + self.item_bytes.load(Ordering::Relaxed) + metadata + buffers
    }

    /// The bytes that may be used.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Changes the budget of the cache. Pages beyond it are evicted immediately, and their memory is returned to the
    /// system as soon as nobody reads them, because another component needs it. One caller at a time.
    pub fn resize(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if bytes == before {
            return;
        }
        let items_before = self.item_bytes.load(Ordering::Relaxed);
        let members = self.members();
        let active = members.iter().filter(|items| !items.is_empty()).count().max(1);
        for items in &members {
            items.resize(bytes / ITEMS_DIVISOR / active);
        }
        if bytes > before {
            return;
        }
        self.evict_excess(items_before.saturating_sub(self.item_bytes.load(Ordering::Relaxed)));
    }

    /// Evicts pages until they keep to the budget. Their memory, and so many bytes more, returns to the system.
    fn evict_excess(&self, mut freed: usize) {
        let mut victims = Vec::new();
        for shard in &self.shards {
            let is_over = |shard: &Shard| shard.bytes > self.shard_bytes();
            let mut may_have_more = true;
            while may_have_more {
                let mut shard = shard.lock();
                let before = victims.len();
                self.change(&mut shard, |shard| {
                    while is_over(shard) && victims.len() < before + SLICE && self.evict_one(shard, &mut victims) {}
                });
                may_have_more = victims.len() == before + SLICE;
            }
        }
        freed += victims.iter().map(|page| page.memory_bytes()).sum::<usize>();
        self.retire(victims);
        frames::release(freed);
    }

    fn shard(&self, table: &PageTable, page: u32) -> MutexGuard<'_, Shard> {
        // Consecutive pages belong to consecutive shards, so files of any size spread evenly.
        self.shards[table.spread().wrapping_add(page as usize) & (self.shards.len() - 1)].lock()
    }

    /// Inserts a page and evicts others for it. A page larger than a shard is not cached.
    pub(super) fn insert(&self, table: &Arc<PageTable>, number: u32, page: Page, kind: PageKind, credit: usize) {
        let bytes = charged_bytes(&page);
        if bytes > self.bytes() / self.shards.len()
            || self.retired.load(Ordering::Relaxed) > RETIRED_BYTES + self.bytes() / 8
        {
            return;
        }
        let mut victims = Vec::new();
        let mut shard = self.shard(table, number);
        if table.contains(number) {
            return;
        }
        let shard_bytes = planted!(self.shard_bytes(), Bug::CacheWithoutBound => usize::MAX);
        self.change(&mut shard, |shard| {
            while shard.bytes + bytes > shard_bytes && self.evict_one(shard, &mut victims) {}
            if shard.bytes + bytes <= shard_bytes {
                let grown = table.put(number, page, kind as u8, credit);
                self.table_bytes.fetch_add(grown, Ordering::Relaxed);
                shard.ring.push(Entry { table: Arc::downgrade(table), page: number });
                self.bytes_by_kind[kind as usize].fetch_add(bytes, Ordering::Relaxed);
                shard.bytes += bytes;
            }
        });
        drop(shard);
        self.retire(victims);
    }

    /// Evicts one page of a shard; false if there is none.
    fn evict_one(&self, shard: &mut Shard, victims: &mut Vec<Page>) -> bool {
        let Some(taken) = shard.evict() else { return false };
        shard.bytes -= self.count_taken(&taken);
        shard.evictions += 1;
        victims.push(taken.page);
        true
    }

    /// Counts that a page was taken out of its table. Returns its bytes.
    fn count_taken(&self, Taken { page, kind, shrunk }: &Taken) -> usize {
        let bytes = charged_bytes(page);
        self.table_bytes.fetch_sub(*shrunk, Ordering::Relaxed);
        self.bytes_by_kind[usize::from(*kind)].fetch_sub(bytes, Ordering::Relaxed);
        bytes
    }

    /// Changes a shard and updates the total in one step, so that no reader sees an intermediate total.
    fn change(&self, shard: &mut Shard, change: impl FnOnce(&mut Shard)) {
        let before = shard.bytes;
        change(shard);
        let after = shard.bytes;
        if after >= before {
            self.bytes_used.fetch_add(after - before, Ordering::Relaxed);
        } else {
            self.bytes_used.fetch_sub(before - after, Ordering::Relaxed);
        }
    }

    /// Whether pages that nobody has read yet (those of a builder) fit without evicting others. Shards may fill
    /// unevenly, so it returns false just before the cache is full.
    pub(super) fn has_space(&self) -> bool {
        self.bytes_used() < self.bytes() - self.bytes() / 32
    }

    /// Removes all pages of a table that nobody inserts into any more. O(pages of the table in the cache).
    pub(super) fn remove_table(&self, table: &PageTable) {
        let mut removed = Vec::new();
        for number in table.numbers() {
            let mut shard = self.shard(table, number);
            let Some(taken) = table.take(number) else { continue };
            let bytes = self.count_taken(&taken);
            shard.bytes -= bytes;
            self.bytes_used.fetch_sub(bytes, Ordering::Relaxed);
            removed.push(taken.page);
            shard.dead += 1;
            shard.remove_dead();
        }
        self.table_bytes.fetch_sub(table.directory_bytes(), Ordering::Relaxed);
        self.retire(removed);
    }

    /// Drops pages after a grace period (invariant 4).
    fn retire(&self, pages: Vec<Page>) {
        if pages.is_empty() {
            return;
        }
        let bytes = pages.iter().map(charged_bytes).sum();
        let retired = Arc::clone(&self.retired);
        retired.fetch_add(bytes, Ordering::Relaxed);
        let guard = crossbeam_epoch::pin();
        guard.defer(move || {
            drop(pages);
            retired.fetch_sub(bytes, Ordering::Relaxed);
        });
        // Deferred work stays in a bag of this thread until the bag is full, and the thread may go to sleep first (C4).
        guard.flush();
        drop(guard);
        if bytes > RETIRED_BYTES / 4 {
            // Many bytes, for example a whole file: if no thread is reading, three steps of the epoch free them at once.
            (0..3).for_each(|_| crossbeam_epoch::pin().flush());
        }
    }

    /// Bytes in use, including those of tables, items and open files.
    pub fn bytes_used(&self) -> usize {
        self.bytes_used.load(Ordering::Relaxed) + self.other_bytes()
    }

    /// Bytes of the pages of this kind.
    pub(super) fn bytes_of(&self, kind: PageKind) -> u64 {
        self.bytes_by_kind[kind as usize].load(Ordering::Relaxed) as u64
    }

    /// Bytes of all pages.
    #[cfg(test)]
    pub fn page_bytes(&self) -> usize {
        self.bytes_used.load(Ordering::Relaxed)
    }

    /// Bytes that wait for a grace period.
    #[cfg(test)]
    pub fn retired_bytes(&self) -> usize {
        self.retired.load(Ordering::Relaxed)
    }

    /// Entries in all rings, including dead ones.
    #[cfg(test)]
    pub fn ring_entries(&self) -> usize {
        self.shards.iter().map(|shard| shard.lock().ring.len()).sum()
    }

    /// Pages evicted for others.
    pub(super) fn evictions(&self) -> u64 {
        self.shards.iter().map(|shard| shard.lock().evictions).sum()
    }
}

/// The counted memory of an open file.
#[derive(Debug)]
pub struct CountedMetadata {
    memory: Arc<CacheMemory>,
    bytes: usize,
}

impl Drop for CountedMetadata {
    fn drop(&mut self) {
        self.memory.metadata_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The counted memory of a buffered branch.
#[derive(Debug)]
pub struct CountedBuffer {
    memory: Arc<CacheMemory>,
    bytes: usize,
}

impl Drop for CountedBuffer {
    fn drop(&mut self) {
        self.memory.buffer_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Memory that is kept free for buffered branches.
#[derive(Debug)]
pub struct ReservedBuffers {
    memory: Arc<CacheMemory>,
    bytes: usize,
}

impl Drop for ReservedBuffers {
    fn drop(&mut self) {
        self.memory.reserved_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Shard {
    /// Evicts a page; `None` if the shard is empty.
    fn evict(&mut self) -> Option<Taken> {
        let mut lowest: Option<(usize, usize)> = None;
        let mut visits = 0;
        while visits < VISITS_MAX {
            if self.hand >= self.ring.len() {
                self.hand = 0;
            }
            let entry = self.ring.get(self.hand)?;
            match entry.table.upgrade().and_then(|table| table.spend(entry.page)) {
                None => {
                    // The ring's last entry has moved to this place. The next iteration looks at it.
                    self.ring.swap_remove(self.hand);
                    self.dead = self.dead.saturating_sub(1);
                    // The remembered entry may be the one that moved.
                    lowest = None;
                    continue;
                }
                Some(0) => return self.take_at(self.hand),
                Some(credit) => {
                    if lowest.is_none_or(|(least, _)| credit < least) {
                        lowest = Some((credit, self.hand));
                    }
                }
            }
            self.hand += 1;
            visits += 1;
        }
        self.take_at(lowest?.1)
    }

    fn take_at(&mut self, at: usize) -> Option<Taken> {
        let entry = self.ring.swap_remove(at);
        // The entry that moved to this index is visited in the next round.
        if at == self.hand {
            self.hand += 1;
        }
        entry.table.upgrade()?.take(entry.page)
    }

    /// Removes the dead entries once they are many (invariant 2).
    fn remove_dead(&mut self) {
        if self.dead >= DEAD_MIN && self.dead * 2 > self.ring.len() {
            self.ring.retain(|entry| entry.table.upgrade().is_some_and(|table| table.contains(entry.page)));
            self.dead = 0;
        }
    }
}
