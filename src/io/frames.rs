//! Memory of small aligned buffers: slabs that are cut into frames of one to eight pages. The global allocator spends a
//! second page on every page-aligned buffer, so a cache of a million pages would take twice its budget. Frames are
//! reused, since a fresh page costs microseconds (`docs/costs.md`). The memory of free frames is returned to the system
//! on `release`, and when frames of another size need memory: a store whose pages change their sizes would otherwise have
//! the memory of all sizes that it ever had.
//!
//! The first slabs of a size are small, so that a small store stays small. Later slabs are huge pages, in which a
//! random read costs a third less, since the processor translates the address in one step.
//!
//! Any thread.
//!
//! Invariants:
//! 1. A frame is either in one of its class's lists or belongs to the one caller that got it from `take`.
//! 2. All bytes of a frame are initialized: slabs are zeroed, initialized bytes stay initialized, and memory that was
//!    returned to the system comes back zeroed.
//! 3. Slabs live as long as the process, so a frame's pointer never dangles. Only memory is returned to the system, and
//!    only while its frame is in no list.
//! 4. The system returns and zeroes whole pages of its own. Where these are larger than a frame, they belong to several
//!    frames, and nothing is returned (`is_returnable`).

use crate::util::arena::system_page_bytes;
use crate::util::fork::ForkCount;
use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::{AtomicUsize, Mutex, Ordering};
use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

/// Pages of the largest frame.
pub(super) const FRAME_PAGES_MAX: usize = 8;
/// A huge page of x86-64 and of ARM with 4 KiB pages.
const HUGE_BYTES: usize = 2 << 20;
const SMALL_BYTES: usize = 1 << 20;
/// The number of small slabs of a size before the huge ones.
const SMALL_SLABS: usize = 8;
/// Bytes of free frames that each size keeps when others need memory, so that sizes that take turns do not take the
/// same memory from each other.
const KEPT_BYTES: usize = 256 << 10;

#[derive(Clone, Copy)]
struct Frame(NonNull<u8>);

// SAFETY: a frame is plain memory with one owner at a time (invariant 1), on any thread.
unsafe impl Send for Frame {}

/// Frames of one size.
struct Frames {
    free: Vec<Frame>,
    /// Free frames without memory: the next access gets some from the system.
    bare: Vec<Frame>,
    slabs: usize,
}

/// The frames of all sizes.
struct Frameset {
    by_pages: [Mutex<Frames>; FRAME_PAGES_MAX],
    /// Bytes that will be returned to the system from frames that are not free yet.
    owed: AtomicUsize,
}

/// A forked child has frames of its own: at the fork, another thread of the parent may have locked those of the parent,
/// and then nothing unlocks them in the child. After so many forks, each by the child of the one before, sets are used again.
const FRAMESETS: usize = 16;

static FRAMES: [Frameset; FRAMESETS] = [const { Frameset::new() }; FRAMESETS];

fn frameset() -> &'static Frameset {
    &FRAMES[ForkCount::current().number() % FRAMESETS]
}

/// A frame of `pages` pages, 1 to `FRAME_PAGES_MAX`, with the bytes that its last owner left.
pub(super) fn take(pages: usize) -> NonNull<u8> {
    frameset().take(pages).0
}

/// Returns a frame.
///
/// # Safety
/// `frame` came from `take(pages)`, and nothing uses it any more.
pub(super) unsafe fn give_back(frame: NonNull<u8>, pages: usize) {
    frameset().give_back(Frame(frame), pages);
}

/// Returns this many bytes of memory to the system: those of free frames, and, if there are too few, those of the next
/// frames that become free. For a caller that has just freed them and will not need them soon. O(frames) system calls.
pub fn release(bytes: usize) {
    frameset().release(bytes);
}

impl Frameset {
    const fn new() -> Self {
        Self {
            by_pages: [const { Mutex::new(Frames { free: Vec::new(), bare: Vec::new(), slabs: 0 }) }; FRAME_PAGES_MAX],
            owed: AtomicUsize::new(0),
        }
    }

    fn of(&self, pages: usize) -> &Mutex<Frames> {
        &self.by_pages[pages - 1]
    }

