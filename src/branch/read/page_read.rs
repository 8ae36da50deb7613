//! Reads single pages of a branch through the cache. Any thread.
//!
//! A page in memory consists of its header and its uncompressed payload. Checksum and structure are checked when it is
//! read from the disk, never again on a cache hit.

use crate::branch::branch::{Branch, page_number};
use crate::cache::{Page, PageBuffer, PageRef};
use crate::format::branch_footer::BranchFooter;
use crate::format::page::{self, Compression, PAGE_HEADER_BYTES, PageHeader, PageKind};
use crate::format::sorted_page::{self, ChildLocation, SortedPage};
use crate::io::{AlignedBuffer, ReadDone, ReadRequest};
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};
use crossbeam_epoch::Guard;

/// A page to read, and the properties that it must have.
#[derive(Clone, Copy, Debug)]
pub struct WantedPage {
    /// Offset of its first byte.
    pub offset: u64,
    /// Its stored size.
    pub bytes: usize,
    /// Its kind.
    pub kind: PageKind,
    /// Height above the leaves.
    pub level: u8,
}

impl WantedPage {
    /// The child at `location`, taken from an index page of level `level + 1`.
    pub fn child(location: ChildLocation, level: u8) -> Self {
        let kind = if level == 0 { PageKind::Leaf } else { PageKind::Index };
        Self { offset: location.offset(), bytes: location.bytes(), kind, level }
    }
}

/// The cache lines of a leaf that a search touches first: header, prefix, heads and offsets of some forty entries.
pub(in crate::branch) const LEAF_LINES: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
/// The cache lines of an index page that a search touches first. The heads fill about the first half, and the search
/// halves it.
pub(in crate::branch) const INDEX_LINES: [usize; 8] = [0, 4, 8, 12, 16, 20, 24, 28];

/// A page to read from: in the cache, or read just now.
pub enum FoundPage<'g> {
    /// In the cache; readable while the guard lives.
    Cached(PageRef<'g>),
    /// Owned by this value.
    Read(Page),
}

impl FoundPage<'_> {
    /// Prefetches these lines of a cached page, which the processor's caches may lack, so that their misses overlap.
    #[inline]
    pub fn prefetch(&self, lines: [usize; 8]) {
        if let Self::Cached(page) = self {
            lines.into_iter().for_each(|line| page.prefetch(line * 64));
        }
    }

    /// The raw payload.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        match self {
            Self::Cached(page) => page.payload(),
            Self::Read(page) => page.payload(),
        }
    }
}

impl Branch {
    /// Prefetches these lines of a page that will be read soon, if the page is in memory.
    #[inline]
    pub(in crate::branch) fn prefetch_page(&self, wanted: WantedPage, lines: [usize; 8], guard: &Guard) {
        if let Some(page) = self.table().peek(page_number(wanted.offset), guard) {
            lines.into_iter().for_each(|line| page.prefetch(line * 64));
        }
        if wanted.level == 0 {
            self.table().prefetch_pin(page_number(wanted.offset), guard);
        }
    }

    /// Child `at` of the index page at `parent`, whose payload is given.
    pub(in crate::branch) fn child(&self, payload: &[u8], parent: ChildLocation, at: usize) -> Result<ChildLocation> {
        SortedPage::new(payload)
            .filter(|page| at < page.count())
            .and_then(|page| ChildLocation::decode(page.packed(at)))
            .ok_or_else(|| self.corruption(parent.offset(), "index entry", "the location of a child", "invalid bytes"))
    }

