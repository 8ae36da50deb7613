//! Anonymous memory in one piece, allocated from front to back and recycled through a pool, so that the same pages are
//! never faulted in twice (the first touch of fresh memory costs microseconds a page).
//!
//! Any thread may allocate. A place in an arena is addressed by `Offset`, in units of eight bytes, so that a link takes
//! four bytes and an arena may have up to 32 GiB.
//!
//! A *use* of an arena lasts from `ArenaPool::take` until the `Arena` is dropped; `Arena::earlier_uses` counts the earlier uses
//! of the same memory.
//!
//! Invariants:
//! 1. Two allocations of one arena never overlap: both come from one `fetch_add`, whose atomicity alone decides, so
//!    `Relaxed` is enough. Publishing what was written there is up to the caller.
//! 2. Memory of a fresh arena is zero. Memory of a recycled one contains whatever its earlier uses left there.
//!    `Arena::earlier_uses` distinguishes them. The thread that allocates also initializes.
//! 3. An arena's memory stays mapped while the `Arena` lives. It returns to the pool in `drop`, which needs the only
//!    owner, so nobody reads the memory of one use in the next use.
//! 4. Address space beyond the soft size is reserved, not committed. An allocation beyond the soft size works, but its
//!    pages are returned to the system when the arena is recycled. The owner stops new work at the soft size; work in
//!    progress finds space in the slack.
//! 5. A pool counts an arena with its soft size, lent or idle. Idle arenas never make the sum exceed the pool's limit;
//!    lent ones may, because their owners decide.
//! 6. `populate` changes no byte: the kernel makes pages present, whatever other threads do with them meanwhile.

use super::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, OnceLock, Ordering};
use crossbeam_utils::CachePadded;
use std::io;
use std::ptr::NonNull;

/// Every allocation is a multiple of this and aligned to it, bytes.
pub const UNIT_BYTES: usize = 8;
/// The longest arena, bytes: the range of an offset of 32 bits.
pub const ARENA_BYTES_MAX: usize = UNIT_BYTES << 32;
/// The first allocation of every use begins here: offset 0 means "nothing", and the first cache line stays unused.
const FIRST_BYTES: usize = 64;
const HUGE_PAGE_BYTES: usize = 2 << 20;
/// Soft sizes are multiples of this.
const SOFT_UNIT_BYTES: usize = 4 << 10;
/// Arenas with a smaller soft size have no huge pages: the first touch of one would take more memory than their owner
/// asked for. Only for such arenas the kernel is told so, because it may use huge pages by itself.
const HUGE_SOFT_BYTES_MIN: usize = 4 << 20;
/// What one call of `Arena::populate` makes present, so that its thread soon looks for more urgent work.
pub const POPULATED_BYTES: usize = 16 << 20;

/// Bytes of a page of memory: 4096 on most systems, 16 KiB or 64 KiB on some.
pub fn system_page_bytes() -> usize {
    static BYTES: OnceLock<usize> = OnceLock::new();
    *BYTES.get_or_init(|| {
        // SAFETY: a system call without arguments in memory.
        let bytes = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        usize::try_from(bytes).ok().filter(|bytes| bytes.is_power_of_two()).unwrap_or(4096)
    })
}

/// A place in an arena, in units of eight bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Offset(pub u32);

impl Offset {
    /// No place: nothing is ever allocated there.
    pub const NULL: Self = Self(0);

    /// Whether this is `NULL`.
    pub fn is_null(self) -> bool {
        self == Self::NULL
    }

    /// The place `bytes` further on, a multiple of the unit.
    #[must_use]
    pub fn plus(self, bytes: usize) -> Self {
        debug_assert!(bytes.is_multiple_of(UNIT_BYTES));
        Self(self.0 + (bytes / UNIT_BYTES) as u32)
    }
}

