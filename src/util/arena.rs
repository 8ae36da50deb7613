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

use super::sync::{Arc, AtomicU64, AtomicUsize, Mutex, Ordering};
use crossbeam_utils::CachePadded;
use std::ptr::NonNull;

/// Every allocation is a multiple of this and aligned to it, bytes.
pub const UNIT_BYTES: usize = 8;
/// The longest arena, bytes: the range of an offset of 32 bits.
pub const ARENA_BYTES_MAX: usize = UNIT_BYTES << 32;
/// The first allocation of every use begins here: offset 0 means "nothing", and the first cache line stays unused.
const FIRST_BYTES: usize = 64;
const HUGE_PAGE_BYTES: usize = 2 << 20;
const PAGE_BYTES: usize = 4 << 10;

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
    /// The first huge-page boundary in it; offsets count from here.
    base: NonNull<u8>,
    used_bytes: CachePadded<AtomicU64>,
    /// Most bytes of the soft part that any earlier use touched. Those pages are committed.
    touched_bytes: AtomicUsize,
    earlier_uses: AtomicUsize,
}

// SAFETY: the mapping is plain memory that no thread owns. All fields that change are atomic, and invariant 1 decides
// who writes where.
unsafe impl Send for Mapping {}
// SAFETY: as above.
unsafe impl Sync for Mapping {}

impl Mapping {
    fn new(soft_bytes: usize, capacity_bytes: usize) -> Self {
        let length_bytes = capacity_bytes + HUGE_PAGE_BYTES;
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
        let Some(start) = start else {
            // Running out of address space is running out of memory, and is treated as for every allocation of the
            // process.
            std::alloc::handle_alloc_error(std::alloc::Layout::new::<[u8; PAGE_BYTES]>());
        };
        // SAFETY: the mapping is one huge page longer than the capacity, so the next boundary lies inside it.
        let base = unsafe { start.add(start.as_ptr().align_offset(HUGE_PAGE_BYTES)) };
        let mapping = Self {
            start,
            length_bytes,
            base,
            used_bytes: CachePadded::new(AtomicU64::new(FIRST_BYTES as u64)),
            touched_bytes: AtomicUsize::new(0),
            earlier_uses: AtomicUsize::new(0),
        };
        #[cfg(target_os = "linux")]
        mapping.advise(0, soft_bytes, libc::MADV_HUGEPAGE);
        mapping
    }

    /// Advises the kernel. If it refuses, only speed or memory is lost, so the result is ignored.
    fn advise(&self, from_bytes: usize, to_bytes: usize, advice: libc::c_int) {
        let from = from_bytes.next_multiple_of(PAGE_BYTES);
        let to = to_bytes.next_multiple_of(PAGE_BYTES);
        if from < to {
            // SAFETY: both ends are inside the mapping. `MADV_DONTNEED` is used only in `recycle`, when nobody holds
            // the arena (invariant 3).
            unsafe { libc::madvise(self.base.as_ptr().add(from).cast(), to - from, advice) };
        }
    }

    fn used_bytes(&self) -> usize {
        self.used_bytes.load(Ordering::Relaxed) as usize
    }

