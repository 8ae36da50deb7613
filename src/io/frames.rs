//! Where small aligned buffers come from: slabs cut into frames of one to eight pages. The global allocator spends a second
//! page on every page-aligned one; a cache of a million pages would take twice its budget. Frames are recycled, never given
//! back (`machine.md`: a fresh page costs microseconds).
//!
//! The first slabs of a size are small, so that a small store stays small; the later ones are huge pages, in which a random
//! read costs a third less, since the processor finds the address in one step.
//!
//! Any thread.
//!
//! Invariants:
//! 1. A frame is either in its class's free list or belongs to the one caller that `take` gave it to.
//! 2. All bytes of a frame are initialized: slabs come zeroed, and initialized bytes stay so.
//! 3. Slabs live as long as the process, so a frame's pointer never dangles.

use crate::base::limits::IO_ALIGNMENT;
use crate::base::sync::Mutex;
use std::alloc::{Layout, handle_alloc_error};
use std::ptr::NonNull;

/// Pages of the largest frame.
pub const FRAME_PAGES_MAX: usize = 8;
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
    slabs: usize,
}

/// Frames by their pages.
static FRAMES: [Mutex<Frames>; FRAME_PAGES_MAX] =
    [const { Mutex::new(Frames { free: Vec::new(), slabs: 0 }) }; FRAME_PAGES_MAX];

/// A frame of `pages` pages, 1 to `FRAME_PAGES_MAX`, with whatever bytes its last owner left.
pub fn take(pages: usize) -> NonNull<u8> {
    let mut frames = FRAMES[pages - 1].lock();
    if frames.free.is_empty() {
        frames.cut_slab(pages * IO_ALIGNMENT);
    }
    match frames.free.pop() {
        Some(frame) => frame.0,
        None => unreachable!("a slab holds several frames"),
    }
}

/// Takes a frame back.
///
/// # Safety
/// `frame` came from `take(pages)` and nobody uses it any more.
pub unsafe fn give_back(frame: NonNull<u8>, pages: usize) {
    FRAMES[pages - 1].lock().free.push(Frame(frame));
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

/// Zeroed memory that is never given back. Untouched, so that the advice comes before the first page.
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
