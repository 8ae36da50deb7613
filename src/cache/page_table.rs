//! Where the pages of one file are in memory: page number to address, without a lock and without hashing. Any thread may
//! look up; only `PageCache` changes it, under the mutex of the page's shard.
//!
//! A file's pages are an array, so that is what finds them: chunks that double in size, each made when its first page comes.
//! Reading a page touches one line here and then the page itself, nothing else: the pin is an epoch, and the clock's credit
//! lies in the word that holds the address.
//!
//! Invariants:
//! 1. A word's `page` is null or one reference of an `Arc<PageBuffer>`, and `address` is null or the address of that page's
//!    bytes, with credit and kind in the low bits (pages are aligned to 4096). `page` is set before `address` (`Release`)
//!    and taken after it, so who sees an address and then a page sees references to equal bytes.
//! 2. A reference that was taken out is dropped only when every thread pinned at that moment has unpinned
//!    (`crossbeam_epoch`). So what was loaded under a guard stays readable until the guard goes.
//! 3. A page in a word has at least `PAGE_HEADER_BYTES` and the payload that its header tells of (asserted by `put`).
//! 4. Chunks are made once and freed with the table.

use super::page::{Page, PageBuffer};
use crate::base::sync::{Arc, AtomicPtr, AtomicUsize, OnceLock, Ordering};
use crate::base::{FileNumber, prefetch};
use crate::format::page::{self, PAGE_HEADER_BYTES};
use crossbeam_epoch::Guard;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// Pages of the first chunk.
const FIRST_CHUNK: u64 = 64;
/// Chunks that 2^32 pages need.
const CHUNKS: usize = (33 - FIRST_CHUNK.ilog2()) as usize;
/// Bytes that a chunk takes for a page.
const ENTRY_BYTES: usize = 2 * size_of::<AtomicPtr<u8>>();
/// The low bits of an address word: the clock's credit.
const CREDIT: usize = 0b111;
/// Most credit that a page gathers.
pub const CREDIT_MAX: usize = CREDIT;
const KIND_SHIFT: u32 = 3;
const TAG: usize = 0b11_1111;

const _: () = assert!(TAG < crate::base::limits::IO_ALIGNMENT);

/// A chunk. Addresses lie together: they are what gets touch.
struct Chunk {
    addresses: Box<[AtomicPtr<u8>]>,
    pages: Box<[AtomicPtr<PageBuffer>]>,
}

impl Chunk {
    fn new(length: usize) -> Self {
        Self {
            addresses: (0..length).map(|_| AtomicPtr::default()).collect(),
            pages: (0..length).map(|_| AtomicPtr::default()).collect(),
        }
    }
}

/// What there is for one page.
#[derive(Clone, Copy)]
struct Word<'a> {
    address: &'a AtomicPtr<u8>,
    page: &'a AtomicPtr<PageBuffer>,
}

/// See the module.
pub struct PageTable {
    file: FileNumber,
    /// Bytes of all chunks.
    bytes: AtomicUsize,
    chunks: [OnceLock<Chunk>; CHUNKS],
}

/// A page's payload, readable as long as the table and the guard that it was found under.
#[derive(Clone, Copy, Debug)]
pub struct PageRef<'g> {
    bytes: NonNull<u8>,
    guard: PhantomData<&'g [u8]>,
}

impl<'g> PageRef<'g> {
    /// The raw payload.
    #[inline]
    pub fn payload(&self) -> &'g [u8] {
        // SAFETY: invariants 2 and 3; pages never change while they are in a table.
        unsafe {
            let header = &*self.bytes.cast::<[u8; PAGE_HEADER_BYTES]>().as_ptr();
            std::slice::from_raw_parts(self.bytes.as_ptr().add(PAGE_HEADER_BYTES), page::raw_length(header))
        }
    }

    /// Asks the processor for the line at `offset` of the page, `offset` below 4096.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        prefetch::line(self.bytes.as_ptr().wrapping_add(offset));
    }
}

/// Which chunk a page is in, and where.
#[inline]
fn place(page: u32) -> (usize, usize) {
    let shifted = u64::from(page) + FIRST_CHUNK;
    let level = shifted.ilog2();
    ((level - FIRST_CHUNK.ilog2()) as usize, (shifted - (1 << level)) as usize)
}

fn chunk_length(chunk: usize) -> usize {
    (FIRST_CHUNK as usize) << chunk
}

impl PageTable {
    /// An empty table.
    pub fn new(file: FileNumber) -> Self {
        Self { file, bytes: AtomicUsize::new(0), chunks: std::array::from_fn(|_| OnceLock::new()) }
    }

    /// Whose pages.
    pub fn file(&self) -> FileNumber {
        self.file
    }

