//! The page cache: bounded by bytes, shared by all branches, with clock replacement (SplinterDB §4 "Cache") and lookups
//! without a lock. Any thread may call any method.
//!
//! Readers look into the `PageTable` of a file and take no lock. Changes take the mutex of a shard. A page belongs to
//! the shard that its file and number determine, and each shard has a clock of its own.
//!
//! Invariants:
//! 1. Each shard may use an equal part of the budget (`resize`) that is left after tables and items. If these grow, a
//!    shard may exceed its part until its next page is inserted. A table has blocks of slots only where it has pages.
//! 2. Every page in a table has an entry in its shard's ring. An entry without a page is dead: it is left over from a
//!    removed file (`dead` counts them). `remove_file` cleans a ring once at least `DEAD_MIN` of its entries, and more
//!    than half, are dead.
//! 3. A page is evicted after `credit` visits of the hand without a hit. One eviction visits at most `VISITS_MAX` pages
//!    and removes the dead entries that it meets, so the mutex is held for microseconds, whatever the size of the cache.
//!    If all visited pages have credit, the one with the lowest credit is evicted, of those visited since the last dead
//!    entry.
//! 4. A page that was taken out of a table is dropped after a grace period (`page_table`, invariant 2), never under the
//!    mutex.
//!
//! `docs/concurrency.md` has the rules that readers and writers of the cache rely on (C1, C2, C4, C7).
//!
//! A page counts with its bytes and `ENTRY_BYTES` for its table entry, its ring entry and its `Arc`.

use super::item_cache::ItemCache;
use super::page::{Page, PageKind};
use super::page_table::{CREDIT_MAX, PageRef, PageTable};
use crate::io::frames;
use crate::util::FileNumber;
use crate::util::planted::planted;
use crate::util::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering};
use crossbeam_epoch::Guard;
use crossbeam_utils::CachePadded;
use std::collections::HashMap;
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
/// The item cache adjusts its limit after this many missed leaves.
const ADJUST_AFTER: u64 = 1024;
/// Number of hit counters: enough that threads rarely share one.
const STRIPES: usize = 64;

/// Counters of a cache since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Lookups that found their page.
    pub hits: u64,
    /// Lookups that did not find their page.
    pub misses: u64,
    /// Pages evicted for others.
    pub evictions: u64,
}

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
pub struct PageCache {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    bytes: AtomicUsize,
    /// Bytes of the tables in `tables`.
    table_bytes: CachePadded<AtomicUsize>,
    bytes_used: CachePadded<AtomicUsize>,
    retired: Arc<AtomicUsize>,
    tables: Mutex<HashMap<FileNumber, Arc<PageTable>>>,
    /// Values whose pages do not fit.
    items: ItemCache,
    hits: Box<[CachePadded<AtomicU64>]>,
    misses: CachePadded<AtomicU64>,
    leaf_misses: CachePadded<AtomicU64>,
}

/// The credit of a new page of this kind, and the most credit that it can gain. A leaf without hits is evicted in the
/// first round, so a scan does not clear the cache. Most gets of a branch need its index and filter pages.
fn credits(kind: PageKind) -> (usize, usize) {
    match kind {
        PageKind::Leaf => (0, 2),
        _ => (4, CREDIT_MAX),
    }
}

fn charged_bytes(page: &Page) -> usize {
    page.memory_bytes() + ENTRY_BYTES
}

impl PageCache {
    /// A cache of at most `bytes`.
    pub fn new(bytes: usize) -> Self {
        let wanted = (bytes / SHARD_BYTES_MIN).clamp(1, SHARDS_MAX);
        let count = 1 << wanted.ilog2();
        Self {
            shards: (0..count).map(|_| CachePadded::default()).collect(),
            bytes: AtomicUsize::new(bytes),
            table_bytes: CachePadded::default(),
            bytes_used: CachePadded::default(),
            retired: Arc::default(),
            tables: Mutex::default(),
            items: ItemCache::new(bytes / ITEMS_DIVISOR),
            hits: (0..STRIPES).map(|_| CachePadded::default()).collect(),
            misses: CachePadded::default(),
            leaf_misses: CachePadded::default(),
        }
    }

    /// The page table of a file. It is the same one until `remove_file`.
    pub fn table(&self, file: FileNumber) -> Arc<PageTable> {
        let mut tables = self.tables.lock();
        Arc::clone(tables.entry(file).or_insert_with(|| Arc::new(PageTable::new(file))))
    }

    /// The item cache, which is part of this cache's budget.
    #[inline]
    pub fn items(&self) -> &ItemCache {
        &self.items
    }

    /// The bytes that a shard may use.
    fn shard_bytes(&self) -> usize {
        let others = self.table_bytes.load(Ordering::Relaxed) + self.items.bytes();
        self.bytes().saturating_sub(others) / self.shards.len()
    }

