//! Reads a branch file page by page from the start and continues after damage. It trusts no index, footer or length.
//! For `verify`, which lists all damage, and for repair. One thread.
//!
//! Invariants:
//! 1. Every byte of the file is reported once, in order: in a page with a valid checksum, or in a damaged range.
//! 2. A damaged range ends where the next page with a valid checksum begins. A page stores its own offset, so few
//!    places are even tried, and the salt excludes pages of other files.
//! 3. Memory is one window of at most twice the largest page.

use crate::branch::context::{BranchContext, file_name};
use crate::format::page::{
    self, PAGE_BYTES, PAGE_HEADER_BYTES, PAYLOAD_BYTES_MAX, PageHeader, PageOwner, stored_bytes,
};
use crate::io::{AlignedBuffer, OpenMode, StorageFile};
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, Result};
use std::ops::Range;
use std::path::Path;

/// Bytes read at once, except for larger pages.
const WINDOW_BYTES: usize = 256 << 10;
const PAGE: u64 = PAGE_BYTES as u64;

const _: () = assert!(WINDOW_BYTES >= PAGE_BYTES && PAYLOAD_BYTES_MAX + PAGE_HEADER_BYTES <= 1 << 20);

/// The contents at a place of the file.
pub enum Scanned<'a> {
    /// A page with a valid checksum, as stored.
    Page(PageHeader, &'a [u8]),
    /// Bytes that are not a valid page, and the error of the first of them.
    Bad(Range<u64>, Error),
}

/// What is at an offset.
enum PageAt {
    /// A page with a valid checksum: its header, and its size in the file in bytes.
    Good(PageHeader, usize),
    /// No page, and why.
    Bad(Error),
}

/// See the module documentation.
pub struct PageScan {
    file: Arc<dyn StorageFile>,
    owner: PageOwner,
    length: u64,
    /// Offset at which the next page should begin.
    at: u64,
    window: AlignedBuffer,
    start: u64,
    filled: usize,
    /// Pieces of the window that could not be read, with their errors.
    unreadable: Vec<(u64, Error)>,
}

impl PageScan {
    /// A scan of the file with this number.
    pub fn open(context: &Arc<BranchContext>, file: FileNumber) -> Result<Self> {
        let owner = context.owner(file);
        let file = context.storage.open(&file_name(file), OpenMode::ReadDirect)?;
        let length = file.length()?;
        let window = AlignedBuffer::new(WINDOW_BYTES);
        Ok(Self { file, owner, length, at: 0, window, start: 0, filled: 0, unreadable: Vec::new() })
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Restarts the scan at the beginning of the file.
    pub fn rewind(&mut self) {
        self.at = 0;
    }

    /// The next page or damaged range; `None` at the end. Fails only if the file cannot be read at all.
    pub fn advance(&mut self) -> Result<Option<Scanned<'_>>> {
        let start = self.at;
        if start >= self.length {
            return Ok(None);
        }
        let error = match self.page_at(start)? {
            PageAt::Good(header, bytes) => {
                self.at = start + bytes as u64;
                let from = (start - self.start) as usize;
                return Ok(Some(Scanned::Page(header, &self.window[from..from + bytes])));
            }
            PageAt::Bad(error) => error,
        };
        self.at = start + PAGE;
        while self.at < self.length && matches!(self.page_at(self.at)?, PageAt::Bad(_)) {
            self.at += PAGE;
        }
        self.at = self.at.min(self.length);
        Ok(Some(Scanned::Bad(start..self.at, error)))
    }

    /// Looks for a page at `offset`. A good one is then in the window.
    fn page_at(&mut self, offset: u64) -> Result<PageAt> {
        if offset + PAGE > self.length {
            let found = format!("{} bytes", self.length - offset);
            let expected = "at least 4096 bytes to the end";
            return Ok(PageAt::Bad(Error::corruption(self.file.path(), offset, "page", expected, found)));
        }
        self.load(offset, PAGE_BYTES)?;
        let at = (offset - self.start) as usize;
        let claimed = page::peek(&self.window[at..at + PAGE_BYTES]).filter(|header| header.offset == offset);
        let bytes = claimed.map_or(PAGE_BYTES, |header| stored_bytes(header.stored_len as usize));
        let bytes = if offset + bytes as u64 > self.length { PAGE_BYTES } else { bytes };
        self.load(offset, bytes)?;
        let at = (offset - self.start) as usize;
        let end = offset + bytes as u64;
        if let Some((_, error)) = self.unreadable.iter().find(|(piece, _)| (offset..end).contains(piece)) {
            return Ok(PageAt::Bad(error.clone()));
        }
        Ok(match page::check(&self.window[at..at + bytes], offset, self.owner, self.file.path()) {
            Ok(header) => PageAt::Good(header, bytes),
            Err(error) => PageAt::Bad(error),
        })
    }

    /// Loads these bytes of the file into the window.
    fn load(&mut self, offset: u64, bytes: usize) -> Result<()> {
        if offset >= self.start && offset + bytes as u64 <= self.start + self.filled as u64 {
            return Ok(());
        }
        if self.window.len() < bytes {
            self.window = AlignedBuffer::new(bytes);
        }
        self.unreadable.clear();
        (self.start, self.filled) = (offset, 0);
        // The bytes after the last whole page are never read.
        let whole = self.length - self.length % PAGE;
        let filled = (self.window.len() as u64).min(whole - offset) as usize;
        match self.file.read_exact_at(&mut self.window[..filled], offset) {
            Ok(()) => {}
            Err(error) if error.is_damage() => self.load_by_pieces(filled),
            Err(error) => return Err(error),
        }
        self.filled = filled;
        Ok(())
    }

    /// Reads the window in pieces, so that an unreadable sector affects only its own piece.
    fn load_by_pieces(&mut self, filled: usize) {
        for from in (0..filled).step_by(PAGE_BYTES) {
            let piece = &mut self.window[from..from + PAGE_BYTES];
            if let Err(error) = self.file.read_exact_at(piece, self.start + from as u64) {
                piece.fill(0);
                self.unreadable.push((self.start + from as u64, error));
            }
        }
    }
}
