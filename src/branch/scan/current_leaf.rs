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
use crate::format::sorted_page::{self, ChildLocation, SortedPage};
use crate::io::{ReadDone, ReadRequest};
use crate::merge::PinnedValue;
use crate::util::Result;
use crate::util::sync::Arc;
use crossbeam_epoch::Guard;
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
    purpose: Purpose,
    source: Source,
    /// The range of the payload within the bytes of the source.
    payload: Range<usize>,
    /// Created by the first leaf that comes from an extent.
    extents: Option<Box<ExtentReader>>,
    decompressed: Vec<u8>,
    misses: u32,
    /// Bytes after the first leaf that the scan is expected to read. 0 once they are read.
    expected: usize,
    planned: Option<Planned>,
}

impl CurrentLeaf {
    /// A value without a leaf. All calls until the next `leave` name the same branch.
    pub fn new(purpose: Purpose) -> Self {
        Self {
            extents: None,
            purpose,
            source: Source::Nothing,
            payload: 0..0,
            decompressed: Vec::new(),
            misses: 0,
            expected: 0,
            planned: None,
        }
    }

    /// Leaves the branch. It holds neither pages nor extents then.
    pub fn leave(&mut self) {
        (self.source, self.extents, self.planned) = (Source::Nothing, None, None);
        (self.misses, self.expected) = (0, 0);
        self.decompressed = Vec::new();
    }

    /// Sets the number of bytes after the first leaf that the next scan is expected to read.
    pub fn expect_bytes(&mut self, bytes: usize) {
        self.expected = bytes;
        if let Some(extents) = &mut self.extents {
            extents.set_first_bytes(READ_AHEAD_BYTES);
        }
    }

    fn extents(&mut self, branch: &Arc<Branch>) -> &mut ExtentReader {
        let purpose = self.purpose;
        self.extents.get_or_insert_with(|| Box::new(ExtentReader::new(Arc::clone(branch), purpose)))
    }

    fn extent_bytes(&self, range: Range<usize>) -> &[u8] {
        self.extents.as_ref().map_or(&[], |extents| extents.bytes(range))
    }

    /// Whether to read the expected bytes of the scan together with this uncached leaf. If so, extents begin with that
    /// size. It pays where the time to transfer one more leaf is less than the time of one more read, multiplied by its
    /// probability.
    fn starts_extent(&mut self, branch: &Arc<Branch>, wanted: WantedPage) -> bool {
        let expected = std::mem::take(&mut self.expected).min(READ_AHEAD_BYTES);
        if expected * BYTES_PER_READ < wanted.bytes * wanted.bytes {
            return false;
        }
        self.extents(branch).set_first_bytes(wanted.bytes + expected.next_multiple_of(wanted.bytes));
        true
    }

