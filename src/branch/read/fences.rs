//! Fences: the first eight bytes of all separators of a branch, behind their common prefix, beside the locations of the
//! leaves, in memory only. They lead from a key to its leaf in two cache lines and a small sample, where index pages take
//! a search and a look-up for each level. A builder leaves them in the cache; for other branches searches make them from
//! the index pages. The cache treats them as a page behind the end of the file, so they are part of its budget, and may be
//! evicted like any page. Any thread.
//!
//! The payload, in words of eight bytes after a head that ends at a multiple of 64 in memory:
//!
//! | words | what |
//! | --- | --- |
//! | 4 | the number of leaves; the length of the prefix; 0; 0 |
//! | 16 for each 8 leaves | 8 heads, then 8 locations: page << 16 and its stored size in pages |
//! | 1 for each 8 leaves | the sample: the first head of each block |
//! | | the prefix |
//!
//! Invariants:
//! 1. Heads order separators: of two different heads the smaller one belongs to the smaller separator. Where the head of a
//!    key equals that of a separator nothing is known, and the index pages decide.
//! 2. The leaves have the order and the numbers that they have in the index pages. So a cursor that reached a leaf by its
//!    number can go on by index pages, and a second making gives the same numbers.

use super::page_read::WantedPage;
use crate::branch::branch::{Branch, page_number};
use crate::cache::PageBuffer;
use crate::format::branch_footer::BranchFooter;
use crate::format::page::{
    Compression, PAGE_BYTES, PAGE_HEADER_BYTES, PAYLOAD_BYTES_MAX, PageHeader, PageKind, PageOwner, seal, stored_bytes,
};
use crate::format::sorted_page::{ChildLocation, SortedPage, build::common_prefix};
use crate::io::AlignedBuffer;
use crate::util::Result;
use crate::util::key::head;
use crate::util::sync::{Arc, Ordering};
use crossbeam_epoch::Guard;

/// Leaves in a block.
const BLOCK: usize = 8;
const WORD: usize = 8;
const HEAD_WORDS: usize = 4;
/// Words of a block.
const BLOCK_WORDS: usize = 2 * BLOCK;
/// No more of a separator is kept while fences are made. Longer prefixes are only cut.
const SEPARATOR_BYTES_MAX: usize = 256;
/// A branch with more leaves has no fences: they would not fit a page.
const LEAVES_MAX: u64 = ((PAYLOAD_BYTES_MAX - SEPARATOR_BYTES_MAX) / WORD - HEAD_WORDS) as u64 / 17 * 8 - 8;
/// Searches by index pages before fences are made, as a part of the leaves: making them costs some 20 ns a leaf.
const LEAVES_PER_SEARCH: u64 = 16;

const _: () = assert!((PAGE_HEADER_BYTES + HEAD_WORDS * WORD).is_multiple_of(64));

/// Collects separators and locations of the leaves, in order.
#[derive(Debug, Default)]
pub struct FencesBuilder {
    separators: Vec<u8>,
    ends: Vec<usize>,
    locations: Vec<u64>,
    prefix: usize,
    /// Leaves so far, also those that are too many.
    leaves: u64,
}

impl FencesBuilder {
    /// Adds a leaf and the separator before it.
    pub fn add(&mut self, separator: &[u8], leaf: ChildLocation) {
        self.leaves += 1;
        if self.leaves > LEAVES_MAX {
            (self.separators, self.ends, self.locations) = Default::default();
            return;
        }
        let separator = &separator[..separator.len().min(SEPARATOR_BYTES_MAX)];
        self.prefix = match self.ends.first() {
            None => separator.len().min(SEPARATOR_BYTES_MAX - WORD),
            Some(first) => common_prefix(&self.separators[..*first], separator).min(self.prefix),
        };
        self.separators.extend_from_slice(separator);
        self.ends.push(self.separators.len());
        self.locations.push(u64::from(leaf.page) << 16 | u64::from(leaf.pages));
    }