    /// The page, from the cache or from the disk. `fill_cache` says whether a page that was read is inserted into the
    /// cache.
    #[inline]
    pub(in crate::branch) fn page<'g>(
        &'g self,
        wanted: WantedPage,
        fill_cache: bool,
        guard: &'g Guard,
    ) -> Result<FoundPage<'g>> {
        match self.cached(wanted, guard)? {
            Some(page) => Ok(FoundPage::Cached(page)),
            None => self.read_page(wanted, fill_cache).map(FoundPage::Read),
        }
    }

    /// The page, if it is in the cache. Fails if the cached page is not of the kind that the index says.
    #[inline]
    pub(in crate::branch) fn cached<'g>(&'g self, wanted: WantedPage, guard: &'g Guard) -> Result<Option<PageRef<'g>>> {
        let found = self.context().cache.get(self.table(), page_number(wanted.offset), wanted.kind, guard);
        found.map_err(|other| {
            let (expected, found) = (format!("{:?}", wanted.kind), format!("kind {other}"));
            self.corruption(wanted.offset, "page kind", expected, found)
        })
    }

    /// As `cached`, but returns a counted reference.
    pub(in crate::branch) fn pinned_cached_page(&self, wanted: WantedPage) -> Result<Option<Page>> {
        self.pinned_cached_page_under(wanted, &crossbeam_epoch::pin())
    }

    /// As `pinned_cached_page`, under the caller's guard.
    pub(in crate::branch) fn pinned_cached_page_under(
        &self,
        wanted: WantedPage,
        guard: &Guard,
    ) -> Result<Option<Page>> {
        match self.cached(wanted, guard)? {
            Some(_) => Ok(self.table().pin(page_number(wanted.offset), guard)),
            None => Ok(None),
        }
    }

    /// As `page`, but returns a counted reference.
    pub(in crate::branch) fn pinned_page(&self, wanted: WantedPage, fill_cache: bool) -> Result<Page> {
        match self.pinned_cached_page(wanted)? {
            Some(page) => Ok(page),
            None => self.read_page(wanted, fill_cache),
        }
    }

    /// Reads a page that is not in the cache.
    #[cold]
    pub(in crate::branch) fn read_page(&self, wanted: WantedPage, fill_cache: bool) -> Result<Page> {
        let request = self.request(wanted)?;
        let context = self.context();
        let read = || context.storage.read(request);
        // Merges do not fill the cache. A read of a file in memory does not wait.
        let done = if fill_cache && self.in_buffer().is_none() { context.reads.waiting(read) } else { read() };
        done.result?;
        let page = self.checked_page(done.buffer, wanted)?;
        if fill_cache {
            self.insert_into_cache(wanted, &page);
        }
        Ok(page)
    }

    /// The read request for a page that is not in the cache. Pass its result to `arrived`.
    pub(in crate::branch) fn request(&self, wanted: WantedPage) -> Result<ReadRequest> {
        self.check_bounds(wanted, self.footer()?)?;
        Ok(ReadRequest::new(self.file()?, wanted.offset, wanted.bytes, AlignedBuffer::new(wanted.bytes)))
    }

    /// The page that `request` asked for. It is also inserted into the cache.
    pub(in crate::branch) fn arrived(&self, done: ReadDone, wanted: WantedPage) -> Result<Page> {
        done.result?;
        let page = self.checked_page(done.buffer, wanted)?;
        self.insert_into_cache(wanted, &page);
        Ok(page)
    }

    /// Inserts a page that was not in the cache into the cache.
    pub(in crate::branch) fn insert_into_cache(&self, wanted: WantedPage, page: &Page) {
        let number = page_number(wanted.offset);
        self.note_miss();
        self.context().cache.insert_missed(self.table(), number, Arc::clone(page), wanted.kind);
    }

    /// Checks checksum and structure of the bytes that were read, and makes a page of them.
    pub(in crate::branch) fn checked_page(&self, mut buffer: AlignedBuffer, wanted: WantedPage) -> Result<Page> {
        let footer = self.footer()?;
        let header = self.check_page(&buffer, wanted)?;
        let page = match header.compression {
            Compression::None => {
                self.complete_leaf(footer, wanted, &mut buffer[PAGE_HEADER_BYTES..]);
                PageBuffer::from(buffer)
            }
            Compression::Lz4 | Compression::Zstd => {
                let length = PAGE_HEADER_BYTES + header.raw_len as usize;
                let mut raw = AlignedBuffer::new(length.next_multiple_of(page::PAGE_BYTES));
                raw[..PAGE_HEADER_BYTES].copy_from_slice(&buffer[..PAGE_HEADER_BYTES]);
                page::decompress(&buffer, &header, &mut raw[PAGE_HEADER_BYTES..length], self.path())?;
                self.complete_leaf(footer, wanted, &mut raw[PAGE_HEADER_BYTES..length]);
                PageBuffer::front(raw, length)
            }
        };
        self.check_structure(page::payload(&page), wanted, footer)?;
        Ok(Arc::new(page))
    }

    /// Gives the entries of a leaf of an ingested file their number.
    fn complete_leaf(&self, footer: &BranchFooter, wanted: WantedPage, payload: &mut [u8]) {
        if wanted.kind == PageKind::Leaf
            && let Some(number) = self.common_number(footer)
        {
            sorted_page::set_common_number(payload, number);
        }
    }

    /// Checks that the page lies within the file. An index page could point anywhere.
    pub(in crate::branch) fn check_bounds(&self, wanted: WantedPage, footer: &BranchFooter) -> Result<()> {
        if wanted.offset.checked_add(wanted.bytes as u64).is_none_or(|end| end > footer.file_bytes) {
            let (expected, found) = (format!("at most {}", footer.file_bytes), wanted.offset);
            return Err(self.corruption(wanted.offset, "page location", expected, found));
        }
        Ok(())
    }

    /// Checks checksum, place and kind of a stored page.
    pub(in crate::branch) fn check_page(&self, page: &[u8], wanted: WantedPage) -> Result<PageHeader> {
        let header = page::check(page, wanted.offset, self.owner(), self.path())?;
        if header.kind != wanted.kind || header.level != wanted.level {
            let name = |kind: PageKind, level: u8| format!("{kind:?} of level {level}");
            let (expected, found) = (name(wanted.kind, wanted.level), name(header.kind, header.level));
            return Err(self.corruption(wanted.offset, "page kind", expected, found));
        }
        Ok(header)
    }

    /// Checks everything that readers of the payload rely on.
    pub(in crate::branch) fn check_structure(
        &self,
        payload: &[u8],
        wanted: WantedPage,
        footer: &BranchFooter,
    ) -> Result<()> {
        if !matches!(wanted.kind, PageKind::Leaf | PageKind::Index) {
            return Ok(());
        }
        let invalid = |what| self.corruption(wanted.offset, "page structure", "a valid page", what);
        let page = SortedPage::new(payload).ok_or_else(|| invalid("lengths that exceed the page"))?;
        page.validate().map_err(invalid)?;
        if wanted.kind == PageKind::Leaf && page.width() != 0 {
            return Err(invalid("packed values in a leaf"));
        }
        for at in 0..if wanted.kind == PageKind::Index { page.count() } else { 0 } {
            let child = ChildLocation::decode(page.packed(at));
            if child.is_none_or(|child| child.end() > footer.fingerprints_at) {
                return Err(invalid("a child outside the file"));
            }
        }
        Ok(())
    }
}

/// The child of the index page with this payload that (`key`, `number`) belongs to: the last one whose separator is not
/// after it.
pub fn child_of(payload: &[u8], key: &[u8], number: SequenceNumber) -> usize {
    SortedPage::new(payload).map_or(0, |page| page.rank(key, number, true).saturating_sub(1))
}
