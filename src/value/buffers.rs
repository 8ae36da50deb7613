//! The few buffers through which value files are written and read, kept so that their pages are not faulted in again
//! (`machine.md`: a fresh page costs microseconds, a megabyte of them a millisecond). Any thread.

use crate::format::value_file::{BLOCK_BYTES, HEADER_BYTES};
use crate::io::AlignedBuffer;
use crate::util::sync::Mutex;

/// Blocks moved by one system call; a megabyte is where direct I/O gets no faster.
pub(super) const PIECE_BLOCKS: usize = 16;

/// Buffers kept; more threads than this at once make and drop their own.
const KEPT_MAX: usize = 4;

/// Buffers at rest.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Vec<AlignedBuffer>>);

impl Buffers {
    /// A buffer for the header and `PIECE_BLOCKS` blocks, with old bytes in it.
    pub(super) fn take(&self) -> AlignedBuffer {
        let kept = self.0.lock().pop();
        kept.unwrap_or_else(|| AlignedBuffer::new(HEADER_BYTES + PIECE_BLOCKS * BLOCK_BYTES))
    }

    /// Hands a buffer back.
    pub(super) fn give_back(&self, buffer: AlignedBuffer) {
        let mut kept = self.0.lock();
        if kept.len() < KEPT_MAX {
            kept.push(buffer);
        }
    }
}