    /// The payload; `None` without leaves, and if there are too many.
    fn payload(&self) -> Option<Vec<u8>> {
        let (count, blocks) = (self.ends.len(), self.ends.len().div_ceil(BLOCK));
        if count == 0 {
            return None;
        }
        let bytes = (HEAD_WORDS + blocks * (BLOCK_WORDS + 1)) * WORD + self.prefix;
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        let separators = starts.zip(&self.ends).map(|(start, end)| &self.separators[start..*end]);
        let heads: Vec<u64> = separators.map(|separator| head(&separator[self.prefix..])).collect();
        let mut words = vec![count as u64, self.prefix as u64, 0, 0];
        for (heads, locations) in heads.chunks(BLOCK).zip(self.locations.chunks(BLOCK)) {
            words.extend(heads.iter().copied().chain(std::iter::repeat(u64::MAX)).take(BLOCK));
            words.extend(locations.iter().copied().chain(std::iter::repeat(0)).take(BLOCK));
        }
        words.extend(heads.iter().step_by(BLOCK));
        let mut out = Vec::with_capacity(bytes);
        out.extend(words.iter().flat_map(|word| word.to_le_bytes()));
        out.extend_from_slice(&self.separators[..self.prefix]);
        Some(out)
    }
}

/// A view of fences.
#[derive(Clone, Copy, Debug)]
pub struct Fences<'a> {
    count: usize,
    blocks: &'a [[u8; WORD]],
    sample: &'a [[u8; WORD]],
    prefix: &'a [u8],
}

impl<'a> Fences<'a> {
    /// The view of a payload; `None` if its lengths do not fit.
    pub fn new(payload: &'a [u8]) -> Option<Self> {
        let word = |at: usize| Some(u64::from_le_bytes(*payload.get(at * WORD..)?.first_chunk()?) as usize);
        let (count, prefix) = (word(0)?, word(1)?);
        let blocks = count.div_ceil(BLOCK);
        let (words, prefix) = payload.split_at_checked(payload.len().checked_sub(prefix)?)?;
        let (words, _) = words.as_chunks::<WORD>();
        let (blocks, sample) = words.get(HEAD_WORDS..)?.split_at_checked(blocks * BLOCK_WORDS)?;
        Some(Self { count, blocks, sample, prefix })
    }

    /// The number and the location of the leaf that a key belongs to, whatever its version. `None` if only the index pages
    /// know it (invariant 1). O(log n).
    #[inline]
    pub fn leaf_of(&self, key: &[u8]) -> Option<(usize, ChildLocation)> {
        let at = self.rank(key)?;
        Some((at, self.location(at)?))
    }

    #[inline]
    fn rank(&self, key: &[u8]) -> Option<usize> {
        let shared = key.len().min(self.prefix.len());
        match key[..shared].cmp(&self.prefix[..shared]) {
            std::cmp::Ordering::Greater => return Some(self.count - 1),
            std::cmp::Ordering::Equal if shared == self.prefix.len() => {}
            _ => return Some(0),
        }
        let sought = head(&key[shared..]);
        let (mut low, mut left) = (0, self.sample.len());
        while left > 1 {
            let half = left / 2;
            low = if u64::from_le_bytes(self.sample[low + half]) <= sought { low + half } else { low };
            left -= half;
        }
        let block = self.blocks.get(low * BLOCK_WORDS..)?.first_chunk::<BLOCK>()?;
        let before = block.iter().filter(|head| u64::from_le_bytes(**head) < sought).count();
        let is_tied = before < BLOCK && u64::from_le_bytes(block[before]) == sought;
        // A key before the first separator belongs to the first leaf, too.
        (!is_tied).then(|| (low * BLOCK + before).saturating_sub(1))
    }