/// Reserved address space, unmapped when dropped.
#[derive(Debug)]
struct Mapping {
    /// The address and length that the system returned.
    start: NonNull<u8>,
    length_bytes: usize,
    /// The start, or for arenas with huge pages the first huge-page boundary; offsets count from here.
    base: NonNull<u8>,
    soft_bytes: usize,
    capacity_bytes: usize,
    /// Whether it has been idle since the last call of `release_unused`.
    is_unused: AtomicBool,
    used_bytes: CachePadded<AtomicU64>,
    /// Most bytes of the soft part that any earlier use touched. Those pages are committed.
    touched_bytes: AtomicUsize,
    /// Bytes from `base` on whose pages `populate` has made present, or tried to.
    populated_bytes: AtomicUsize,
    earlier_uses: AtomicUsize,
}

// SAFETY: the mapping is plain memory that no thread owns. All fields that change are atomic, and invariant 1 decides
// who writes where.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(soft_bytes: usize, capacity_bytes: usize) -> io::Result<Self> {
        let has_huge_pages = soft_bytes >= HUGE_SOFT_BYTES_MIN;
        let length_bytes = capacity_bytes + if has_huge_pages { HUGE_PAGE_BYTES } else { 0 };
        // SAFETY: a new private anonymous mapping overlaps no existing memory.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                length_bytes,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        let start = if start == libc::MAP_FAILED { None } else { NonNull::new(start.cast::<u8>()) };
        let Some(start) = start else { return Err(io::Error::last_os_error()) };
        let skipped = if has_huge_pages { start.as_ptr().align_offset(HUGE_PAGE_BYTES) } else { 0 };
        // SAFETY: nothing is skipped, or the mapping is one huge page longer than the capacity, so that the next boundary
        // lies inside it.
        let base = unsafe { start.add(skipped) };
        let mapping = Self {
            start,
            length_bytes,
            base,
            soft_bytes,
            capacity_bytes,
            is_unused: AtomicBool::new(false),
            used_bytes: CachePadded::new(AtomicU64::new(FIRST_BYTES as u64)),
            touched_bytes: AtomicUsize::new(0),
            populated_bytes: AtomicUsize::new(0),
            earlier_uses: AtomicUsize::new(0),
        };
        #[cfg(target_os = "linux")]
        if has_huge_pages {
            mapping.advise(0, soft_bytes, libc::MADV_HUGEPAGE);
        } else {
            mapping.advise(0, capacity_bytes, libc::MADV_NOHUGEPAGE);
        }
        Ok(mapping)
    }

    /// Advises the kernel. If it refuses, only speed or memory is lost. Whether it took the advice.
    fn advise(&self, from_bytes: usize, to_bytes: usize, advice: libc::c_int) -> bool {
        let page = system_page_bytes();
        let from = from_bytes.next_multiple_of(page);
        let to = to_bytes.next_multiple_of(page).min(self.capacity_bytes);
        if from >= to {
            return true;
        }
        // SAFETY: both ends are inside the mapping. `MADV_DONTNEED` is used only in `recycle`, when no thread holds
        // the arena (invariant 3); the other kinds of advice change no content.
        unsafe { libc::madvise(self.base.as_ptr().add(from).cast(), to - from, advice) == 0 }
    }

    fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed) as usize
    }

    /// Prepares the mapping for its next use.
    fn recycle(&self) {
        let soft_bytes = self.soft_bytes;
        // A failed allocation has counted too; nothing beyond the mapping may be returned.
        let used_bytes = self.used_bytes().min(self.capacity_bytes);
        if used_bytes > soft_bytes {
            self.advise(soft_bytes, used_bytes, libc::MADV_DONTNEED);
        }
        self.touched_bytes.fetch_max(used_bytes.min(soft_bytes), Ordering::Relaxed);
        self.used_bytes.store(FIRST_BYTES as u64, Ordering::Relaxed);
        self.earlier_uses.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the mapping was made in `new` with this start and length, and nobody else knows it any more.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.length_bytes) };
    }
}

