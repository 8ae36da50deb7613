//! The leaf that a cursor is in, wherever its bytes are: in the cache, in an extent, or decompressed. One thread at a
//! time.
//!
//! Invariant: checksum and structure of the payload were checked when it was read from the disk.

use super::extent_reader::{ExtentReader, Planned, Purpose};
use crate::branch::branch::{Branch, page_number};
use crate::branch::extent_memory::READ_AHEAD_BYTES;
use crate::branch::read::page_read::WantedPage;
use crate::cache::{Page, PageBuffer};
use crate::format::page::{self, Compression, PAGE_HEADER_BYTES};
use crate::format::sorted_page::{ChildLocation, SortedPage};
use crate::io::{ReadDone, ReadRequest};
use crate::merge::PinnedValue;
use crate::util::Result;
use crate::util::sync::Arc;
use std::ops::Range;

/// A scan reads ahead after this many consecutive leaves that were not cached.
const MISSES_BEFORE_READ_AHEAD: u32 = 2;
/// Bytes that the disk transfers in the time of one additional read request.
const BYTES_PER_READ: usize = 64 << 10;

enum Source {
    Nothing,
    Cached(Page),
    Extent,
    Decompressed,
}

/// How a cursor reached a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    /// By a search.
    Seek,
    /// From the previous leaf.
    Forward,
    /// From the next leaf.
    Backward,
}

/// See the module documentation.
pub struct CurrentLeaf {
    branch: Arc<Branch>,
    purpose: Purpose,
    source: Source,
    /// The range of the payload within the bytes of the source.
    payload: Range<usize>,
    extents: ExtentReader,
    decompressed: Vec<u8>,
    misses: u32,
    /// Bytes after the first leaf that the scan is expected to read. 0 once they are read.
    expected: usize,
    planned: Option<Planned>,
}

impl CurrentLeaf {
    /// A value without a leaf.
    pub fn new(branch: Arc<Branch>, purpose: Purpose) -> Self {
        Self {
            extents: ExtentReader::new(Arc::clone(&branch), purpose),
            branch,
            purpose,
            source: Source::Nothing,
            payload: 0..0,
            decompressed: Vec::new(),
            misses: 0,
            expected: 0,
            planned: None,
        }
    }

    /// Sets the number of bytes after the first leaf that the next scan is expected to read.
    pub fn expect_bytes(&mut self, bytes: usize) {
        self.expected = bytes;
        self.extents.set_first_bytes(READ_AHEAD_BYTES);
    }

    /// Whether to read the expected bytes of the scan together with this uncached leaf. If so, extents begin with that
    /// size. It pays where the time to transfer one more leaf is less than the time of one more read, multiplied by its
    /// probability.
    fn starts_extent(&mut self, wanted: WantedPage) -> bool {
        let expected = std::mem::take(&mut self.expected).min(READ_AHEAD_BYTES);
        if expected * BYTES_PER_READ < wanted.bytes * wanted.bytes {
            return false;
        }
        self.extents.set_first_bytes(wanted.bytes + expected.next_multiple_of(wanted.bytes));
        true
    }

