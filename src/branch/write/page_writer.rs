//! Appends pages to a new branch file through one large aligned buffer. Each byte is written once, with direct I/O,
//! without the system's page cache. One thread.
//!
//! Invariant: `flushed + filled` is the length of the file so far. Both are multiples of `PAGE_BYTES`.

use super::write_behind::WriteBehind;
use crate::branch::branch::page_number;
use crate::branch::context::BranchContext;
use crate::cache::{Page, PageBuffer, PageTable};
use crate::format::page::{self, Compression, PAGE_BYTES, PAGE_HEADER_BYTES, PageHeader, PageKind, PageOwner};
use crate::format::sorted_page::ChildLocation;
use crate::io::{AlignedBuffer, OpenMode, StorageFile};
use crate::util::limits::IO_ALIGNMENT;
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, Result};
use std::ops::Range;

/// A page to append.
#[derive(Clone, Copy, Debug)]
pub struct NewPage {
    /// Its kind.
    pub kind: PageKind,
    /// How the payload is stored.
    pub compression: Compression,
    /// Height above the leaves.
    pub level: u8,
    /// Length of the payload once decompressed.
    pub raw_len: usize,
    /// Length of the payload as stored.
    pub stored_len: usize,
}

impl NewPage {
    /// An uncompressed page.
    pub fn plain(kind: PageKind, level: u8, length: usize) -> Self {
        Self { kind, compression: Compression::None, level, raw_len: length, stored_len: length }
    }
}

/// The file and its buffer.
pub struct PageWriter {
    context: Arc<BranchContext>,
    owner: PageOwner,
    file: Arc<dyn StorageFile>,
    table: Arc<PageTable>,
    /// `None` only after a failed write, and after the drop.
    buffer: Option<AlignedBuffer>,
    filled: usize,
    flushed: u64,
    last: Range<usize>,
    /// Writes full buffers; `None`: this thread does.
    behind: Option<Arc<WriteBehind>>,
}

const _: () = assert!(crate::branch::context::WRITE_BYTES >= PAGE_HEADER_BYTES + page::PAYLOAD_BYTES_MAX);
const _: () = assert!(crate::branch::context::WRITE_BYTES.is_multiple_of(IO_ALIGNMENT));

impl PageWriter {
    /// Creates the file.
    pub fn create(context: &Arc<BranchContext>, number: FileNumber, name: &str) -> Result<Self> {
        Ok(Self::to(context, number, context.storage.open(name, OpenMode::CreateDirect)?))
    }

    /// Writes to this file, which is empty.
    pub fn to(context: &Arc<BranchContext>, number: FileNumber, file: Arc<dyn StorageFile>) -> Self {
        Self {
            owner: context.owner(number),
            file,
            table: context.cache.table(number),
            buffer: Some(context.write_buffers.take()),
            context: Arc::clone(context),
            filled: 0,
            flushed: 0,
            last: 0..0,
            behind: None,
        }
    }

    /// Has another thread write full buffers.
    pub fn write_behind(&mut self, behind: Arc<WriteBehind>) {
        self.behind = Some(behind);
    }

    /// Inserts a page into the cache, in the form in which pages are read: header, then raw payload.
    pub fn cache_page(&self, location: ChildLocation, kind: PageKind, page: Page) {
        self.context.cache.insert(&self.table, location.page, page, kind);
    }

    /// Inserts a copy of the page that was appended last, which must be uncompressed, into the cache.
    pub fn cache_last(&self, location: ChildLocation, kind: PageKind) {
        self.cache_page(location, kind, Arc::new(PageBuffer::copied(&[self.last_page()])));
    }

    /// Inserts fences into the cache, behind the end of the file.
    pub fn cache_fences(&self, fences: Option<PageBuffer>) {
        if let Some(page) = fences {
            let number = page_number(self.offset());
            self.context.cache.insert(&self.table, number, Arc::new(page), PageKind::Fences);
        }
    }

    /// The offset of the next page.
    pub fn offset(&self) -> u64 {
        self.flushed + self.filled as u64
    }

    /// Reserves `bytes` at the end of the buffer. Writes the buffer to the file first if it is too full.
    fn reserve(&mut self, bytes: usize) -> Result<&mut [u8]> {
        if self.filled + bytes > self.buffer.as_ref().map_or(0, |buffer| buffer.len()) {
            self.flush()?;
        }
        let start = self.filled;
        self.filled += bytes;
        self.last = start..self.filled;
        Ok(&mut self.buffer.as_deref_mut().unwrap_or_default()[start..start + bytes])
    }

    /// Appends a page whose stored payload `fill` writes. Returns its location.
    pub fn append(&mut self, new: NewPage, fill: impl FnOnce(&mut [u8])) -> Result<ChildLocation> {
        let offset = self.offset();
        let bytes = page::stored_bytes(new.stored_len);
        let Ok(number) = u32::try_from(offset / PAGE_BYTES as u64) else {
            return Err(Error::InvalidArgument("a branch file of more than 16 TiB".into()));
        };
        let owner = self.owner;
        let page = self.reserve(bytes)?;
        fill(&mut page[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + new.stored_len]);
        let header = PageHeader {
            kind: new.kind,
            compression: new.compression,
            level: new.level,
            stored_len: new.stored_len as u32,
            raw_len: new.raw_len as u32,
            offset,
        };
        page::seal(page, &header, owner);
        Ok(ChildLocation { page: number, pages: (bytes / PAGE_BYTES) as u16, first_key: 0 })
    }

    /// Appends a whole page of `PAGE_BYTES` that `fill` writes, including its header.
    pub fn append_whole(&mut self, fill: impl FnOnce(&mut [u8])) -> Result<()> {
        fill(self.reserve(PAGE_BYTES)?);
        Ok(())
    }

    /// The page that was appended last, including its header.
    pub fn last_page(&self) -> &[u8] {
        self.buffer.as_deref().and_then(|buffer| buffer.get(self.last.clone())).unwrap_or_default()
    }

    fn flush(&mut self) -> Result<()> {
        if self.filled > 0 {
            match (&self.behind, self.buffer.take()) {
                (Some(behind), Some(full)) => {
                    let next = behind.write(Arc::clone(&self.file), full, self.filled, self.flushed)?;
                    self.buffer = Some(next);
                }
                (_, buffer) => {
                    self.buffer = buffer;
                    let buffer = self.buffer.as_deref().unwrap_or_default();
                    self.file.write_all_at(&buffer[..self.filled], self.flushed)?;
                }
            }
            self.flushed += self.filled as u64;
            self.filled = 0;
            self.last = 0..0;
        }
        Ok(())
    }

    /// Writes the rest of the buffer and syncs the file, or has another thread do it. Returns its length.
    pub fn finish(&mut self) -> Result<u64> {
        self.flush()?;
        match &self.behind {
            Some(behind) => behind.end(Arc::clone(&self.file))?,
            None => self.file.sync()?,
        }
        Ok(self.flushed)
    }
}

impl Drop for PageWriter {
    fn drop(&mut self) {
        if let Some(buffer) = self.buffer.take() {
            self.context.write_buffers.give(buffer);
        }
    }
}