    /// The location of a leaf, without the number of its first key; `None` if there is no such leaf.
    #[inline]
    pub fn location(&self, at: usize) -> Option<ChildLocation> {
        let word = self.blocks.get(at / BLOCK * BLOCK_WORDS + BLOCK + at % BLOCK).filter(|_| at < self.count)?;
        let word = u64::from_le_bytes(*word);
        Some(ChildLocation { page: (word >> 16) as u32, pages: word as u16, first_key: 0 })
    }
}

/// Whether a branch of this height has fences. A lower one has one index page, which is as fast.
#[inline]
pub fn are_worthwhile(height: u32) -> bool {
    height >= 2
}

impl Branch {
    /// The fences, if they are in memory.
    #[inline]
    pub(in crate::branch) fn fences<'g>(&'g self, guard: &'g Guard) -> Option<Fences<'g>> {
        let number = page_number(self.meta().bytes);
        let page = self.context().cache.get(self.table(), number, PageKind::Fences, guard).ok()??;
        Fences::new(page.payload())
    }

    /// Counts a search that had to do without fences, and makes them if there were enough: it reads the index pages that
    /// are not in the cache, some hundred at most, and most are. Only for callers that may read from the disk.
    #[cold]
    pub(in crate::branch) fn note_search_without_fences(&self, footer: &BranchFooter) {
        // Relaxed, and a lost count changes little.
        let searches = self.searches_without_fences().load(Ordering::Relaxed).saturating_add(1);
        self.searches_without_fences().store(searches, Ordering::Relaxed);
        if u64::from(searches) != footer.leaves / LEAVES_PER_SEARCH + 1 {
            return;
        }
        let mut builder = FencesBuilder::default();
        // A damaged page is reported by the read that needs it, not by this one.
        let is_gathered = footer.leaves <= LEAVES_MAX
            && self.gather_fences(footer.root, footer.height as u8, &mut builder).is_ok()
            && builder.ends.len() as u64 == footer.leaves;
        if is_gathered && self.keep_fences(&builder) {
            self.searches_without_fences().store(0, Ordering::Relaxed);
        }
    }

    fn gather_fences(&self, location: ChildLocation, level: u8, builder: &mut FencesBuilder) -> Result<()> {
        let page = self.pinned_page(WantedPage::child(location, level), true)?;
        let Some(sorted) = SortedPage::new(page.payload()) else { return Ok(()) };
        let mut separator = Vec::new();
        for at in 0..sorted.count() {
            let child = self.child(page.payload(), location, at)?;
            if level > 1 {
                self.gather_fences(child, level - 1, builder)?;
                continue;
            }
            separator.clear();
            sorted.append_key(at, &sorted.parts(at), &mut separator);
            builder.add(&separator, child);
        }
        Ok(())
    }

    /// Puts fences into the cache. False if it does not take them, because they are too large for it; then they are not
    /// made again until the branch is opened again.
    fn keep_fences(&self, builder: &FencesBuilder) -> bool {
        let Some(page) = page_of(builder, self.owner(), self.meta().bytes) else { return false };
        let number = page_number(self.meta().bytes);
        self.context().cache.insert(self.table(), number, Arc::new(page), PageKind::Fences);
        self.table().peek(number, &crossbeam_epoch::pin()).is_some()
    }
}

/// The page for the cache; `None` if it would be too large.
pub fn page_of(builder: &FencesBuilder, owner: PageOwner, offset: u64) -> Option<PageBuffer> {
    let payload = builder.payload()?;
    let length = payload.len();
    let mut buffer = AlignedBuffer::new(stored_bytes(length));
    buffer[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + length].copy_from_slice(&payload);
    let (kind, compression, raw_len) = (PageKind::Fences, Compression::None, length as u32);
    seal(&mut buffer, &PageHeader { kind, compression, level: 0, stored_len: raw_len, raw_len, offset }, owner);
    debug_assert!(offset.is_multiple_of(PAGE_BYTES as u64));
    Some(PageBuffer::from(buffer))
}