    /// The payload of the leaf; empty if there is no leaf.
    #[inline]
    pub fn payload(&self) -> &[u8] {
        let bytes = match &self.source {
            Source::Nothing => return &[],
            Source::Cached(page) => page,
            Source::Extent => return self.extent_bytes(self.payload.clone()),
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
    pub fn load(&mut self, branch: &Arc<Branch>, location: ChildLocation, approach: Approach) -> Result<()> {
        let wanted = WantedPage::child(location, 0);
        self.source = Source::Nothing;
        if self.purpose == Purpose::Compaction {
            return self.load_from_extent(branch, wanted, approach, false);
        }
        if approach == Approach::Seek {
            self.misses = 0;
        }
        let is_in_extent = |leaf: &Self| leaf.extents.as_ref().is_some_and(|extents| extents.has(wanted));
        let page = match branch.pinned_cached_page(wanted)? {
            Some(page) => {
                self.misses = 0;
                page
            }
            None if is_in_extent(self) || self.misses >= MISSES_BEFORE_READ_AHEAD => {
                return self.load_from_extent(branch, wanted, approach, true);
            }
            None if self.starts_extent(branch, wanted) => {
                self.misses = MISSES_BEFORE_READ_AHEAD;
                return self.load_from_extent(branch, wanted, approach, true);
            }
            None => {
                self.misses += 1;
                branch.read_page(wanted, true)?
            }
        };
        self.set_page(page);
        Ok(())
    }

    /// Makes the leaf that a search reached the current one, if it is in the cache.
    pub fn load_cached(&mut self, branch: &Branch, wanted: WantedPage, guard: &Guard) -> Result<bool> {
        // A plan is left if another branch's read failed.
        (self.source, self.planned) = (Source::Nothing, None);
        self.misses = 0;
        let Some(page) = branch.pinned_cached_page_under(wanted, guard)? else { return Ok(false) };
        self.set_page(page);
        Ok(true)
    }

    /// The read request of a search for a leaf that is not cached. Pass its result to `arrived`.
    pub fn request(&mut self, branch: &Arc<Branch>, wanted: WantedPage, backward: bool) -> Result<ReadRequest> {
        if !self.starts_extent(branch, wanted) {
            return branch.request(wanted);
        }
        let (planned, request) = self.extents(branch).plan(wanted, backward)?;
        self.planned = Some(planned);
        Ok(request)
    }

    /// Makes the leaf that `request` asked for the current one.
    pub fn arrived(&mut self, branch: &Arc<Branch>, done: ReadDone, wanted: WantedPage, backward: bool) -> Result<()> {
        let Some(planned) = self.planned.take() else {
            self.misses = 1;
            let page = branch.arrived(done, wanted)?;
            self.set_page(page);
            return Ok(());
        };
        self.misses = MISSES_BEFORE_READ_AHEAD;
        self.extents(branch).arrived(planned, done);
        self.load_from_extent(branch, wanted, if backward { Approach::Backward } else { Approach::Seek }, true)
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

    fn load_from_extent(
        &mut self,
        branch: &Arc<Branch>,
        wanted: WantedPage,
        approach: Approach,
        fill_cache: bool,
    ) -> Result<()> {
        let extents = self.extents(branch);
        let at = extents.page(wanted, approach == Approach::Backward)?;
        let is_short = extents.is_short();
        let header = branch.check_page(extents.bytes(at.clone()), wanted)?;
        let common_number = branch.common_number(branch.footer()?);
        match header.compression {
            Compression::None if common_number.is_none() => {
                let start = at.start + PAGE_HEADER_BYTES;
                self.payload = start..start + header.raw_len as usize;
                self.source = Source::Extent;
            }
            Compression::None | Compression::Lz4 | Compression::Zstd => {
                let length = header.raw_len as usize;
                if self.decompressed.len() < length {
                    self.decompressed.resize(length, 0);
                }
                let stored = self.extents.as_ref().map_or(&[][..], |extents| extents.bytes(at.clone()));
                page::decompress(stored, &header, &mut self.decompressed[..length], branch.path())?;
                if let Some(number) = common_number {
                    sorted_page::set_common_number(&mut self.decompressed[..length], number);
                }
                self.payload = 0..length;
                self.source = Source::Decompressed;
            }
        }
        if let Err(error) = branch.check_structure(self.payload(), wanted, branch.footer()?) {
            self.source = Source::Nothing;
            return Err(error);
        }
        if fill_cache && (is_short || branch.context().cache.has_space()) {
            self.insert_into_cache(branch, wanted, at);
        }
        Ok(())
    }

    /// Inserts a copy of a leaf that was read ahead into the cache.
    fn insert_into_cache(&self, branch: &Branch, wanted: WantedPage, at: Range<usize>) {
        let header = &self.extent_bytes(at)[..PAGE_HEADER_BYTES];
        let page = PageBuffer::copied(&[header, self.payload()]);
        let number = page_number(wanted.offset);
        branch.context().cache.insert(branch.table(), number, Arc::new(page), wanted.kind);
    }
}