/// One use of a piece of memory. Dropping it returns the memory to the pool.
#[derive(Debug)]
pub struct Arena {
    base: NonNull<u8>,
    mapping: Arc<Mapping>,
    pool: Arc<ArenaPool>,
}

// SAFETY: `base` points into `mapping`, which is itself `Send` and `Sync`.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

impl Arena {
    /// Allocates `bytes` bytes, aligned to eight, uninitialized. Panics only if the slack is used up too, which the
    /// owner must prevent (invariant 4).
    pub fn allocate(&self, bytes: usize) -> Offset {
        let bytes = bytes.next_multiple_of(UNIT_BYTES) as u64;
        let at = self.mapping.used_bytes.fetch_add(bytes, Ordering::Relaxed);
        assert!(
            at + bytes <= self.mapping.capacity_bytes as u64,
            "the arena is used up: its owner allowed more than soft size and slack"
        );
        Offset((at / UNIT_BYTES as u64) as u32)
    }

    /// The address of a place. Only the thread that allocated it, or threads that it passed the place to, may
    /// dereference it.
    pub fn address(&self, at: Offset) -> *mut u8 {
        debug_assert!(at.0 as usize * UNIT_BYTES <= self.mapping.capacity_bytes);
        // `wrapping_add` requires nothing of `at`. A place that was allocated is inside the mapping.
        self.base.as_ptr().wrapping_add(at.0 as usize * UNIT_BYTES)
    }

    /// Prefetches the cache line of a place. Any offset is allowed, even `NULL`.
    pub fn prefetch(&self, at: Offset) {
        super::prefetch::line(self.address(at));
    }

    /// Whether `populate` was called for this many bytes; also true if the pages are so small that each costs little.
    pub fn is_populated(&self, bytes: usize) -> bool {
        self.mapping.soft_bytes < HUGE_SOFT_BYTES_MIN || self.mapping.populated_bytes.load(Ordering::Relaxed) >= bytes
    }

    /// Makes pages of the first `bytes` bytes of the soft part present, so that writers need not wait until the kernel has
    /// cleared them (invariant 6): up to `POPULATED_BYTES` more than there are, which takes up to tens of milliseconds. Any
    /// thread, beside writers. Where the system cannot do it, or has no memory, these bytes count as populated nevertheless.
    pub fn populate(&self, bytes: usize) {
        let mapping = &self.mapping;
        let bytes = bytes.min(mapping.soft_bytes);
        let start = mapping.populated_bytes.load(Ordering::Relaxed);
        let mut done = start;
        // In steps: until a call ends, no thread of the process can map or unmap memory.
        while done < bytes && done - start < POPULATED_BYTES {
            let to = (done + HUGE_PAGE_BYTES).min(mapping.soft_bytes);
            #[cfg(target_os = "linux")]
            let is_present = mapping.advise(done, to, libc::MADV_POPULATE_WRITE);
            #[cfg(not(target_os = "linux"))]
            let is_present = false;
            done = if is_present { to } else { bytes };
            mapping.populated_bytes.fetch_max(done, Ordering::Relaxed);
        }
    }

    /// Bytes allocated in this use.
    pub fn used_bytes(&self) -> usize {
        self.mapping.used_bytes()
    }

    /// Bytes of address space: the most that can be allocated in this use.
    pub fn capacity_bytes(&self) -> usize {
        self.mapping.capacity_bytes
    }

    /// The number of earlier uses of this memory. 0 means that it is fresh and reads as zero.
    pub fn earlier_uses(&self) -> usize {
        self.mapping.earlier_uses.load(Ordering::Relaxed)
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.pool.give_back(&self.mapping);
    }
}

/// Arenas that are in use or wait for their next use.
#[derive(Debug, Default)]
struct Shelf {
    lent: Vec<Arc<Mapping>>,
    /// Idle mappings. Of those of one size, the last one is taken first.
    idle: Vec<Arc<Mapping>>,
}

