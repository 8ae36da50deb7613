//! The page cache: bounded by bytes, shared by all branches; clock replacement (SplinterDB §4 "Cache"), lookups without a
//! lock. Any thread may call anything.
//!
//! Readers look into a file's `PageTable` and never come here. What changes goes through a shard's mutex: a page belongs to
//! the shard that file and number give it, and each shard has a clock with a hand of its own.
//!
//! Invariants:
//! 1. The bytes that the cache may hold (`resize`), less those of the tables and of the items, are shared equally by the shards,
//!    and none holds more than its share, but until its next page comes where tables or items grew meanwhile. A table has chunks
//!    only where it has pages.
//! 2. Every page in a table has an entry in its shard's ring. An entry without a page is left over from a file that is
//!    gone (`dead` counts them); they never make up more than half of a ring.
//! 3. A page that the hand meets `credit` times without being asked for between goes. One eviction visits at most
//!    `VISITS_MAX` entries, so the mutex is held for microseconds whatever the size; if all have credit, the poorest goes.
//! 4. What was taken out of a table is dropped after a grace period (`page_table`, invariant 2), never under the mutex.
//!
//! A page's bytes are counted with `ENTRY_BYTES` for its word, its ring entry and its `Arc`.

use super::item_cache::ItemCache;
use super::page::{Page, PageKind};
use super::page_table::{CREDIT_MAX, PageRef, PageTable};
use crate::io::frames;
use crate::util::FileNumber;
use crate::util::planted::{self, Bug};
use crate::util::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering};
use crossbeam_epoch::Guard;
use crossbeam_utils::CachePadded;
use std::collections::HashMap;
use std::sync::Weak;

/// A shard holds at least this much, so that the largest leaf (one value just short of a value file) finds room.
const SHARD_BYTES_MIN: usize = 2 << 20;
/// More shards than any machine has cores; each costs a few cache lines.
const SHARDS_MAX: usize = 1024;
/// What an entry costs beside its page.
const ENTRY_BYTES: usize = 128;
/// Most entries that the hand passes for one eviction.
const VISITS_MAX: usize = 128;
/// While more bytes than this and an eighth of the cache wait for a grace period, new pages are not kept: a reader that hangs
/// must not grow memory.
const RETIRED_BYTES: usize = 4 << 20;
/// A ring with fewer left-over entries is not swept.
const DEAD_MIN: usize = 32;
/// Pages that a shrinking cache gives up at a time, under a shard's mutex.
const SLICE: usize = 32;
/// The most of the cache that items take.
const ITEMS_PART: usize = 2;
/// After so many missed leaves it is asked what the items are worth.
const TEND_AFTER: u64 = 1024;
/// Counters of hits: enough that threads rarely share one.
const STRIPES: usize = 64;

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

