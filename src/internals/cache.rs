//! The page cache without files, for benchmarks. Unlike other handles, these may be used by any thread.

use crate::cache::page::PageKind;
use crate::cache::{Page, PageBuffer, PageCache, PageTable};
use crate::format::page::{PAGE_HEADER_BYTES, raw_length};
use crate::util::FileNumber;
use crate::util::sync::Arc;
use crossbeam_epoch::Guard;

/// Offset of the payload length in a page's header.
const LENGTH_AT: usize = 12;
const PAGE_BYTES: usize = 4096;

/// A leaf of 4 KiB as in caches. A clone is another reference to it.
#[derive(Clone)]
pub struct CachedPage(Page);

impl CachedPage {
    /// A page that contains this number. Its memory comes from the same allocator as the store's pages.
    pub fn new(name: u64) -> Self {
        let mut bytes = [0; PAGE_BYTES];
        bytes[LENGTH_AT..LENGTH_AT + 4].copy_from_slice(&((PAGE_BYTES - PAGE_HEADER_BYTES) as u32).to_le_bytes());
        bytes[PAGE_HEADER_BYTES..][..8].copy_from_slice(&name.to_le_bytes());
        let page = Arc::new(PageBuffer::copied(&[&bytes]));
        debug_assert_eq!(page.first_chunk().map(raw_length), Some(PAGE_BYTES - PAGE_HEADER_BYTES));
        Self(page)
    }

    /// The number that it contains.
    #[inline]
    pub fn name(&self) -> u64 {
        name(self.0.payload())
    }
}

#[inline]
fn name(payload: &[u8]) -> u64 {
    payload.first_chunk().map_or(u64::MAX, |bytes| u64::from_le_bytes(*bytes))
}

/// A cache, and the page tables of some files in it.
pub struct CachePart {
    cache: PageCache,
    tables: Vec<Arc<PageTable>>,
}

impl CachePart {
    /// An empty one.
    pub fn new(bytes: usize, files: u64) -> Self {
        let cache = PageCache::new(bytes);
        let tables = (1..=files).map(|file| cache.table(FileNumber(file))).collect();
        Self { cache, tables }
    }

    /// The number in the page, if the page is cached: the lookup of a get, which pins once for all its lookups.
    #[inline]
    pub fn get(&self, file: usize, number: u32, guard: &Guard) -> Option<u64> {
        let page = self.cache.get(&self.tables[file], number, PageKind::Leaf, guard).ok()??;
        Some(name(page.payload()))
    }

    /// Adds a page that a get did not find.
    pub fn insert(&self, file: usize, number: u32, page: CachedPage) {
        self.cache.insert_missed(&self.tables[file], number, page.0, PageKind::Leaf);
    }

    /// Bytes in use.
    pub fn bytes_used(&self) -> usize {
        self.cache.bytes_used()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_by_file_and_number_within_the_bound() {
        let part = CachePart::new(1 << 20, 2);
        // One pin for each lookup: while a reader stalls, evicted pages wait, and new ones are not cached.
        let get = |file, number| part.get(file, number, &crossbeam_epoch::pin());
        for number in 0..1000 {
            for file in [0, 1] {
                assert_eq!(get(file, number), None);
                let name = u64::from(number) * 2 + file as u64;
                let page = CachedPage::new(name);
                assert_eq!(page.name(), name);
                part.insert(file, number, page);
                assert_eq!(get(file, number), Some(name));
            }
        }
        assert!(part.bytes_used() <= 1 << 20);
        assert!((0..1000).filter(|number| get(0, *number).is_some()).count() < 200);
    }
}
