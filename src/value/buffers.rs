//! A few reused buffers for writing and reading value files: the first touch of fresh memory costs microseconds a page,
//! a millisecond for a megabyte. Any thread.

use crate::format::value_file::{BLOCK_BYTES, HEADER_BYTES};
use crate::io::AlignedBuffer;
use crate::util::sync::Mutex;

/// Blocks per system call. Direct I/O gets no faster beyond a megabyte.
pub(super) const PIECE_BLOCKS: usize = 16;

/// Most idle buffers. If more threads need one at once, they allocate and free their own.
const IDLE_MAX: usize = 4;

/// Idle buffers.
#[derive(Debug, Default)]
pub(super) struct Buffers(Mutex<Vec<AlignedBuffer>>);

impl Buffers {
    /// A buffer for the header and `PIECE_BLOCKS` blocks, with unspecified contents.
    pub(super) fn take(&self) -> AlignedBuffer {
        let kept = self.0.lock().pop();
        kept.unwrap_or_else(|| AlignedBuffer::new(HEADER_BYTES + PIECE_BLOCKS * BLOCK_BYTES))
    }

    /// Returns a buffer.
    pub(super) fn give(&self, buffer: AlignedBuffer) {
        let mut kept = self.0.lock();
        if kept.len() < IDLE_MAX {
            kept.push(buffer);
        }
    }
}