    /// The payload of the leaf; empty if there is no leaf.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let bytes = match &self.source {
            Source::Nothing => return &[],
            Source::Cached(page) => page,
            Source::Extent => return self.extents.bytes(self.payload.clone()),
            Source::Decompressed => &self.decompressed[..],
        };
        bytes.get(self.payload.clone()).unwrap_or_default()
    }

    /// The value at this range of the payload, pinned with its page (`docs/concurrency.md`, C3). `None` for a leaf that
    /// was read ahead: it is not a page of the cache.
    pub fn pinned_value(&self, value: &Range<usize>) -> Option<PinnedValue> {
        let Source::Cached(page) = &self.source else { return None };
        PinnedValue::new(
            Arc::<PageBuffer>::clone(page),
            self.payload.start + value.start..self.payload.start + value.end,
        )
    }

    /// Makes the leaf at `location` the current one.
    pub fn load(&mut self, location: ChildLocation, approach: Approach) -> Result<()> {
        let wanted = WantedPage::child(location, 0);
        self.source = Source::Nothing;
        if self.purpose == Purpose::Compaction {
            return self.load_from_extent(wanted, approach, false);
        }
        if approach == Approach::Seek {
            self.misses = 0;
        }
        let page = match self.branch.pinned_cached_page(wanted)? {
            Some(page) => {
                self.misses = 0;
                page
            }
            None if self.extents.has(wanted) || self.misses >= MISSES_BEFORE_READ_AHEAD => {
                return self.load_from_extent(wanted, approach, true);
            }
            None if self.starts_extent(wanted) => {
                self.misses = MISSES_BEFORE_READ_AHEAD;
                return self.load_from_extent(wanted, approach, true);
            }
            None => {
                self.misses += 1;
                self.branch.read_page(wanted, true)?
            }
        };
        self.set_page(page);
        Ok(())
    }

    /// Makes the leaf that a search reached the current one, if it is in the cache.
    pub fn load_cached(&mut self, wanted: WantedPage) -> Result<bool> {
        self.source = Source::Nothing;
        self.misses = 0;
        let Some(page) = self.branch.pinned_cached_page(wanted)? else { return Ok(false) };
        self.set_page(page);
        Ok(true)
    }

    /// The read request of a search for a leaf that is not cached. Pass its result to `arrived`.
    pub fn request(&mut self, wanted: WantedPage, backward: bool) -> Result<ReadRequest> {
        if !self.starts_extent(wanted) {
            return self.branch.request(wanted);
        }
        let (planned, request) = self.extents.plan(wanted, backward)?;
        self.planned = Some(planned);
        Ok(request)
    }

    /// Makes the leaf that `request` asked for the current one.
    pub fn arrived(&mut self, done: ReadDone, wanted: WantedPage, backward: bool) -> Result<()> {
        let Some(planned) = self.planned.take() else {
            self.misses = 1;
            let page = self.branch.arrived(done, wanted)?;
            self.set_page(page);
            return Ok(());
        };
        self.misses = MISSES_BEFORE_READ_AHEAD;
        self.extents.arrived(planned, done);
        self.load_from_extent(wanted, if backward { Approach::Backward } else { Approach::Seek }, true)
    }

    fn set_page(&mut self, page: Page) {
        self.payload = PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + page::payload(&page).len();
        self.source = Source::Cached(page);
    }

    /// Prefetches entry `at`.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        if let Some(page) = SortedPage::new(self.payload()) {
            page.prefetch(at);
        }
    }

    fn load_from_extent(&mut self, wanted: WantedPage, approach: Approach, fill_cache: bool) -> Result<()> {
        let at = self.extents.page(wanted, approach == Approach::Backward)?;
        let stored = self.extents.bytes(at.clone());
        let header = self.branch.check_page(stored, wanted)?;
        match header.compression {
            Compression::None => {
                let start = at.start + PAGE_HEADER_BYTES;
                self.payload = start..start + header.raw_len as usize;
                self.source = Source::Extent;
            }
            Compression::Lz4 => {
                let length = header.raw_len as usize;
                if self.decompressed.len() < length {
                    self.decompressed.resize(length, 0);
                }
                page::decompress(stored, &header, &mut self.decompressed[..length], self.branch.path())?;
                self.payload = 0..length;
                self.source = Source::Decompressed;
            }
        }
        if let Err(error) = self.branch.check_structure(self.payload(), wanted, self.branch.footer()?) {
            self.source = Source::Nothing;
            return Err(error);
        }
        if fill_cache && (self.extents.is_short() || self.branch.context().cache.has_space()) {
            self.insert_into_cache(wanted, at);
        }
        Ok(())
    }

    /// Inserts a copy of a leaf that was read ahead into the cache.
    fn insert_into_cache(&self, wanted: WantedPage, at: Range<usize>) {
        let header = &self.extents.bytes(at)[..PAGE_HEADER_BYTES];
        let page = PageBuffer::copied(&[header, self.payload()]);
        let number = page_number(wanted.offset);
        self.branch.context().cache.insert(self.branch.table(), number, Arc::new(page), wanted.kind);
    }
}
