//! A part of a branch file in memory, and the places where pages begin in it. Plain data.
//!
//! Invariants:
//! 1. The first `filled` bytes of `buffer` are the file's bytes from `start`.
//! 2. The places where pages begin come from unchecked headers. They are good enough to choose what to read next, and
//!    must be used for nothing else.

use crate::format::page::{self, PAGE_BYTES, stored_bytes};
use crate::io::AlignedBuffer;
use std::ops::Range;

/// See the module documentation.
#[derive(Debug)]
pub struct Window {
    pub buffer: AlignedBuffer,
    pub start: u64,
    pub filled: usize,
}

impl Window {
    /// The range of these bytes of the file in the buffer, if all of them are there.
    pub fn position(&self, offset: u64, bytes: usize) -> Option<Range<usize>> {
        position(self.start, self.filled, offset, bytes)
    }

    /// The offset after the last byte.
    pub fn end(&self) -> u64 {
        self.start + self.filled as u64
    }

    /// The offset of the first page that is not completely in the window, following pages from the one at `offset`.
    pub fn next_page(&self, offset: u64) -> u64 {
        let mut at = offset;
        while let Some(end) = self.page_end(at) {
            at = end;
        }
        at
    }

    /// The offset of the first page that is completely in the window.
    pub fn first_page(&self) -> Option<u64> {
        (0..self.filled).step_by(PAGE_BYTES).map(|at| self.start + at as u64).find(|at| self.page_end(*at).is_some())
    }

    /// The end of the page at `offset`, if a page seems to begin there and is completely in the window.
    fn page_end(&self, offset: u64) -> Option<u64> {
        let at = self.position(offset, PAGE_BYTES)?;
        let header = page::peek(&self.buffer[at])?;
        let bytes = stored_bytes(header.stored_len as usize);
        (header.offset == offset && self.position(offset, bytes).is_some()).then_some(offset + bytes as u64)
    }
}

/// The range of these bytes of the file in a window of `filled` bytes from `start`, if all of them are in it.
pub fn position(start: u64, filled: usize, offset: u64, bytes: usize) -> Option<Range<usize>> {
    let at = usize::try_from(offset.checked_sub(start)?).ok()?;
    let end = at.checked_add(bytes)?;
    (end <= filled).then_some(at..end)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::page::{Compression, PageHeader, PageKind, PageOwner};
    use crate::util::{DatabaseId, FileNumber};

    /// A window over pages of these sizes, which start at offset 40960.
    fn window(pages: &[usize], from: usize, until: usize) -> Window {
        let owner = PageOwner { database: DatabaseId(1), file: FileNumber(2) };
        let (mut bytes, mut offset) = (Vec::new(), 40_960);
        for &size in pages {
            let stored_len = (size - 100) as u32;
            let (kind, compression) = (PageKind::Leaf, Compression::None);
            let header = PageHeader { kind, compression, level: 0, stored_len, raw_len: stored_len, offset };
            let mut page = vec![0xee; size];
            page::seal(&mut page, &header, owner);
            bytes.extend(page);
            offset += size as u64;
        }
        let mut buffer = AlignedBuffer::new(64 << 10);
        buffer[..until - from].copy_from_slice(&bytes[from..until]);
        Window { buffer, start: 40_960 + from as u64, filled: until - from }
    }

    #[test]
    fn pages_are_found_from_both_ends() {
        let pages = [4096, 8192, 4096, 12288, 4096];
        let whole = window(&pages, 0, 32768);
        assert_eq!((whole.first_page(), whole.next_page(40_960), whole.end()), (Some(40_960), 73_728, 73_728));
        let cut = window(&pages, 8192, 24576);
        // The beginning of the second page and the end of the fourth are outside the window.
        assert_eq!(cut.first_page(), Some(40_960 + 12288));
        assert_eq!(cut.next_page(40_960 + 12288), 40_960 + 16384);
        // No page begins at this offset.
        assert_eq!(cut.next_page(40_960 + 8192), 40_960 + 8192);
        assert_eq!(window(&pages, 20480, 24576).first_page(), None);
        assert_eq!(cut.position(40_960 + 12288, 4096), Some(4096..8192));
        assert_eq!(cut.position(40_960 + 4096, 4096), None);
        assert_eq!(cut.position(40_960 + 20480, 8192), None);
        assert_eq!(cut.position(u64::MAX, usize::MAX), None);
    }
}