impl Shelf {
    fn bytes(&self) -> usize {
        self.lent.iter().chain(&self.idle).map(|mapping| mapping.soft_bytes).sum()
    }

    /// Takes out idle mappings, the least recently used first, until all memory fits, or none is idle.
    fn shrink_to(&mut self, limit_bytes: usize) -> Vec<Arc<Mapping>> {
        let mut gone = Vec::new();
        while self.bytes() > limit_bytes && !self.idle.is_empty() {
            gone.push(self.idle.remove(0));
        }
        gone
    }
}

/// Arenas of any sizes that share one limit. Any thread.
#[derive(Debug)]
pub struct ArenaPool {
    limit_bytes: AtomicUsize,
    shelf: Mutex<Shelf>,
}

impl ArenaPool {
    /// A pool that keeps idle arenas as long as all of its arenas together have at most `limit_bytes`.
    pub fn new(limit_bytes: usize) -> Arc<Self> {
        Arc::new(Self { limit_bytes: AtomicUsize::new(limit_bytes), shelf: Mutex::default() })
    }

    /// An arena that nobody else uses, recycled if one of this size is idle: `soft_bytes`, and at least `slack_bytes` of
    /// reserved address space after it. Fails if the system has no address space.
    pub fn take(self: &Arc<Self>, soft_bytes: usize, slack_bytes: usize) -> io::Result<Arena> {
        let soft_bytes = soft_bytes.next_multiple_of(SOFT_UNIT_BYTES);
        let capacity_bytes = (soft_bytes + slack_bytes).next_multiple_of(system_page_bytes());
        assert!(capacity_bytes <= ARENA_BYTES_MAX, "an arena of {capacity_bytes} bytes exceeds the range of an offset");
        let fits = |idle: &Arc<Mapping>| idle.soft_bytes == soft_bytes && idle.capacity_bytes >= capacity_bytes;
        let mut shelf = self.shelf.lock();
        let found = shelf.idle.iter().rposition(fits).map(|at| shelf.idle.remove(at));
        let mut gone = Vec::new();
        let mapping = match found {
            Some(mapping) => mapping,
            None => {
                gone = shelf.shrink_to(self.limit_bytes().saturating_sub(soft_bytes));
                Arc::new(Mapping::new(soft_bytes, capacity_bytes)?)
            }
        };
        mapping.is_unused.store(false, Ordering::Relaxed);
        shelf.lent.push(Arc::clone(&mapping));
        drop(shelf);
        // Unmapping takes long, so it happens without the lock.
        drop(gone);
        Ok(Arena { base: mapping.base, mapping, pool: Arc::clone(self) })
    }

    /// Bytes of memory of lent and idle arenas.
    #[cfg(test)]
    pub fn resident_bytes(&self) -> usize {
        let shelf = self.shelf.lock();
        let resident = |mapping: &Arc<Mapping>| mapping.used_bytes().max(mapping.touched_bytes.load(Ordering::Relaxed));
        shelf.lent.iter().chain(&shelf.idle).map(resident).sum()
    }

    /// Returns the memory of those arenas to the system that nobody took since the last call.
    pub fn release_unused(&self) {
        let mut shelf = self.shelf.lock();
        let idle = std::mem::take(&mut shelf.idle);
        let is_unused = |mapping: &Arc<Mapping>| mapping.is_unused.swap(true, Ordering::Relaxed);
        let (gone, kept): (Vec<_>, Vec<_>) = idle.into_iter().partition(is_unused);
        shelf.idle = kept;
        drop(shelf);
        drop(gone);
    }

