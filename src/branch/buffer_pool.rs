//! A pool of aligned buffers: the first touch of fresh memory costs microseconds a page, reuse costs nothing. Any
//! thread.

use crate::io::AlignedBuffer;
use crate::util::sync::Mutex;

/// Idle buffers of one length. The pool keeps at most `idle_max`.
#[derive(Debug)]
pub struct BufferPool {
    length: usize,
    idle_max: usize,
    idle: Mutex<Vec<AlignedBuffer>>,
}

impl BufferPool {
    /// An empty pool.
    pub fn new(length: usize, idle_max: usize) -> Self {
        Self { length, idle_max, idle: Mutex::new(Vec::new()) }
    }

    /// A buffer with unspecified contents.
    pub fn take(&self) -> AlignedBuffer {
        let idle = self.idle.lock().pop();
        idle.unwrap_or_else(|| AlignedBuffer::new(self.length))
    }

    /// Returns a buffer to the pool. A buffer of another length is freed.
    pub fn give(&self, buffer: AlignedBuffer) {
        let mut idle = self.idle.lock();
        if buffer.len() == self.length && idle.len() < self.idle_max {
            idle.push(buffer);
        }
    }
}
