//! Reading single pages of a branch, through the cache. Any thread.
//!
//! A page in memory is its header and, uncompressed, its payload. Checksum and structure are checked when it comes from
//! the disk, never again on a cache hit.

use crate::branch::branch::{Branch, page_number};
use crate::cache::{Page, PageBuffer, PageRef};
use crate::format::branch_footer::BranchFooter;
use crate::format::page::{self, Compression, PAGE_HEADER_BYTES, PageHeader, PageKind};
use crate::format::sorted_page::{ChildLocation, SortedPage};
use crate::io::{AlignedBuffer, ReadDone, ReadRequest};
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};
use crossbeam_epoch::Guard;

/// A page to be read, and what it must turn out to be.
#[derive(Clone, Copy, Debug)]
pub struct WantedPage {
    /// Where it starts.
    pub offset: u64,
    /// Its stored size.
    pub bytes: usize,
    /// What it holds.
    pub kind: PageKind,
    /// Height above the leaves.
    pub level: u8,
}

impl WantedPage {
    /// The child at this location of an index page of level `level + 1`.
    pub fn child(location: ChildLocation, level: u8) -> Self {
        let kind = if level == 0 { PageKind::Leaf } else { PageKind::Index };
        Self { offset: location.offset(), bytes: location.bytes(), kind, level }
    }
}

/// Lines of a leaf that a search begins with: header, prefix, heads and offsets of some forty entries lie together.
pub(in crate::branch) const LEAF_LINES: [usize; 8] = [0, 1, 2, 3, 4, 5, 6, 7];
/// Those of an index page: its heads fill about the first half, and a search halves that.
pub(in crate::branch) const INDEX_LINES: [usize; 8] = [0, 4, 8, 12, 16, 20, 24, 28];

/// A page to read from: in the cache, or just read.
pub enum FoundPage<'g> {
    /// Readable as long as the guard.
    Cached(PageRef<'g>),
    /// One's own.
    Read(Page),
}

