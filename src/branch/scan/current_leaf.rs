//! The leaf that a cursor stands in, wherever its bytes are: in the cache, in an extent, or decompressed. One thread at a
//! time.
//!
//! Invariant: the payload held was checked, checksum and structure, when it came from the disk.

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

/// After this many leaves in a row that were not cached a scan reads ahead.
const MISSES_BEFORE_READ_AHEAD: u32 = 2;
/// Bytes that the disk gives in the time of one more read.
const BYTES_PER_READ: usize = 64 << 10;

enum Source {
    Nothing,
    Cached(Page),
    Extent,
    Decompressed,
}

/// How a cursor came to a leaf.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Approach {
    /// By a search.
    Seek,
    /// From the leaf before.
    Forward,
    /// From the leaf behind.
    Backward,
}

/// See the module.
pub struct CurrentLeaf {
    branch: Arc<Branch>,
    purpose: Purpose,
    source: Source,
    /// The payload within what is held.
    payload: Range<usize>,
    extents: ExtentReader,
    decompressed: Vec<u8>,
    misses: u32,
    /// Bytes behind the first leaf that the scan is expected to go on to, until they are read.
    expected: usize,
    planned: Option<Planned>,
}

impl CurrentLeaf {
    /// Holds nothing.
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

    /// The scan that begins now is expected to go on to so many bytes behind the first leaf.
    pub fn expect_bytes(&mut self, bytes: usize) {
        self.expected = bytes;
        self.extents.set_first_bytes(READ_AHEAD_BYTES);
    }

    /// Whether it is worth reading what the scan is expected to go on to with this leaf, which is not cached; then extents begin
    /// with that much. It is where the time that one more leaf takes is less than that of one more read, times the chance of it.
    fn starts_extent(&mut self, wanted: WantedPage) -> bool {
        let expected = std::mem::take(&mut self.expected).min(READ_AHEAD_BYTES);
        if expected * BYTES_PER_READ < wanted.bytes * wanted.bytes {
            return false;
        }
        self.extents.set_first_bytes(wanted.bytes + expected.next_multiple_of(wanted.bytes));
        true
    }

    /// The payload of the leaf; empty where none is held.
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

    /// The value at this place of the payload, held with its page (`docs/concurrency.md`, C3). What was read ahead is no page.
    pub fn pinned_value(&self, value: &Range<usize>) -> Option<PinnedValue> {
        let Source::Cached(page) = &self.source else { return None };
        PinnedValue::new(
            Arc::<PageBuffer>::clone(page),
            self.payload.start + value.start..self.payload.start + value.end,
        )
    }

    /// Takes hold of the leaf at `location`.
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

    /// Takes hold of a leaf that a search came to, if it is in the cache.
    pub fn load_cached(&mut self, wanted: WantedPage) -> Result<bool> {
        self.source = Source::Nothing;
        self.misses = 0;
        let Some(page) = self.branch.pinned_cached_page(wanted)? else { return Ok(false) };
        self.set_page(page);
        Ok(true)
    }

    /// What a search is to read for a leaf that is not cached.
    pub fn request(&mut self, wanted: WantedPage, backward: bool) -> Result<ReadRequest> {
        if !self.starts_extent(wanted) {
            return self.branch.request(wanted);
        }
        let (planned, request) = self.extents.plan(wanted, backward)?;
        self.planned = Some(planned);
        Ok(request)
    }

    /// Takes hold of the leaf for which `request` asked.
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

    /// Asks the processor for entry `at`.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        if let Some(page) = SortedPage::new(self.payload()) {
            page.prefetch(at);
        }
    }

    fn load_from_extent(&mut self, wanted: WantedPage, approach: Approach, keep: bool) -> Result<()> {
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
        if keep && (self.extents.is_short() || self.branch.context().cache.has_space()) {
            self.keep(wanted, at);
        }
        Ok(())
    }

    /// Gives the cache a copy of a leaf that was read ahead.
    fn keep(&self, wanted: WantedPage, at: Range<usize>) {
        let header = &self.extents.bytes(at)[..PAGE_HEADER_BYTES];
        let page = PageBuffer::copied(&[header, self.payload()]);
        let number = page_number(wanted.offset);
        self.branch.context().cache.insert(self.branch.table(), number, Arc::new(page), wanted.kind);
    }
}