    #[inline]
    fn word(&self, page: u32) -> Option<Word<'_>> {
        let (chunk, at) = place(page);
        self.chunks[chunk].get().map(|chunk| Word { address: &chunk.addresses[at], page: &chunk.pages[at] })
    }

    /// The address of the page with its tag, if it is here.
    #[inline]
    fn load(&self, page: u32) -> Option<(&AtomicPtr<u8>, NonNull<u8>)> {
        let (chunk, at) = place(page);
        let address = &self.chunks[chunk].get()?.addresses[at];
        Some((address, NonNull::new(address.load(Ordering::Acquire))?))
    }

    /// The page, if it is here, and its kind as `put` was told. It gains credit up to `credit_max`.
    #[inline]
    pub fn get<'g>(&'g self, page: u32, credit_max: usize, _guard: &'g Guard) -> Option<(PageRef<'g>, u8)> {
        let (word, tagged) = self.load(page)?;
        let tag = tagged.as_ptr().addr() & TAG;
        if tag & CREDIT < credit_max {
            // Relaxed, and no second try: credit orders nothing, and one hit more or less changes little.
            let richer = tagged.as_ptr().map_addr(|address| address + 1);
            let _ = word.compare_exchange(tagged.as_ptr(), richer, Ordering::Relaxed, Ordering::Relaxed);
        }
        let bytes = NonNull::new(tagged.as_ptr().map_addr(|address| address & !TAG))?;
        Some((PageRef { bytes, guard: PhantomData }, (tag >> KIND_SHIFT) as u8))
    }

    /// The page, if it is here, without credit: for looking ahead.
    #[inline]
    pub fn peek<'g>(&'g self, page: u32, _guard: &'g Guard) -> Option<PageRef<'g>> {
        let (_, tagged) = self.load(page)?;
        let bytes = NonNull::new(tagged.as_ptr().map_addr(|address| address & !TAG))?;
        Some(PageRef { bytes, guard: PhantomData })
    }

    /// A reference of one's own to the page, if it is here: outlives guard and eviction.
    pub fn hold(&self, page: u32, _guard: &Guard) -> Option<Page> {
        let page = self.word(page)?.page.load(Ordering::Acquire);
        if page.is_null() {
            return None;
        }
        // SAFETY: by invariants 1 and 2 the word's reference was not dropped yet and will not be while the guard lives.
        unsafe {
            Arc::increment_strong_count(page);
            Some(Arc::from_raw(page))
        }
    }

    /// Bytes of memory that the table itself takes; it never takes less again.
    pub(super) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Whether the page is here.
    pub(super) fn contains(&self, page: u32) -> bool {
        self.load(page).is_some()
    }

    /// Puts a page in. The caller holds the shard's mutex, and the page is not here.
    pub(super) fn put(&self, number: u32, page: Page, kind: u8, credit: usize) {
        let promised = page.first_chunk().map(|header| PAGE_HEADER_BYTES + page::raw_length(header));
        let is_whole = promised.is_some_and(|promised| promised <= page.len());
        assert!(is_whole, "a page of {} bytes is shorter than its header says: {promised:?}", page.len());
        let tag = usize::from(kind) << KIND_SHIFT | credit;
        debug_assert!(credit <= CREDIT && tag <= TAG);
        let address = page.as_ptr().cast_mut().map_addr(|address| address | tag);
        let word = self.word_or_new(number);
        debug_assert!(word.address.load(Ordering::Relaxed).is_null());
        word.page.store(Arc::into_raw(page).cast_mut(), Ordering::Release);
        word.address.store(address, Ordering::Release);
    }

    /// Takes a page out. The caller holds the shard's mutex and drops what it gets only after a grace period.
    pub(super) fn take(&self, number: u32) -> Option<Page> {
        let word = self.word(number)?;
        word.address.swap(ptr::null_mut(), Ordering::AcqRel);
        let page = word.page.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: invariant 1: the word gave up its one reference just now.
        (!page.is_null()).then(|| unsafe { Arc::from_raw(page) })
    }

    /// Takes one credit away; how much it had, or `None` where the page is not here.
    pub(super) fn spend(&self, number: u32) -> Option<usize> {
        let (word, tagged) = self.load(number)?;
        let credit = tagged.as_ptr().addr() & CREDIT;
        if credit > 0 {
            let poorer = tagged.as_ptr().map_addr(|address| address - 1);
            let _ = word.compare_exchange(tagged.as_ptr(), poorer, Ordering::Relaxed, Ordering::Relaxed);
        }
        Some(credit)
    }

    /// The numbers of all pages that are here.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        let present = |chunk: &usize| self.chunks[*chunk].get().is_some();
        let numbers = |chunk: usize| {
            let first = chunk_length(chunk) as u64 - FIRST_CHUNK;
            first..first + chunk_length(chunk) as u64
        };
        let all = (0..CHUNKS).filter(present).flat_map(numbers).filter_map(|number| u32::try_from(number).ok());
        all.filter(|number| self.contains(*number))
    }

    fn word_or_new(&self, page: u32) -> Word<'_> {
        let (chunk, at) = place(page);
        let chunk = self.chunks[chunk].get_or_init(|| {
            let length = chunk_length(chunk);
            self.bytes.fetch_add(length * ENTRY_BYTES, Ordering::Relaxed);
            Chunk::new(length)
        });
        Word { address: &chunk.addresses[at], page: &chunk.pages[at] }
    }
}

impl Drop for PageTable {
    fn drop(&mut self) {
        let chunks = self.chunks.iter_mut().filter_map(OnceLock::take);
        for page in chunks.flat_map(|chunk| chunk.pages) {
            let page = page.into_inner();
            if !page.is_null() {
                // SAFETY: invariant 1; readers hold the table, so none is left that loaded this reference.
                drop(unsafe { Arc::from_raw(page) });
            }
        }
    }
}

impl std::fmt::Debug for PageTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageTable").field("file", &self.file).finish_non_exhaustive()
    }
}
