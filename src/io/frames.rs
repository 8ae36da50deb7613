//! Where small aligned buffers come from: slabs of a megabyte cut into frames of one to eight pages. The global allocator
//! spends a second page on every page-aligned one; a cache of a million pages would take twice its budget. Frames are
//! recycled, never given back (`machine.md`: a fresh page costs microseconds).
//!
//! Any thread.
//!
//! Invariants:
//! 1. A frame is either in its class's free list or belongs to the one caller that `take` gave it to.
//! 2. All bytes of a frame are initialized: slabs come zeroed, and initialized bytes stay so.
//! 3. Slabs live as long as the process, so a frame's pointer never dangles.

use crate::base::limits::IO_ALIGNMENT;
use crate::base::sync::Mutex;
use std::alloc::{Layout, alloc_zeroed, handle_alloc_error};
use std::ptr::NonNull;

/// Pages of the largest frame.
pub const FRAME_PAGES_MAX: usize = 8;
const SLAB_BYTES: usize = 1 << 20;

#[derive(Clone, Copy)]
struct Frame(NonNull<u8>);

// SAFETY: a frame is plain memory with one owner at a time (invariant 1), whichever thread that is on.
unsafe impl Send for Frame {}

/// Free frames by their pages.
static FREE: [Mutex<Vec<Frame>>; FRAME_PAGES_MAX] = [const { Mutex::new(Vec::new()) }; FRAME_PAGES_MAX];

/// A frame of `pages` pages, 1 to `FRAME_PAGES_MAX`, with whatever bytes its last owner left.
pub fn take(pages: usize) -> NonNull<u8> {
    let mut free = FREE[pages - 1].lock();
    if free.is_empty() {
        cut_slab(pages * IO_ALIGNMENT, &mut free);
    }
    match free.pop() {
        Some(frame) => frame.0,
        None => unreachable!("a slab holds several frames"),
    }
}

/// Takes a frame back.
///
/// # Safety
/// `frame` came from `take(pages)` and nobody uses it any more.
pub unsafe fn give_back(frame: NonNull<u8>, pages: usize) {
    FREE[pages - 1].lock().push(Frame(frame));
}

fn cut_slab(frame_bytes: usize, free: &mut Vec<Frame>) {
    // SAFETY: the size is not 0, the alignment is a power of two, and their sum is far below `isize::MAX`.
    let layout = unsafe { Layout::from_size_align_unchecked(SLAB_BYTES, IO_ALIGNMENT) };
    // SAFETY: the layout's size is not 0.
    let Some(slab) = NonNull::new(unsafe { alloc_zeroed(layout) }) else { handle_alloc_error(layout) };
    free.reserve(SLAB_BYTES / frame_bytes);
    for at in (0..SLAB_BYTES / frame_bytes).rev() {
        // SAFETY: `at * frame_bytes + frame_bytes <= SLAB_BYTES`, so the frame lies inside the slab.
        free.push(Frame(unsafe { slab.add(at * frame_bytes) }));
    }
}