    /// The number of arenas with memory, lent or idle.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        let shelf = self.shelf.lock();
        shelf.lent.len() + shelf.idle.len()
    }

    /// The bytes that lent arenas may fill.
    pub fn lent_bytes(&self) -> usize {
        self.shelf.lock().lent.iter().map(|mapping| mapping.soft_bytes).sum()
    }

    /// Bytes of the limit that no arena has.
    pub fn spare_bytes(&self) -> usize {
        self.limit_bytes().saturating_sub(self.shelf.lock().bytes())
    }

    /// Bytes that all arenas together should have at most.
    pub fn limit_bytes(&self) -> usize {
        self.limit_bytes.load(Ordering::Relaxed)
    }

    /// Changes the limit.
    pub fn set_limit(&self, limit_bytes: usize) {
        self.limit_bytes.store(limit_bytes, Ordering::Relaxed);
        let gone = self.shelf.lock().shrink_to(limit_bytes);
        drop(gone);
    }

    fn give_back(&self, mapping: &Arc<Mapping>) {
        mapping.recycle();
        let mut shelf = self.shelf.lock();
        shelf.lent.retain(|lent| !Arc::ptr_eq(lent, mapping));
        shelf.idle.push(Arc::clone(mapping));
        let gone = shelf.shrink_to(self.limit_bytes());
        drop(shelf);
        drop(gone);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_of_many_threads_never_overlap() {
        let arena = ArenaPool::new(2 << 20).take(1 << 20, 1 << 20).unwrap();
        let mut places: Vec<(u32, usize)> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4usize)
                .map(|thread| {
                    let arena = &arena;
                    scope.spawn(move || {
                        (0..2000).map(|i| (i * 7 + thread) % 61).map(|bytes| (arena.allocate(bytes).0, bytes)).collect()
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| -> Vec<_> { thread.join().unwrap() }).collect()
        });
        places.sort_unstable();
        for pair in places.windows(2) {
            assert!(pair[0].0 as usize * UNIT_BYTES + pair[0].1 <= pair[1].0 as usize * UNIT_BYTES);
        }
        assert!(places[0].0 as usize * UNIT_BYTES >= FIRST_BYTES);
    }

    #[test]
    fn recycling_keeps_soft_pages_and_releases_slack_pages() {
        let pool = ArenaPool::new(64 << 10);
        let take = || pool.take(64 << 10, 1 << 20).unwrap();
        let arena = take();
        assert_eq!(arena.earlier_uses(), 0);
        let whole = arena.allocate((64 << 10) + (256 << 10));
        let base = arena.address(whole);
        // SAFETY: the allocation belongs to this test and has this length.
        unsafe { base.write_bytes(0xab, (64 << 10) + (256 << 10)) };
        assert!(pool.resident_bytes() >= 320 << 10);
        drop(arena);
        assert_eq!(pool.resident_bytes(), 64 << 10);
        let again = take();
        assert_eq!(again.earlier_uses(), 1);
        assert_eq!(again.used_bytes(), FIRST_BYTES);
        assert_eq!(again.address(whole), base);
        // SAFETY: still the same mapping, lent to this test.
        unsafe {
            assert_eq!(base.read(), 0xab);
            assert_eq!(base.add((64 << 10) - FIRST_BYTES).read(), 0);
        }
    }

    #[test]
    fn arenas_unused_between_two_calls_are_released() {
        let pool = ArenaPool::new(3 * (64 << 10));
        let take = || pool.take(64 << 10, 0).unwrap();
        let three: Vec<_> = (0..3).map(|_| take()).collect();
        assert_eq!(pool.count(), 3);
        pool.release_unused();
        drop(three);
        // They were in use at the last call.
        pool.release_unused();
        assert_eq!(pool.count(), 3);
        // One at a time, so that two stay unused.
        drop(take());
        drop(take());
        pool.release_unused();
        assert_eq!(pool.count(), 1);
        let taken = take();
        assert!(taken.earlier_uses() > 0, "the arena in use was kept");
        pool.release_unused();
        drop(taken);
        pool.release_unused();
        assert_eq!(pool.count(), 1);
        pool.release_unused();
        assert_eq!(pool.count(), 0);
        assert_eq!(take().earlier_uses(), 0);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn populated_pages_are_present_and_keep_their_content() {
        const SOFT: usize = 8 << 20;
        let pool = ArenaPool::new(2 * SOFT);
        let arena = pool.take(SOFT, 1 << 20).unwrap();
        assert!(!arena.is_populated(1) && present_bytes(&arena, SOFT) == 0);
        let at = arena.allocate(64);
        // SAFETY: allocated above with this length, by this thread.
        unsafe { arena.address(at).write_bytes(0xcd, 64) };
        arena.populate(3 << 20);
        assert!(arena.is_populated(3 << 20) && !arena.is_populated(SOFT));
        assert_eq!(present_bytes(&arena, SOFT), 4 << 20);
        // SAFETY: as above.
        assert_eq!(unsafe { arena.address(at).add(63).read() }, 0xcd);
        arena.populate(2 * SOFT);
        assert_eq!(present_bytes(&arena, SOFT), SOFT);
        drop(arena);
        assert!(pool.take(SOFT, 1 << 20).unwrap().is_populated(SOFT), "in its next use as well");
        // A call makes a bounded part present.
        let large = ArenaPool::new(0).take(2 * POPULATED_BYTES, 0).unwrap();
        large.populate(2 * POPULATED_BYTES);
        assert!(large.is_populated(POPULATED_BYTES) && !large.is_populated(POPULATED_BYTES + 1));
        assert!(pool.take(1 << 20, 0).unwrap().is_populated(1 << 20), "small pages cost little");
    }

    /// The bytes of the soft part whose pages are present.
    #[cfg(target_os = "linux")]
    fn present_bytes(arena: &Arena, soft_bytes: usize) -> usize {
        let page = system_page_bytes();
        let mut present = vec![0u8; soft_bytes / page];
        // SAFETY: the range is inside the mapping, and the vector has a byte for each of its pages.
        let failed = unsafe { libc::mincore(arena.base.as_ptr().cast(), soft_bytes, present.as_mut_ptr()) };
        assert_eq!(failed, 0, "{}", io::Error::last_os_error());
        present.iter().filter(|present| **present & 1 == 1).count() * page
    }

    #[test]
    fn idle_arenas_stay_within_the_limit_and_make_room_for_other_sizes() {
        let pool = ArenaPool::new(160 << 10);
        let arenas: Vec<_> = (0..3).map(|_| pool.take(64 << 10, 0).unwrap()).collect();
        assert_eq!((pool.lent_bytes(), pool.spare_bytes()), (192 << 10, 0));
        for arena in &arenas {
            arena.allocate(32 << 10);
        }
        drop(arenas);
        assert_eq!((pool.lent_bytes(), pool.count(), pool.spare_bytes()), (0, 2, 32 << 10));
        // A larger one takes the place of one of them; a smaller one fits beside.
        let larger = pool.take(96 << 10, 0).unwrap();
        assert_eq!((larger.earlier_uses(), pool.count()), (0, 2));
        let same = pool.take(64 << 10, 0).unwrap();
        assert_eq!((same.earlier_uses(), pool.spare_bytes()), (1, 0));
        drop((larger, same));
        pool.set_limit(64 << 10);
        assert_eq!(pool.count(), 1);
        // An idle one with too little address space is of no use.
        assert_eq!(pool.take(64 << 10, 1 << 20).unwrap().earlier_uses(), 0);
    }

    #[test]
    fn reserving_too_much_address_space_is_an_error() {
        let pool = ArenaPool::new(1 << 20);
        let taken: io::Result<Vec<_>> = (0..1 << 14).map(|_| pool.take(1 << 20, 31 << 30)).collect();
        assert!(taken.is_err(), "512 TiB of address space are more than any system has");
    }
}