    /// Prepares the mapping for its next use.
    fn recycle(&self, soft_bytes: usize) {
        // A failed allocation has counted too; nothing beyond the mapping may be returned.
        let used_bytes = self.used_bytes().min(self.length_bytes - HUGE_PAGE_BYTES);
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
            at + bytes <= self.pool.capacity_bytes as u64,
            "the arena is used up: its owner allowed more than soft size and slack"
        );
        Offset((at / UNIT_BYTES as u64) as u32)
    }

    /// The address of a place. Only the thread that allocated it, or threads that it passed the place to, may
    /// dereference it.
    pub fn address(&self, at: Offset) -> *mut u8 {
        debug_assert!(at.0 as usize * UNIT_BYTES <= self.pool.capacity_bytes);
        // `wrapping_add` requires nothing of `at`. A place that was allocated is inside the mapping.
        self.base.as_ptr().wrapping_add(at.0 as usize * UNIT_BYTES)
    }

    /// Prefetches the cache line of a place. Any offset is allowed, even `NULL`.
    pub fn prefetch(&self, at: Offset) {
        super::prefetch::line(self.address(at));
    }

    /// Bytes allocated in this use.
    pub fn used_bytes(&self) -> usize {
        self.mapping.used_bytes()
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

#[derive(Debug, Default)]
struct Shelf {
    lent: Vec<Arc<Mapping>>,
    /// Idle mappings. The last one is taken first.
    idle: Vec<Arc<Mapping>>,
    /// The fewest that were idle since the last `release_unused`.
    idle_least: usize,
}

/// Arenas of one size. Any thread.
#[derive(Debug)]
pub struct ArenaPool {
    soft_bytes: usize,
    capacity_bytes: usize,
    idle_max: usize,
    shelf: Mutex<Shelf>,
}

impl ArenaPool {
    /// A pool of arenas of `soft_bytes`, each with `slack_bytes` of reserved address space after it. At most `idle_max`
    /// idle arenas keep their memory.
    pub fn new(soft_bytes: usize, slack_bytes: usize, idle_max: usize) -> Arc<Self> {
        let soft_bytes = soft_bytes.next_multiple_of(PAGE_BYTES);
        let capacity_bytes = soft_bytes + slack_bytes;
        assert!(capacity_bytes <= ARENA_BYTES_MAX, "an arena of {capacity_bytes} bytes exceeds the range of an offset");
        Arc::new(Self { soft_bytes, capacity_bytes, idle_max, shelf: Mutex::default() })
    }

    /// An arena that nobody else uses, recycled if possible.
    pub fn take(self: &Arc<Self>) -> Arena {
        let mut shelf = self.shelf.lock();
        let mapping = shelf.idle.pop().unwrap_or_else(|| Arc::new(Mapping::new(self.soft_bytes, self.capacity_bytes)));
        shelf.idle_least = shelf.idle_least.min(shelf.idle.len());
        shelf.lent.push(Arc::clone(&mapping));
        Arena { base: mapping.base, mapping, pool: Arc::clone(self) }
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
        let unused = shelf.idle_least;
        let gone: Vec<_> = shelf.idle.drain(..unused).collect();
        shelf.idle_least = shelf.idle.len();
        drop(shelf);
        drop(gone);
    }

    /// The number of arenas with memory, lent or idle.
    pub fn count(&self) -> usize {
        let shelf = self.shelf.lock();
        shelf.lent.len() + shelf.idle.len()
    }

    /// Bytes of an arena that its owner fills and that it keeps while idle.
    pub fn soft_bytes(&self) -> usize {
        self.soft_bytes
    }

    fn give_back(&self, mapping: &Arc<Mapping>) {
        mapping.recycle(self.soft_bytes);
        let mut shelf = self.shelf.lock();
        shelf.lent.retain(|lent| !Arc::ptr_eq(lent, mapping));
        if shelf.idle.len() < self.idle_max {
            shelf.idle.push(Arc::clone(mapping));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocations_of_many_threads_never_overlap() {
        let pool = ArenaPool::new(1 << 20, 1 << 20, 2);
        let arena = pool.take();
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
        let pool = ArenaPool::new(64 << 10, 1 << 20, 1);
        let arena = pool.take();
        assert_eq!(arena.earlier_uses(), 0);
        let whole = arena.allocate((64 << 10) + (256 << 10));
        let base = arena.address(whole);
        // SAFETY: the allocation belongs to this test and has this length.
        unsafe { base.write_bytes(0xab, (64 << 10) + (256 << 10)) };
        assert!(pool.resident_bytes() >= 320 << 10);
        drop(arena);
        assert_eq!(pool.resident_bytes(), 64 << 10);
        let again = pool.take();
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
        let pool = ArenaPool::new(64 << 10, 0, 3);
        let three: Vec<_> = (0..3).map(|_| pool.take()).collect();
        assert_eq!(pool.count(), 3);
        pool.release_unused();
        drop(three);
        // They were in use at the last call.
        pool.release_unused();
        assert_eq!(pool.count(), 3);
        // One at a time, so that two stay unused.
        drop(pool.take());
        drop(pool.take());
        pool.release_unused();
        assert_eq!(pool.count(), 1);
        let taken = pool.take();
        assert!(taken.earlier_uses() > 0, "the arena in use was kept");
        pool.release_unused();
        drop(taken);
        pool.release_unused();
        assert_eq!(pool.count(), 1);
        pool.release_unused();
        assert_eq!(pool.count(), 0);
        assert_eq!(pool.take().earlier_uses(), 0);
    }

    #[test]
    fn at_most_the_allowed_number_of_arenas_stays_idle() {
        let pool = ArenaPool::new(64 << 10, 0, 1);
        let arenas: Vec<_> = (0..3).map(|_| pool.take()).collect();
        for arena in &arenas {
            arena.allocate(32 << 10);
        }
        drop(arenas);
        assert_eq!(pool.shelf.lock().idle.len(), 1);
        assert!(pool.shelf.lock().lent.is_empty());
        assert_eq!(pool.take().earlier_uses(), 1);
    }
}