    fn take(&self, pages: usize) -> Frame {
        let mut frames = self.of(pages).lock();
        if let Some(frame) = frames.free.pop() {
            return frame;
        }
        let (frame, bytes) = match frames.bare.pop() {
            Some(frame) => (frame, pages * IO_ALIGNMENT),
            None => {
                let bytes = frames.cut_slab(pages * IO_ALIGNMENT);
                match frames.free.pop() {
                    Some(frame) => (frame, bytes),
                    None => unreachable!("a slab holds several frames"),
                }
            }
        };
        drop(frames);
        self.strip_others(pages, bytes);
        frame
    }

    /// Returns about so many bytes of free frames of other sizes to the system, because frames of this size take as many.
    fn strip_others(&self, pages: usize, bytes: usize) {
        let mut left = bytes;
        let is_other = |others: &usize| *others != pages && is_returnable(*others, system_page_bytes());
        for others in (1..=FRAME_PAGES_MAX).filter(is_other) {
            let frame_bytes = others * IO_ALIGNMENT;
            while left > 0 {
                let excess = |frames: &mut Frames| match frames.free.len() * frame_bytes > KEPT_BYTES {
                    true => frames.free.pop(),
                    false => None,
                };
                let Some(frame) = excess(&mut self.of(others).lock()) else { break };
                frame.strip(others);
                self.of(others).lock().bare.push(frame);
                left = left.saturating_sub(frame_bytes);
            }
        }
    }

    fn give_back(&self, frame: Frame, pages: usize) {
        // Without the lock, so that a thread that needs a frame does not wait for the system.
        if self.pay(pages * IO_ALIGNMENT) {
            frame.strip(pages);
            self.of(pages).lock().bare.push(frame);
        } else {
            self.of(pages).lock().free.push(frame);
        }
    }

    fn release(&self, bytes: usize) {
        if !is_returnable(1, system_page_bytes()) {
            return;
        }
        self.owed.fetch_add(bytes, Ordering::Relaxed);
        for pages in (1..=FRAME_PAGES_MAX).rev() {
            let next = || self.of(pages).lock().free.pop();
            while self.owed.load(Ordering::Relaxed) >= pages * IO_ALIGNMENT
                && let Some(frame) = next()
            {
                self.give_back(frame, pages);
            }
        }
    }

    /// Subtracts the bytes from what will be returned to the system; false if that is less.
    fn pay(&self, bytes: usize) -> bool {
        self.owed.load(Ordering::Relaxed) >= bytes
            && self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |owed| owed.checked_sub(bytes)).is_ok()
    }
}

/// Whether frames of this many pages consist of whole pages of the system, which has pages of this size.
fn is_returnable(pages: usize, system_page_bytes: usize) -> bool {
    (pages * IO_ALIGNMENT).is_multiple_of(system_page_bytes)
}

impl Frame {
    /// Returns the frame's memory to the system. It then reads as zeroes.
    fn strip(&self, pages: usize) {
        // SAFETY: the frame is in no list (invariant 3) and has no owner, so nothing reads these whole pages of a slab.
        // If the advice is refused, they stay unchanged, which is initialized too.
        unsafe { libc::madvise(self.0.as_ptr().cast(), pages * IO_ALIGNMENT, libc::MADV_DONTNEED) };
    }
}

impl Frames {
    /// Makes a slab's frames free. Returns its bytes.
    fn cut_slab(&mut self, frame_bytes: usize) -> usize {
        let (bytes, alignment) =
            if self.slabs < SMALL_SLABS { (SMALL_BYTES, IO_ALIGNMENT) } else { (HUGE_BYTES, HUGE_BYTES) };
        let slab = new_slab(bytes, alignment);
        self.slabs += 1;
        self.free.reserve(bytes / frame_bytes);
        for at in (0..bytes / frame_bytes).rev() {
            // SAFETY: `at * frame_bytes + frame_bytes <= bytes`, so the frame lies inside the slab.
            self.free.push(Frame(unsafe { slab.add(at * frame_bytes) }));
        }
        bytes
    }
}

