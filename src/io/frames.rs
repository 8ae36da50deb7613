//! Where small aligned buffers come from: slabs cut into frames of one to eight pages. The global allocator spends a second
//! page on every page-aligned one; a cache of a million pages would take twice its budget. Frames are recycled
//! (`machine.md`: a fresh page costs microseconds); the system gets the memory of free ones back only where `release` says that it is
//! wanted elsewhere.
//!
//! The first slabs of a size are small, so that a small store stays small; the later ones are huge pages, in which a random
//! read costs a third less, since the processor finds the address in one step.
//!
//! Any thread.
//!
//! Invariants:
//! 1. A frame is either in one of its class's lists or belongs to the one caller that `take` gave it to.
//! 2. All bytes of a frame are initialized: slabs come zeroed, initialized bytes stay so, and what the system took back it gives zeroed.
//! 3. Slabs live as long as the process, so a frame's pointer never dangles. Only memory goes back to the system, and only while its
//!    frame is in no list.

use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::{AtomicUsize, Mutex, Ordering};
use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

/// Pages of the largest frame.
pub(super) const FRAME_PAGES_MAX: usize = 8;
/// A huge page of x86-64 and of ARM with 4 KiB pages.
const HUGE_BYTES: usize = 2 << 20;
const SMALL_BYTES: usize = 1 << 20;
/// Small slabs of a size before the huge ones.
const SMALL_SLABS: usize = 8;

#[derive(Clone, Copy)]
struct Frame(NonNull<u8>);

// SAFETY: a frame is plain memory with one owner at a time (invariant 1), whichever thread that is on.
unsafe impl Send for Frame {}

/// Frames of one size.
struct Frames {
    free: Vec<Frame>,
    /// Free ones without memory: the next touch brings some.
    bare: Vec<Frame>,
    slabs: usize,
}

/// The frames of all sizes.
struct Frameset {
    by_pages: [Mutex<Frames>; FRAME_PAGES_MAX],
    /// Bytes that the system is to get back of frames that are not free yet.
    owed: AtomicUsize,
}

static FRAMES: Frameset = Frameset::new();

/// A frame of `pages` pages, 1 to `FRAME_PAGES_MAX`, with whatever bytes its last owner left.
pub(super) fn take(pages: usize) -> NonNull<u8> {
    FRAMES.take(pages).0
}

/// Takes a frame back.
///
/// # Safety
/// `frame` came from `take(pages)` and nobody uses it any more.
pub(super) unsafe fn give_back(frame: NonNull<u8>, pages: usize) {
    FRAMES.give_back(Frame(frame), pages);
}

/// Gives so many bytes of memory back to the system: those of frames that are free, and where they are too few those of the next that
/// come free. For who has just given them up and will not ask for them soon; O(frames) system calls.
pub fn release(bytes: usize) {
    FRAMES.release(bytes);
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
        if let Some(frame) = frames.free.pop().or_else(|| frames.bare.pop()) {
            return frame;
        }
        frames.cut_slab(pages * IO_ALIGNMENT);
        match frames.free.pop() {
            Some(frame) => frame,
            None => unreachable!("a slab holds several frames"),
        }
    }

    fn give_back(&self, frame: Frame, pages: usize) {
        // Without the lock: who wants a frame does not wait for the system.
        if self.pay(pages * IO_ALIGNMENT) {
            frame.strip(pages);
            self.of(pages).lock().bare.push(frame);
        } else {
            self.of(pages).lock().free.push(frame);
        }
    }

    fn release(&self, bytes: usize) {
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

    /// Takes the bytes off what the system is to get; false where that is less.
    fn pay(&self, bytes: usize) -> bool {
        self.owed.load(Ordering::Relaxed) >= bytes
            && self.owed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |owed| owed.checked_sub(bytes)).is_ok()
    }
}

impl Frame {
    /// Gives its memory back. It reads as zeroes then.
    fn strip(&self, pages: usize) {
        // SAFETY: the frame is in no list (invariant 3) and has no owner, so nobody reads these whole pages of a slab. Where the advice
        // is refused they stay as they are, which is initialized too.
        unsafe { libc::madvise(self.0.as_ptr().cast(), pages * IO_ALIGNMENT, libc::MADV_DONTNEED) };
    }
}

impl Frames {
    fn cut_slab(&mut self, frame_bytes: usize) {
        let (bytes, alignment) =
            if self.slabs < SMALL_SLABS { (SMALL_BYTES, IO_ALIGNMENT) } else { (HUGE_BYTES, HUGE_BYTES) };
        let slab = new_slab(bytes, alignment);
        self.slabs += 1;
        self.free.reserve(bytes / frame_bytes);
        for at in (0..bytes / frame_bytes).rev() {
            // SAFETY: `at * frame_bytes + frame_bytes <= bytes`, so the frame lies inside the slab.
            self.free.push(Frame(unsafe { slab.add(at * frame_bytes) }));
        }
    }
}

/// Zeroed memory whose addresses are never given back. Untouched, so that the advice comes before the first page.
fn new_slab(bytes: usize, alignment: usize) -> NonNull<u8> {
    let (protection, flags) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: a new mapping at an address of the kernel's choice touches no memory that is in use.
    let mapped = unsafe { libc::mmap(std::ptr::null_mut(), bytes + alignment, protection, flags, -1, 0) };
    let layout = Layout::array::<u8>(bytes).unwrap_or(Layout::new::<u8>());
    let Some(mapped) = NonNull::new(mapped.cast::<u8>()).filter(|_| mapped != libc::MAP_FAILED) else {
        handle_alloc_error(layout)
    };
    let before = mapped.as_ptr().align_offset(alignment);
    // SAFETY: `before` is below `alignment`, so the slab of `bytes` and what lies around it are parts of the mapping. Nobody
    // knows of them yet; both ends are whole pages. Advice changes no contents: where it is refused, small pages do.
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

    const PAGES: usize = 7;
    const BYTES: usize = PAGES * IO_ALIGNMENT;

    #[test]
    fn what_is_released_reads_as_zeroes_and_is_taken_last() {
        let frames = Frameset::new();
        let addresses = |list: &[Frame]| list.iter().map(|frame| frame.0).collect::<Vec<_>>();
        // All of one slab.
        let mut taken = vec![frames.take(PAGES)];
        while !frames.of(PAGES).lock().free.is_empty() {
            taken.push(frames.take(PAGES));
        }
        let all = addresses(&taken);
        for frame in &taken {
            // SAFETY: the frame is ours and this long.
            unsafe { frame.0.as_ptr().write_bytes(7, BYTES) };
        }
        taken.drain(..2).for_each(|frame| frames.give_back(frame, PAGES));
        // Three are owed: two that are free, and the next that comes free.
        frames.release(3 * BYTES);
        taken.drain(..2).for_each(|frame| frames.give_back(frame, PAGES));
        assert_eq!(addresses(&frames.of(PAGES).lock().free), [all[3]]);
        assert_eq!(addresses(&frames.of(PAGES).lock().bare).len(), 3);
        assert_eq!(frames.take(PAGES).0, all[3], "what has memory is taken first");
        let bare = frames.take(PAGES);
        assert!(all[..3].contains(&bare.0), "and before a slab is cut");
        // SAFETY: the frame is ours and this long.
        assert!(unsafe { std::slice::from_raw_parts(bare.0.as_ptr(), BYTES) }.iter().all(|byte| *byte == 0));
    }
}
