//! Where the pages of one file are in memory: page number to address, without a lock and without hashing. Any thread may
//! look up; only `PageCache` changes it, under the mutex of the page's shard.
//!
//! A file's pages are an array, so that is what finds them: a directory of chunks, which come with their first page and go with
//! their last, so that tables stay small beside what is cached, however large the store. Reading a page touches a line of the
//! directory, one of the chunk, and then the page itself: the pin is an epoch, and the clock's credit lies in the word that
//! holds the address.
//!
//! Invariants:
//! 1. A word's `page` is null or one reference of an `Arc<PageBuffer>`, and `address` is null or the address of that page's
//!    bytes, with credit and kind in the low bits (pages are aligned to 4096). `page` is set before `address` (`Release`)
//!    and taken after it, so who sees an address and then a page sees references to equal bytes.
//! 2. A reference that was taken out is dropped only when every thread pinned at that moment has unpinned
//!    (`crossbeam_epoch`). So what was loaded under a guard stays readable until the guard goes.
//! 3. A page in a word has at least `PAGE_HEADER_BYTES` and the payload that its header tells of (asserted by `put`).
//! 4. Whoever changes a table holds `present`, which counts the pages of each chunk. A chunk is freed by the rule of 2 once it has
//!    none; so a chunk that was loaded under a guard, or under `present`, is there.
//! 5. Directories are made once and freed with the table.

use super::page::{Page, PageBuffer};
use crate::format::page::{self, PAGE_HEADER_BYTES};
use crate::util::sync::{Arc, AtomicPtr, Mutex, OnceLock, Ordering};
use crate::util::{FileNumber, prefetch};
use crossbeam_epoch::Guard;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// Pages of a chunk: small, so that a page that is cached alone in its chunk costs an eighth of itself.
const CHUNK_PAGES: usize = 32;
/// Chunks of the first directory; each further one has twice as many.
const FIRST_DIRECTORY: u64 = 16;
/// Directories that 2^32 pages need.
const DIRECTORIES: usize = (33 - CHUNK_PAGES.ilog2() - FIRST_DIRECTORY.ilog2()) as usize;
/// The low bits of an address word: the clock's credit.
const CREDIT: usize = 0b111;
/// Most credit that a page gathers.
pub const CREDIT_MAX: usize = CREDIT;
const KIND_SHIFT: u32 = 3;
const TAG: usize = 0b111_1111;

const _: () = assert!(TAG < crate::util::limits::IO_ALIGNMENT);

/// Words of neighbouring pages. Addresses lie together: they are what gets touch.
#[derive(Default)]
struct Chunk {
    addresses: [AtomicPtr<u8>; CHUNK_PAGES],
    pages: [AtomicPtr<PageBuffer>; CHUNK_PAGES],
}

type Directory = Box<[AtomicPtr<Chunk>]>;

/// See the module.
pub struct PageTable {
    file: FileNumber,
    directories: [OnceLock<Directory>; DIRECTORIES],
    /// Pages in each chunk that has some, by the chunk's number.
    present: Mutex<HashMap<u32, u32>>,
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

/// Which directory a chunk is in, and where.
#[inline]
fn place(chunk: u32) -> (usize, usize) {
    let shifted = u64::from(chunk) + FIRST_DIRECTORY;
    let level = shifted.ilog2();
    ((level - FIRST_DIRECTORY.ilog2()) as usize, (shifted - (1 << level)) as usize)
}

fn chunk_of(page: u32) -> (u32, usize) {
    (page / CHUNK_PAGES as u32, page as usize % CHUNK_PAGES)
}

impl PageTable {
    /// An empty table.
    pub fn new(file: FileNumber) -> Self {
        Self { file, directories: std::array::from_fn(|_| OnceLock::new()), present: Mutex::default() }
    }

    /// Whose pages.
    pub fn file(&self) -> FileNumber {
        self.file
    }