/// Zeroed memory that is never unmapped. Untouched, so that the advice comes before the first access.
fn new_slab(bytes: usize, alignment: usize) -> NonNull<u8> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), bytes + alignment, protection, flags, -1, 0) };
    let layout = Layout::array::<u8>(bytes).unwrap_or(Layout::new::<u8>());
    let Some(mapped) = NonNull::new(mapped.cast::<u8>()).filter(|_| mapped != libc::MAP_FAILED) else {
        handle_alloc_error(layout)
    };
    let before = mapped.as_ptr().align_offset(alignment);
    // SAFETY: `before` is below `alignment`, so the slab of `bytes` and what surrounds it are parts of the mapping,
    // which nothing else refers to yet; both ends are whole pages. Advice changes no contents. If it is refused, the
    // slab has small pages.
    unsafe {
        let slab = mapped.add(before);
        if before > 0 {
            libc::munmap(mapped.as_ptr().cast(), before);
        }
        libc::munmap(slab.add(bytes).as_ptr().cast(), alignment - before);
        if alignment == HUGE_BYTES {
            libc::madvise(slab.as_ptr().cast(), bytes, libc::MADV_HUGEPAGE);
        }
        slab
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// With pages of 16 or 64 KiB, the system would zero the neighbours of a frame that is returned.
    #[test]
    fn frames_smaller_than_the_systems_pages_are_not_returned() {
        assert!((1..=FRAME_PAGES_MAX).all(|pages| is_returnable(pages, 4096)));
        assert!((1..=3).all(|pages| !is_returnable(pages, 16 << 10)) && is_returnable(4, 16 << 10));
        assert!((1..=FRAME_PAGES_MAX).all(|pages| !is_returnable(pages, 64 << 10)));
    }

    const PAGES: usize = 7;
    const BYTES: usize = PAGES * IO_ALIGNMENT;

    #[test]
    fn released_frames_read_as_zeroes_and_are_taken_last() {
        let frames = Frameset::new();
        let addresses = |list: &[Frame]| list.iter().map(|frame| frame.0).collect::<Vec<_>>();
        // All frames of one slab.
        let mut taken = vec![frames.take(PAGES)];
        while !frames.of(PAGES).lock().free.is_empty() {
            taken.push(frames.take(PAGES));
        }
        let all = addresses(&taken);
        for frame in &taken {
            // SAFETY: the frame is ours and has this length.
            unsafe { frame.0.as_ptr().write_bytes(7, BYTES) };
        }
        taken.drain(..2).for_each(|frame| frames.give_back(frame, PAGES));
        // Three are to be returned: two that are free, and the next that becomes free.
        frames.release(3 * BYTES);
        taken.drain(..2).for_each(|frame| frames.give_back(frame, PAGES));
        assert_eq!(addresses(&frames.of(PAGES).lock().free), [all[3]]);
        assert_eq!(addresses(&frames.of(PAGES).lock().bare).len(), 3);
        assert_eq!(frames.take(PAGES).0, all[3], "frames with memory are taken first");
        let bare = frames.take(PAGES);
        assert!(all[..3].contains(&bare.0), "free frames are taken before a slab is cut");
        // SAFETY: the frame is ours and has this length.
        assert!(unsafe { std::slice::from_raw_parts(bare.0.as_ptr(), BYTES) }.iter().all(|byte| *byte == 0));
    }

    /// Free memory of a size stayed when pages of another size took more: a cache of 100 MiB whose pages changed from
    /// 8 KiB to 4 KiB had 160 MiB, and a store was killed at its memory limit.
    #[test]
    fn free_frames_of_other_sizes_lose_their_memory_when_a_size_takes_more() {
        const OTHERS: usize = 3;
        let frames = Frameset::new();
        let take = |pages: usize, bytes: usize| -> Vec<Frame> {
            (0..bytes / (pages * IO_ALIGNMENT)).map(|_| frames.take(pages)).collect()
        };
        let give_back = |taken: Vec<Frame>, pages: usize| taken.into_iter().for_each(|f| frames.give_back(f, pages));
        let with_memory = |pages: usize| frames.of(pages).lock().free.len() * pages * IO_ALIGNMENT;
        let bytes = 6 * SMALL_BYTES;
        give_back(take(PAGES, bytes), PAGES);
        let before = with_memory(PAGES);
        assert!(before > 5 * SMALL_BYTES, "{before}");

        // New slabs of another size.
        let others = take(OTHERS, bytes);
        let kept = with_memory(PAGES);
        assert!(kept > KEPT_BYTES / 2 && kept <= KEPT_BYTES, "{kept}");

        // Frames that are there, but have no memory any more.
        give_back(others, OTHERS);
        let taken = take(PAGES, bytes);
        let kept = with_memory(OTHERS);
        assert!(kept <= KEPT_BYTES + SMALL_BYTES, "{kept}");
        give_back(taken, PAGES);
    }
}