impl FoundPage<'_> {
    /// Asks the processor for these lines of a page that may be in no cache of its own, so that their misses overlap.
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
    /// Asks the processor for these lines of a page that will be read soon, if it is in memory.
    #[inline]
    pub(in crate::branch) fn prefetch_page(&self, wanted: WantedPage, lines: [usize; 8], guard: &Guard) {
        if let Some(page) = self.table().peek(page_number(wanted.offset), guard) {
            lines.into_iter().for_each(|line| page.prefetch(line * 64));
        }
        if wanted.level == 0 {
            self.table().prefetch_pin(page_number(wanted.offset), guard);
        }
    }

    /// Child `at` of the index page that stands at `parent` and has this payload.
    pub(in crate::branch) fn child(&self, payload: &[u8], parent: ChildLocation, at: usize) -> Result<ChildLocation> {
        SortedPage::new(payload)
            .filter(|page| at < page.count())
            .and_then(|page| ChildLocation::decode(page.packed(at)))
            .ok_or_else(|| self.corruption(parent.offset(), "index entry", "a child", "something else"))
    }

    /// The page, from the cache or from the disk. With `keep` a page that was read goes into the cache.
    #[inline]
    pub(in crate::branch) fn page<'g>(
        &'g self,
        wanted: WantedPage,
        keep: bool,
        guard: &'g Guard,
    ) -> Result<FoundPage<'g>> {
        match self.cached(wanted, guard)? {
            Some(page) => Ok(FoundPage::Cached(page)),
            None => self.read_page(wanted, keep).map(FoundPage::Read),
        }
    }

    /// The page if it is in the cache. An error if what is there is not what the index says.
    #[inline]
    pub(in crate::branch) fn cached<'g>(&'g self, wanted: WantedPage, guard: &'g Guard) -> Result<Option<PageRef<'g>>> {
        let found = self.context().cache.get(self.table(), page_number(wanted.offset), wanted.kind, guard);
        found.map_err(|other| {
            let (expected, found) = (format!("{:?}", wanted.kind), format!("kind {other}"));
            self.corruption(wanted.offset, "page kind", expected, found)
        })
    }

    /// As `cached`, but a reference of one's own.
    pub(in crate::branch) fn pinned_cached_page(&self, wanted: WantedPage) -> Result<Option<Page>> {
        let guard = crossbeam_epoch::pin();
        match self.cached(wanted, &guard)? {
            Some(_) => Ok(self.table().pin(page_number(wanted.offset), &guard)),
            None => Ok(None),
        }
    }

    /// As `page`, but a reference of one's own.
    pub(in crate::branch) fn pinned_page(&self, wanted: WantedPage, keep: bool) -> Result<Page> {
        match self.pinned_cached_page(wanted)? {
            Some(page) => Ok(page),
            None => self.read_page(wanted, keep),
        }
    }

    /// Reads a page that is not in the cache.
    #[cold]
    pub(in crate::branch) fn read_page(&self, wanted: WantedPage, keep: bool) -> Result<Page> {
        self.check_bounds(wanted, self.footer()?)?;
        let mut buffer = AlignedBuffer::new(wanted.bytes);
        self.file()?.read_exact_at(&mut buffer, wanted.offset)?;
        let page = self.checked_page(buffer, wanted)?;
        if keep {
            self.keep(wanted, &page);
        }
        Ok(page)
    }

    /// What is to be read for a page that is not in the cache; `arrived` takes it.
    pub(in crate::branch) fn request(&self, wanted: WantedPage) -> Result<ReadRequest> {
        self.check_bounds(wanted, self.footer()?)?;
        Ok(ReadRequest::new(self.file()?, wanted.offset, wanted.bytes, AlignedBuffer::new(wanted.bytes)))
    }

    /// The page for which `request` asked; the cache has it as well.
    pub(in crate::branch) fn arrived(&self, done: ReadDone, wanted: WantedPage) -> Result<Page> {
        done.result?;
        let page = self.checked_page(done.buffer, wanted)?;
        self.keep(wanted, &page);
        Ok(page)
    }

    /// Gives the cache a page that it did not have.
    pub(in crate::branch) fn keep(&self, wanted: WantedPage, page: &Page) {
        let number = page_number(wanted.offset);
        self.context().cache.insert_missed(self.table(), number, Arc::clone(page), wanted.kind);
    }

    /// Makes a page of the bytes that were read, once checksum and structure are found right.
    pub(in crate::branch) fn checked_page(&self, buffer: AlignedBuffer, wanted: WantedPage) -> Result<Page> {
        let footer = self.footer()?;
        let header = self.check_page(&buffer, wanted)?;
        let page = match header.compression {
            Compression::None => PageBuffer::from(buffer),
            Compression::Lz4 => {
                let length = PAGE_HEADER_BYTES + header.raw_len as usize;
                let mut raw = AlignedBuffer::new(length.next_multiple_of(page::PAGE_BYTES));
                raw[..PAGE_HEADER_BYTES].copy_from_slice(&buffer[..PAGE_HEADER_BYTES]);
                page::decompress(&buffer, &header, &mut raw[PAGE_HEADER_BYTES..length], self.path())?;
                PageBuffer::front(raw, length)
            }
        };
        self.check_structure(page::payload(&page), wanted, footer)?;
        Ok(Arc::new(page))
    }

    /// The file's end bounds what is read, whatever an index page says.
    pub(in crate::branch) fn check_bounds(&self, wanted: WantedPage, footer: &BranchFooter) -> Result<()> {
        if wanted.offset.checked_add(wanted.bytes as u64).is_none_or(|end| end > footer.file_bytes) {
            let (expected, found) = (format!("at most {}", footer.file_bytes), wanted.offset);
            return Err(self.corruption(wanted.offset, "page location", expected, found));
        }
        Ok(())
    }

    /// Checks checksum, place and kind of a page as it stands on disk.
    pub(in crate::branch) fn check_page(&self, page: &[u8], wanted: WantedPage) -> Result<PageHeader> {
        let header = page::check(page, wanted.offset, self.owner(), self.path())?;
        if header.kind != wanted.kind || header.level != wanted.level {
            let name = |kind: PageKind, level: u8| format!("{kind:?} of level {level}");
            let (expected, found) = (name(wanted.kind, wanted.level), name(header.kind, header.level));
            return Err(self.corruption(wanted.offset, "page kind", expected, found));
        }
        Ok(header)
    }

    /// Checks what reading the payload relies on.
    pub(in crate::branch) fn check_structure(
        &self,
        payload: &[u8],
        wanted: WantedPage,
        footer: &BranchFooter,
    ) -> Result<()> {
        if !matches!(wanted.kind, PageKind::Leaf | PageKind::Index) {
            return Ok(());
        }
        let garbled = |what| self.corruption(wanted.offset, "page structure", "a sound page", what);
        let page = SortedPage::new(payload).ok_or_else(|| garbled("lengths past the page"))?;
        page.validate().map_err(garbled)?;
        if wanted.kind == PageKind::Leaf && page.width() != 0 {
            return Err(garbled("packed values in a leaf"));
        }
        for at in 0..if wanted.kind == PageKind::Index { page.count() } else { 0 } {
            let child = ChildLocation::decode(page.packed(at));
            if child.is_none_or(|child| child.end() > footer.fingerprints_at) {
                return Err(garbled("a child outside the file"));
            }
        }
        Ok(())
    }
}

/// Which child of the index page with this payload (`key`, `number`) belongs to: the last whose separator is not behind it.
pub fn child_of(payload: &[u8], key: &[u8], number: SequenceNumber) -> usize {
    SortedPage::new(payload).map_or(0, |page| page.rank(key, number, true).saturating_sub(1))
}
