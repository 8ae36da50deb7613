//! The memory of a shadow on a file system whose mappings cannot be trusted: memory of this process. A write then
//! returns only after writeback has handed its record to the kernel (`Log::write_through`). Any thread.

use crate::io::{AlignedBuffer, MappedFile};
use crate::util::Result;
use std::path::{Path, PathBuf};

/// Zeroed memory that is used like a mapped file.
#[derive(Debug)]
pub struct PrivateMemory {
    /// The store's directory, for messages.
    path: PathBuf,
    buffer: AlignedBuffer,
}

impl PrivateMemory {
    /// `length` zeroes.
    pub fn new(path: &Path, length: usize) -> Self {
        Self { path: path.to_path_buf(), buffer: AlignedBuffer::new(length) }
    }
}

impl MappedFile for PrivateMemory {
    fn path(&self) -> &Path {
        &self.path
    }

    fn pointer(&self) -> *mut u8 {
        self.buffer.pointer().as_ptr()
    }

    fn length(&self) -> usize {
        self.buffer.len()
    }

    fn prepare(&self, _offset: usize, _length: usize) {}

    /// Nothing of it is on any disk.
    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn check_writeback(&self) -> Result<()> {
        Ok(())
    }
}
