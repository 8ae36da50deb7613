//! The page cache of one store: the page tables of its files, its items, its counters. The memory may be shared with
//! other stores (`cache_memory.rs`). Any thread may call any method.
//!
//! Readers look into the `PageTable` of a file and take no lock. Changes take the mutex of a shard of the memory.
//!
//! Invariant: when a `PageCache` is dropped, its pages leave the memory; the other stores can use it at once.
//!
//! `docs/concurrency.md` has the rules that readers and writers of the cache rely on (C1, C2, C4, C7).

use super::cache_memory::CacheMemory;
use super::item_cache::ItemCache;
use super::page::{Page, PageKind};
use super::page_table::{CREDIT_MAX, PageRef, PageTable};
use crate::util::FileNumber;
use crate::util::sync::{Arc, AtomicU64, Mutex, Ordering, Striped};
use crossbeam_epoch::Guard;
use std::collections::HashMap;

/// The item cache adjusts its limit after this many missed leaves.
const ADJUST_AFTER: u64 = 1024;

/// Counters of a cache since its creation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheStatistics {
    /// Lookups that found their page.
    pub hits: u64,
    /// Lookups that did not find their page.
    pub misses: u64,
    /// Pages evicted for others, in the whole memory.
    pub evictions: u64,
    /// Bytes of leaves, in the whole memory.
    pub leaf_bytes: u64,
    /// Bytes of index pages and fences, in the whole memory.
    pub index_bytes: u64,
    /// Bytes of filters and maplets, in the whole memory.
    pub filter_bytes: u64,
}

/// See the module documentation.
#[derive(Debug)]
pub struct PageCache {
    memory: Arc<CacheMemory>,
    /// Distinguishes the files of stores that share the memory: their numbers are equal, and equal numbers would meet in
    /// the same shards.
    salt: u64,
    tables: Mutex<HashMap<FileNumber, Arc<PageTable>>>,
    /// Values whose pages do not fit.
    items: Arc<ItemCache>,
    hits: Striped<AtomicU64>,
    misses: AtomicU64,
    leaf_misses: AtomicU64,
}

/// The credit of a new page of this kind, and the most credit that it can gain. A leaf without hits is evicted in the
/// first round, so a scan does not clear the cache. Most gets of a branch need its index and filter pages.
fn credits(kind: PageKind) -> (usize, usize) {
    match kind {
        PageKind::Leaf => (0, 2),
        _ => (4, CREDIT_MAX),
    }
}

impl PageCache {
    /// A cache of at most `bytes`, with memory of its own.
    pub fn new(bytes: usize) -> Self {
        Self::in_memory(&CacheMemory::new(bytes))
    }

    /// A cache in this memory.
    pub fn in_memory(memory: &Arc<CacheMemory>) -> Self {
        static NEXT_SALT: AtomicU64 = AtomicU64::new(0);
        Self {
            memory: Arc::clone(memory),
            salt: NEXT_SALT.fetch_add(1, Ordering::Relaxed),
            tables: Mutex::default(),
            items: memory.add_items(),
            hits: Striped::default(),
            misses: AtomicU64::default(),
            leaf_misses: AtomicU64::default(),
        }
    }

    /// The memory that it is in.
    pub fn memory(&self) -> &Arc<CacheMemory> {
        &self.memory
    }

    /// The page table of a file. It is the same one until `remove_file`.
    pub fn table(&self, file: FileNumber) -> Arc<PageTable> {
        let mut tables = self.tables.lock();
        Arc::clone(tables.entry(file).or_insert_with(|| Arc::new(PageTable::new(file, self.salt))))
    }

    /// The item cache, which is part of this cache's budget.
    #[inline]
    pub fn items(&self) -> &ItemCache {
        &self.items
    }

    /// The page of this kind, if it is cached. `Err` contains the kind of a cached page of another kind. A get comes here
    /// several times, and a seek for each run; whether the compiler inlines it by itself changes from build to build.
    #[inline(always)]
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
        let hits = self.hits.mine();
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
        self.memory.insert(table, number, page, kind, credits(kind).0);
    }

    /// Whether pages that nobody has read yet (those of a builder) fit without evicting others.
    pub fn has_space(&self) -> bool {
        self.memory.has_space()
    }

    /// Removes all pages of a removed file. O(pages of the file in the cache); for background threads.
    pub fn remove_file(&self, file: FileNumber) {
        let table = self.tables.lock().remove(&file);
        if let Some(table) = table {
            // No page is inserted into the table of a removed file any more: no view has the file.
            self.memory.remove_table(&table);
        }
    }

    /// Bytes in use in the whole memory, including those of tables and items.
    pub fn bytes_used(&self) -> usize {
        self.memory.bytes_used()
    }

    /// Bytes that wait for a grace period.
    #[cfg(test)]
    pub fn retired_bytes(&self) -> usize {
        self.memory.retired_bytes()
    }

    /// Entries in all rings, including dead ones.
    #[cfg(test)]
    pub fn ring_entries(&self) -> usize {
        self.memory.ring_entries()
    }

    /// Hits, misses and evictions so far.
    pub fn statistics(&self) -> CacheStatistics {
        let bytes = |kinds: &[PageKind]| kinds.iter().map(|kind| self.memory.bytes_of(*kind)).sum();
        CacheStatistics {
            leaf_bytes: bytes(&[PageKind::Leaf]),
            index_bytes: bytes(&[PageKind::Index, PageKind::Fences]),
            filter_bytes: bytes(&[PageKind::Filter, PageKind::Maplet]),
            hits: self.hits.sum(|hits| hits.load(Ordering::Relaxed)),
            misses: self.misses.load(Ordering::Relaxed),
            evictions: self.memory.evictions(),
        }
    }
}

impl Drop for PageCache {
    fn drop(&mut self) {
        let tables = std::mem::take(&mut *self.tables.lock());
        for table in tables.values() {
            self.memory.remove_table(table);
        }
        self.items.clear();
    }
}
