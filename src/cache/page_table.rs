//! The pages of one file that are in memory: from page number to address, without a lock and without hashing. Any
//! thread may look up. Only `CacheMemory` changes a table, under the mutex of the page's shard.
//!
//! The table is an array in chunks, found through directories. A chunk is allocated with its first page and freed with
//! its last, so tables stay small compared with the cached pages, however large the store. A lookup touches one line of
//! the directory, one of the chunk, and then the page itself: an epoch pins the page, and the clock's credit is in the
//! same word as the address.
//!
//! Invariants:
//! 1. The word `page` of a slot is null or owns one reference of an `Arc<PageBuffer>`. The word `address` is null or
//!    the address of that page's bytes, with credit and kind in the low bits (pages are aligned to 4096). `page` is set
//!    before `address` (`Release`) and cleared after it. So a thread that sees an address and then a page sees
//!    references to equal bytes.
//! 2. A reference that was taken out is dropped only when every thread that was pinned at that moment has unpinned
//!    (`crossbeam_epoch`). So a page that was loaded under a guard stays readable while the guard lives.
//! 3. A page in a slot has at least `PAGE_HEADER_BYTES` and the payload that its header announces (asserted by `put`).
//! 4. A thread that changes a table holds `present`, which counts the pages of each chunk. A chunk without pages is
//!    freed by the rule of invariant 2. So a chunk that was loaded under a guard, or under `present`, is valid.
//! 5. Directories are created once and freed with the table.

use super::page::{Page, PageBuffer};
use crate::format::page::{self, PAGE_HEADER_BYTES};
use crate::util::sync::{Arc, AtomicPtr, Mutex, OnceLock, Ordering};
use crate::util::{FileNumber, prefetch};
use crossbeam_epoch::Guard;
use std::collections::HashMap;
use std::marker::PhantomData;
use std::ptr::{self, NonNull};

/// Pages in a chunk. It is small: a page that is cached alone in its chunk has an overhead of an eighth of itself.
const CHUNK_PAGES: usize = 32;
/// Chunks of the first directory. Each further one has twice as many.
const FIRST_DIRECTORY: u64 = 16;
/// Number of directories for 2^32 pages.
const DIRECTORIES: usize = (33 - CHUNK_PAGES.ilog2() - FIRST_DIRECTORY.ilog2()) as usize;
/// The lowest bits of an address word: the clock's credit.
const CREDIT: usize = 0b111;
/// The most credit that a page can have.
pub const CREDIT_MAX: usize = CREDIT;
const KIND_SHIFT: u32 = 3;
const TAG: usize = 0b111_1111;

const _: () = assert!(TAG < crate::util::limits::IO_ALIGNMENT);

/// The slots of neighbouring pages. The addresses are stored together because gets touch only them.
#[derive(Default)]
struct Chunk {
    addresses: [AtomicPtr<u8>; CHUNK_PAGES],
    pages: [AtomicPtr<PageBuffer>; CHUNK_PAGES],
}

type Directory = Box<[AtomicPtr<Chunk>]>;

/// See the module documentation.
pub struct PageTable {
    file: FileNumber,
    /// Decides the shards of the file's pages.
    spread: usize,
    directories: [OnceLock<Directory>; DIRECTORIES],
    /// The number of pages in each chunk that has any, by the chunk's number.
    present: Mutex<HashMap<u32, u32>>,
}

/// The payload of a page, readable while the table and the guard of the lookup live.
#[derive(Clone, Copy, Debug)]
pub struct PageRef<'g> {
    bytes: NonNull<u8>,
    guard: PhantomData<&'g [u8]>,
}

impl<'g> PageRef<'g> {
    /// The raw payload.
    #[inline]
    pub fn payload(&self) -> &'g [u8] {
        // SAFETY: invariants 2 and 3; pages do not change while they are in a table.
        unsafe {
            let header = &*self.bytes.cast::<[u8; PAGE_HEADER_BYTES]>().as_ptr();
            std::slice::from_raw_parts(self.bytes.as_ptr().add(PAGE_HEADER_BYTES), page::raw_length(header))
        }
    }

    /// Prefetches the line at `offset` of the page; `offset` is below 4096.
    #[inline]
    pub fn prefetch(&self, offset: usize) {
        prefetch::line(self.bytes.as_ptr().wrapping_add(offset));
    }
}