#[derive(Debug)]
struct Entry {
    /// Weak: a left-over entry must not keep the table of a file that is gone.
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

/// The cache.
#[derive(Debug)]
pub struct PageCache {
    shards: Box<[CachePadded<Mutex<Shard>>]>,
    bytes: AtomicUsize,
    /// Bytes of the tables in `tables`.
    table_bytes: CachePadded<AtomicUsize>,
    bytes_used: CachePadded<AtomicUsize>,
    retired: Arc<AtomicUsize>,
    tables: Mutex<HashMap<FileNumber, Arc<PageTable>>>,
    /// What is kept of pages that have no room.
    items: ItemCache,
    hits: Box<[CachePadded<AtomicU64>]>,
    misses: CachePadded<AtomicU64>,
    leaf_misses: CachePadded<AtomicU64>,
}

/// How often the clock passes a page of this kind that nobody asks for, and the credit that asking for it brings at most.
/// A leaf goes in the first round, so that a scan does not clear the cache; an index or filter page is needed by every get
/// of its branch.
fn credits(kind: PageKind) -> (usize, usize) {
    match kind {
        PageKind::Leaf => (0, 2),
        _ => (4, CREDIT_MAX),
    }
}

fn held(page: &Page) -> usize {
    page.bytes_held() + ENTRY_BYTES
}

impl PageCache {
    /// A cache that holds at most `bytes`.
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
            items: ItemCache::new(bytes / ITEMS_PART),
            hits: (0..STRIPES).map(|_| CachePadded::default()).collect(),
            misses: CachePadded::default(),
            leaf_misses: CachePadded::default(),
        }
    }

    /// The table of a file's pages, from now until `remove_file`.
    pub fn table(&self, file: FileNumber) -> Arc<PageTable> {
        let mut tables = self.tables.lock();
        Arc::clone(tables.entry(file).or_insert_with(|| Arc::new(PageTable::new(file))))
    }

    /// The item cache, whose memory is part of this one's.
    #[inline]
    pub fn items(&self) -> &ItemCache {
        &self.items
    }

    /// What a shard may hold.
    fn shard_bytes(&self) -> usize {
        let others = self.table_bytes.load(Ordering::Relaxed) + self.items.bytes();
        self.bytes().saturating_sub(others) / self.shards.len()
    }

    /// What the cache may hold.
    fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Changes what the cache may hold. Pages over it are given up at once, and the system gets their memory as soon as nobody reads
    /// them: somebody else wants it. One caller at a time.
    pub fn resize(&self, bytes: usize) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        if bytes == before {
            return;
        }
        let items = self.items.bytes();
        self.items.resize(bytes / ITEMS_PART);
        if bytes > before {
            return;
        }
        let mut freed = items.saturating_sub(self.items.bytes());
        let mut victims = Vec::new();
        for shard in &self.shards {
            let is_over = |shard: &Shard| shard.bytes > self.shard_bytes();
            let mut gives = true;
            while gives {
                let mut shard = shard.lock();
                let given = victims.len();
                self.change(&mut shard, |shard| {
                    while is_over(shard) && victims.len() < given + SLICE && self.evict_one(shard, &mut victims) {}
                });
                gives = victims.len() == given + SLICE;
            }
        }
        freed += victims.iter().map(|page| page.bytes_held()).sum::<usize>();
        self.retire(victims);
        frames::release(freed);
    }

    fn shard(&self, table: &PageTable, page: u32) -> &Mutex<Shard> {
        // Consecutive pages go to consecutive shards, so that files of any size spread evenly.
        let at = table.file().0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        &self.shards[(at as usize).wrapping_add(page as usize) & (self.shards.len() - 1)]
    }

    /// The page of this kind, if it is here. What is there under another kind is told by `Err`.
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

    /// Counts a hit in this thread's stripe. A load and a store instead of a locked addition: where threads share a stripe a
    /// count may be lost, and a locked one would cost every get more than its look-ups.
    #[inline]
    fn note_hit(&self) {
        let hits = &self.hits[stripe()];
        hits.store(hits.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
    }

    /// Adds a page that was just read because it was not here.
    pub fn insert_missed(&self, table: &Arc<PageTable>, number: u32, page: Page, kind: PageKind) {
        self.misses.fetch_add(1, Ordering::Relaxed);
        if kind == PageKind::Leaf && self.leaf_misses.fetch_add(1, Ordering::Relaxed) % TEND_AFTER == TEND_AFTER - 1 {
            self.items.adjust_limit(TEND_AFTER);
        }
        self.insert(table, number, page, kind);
    }

    /// Adds a page and gives up others for it. A page that a shard could not hold is not kept.
    pub fn insert(&self, table: &Arc<PageTable>, number: u32, page: Page, kind: PageKind) {
        let bytes = held(&page);
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
        let shard_bytes = if planted::is(Bug::CacheWithoutBound) { usize::MAX } else { self.shard_bytes() };
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

    /// Takes the page out of a shard that the clock gives up; false where there is none.
    fn evict_one(&self, shard: &mut Shard, victims: &mut Vec<Page>) -> bool {
        let Some((victim, shrunk)) = shard.evict() else { return false };
        self.table_bytes.fetch_sub(shrunk, Ordering::Relaxed);
        shard.bytes -= held(&victim);
        shard.evictions += 1;
        victims.push(victim);
        true
    }

    /// Changes a shard, and the sum in one step up or down, so that no reader sees one that never was.
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

    /// Whether pages that nobody has asked for yet (a builder's) would find room without driving others out. Shards may fill
    /// a little unevenly, so this says no just before the cache is full.
    pub fn has_space(&self) -> bool {
        self.bytes_used() < self.bytes() - self.bytes() / 32
    }

    /// Forgets every page of a file that is gone. O(pages that it has here); for background threads.
    pub fn remove_file(&self, file: FileNumber) {
        let Some(table) = self.tables.lock().remove(&file) else { return };
        let mut removed = Vec::new();
        for number in table.numbers() {
            let mut shard = self.shard(&table, number).lock();
            let Some((page, shrunk)) = table.take(number) else { continue };
            self.table_bytes.fetch_sub(shrunk, Ordering::Relaxed);
            shard.bytes -= held(&page);
            self.bytes_used.fetch_sub(held(&page), Ordering::Relaxed);
            removed.push(page);
            shard.dead += 1;
            shard.remove_dead();
        }
        // Nobody puts a page into the table of a file that is gone.
        self.table_bytes.fetch_sub(table.directory_bytes(), Ordering::Relaxed);
        self.retire(removed);
    }

    /// Drops pages once nobody can be reading them any more (invariant 4).
    fn retire(&self, pages: Vec<Page>) {
        if pages.is_empty() {
            return;
        }
        let bytes = pages.iter().map(held).sum();
        let retired = Arc::clone(&self.retired);
        retired.fetch_add(bytes, Ordering::Relaxed);
        let guard = crossbeam_epoch::pin();
        guard.defer(move || {
            drop(pages);
            retired.fetch_sub(bytes, Ordering::Relaxed);
        });
        // What a thread defers lies in a bag of its own until that is full; a background thread may sleep long before.
        guard.flush();
        drop(guard);
        if bytes > RETIRED_BYTES / 4 {
            // A file's pages: where nobody is reading just now, three steps of the epoch free them at once.
            (0..3).for_each(|_| crossbeam_epoch::pin().flush());
        }
    }

    /// Bytes held now, those of the tables and of the items included.
    pub fn bytes_used(&self) -> usize {
        self.bytes_used.load(Ordering::Relaxed) + self.table_bytes.load(Ordering::Relaxed) + self.items.bytes()
    }

    /// Bytes that wait for a grace period.
    #[cfg(test)]
    pub fn retired_bytes(&self) -> usize {
        self.retired.load(Ordering::Relaxed)
    }

    /// Entries in all rings, left-over ones included.
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
    /// Takes the page out that the clock gives up, and says how much its table shrank; `None` when there is none at all.
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
                    // What moves here was at the ring's end; the next turn looks at it.
                    self.ring.swap_remove(self.hand);
                    self.dead = self.dead.saturating_sub(1);
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
        // What moved here goes to the end of the hand's round.
        if at == self.hand {
            self.hand += 1;
        }
        entry.table.upgrade()?.take(entry.page)
    }

    /// Drops left-over entries once they are many (invariant 2).
    fn remove_dead(&mut self) {
        if self.dead >= DEAD_MIN && self.dead * 2 > self.ring.len() {
            self.ring.retain(|entry| entry.table.upgrade().is_some_and(|table| table.contains(entry.page)));
            self.dead = 0;
        }
    }
}

/// This thread's counter.
#[inline]
fn stripe() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static STRIPE: usize = NEXT.fetch_add(1, Ordering::Relaxed) % STRIPES;
    }
    STRIPE.with(|stripe| *stripe)
}