    /// The bytes that the cache may use.
    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Changes the budget of the cache. Pages beyond it are evicted immediately, and their memory is returned to the
    /// system as soon as nobody reads them, because another component needs it. One caller at a time.
    pub fn resize(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if bytes == before {
            return;
        }
        let items = self.items.bytes();
        self.items.resize(bytes / ITEMS_DIVISOR);
        if bytes > before {
            return;
        }
        let mut freed = items.saturating_sub(self.items.bytes());
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

    fn shard(&self, table: &PageTable, page: u32) -> &Mutex<Shard> {
        // Consecutive pages belong to consecutive shards, so files of any size spread evenly.
        let at = table.file().0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.shards[(at as usize).wrapping_add(page as usize) & (self.shards.len() - 1)]
    }

    /// The page of this kind, if it is cached. `Err` contains the kind of a cached page of another kind.
    #[inline]
    pub fn get<'g>(
        &self,
        table: &'g PageTable,
        page: u32,
        kind: PageKind,
        guard: &'g Guard,
    ) -> Result<Option<PageRef<'g>>, u8> {
        match table.get(page, credits(kind).1, guard) {
            Some((found, tag)) if tag == kind as u8 => {
                self.note_hit();
                Ok(Some(found))
            }
            Some((_, tag)) => Err(tag),
            None => Ok(None),
        }
    }

    /// Counts a hit in this thread's counter. It uses a load and a store and no atomic addition: where threads share a
    /// counter a hit may be lost, and an atomic addition would cost every get more than its lookups.
    #[inline]
    fn note_hit(&self) {
        let hits = &self.hits[stripe()];
        hits.store(hits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Inserts a page that was just read because it was not cached.
    pub fn insert_missed(&self, table: &Arc<PageTable>, number: u32, page: Page, kind: PageKind) {
        self.misses.fetch_add(1, Ordering::Relaxed);
        if kind == PageKind::Leaf && self.leaf_misses.fetch_add(1, Ordering::Relaxed) % ADJUST_AFTER == ADJUST_AFTER - 1
        {
            self.items.adjust_limit(ADJUST_AFTER);
        }
        self.insert(table, number, page, kind);
    }

    /// Inserts a page and evicts others for it. A page larger than a shard is not cached.
    pub fn insert(&self, table: &Arc<PageTable>, number: u32, page: Page, kind: PageKind) {
        let bytes = charged_bytes(&page);
        if bytes > self.bytes() / self.shards.len()
            || self.retired.load(Ordering::Relaxed) > RETIRED_BYTES + self.bytes() / 8
        {
            return;
        }
        let mut victims = Vec::new();
        let mut shard = self.shard(table, number).lock();
        if table.contains(number) {
            return;
        }
        let shard_bytes = planted!(self.shard_bytes(), Bug::CacheWithoutBound => usize::MAX);
        self.change(&mut shard, |shard| {
            while shard.bytes + bytes > shard_bytes && self.evict_one(shard, &mut victims) {}
            if shard.bytes + bytes <= shard_bytes {
                let grown = table.put(number, page, kind as u8, credits(kind).0);
                self.table_bytes.fetch_add(grown, Ordering::Relaxed);
                shard.ring.push(Entry { table: Arc::downgrade(table), page: number });
                shard.bytes += bytes;
            }
        });
        drop(shard);
        self.retire(victims);
    }

    /// Evicts one page of a shard; false if there is none.
    fn evict_one(&self, shard: &mut Shard, victims: &mut Vec<Page>) -> bool {
        let Some((victim, shrunk)) = shard.evict() else { return false };
        self.table_bytes.fetch_sub(shrunk, Ordering::Relaxed);
        shard.bytes -= charged_bytes(&victim);
        shard.evictions += 1;
        victims.push(victim);
        true
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
    pub fn has_space(&self) -> bool {
        self.bytes_used() < self.bytes() - self.bytes() / 32
    }

    /// Removes all pages of a removed file. O(pages of the file in the cache); for background threads.
    pub fn remove_file(&self, file: FileNumber) {
        let Some(table) = self.tables.lock().remove(&file) else { return };
        let mut removed = Vec::new();
        for number in table.numbers() {
            let mut shard = self.shard(&table, number).lock();
            let Some((page, shrunk)) = table.take(number) else { continue };
            self.table_bytes.fetch_sub(shrunk, Ordering::Relaxed);
            shard.bytes -= charged_bytes(&page);
            self.bytes_used.fetch_sub(charged_bytes(&page), Ordering::Relaxed);
            removed.push(page);
            shard.dead += 1;
            shard.remove_dead();
        }
        // No page is inserted into the table of a removed file any more: no view has the file.
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

    /// Bytes in use, including those of tables and items.
    pub fn bytes_used(&self) -> usize {
        self.bytes_used.load(Ordering::Relaxed) + self.table_bytes.load(Ordering::Relaxed) + self.items.bytes()
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

    /// Hits, misses and evictions so far.
    pub fn statistics(&self) -> CacheStatistics {
        CacheStatistics {
            hits: self.hits.iter().map(|hits| hits.load(Ordering::Relaxed)).sum(),
            misses: self.misses.load(Ordering::Relaxed),
            evictions: self.shards.iter().map(|shard| shard.lock().evictions).sum(),
        }
    }
}

impl Shard {
    /// Evicts a page. Returns it and the bytes by which its table shrank; `None` if the shard is empty.
    fn evict(&mut self) -> Option<(Page, usize)> {
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

    fn take_at(&mut self, at: usize) -> Option<(Page, usize)> {
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

/// The index of this thread's hit counter.
#[inline]
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    }
    STRIPE.with(|stripe| *stripe)
}