    /// Where the chunk is found; `None` where there is no directory for it yet.
    #[inline]
    fn slot(&self, chunk: u32) -> Option<&AtomicPtr<Chunk>> {
        let (directory, at) = place(chunk);
        Some(&self.directories[directory].get()?[at])
    }

    /// The chunk, if there is one. The caller has pinned the epoch or holds `present` (invariant 4), and keeps to that as
    /// long as it uses the chunk.
    #[inline]
    fn chunk(&self, chunk: u32) -> Option<&Chunk> {
        let chunk = NonNull::new(self.slot(chunk)?.load(Ordering::Acquire))?;
        // SAFETY: made by `put` and not freed while the caller keeps its promise.
        Some(unsafe { chunk.as_ref() })
    }

    /// The address of the page with its tag, if it is here. The caller promises what `chunk` asks for.
    #[inline]
    fn load(&self, page: u32) -> Option<(&AtomicPtr<u8>, NonNull<u8>)> {
        let (chunk, at) = chunk_of(page);
        let address = &self.chunk(chunk)?.addresses[at];
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

    /// Asks the processor for the words of the page.
    #[inline]
    pub fn prefetch(&self, page: u32, _guard: &Guard) {
        let (chunk, at) = chunk_of(page);
        if let Some(chunk) = self.chunk(chunk) {
            prefetch::line(&raw const chunk.addresses[at]);
            prefetch::line(&raw const chunk.pages[at]);
        }
    }

    /// Asks the processor for what `pin` will touch behind the page's words.
    #[inline]
    pub fn prefetch_pin(&self, page: u32, _guard: &Guard) {
        let (chunk, at) = chunk_of(page);
        if let Some(chunk) = self.chunk(chunk) {
            // The counts of the `Arc` lie in front of what it holds.
            prefetch::line(chunk.pages[at].load(Ordering::Acquire).cast::<u8>().wrapping_sub(16));
        }
    }

    /// A reference of one's own to the page, if it is here: outlives guard and eviction.
    pub fn pin(&self, page: u32, _guard: &Guard) -> Option<Page> {
        let (chunk, at) = chunk_of(page);
        let page = self.chunk(chunk)?.pages[at].load(Ordering::Acquire);
        if page.is_null() {
            return None;
        }
        // SAFETY: by invariants 1 and 2 the word's reference was not dropped yet and will not be while the guard lives.
        unsafe {
            Arc::increment_strong_count(page);
            Some(Arc::from_raw(page))
        }
    }

    /// Whether the page is here.
    pub(super) fn contains(&self, page: u32) -> bool {
        let _present = self.present.lock();
        self.load(page).is_some()
    }

    /// Puts a page in. The caller holds the shard's mutex, and the page is not here. Returns the bytes that the table grew by.
    pub(super) fn put(&self, number: u32, page: Page, kind: u8, credit: usize) -> usize {
        let promised = page.first_chunk().map(|header| PAGE_HEADER_BYTES + page::raw_length(header));
        let is_whole = promised.is_some_and(|promised| promised <= page.len());
        assert!(is_whole, "a page of {} bytes is shorter than its header says: {promised:?}", page.len());
        let tag = usize::from(kind) << KIND_SHIFT | credit;
        debug_assert!(credit <= CREDIT && tag <= TAG);
        let address = page.as_ptr().cast_mut().map_addr(|address| address | tag);
        let (number, at) = chunk_of(number);
        let mut present = self.present.lock();
        let grown = self.grow(number);
        *present.entry(number).or_default() += 1;
        // `grow` made sure of it, and it has a page from here on.
        if let Some(chunk) = self.chunk(number) {
            debug_assert!(chunk.addresses[at].load(Ordering::Relaxed).is_null());
            chunk.pages[at].store(Arc::into_raw(page).cast_mut(), Ordering::Release);
            chunk.addresses[at].store(address, Ordering::Release);
        }
        grown
    }

    /// Makes sure that there is a chunk with this number; the caller holds `present`. Returns the bytes that this took.
    fn grow(&self, number: u32) -> usize {
        let (directory, at) = place(number);
        let mut grown = 0;
        let directory = self.directories[directory].get_or_init(|| {
            let length = (FIRST_DIRECTORY as usize) << directory;
            grown += length * size_of::<AtomicPtr<Chunk>>();
            (0..length).map(|_| AtomicPtr::default()).collect()
        });
        if directory[at].load(Ordering::Relaxed).is_null() {
            directory[at].store(Box::into_raw(Box::default()), Ordering::Release);
            grown += size_of::<Chunk>();
        }
        grown
    }

    /// Takes a page out. The caller holds the shard's mutex and drops the page only after a grace period. Returns the bytes that
    /// the table shrank by, too.
    pub(super) fn take(&self, page: u32) -> Option<(Page, usize)> {
        let (number, at) = chunk_of(page);
        let mut present = self.present.lock();
        let chunk = self.chunk(number)?;
        chunk.addresses[at].swap(ptr::null_mut(), Ordering::AcqRel);
        let page = chunk.pages[at].swap(ptr::null_mut(), Ordering::AcqRel);
        if page.is_null() {
            return None;
        }
        // SAFETY: invariant 1: the word gave up its one reference just now.
        let page = unsafe { Arc::from_raw(page) };
        let left = present.get(&number).map_or(0, |count| count - 1);
        if left > 0 {
            present.insert(number, left);
            return Some((page, 0));
        }
        present.remove(&number);
        let chunk = self.slot(number)?.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: `grow` made it, its slot has lost it, and who loaded it before is pinned or waits for `present` (invariant 4).
        let chunk = unsafe { Box::from_raw(chunk) };
        crossbeam_epoch::pin().defer(move || drop(chunk));
        Some((page, size_of::<Chunk>()))
    }

    /// Takes one credit away; how much it had, or `None` where the page is not here.
    pub(super) fn spend(&self, number: u32) -> Option<usize> {
        let _present = self.present.lock();
        let (word, tagged) = self.load(number)?;
        let credit = tagged.as_ptr().addr() & CREDIT;
        if credit > 0 {
            let poorer = tagged.as_ptr().map_addr(|address| address - 1);
            let _ = word.compare_exchange(tagged.as_ptr(), poorer, Ordering::Relaxed, Ordering::Relaxed);
        }
        Some(credit)
    }

    /// The numbers of all pages that are here.
    pub(super) fn numbers(&self) -> Vec<u32> {
        let present = self.present.lock();
        let pages =
            present.keys().flat_map(|chunk| (0..CHUNK_PAGES as u32).map(move |at| chunk * CHUNK_PAGES as u32 + at));
        pages.filter(|page| self.load(*page).is_some()).collect()
    }

    /// Bytes of the directories: what is left of a table without pages.
    pub(super) fn directory_bytes(&self) -> usize {
        let lengths = self.directories.iter().filter_map(OnceLock::get).map(|directory| directory.len());
        lengths.sum::<usize>() * size_of::<AtomicPtr<Chunk>>()
    }
}

impl Drop for PageTable {
    fn drop(&mut self) {
        for slot in self.directories.iter_mut().filter_map(OnceLock::take).flatten() {
            let chunk = slot.into_inner();
            if chunk.is_null() {
                continue;
            }
            // SAFETY: `grow` made it, and readers hold the table, so none is left.
            let chunk = unsafe { Box::from_raw(chunk) };
            for page in chunk.pages {
                let page = page.into_inner();
                if !page.is_null() {
                    // SAFETY: invariant 1; as above.
                    drop(unsafe { Arc::from_raw(page) });
                }
            }
        }
    }
}

impl std::fmt::Debug for PageTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PageTable").field("file", &self.file).finish_non_exhaustive()
    }
}
