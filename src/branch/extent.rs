//! Reads leaves by the extent: one large read instead of one a page (SplinterDB §2.3, extents and prefetching). One
//! thread at a time.
//!
//! Invariant: `buffer[..filled]` holds the file's bytes from `start`; `filled` is 0 after an error.

use super::branch::{Branch, Purpose};
use super::page_read::Wanted;
use super::pool::BufferPool;
use crate::base::Result;
use crate::base::sync::Arc;
use crate::io::AlignedBuffer;
use std::ops::Range;

/// A window of a branch file in memory.
pub struct ExtentReader {
    branch: Arc<Branch>,
    purpose: Purpose,
    buffer: Option<AlignedBuffer>,
    start: u64,
    filled: usize,
}

impl ExtentReader {
    /// An empty window; memory is taken at first use.
    pub fn new(branch: Arc<Branch>, purpose: Purpose) -> Self {
        Self { branch, purpose, buffer: None, start: 0, filled: 0 }
    }

    fn pool(&self) -> &BufferPool {
        match self.purpose {
            Purpose::Read => &self.branch.context().read_ahead,
            Purpose::Compaction => &self.branch.context().extents,
        }
    }

    /// Where in `bytes()` the page stands; reads the extent that starts (or, going backward, ends) with it where it is
    /// not there yet.
    pub fn page(&mut self, wanted: Wanted, backward: bool) -> Result<Range<usize>> {
        if let Some(at) = self.position(wanted) {
            return Ok(at);
        }
        let footer = *self.branch.footer()?;
        self.branch.check_bounds(wanted, &footer)?;
        let mut buffer = self.buffer.take().unwrap_or_else(|| self.pool().take());
        if buffer.len() < wanted.bytes {
            self.pool().give(buffer);
            buffer = AlignedBuffer::new(wanted.bytes);
        }
        let end = wanted.offset + wanted.bytes as u64;
        let start = if backward { end.saturating_sub(buffer.len() as u64) } else { wanted.offset };
        // Leaves and index pages end where the fingerprints start.
        let data_end = footer.fingerprints_at.max(end);
        let length = (data_end - start).min(buffer.len() as u64) as usize;
        self.filled = 0;
        let buffer = self.buffer.insert(buffer);
        self.branch.file()?.read_exact_at(&mut buffer[..length], start)?;
        (self.start, self.filled) = (start, length);
        let at = (wanted.offset - start) as usize;
        Ok(at..at + wanted.bytes)
    }

    fn position(&self, wanted: Wanted) -> Option<Range<usize>> {
        let at = usize::try_from(wanted.offset.checked_sub(self.start)?).ok()?;
        let end = at.checked_add(wanted.bytes)?;
        (end <= self.filled).then_some(at..end)
    }

    /// Bytes of the window.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.buffer.as_deref().and_then(|buffer| buffer.get(range)).unwrap_or_default()
    }
}

impl Drop for ExtentReader {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.pool().give(buffer);
        }
    }
}