/// A page that was taken out of a table.
pub(super) struct Taken {
    pub(super) page: Page,
    /// As passed to `put`.
    pub(super) kind: u8,
    /// The bytes that the table shrank by.
    pub(super) shrunk: usize,
}

/// The directory of a chunk, and the chunk's index in it.
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
    /// An empty table. `salt` distinguishes equal file numbers.
    pub fn new(file: FileNumber, salt: u64) -> Self {
        let spread = file.0.wrapping_add(salt << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        Self {
            spread: spread as usize,
            file,
            directories: std::array::from_fn(|_| OnceLock::new()),
            present: Mutex::default(),
        }
    }

    /// Decides the shards of the file's pages.
    pub(super) fn spread(&self) -> usize {
        self.spread
    }

    /// The slot of the chunk; `None` if its directory does not exist yet.
    #[inline]
    fn slot(&self, chunk: u32) -> Option<&AtomicPtr<Chunk>> {
        let (directory, at) = place(chunk);
        Some(&self.directories[directory].get()?[at])
    }

    /// The chunk, if it exists. The caller has pinned the epoch or holds `present` (invariant 4) for as long as it uses
    /// the chunk.
    #[inline]
    fn chunk(&self, chunk: u32) -> Option<&Chunk> {
        let chunk = NonNull::new(self.slot(chunk)?.load(Ordering::Acquire))?;
        // SAFETY: `grow` allocated it, and it is not freed while the caller keeps its promise.
        Some(unsafe { chunk.as_ref() })
    }

    /// The word and the tagged address of the page, if it is cached. The requirements of `chunk` apply.
    #[inline]
    fn load(&self, page: u32) -> Option<(&AtomicPtr<u8>, NonNull<u8>)> {
        let (chunk, at) = chunk_of(page);
        let address = &self.chunk(chunk)?.addresses[at];
        Some((address, NonNull::new(address.load(Ordering::Acquire))?))
    }

    /// The page and its kind as passed to `put`, if it is cached. It gains credit up to `credit_max`.
    #[inline]
    pub fn get<'g>(&'g self, page: u32, credit_max: usize, _guard: &'g Guard) -> Option<(PageRef<'g>, u8)> {
        let (word, tagged) = self.load(page)?;
        let tag = tagged.as_ptr().addr() & TAG;
        if tag & CREDIT < credit_max {
            // Relaxed, without a retry: credit orders nothing, and a lost hit changes little.
            let richer = tagged.as_ptr().map_addr(|address| address + 1);
            let _ = word.compare_exchange(tagged.as_ptr(), richer, Ordering::Relaxed, Ordering::Relaxed);
        }
        let bytes = NonNull::new(tagged.as_ptr().map_addr(|address| address & !TAG))?;
        Some((PageRef { bytes, guard: PhantomData }, (tag >> KIND_SHIFT) as u8))
    }

    /// The page, if it is cached, without a gain of credit. For prefetching.
    #[inline]
    pub fn peek<'g>(&'g self, page: u32, _guard: &'g Guard) -> Option<PageRef<'g>> {
        let (_, tagged) = self.load(page)?;
        let bytes = NonNull::new(tagged.as_ptr().map_addr(|address| address & !TAG))?;
        Some(PageRef { bytes, guard: PhantomData })
    }

    /// Prefetches the slot of the page.
    #[inline]
    pub fn prefetch(&self, page: u32, _guard: &Guard) {
        let (chunk, at) = chunk_of(page);
        if let Some(chunk) = self.chunk(chunk) {
            prefetch::line(&raw const chunk.addresses[at]);
            prefetch::line(&raw const chunk.pages[at]);
        }
    }

    /// Prefetches the line that `pin` touches after the slot of the page.
    #[inline]
    pub fn prefetch_pin(&self, page: u32, _guard: &Guard) {
        let (chunk, at) = chunk_of(page);
        if let Some(chunk) = self.chunk(chunk) {
            // The reference counts of an `Arc` are in front of its contents.
            prefetch::line(chunk.pages[at].load(Ordering::Acquire).cast::<u8>().wrapping_sub(16));
        }
    }

    /// A counted reference to the page, if it is cached. It is independent of guard and eviction.
    pub fn pin(&self, page: u32, _guard: &Guard) -> Option<Page> {
        let (chunk, at) = chunk_of(page);
        let page = self.chunk(chunk)?.pages[at].load(Ordering::Acquire);
        if page.is_null() {
            return None;
        }
        // SAFETY: by invariants 1 and 2 the slot's reference was not dropped yet and will not be while the guard lives.
        unsafe {
            Arc::increment_strong_count(page);
            Some(Arc::from_raw(page))
        }
    }

    /// Whether the page is cached.
    pub(super) fn contains(&self, page: u32) -> bool {
        let _present = self.present.lock();
        self.load(page).is_some()
    }

    /// Adds a page. The caller holds the shard's mutex, and the page is not in the table. Returns the bytes that the
    /// table grew by.
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
        // `grow` made sure that the chunk exists, and it has a page from now on.
        if let Some(chunk) = self.chunk(number) {
            debug_assert!(chunk.addresses[at].load(Ordering::Relaxed).is_null());
            chunk.pages[at].store(Arc::into_raw(page).cast_mut(), Ordering::Release);
            chunk.addresses[at].store(address, Ordering::Release);
        }
        grown
    }

    /// Allocates the chunk with this number if it does not exist. The caller holds `present`. Returns the allocated
    /// bytes.
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

    /// Takes a page out. The caller holds the shard's mutex and drops the page only after a grace period.
    pub(super) fn take(&self, page: u32) -> Option<Taken> {
        let (number, at) = chunk_of(page);
        let mut present = self.present.lock();
        let chunk = self.chunk(number)?;
        let tag = chunk.addresses[at].swap(ptr::null_mut(), Ordering::AcqRel).addr() & TAG;
        let page = chunk.pages[at].swap(ptr::null_mut(), Ordering::AcqRel);
        if page.is_null() {
            return None;
        }
        // SAFETY: invariant 1: the slot has just given up its one reference.
        let page = unsafe { Arc::from_raw(page) };
        let kind = (tag >> KIND_SHIFT) as u8;
        let left = present.get(&number).map_or(0, |count| count - 1);
        if left > 0 {
            present.insert(number, left);
            return Some(Taken { page, kind, shrunk: 0 });
        }
        present.remove(&number);
        let chunk = self.slot(number)?.swap(ptr::null_mut(), Ordering::AcqRel);
        // SAFETY: `grow` allocated it, its slot no longer has it, and threads that loaded it before are pinned or wait
        // for `present` (invariant 4).
        let chunk = unsafe { Box::from_raw(chunk) };
        crossbeam_epoch::pin().defer(move || drop(chunk));
        Some(Taken { page, kind, shrunk: size_of::<Chunk>() })
    }

    /// Takes one credit away. Returns the credit before; `None` if the page is not cached.
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

    /// The numbers of all cached pages.
    pub(super) fn numbers(&self) -> Vec<u32> {
        let present = self.present.lock();
        let pages =
            present.keys().flat_map(|chunk| (0..CHUNK_PAGES as u32).map(move |at| chunk * CHUNK_PAGES as u32 + at));
        pages.filter(|page| self.load(*page).is_some()).collect()
    }

    /// Bytes of the directories, which remain in a table without pages.
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
            // SAFETY: `grow` allocated it, and readers keep the table alive, so there are none.
            let chunk = unsafe { Box::from_raw(chunk) };
            for page in chunk.pages {
                let page = page.into_inner();
                if !page.is_null() {
                    // SAFETY: invariant 1, and there are no readers, as above.
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
