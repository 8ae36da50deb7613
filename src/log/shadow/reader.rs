//! Reads a segment that may have a shadow in shared memory. The segment's shadow has at least the segment's records.
//! Any thread.
//!
//! Invariant: a shadow is trusted only while its sector 0 equals the segment's, byte by byte. It is reused for another
//! segment only when the file has all of its bytes, and its sector 0 changes before any other byte in it. So if a check
//! finds sector 0 unchanged, everything that was read *before* the check belongs to the segment. Otherwise the file has
//! it.

use crate::format::log_segment::{PAGE_BYTES, SECTOR_BYTES, SegmentHeader};
use crate::io::{Storage, StorageFile};
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use std::path::Path;

/// Bytes that are copied at once.
const COPY_BYTES: usize = 256 << 10;
/// The offset of the shadow's name in a segment's header.
const MEMORY_OFFSET: u64 = 88;

/// The shadow of a segment with this header page; `None` if it has none, or no longer has one.
pub fn find(storage: &dyn Storage, header: &SegmentHeader, page: &[u8]) -> Result<Option<Arc<dyn StorageFile>>> {
    let (Some(piece), Some(memory)) = (header.memory, storage.shared_memory()) else { return Ok(None) };
    let Some(shadow) = memory.open(piece.get())? else { return Ok(None) };
    let belongs = shadow.length()? >= header.segment_bytes && has_sector(&*shadow, &page[..SECTOR_BYTES])?;
    Ok(belongs.then_some(shadow))
}

fn has_sector(shadow: &dyn StorageFile, sector: &[u8]) -> Result<bool> {
    let mut now = [0; SECTOR_BYTES];
    shadow.read_exact_at(&mut now, 0)?;
    Ok(now == *sector)
}

/// Copies the shadow's bytes to its segment's file and leaves the file unsynced. May be repeated.
pub fn restore(shadow: &dyn StorageFile, file: &dyn StorageFile, length: u64) -> Result<()> {
    let mut piece = vec![0; COPY_BYTES.min(length as usize)];
    for at in (0..length).step_by(COPY_BYTES) {
        let piece = &mut piece[..(length - at).min(COPY_BYTES as u64) as usize];
        shadow.read_exact_at(piece, at)?;
        file.write_all_at(piece, at)?;
    }
    Ok(())
}

/// The error for a segment whose shadow must exist and does not.
#[cold]
pub fn missing(storage: &dyn Storage, path: &Path, header: &SegmentHeader) -> Error {
    let piece = header.memory.map_or(0, std::num::NonZeroU64::get);
    let place = storage.shared_memory().map(|memory| memory.path_of(piece).display().to_string());
    let place = place.unwrap_or_else(|| format!("shared memory, which this system lacks, piece {piece:016x}"));
    let expected = format!("{place}, which has the newest writes");
    let found = "no such file of this store: was it removed, or is this a copy of the store or another container? \
                              Options::force_cut opens without the data that only the memory had";
    Error::corruption(path, MEMORY_OFFSET, "memory of a log segment", expected, found)
}

/// A segment that is read from its shadow, as long as the shadow belongs to it.
#[derive(Debug)]
pub struct ShadowReader {
    shadow: Arc<dyn StorageFile>,
    file: Arc<dyn StorageFile>,
    sector: [u8; SECTOR_BYTES],
}

impl ShadowReader {
    /// Takes the shadow, the segment's file, and the header page whose sector 0 both had when the shadow was found.
    pub fn new(shadow: Arc<dyn StorageFile>, file: Arc<dyn StorageFile>, page: &[u8]) -> Self {
        let mut sector = [0; SECTOR_BYTES];
        sector.copy_from_slice(&page[..SECTOR_BYTES]);
        Self { shadow, file, sector }
    }

    /// The present header page: the shadow's marks are newer.
    pub fn page(&self) -> Result<Box<[u8; PAGE_BYTES]>> {
        let mut page = Box::new([0; PAGE_BYTES]);
        self.shadow.read_exact_at(&mut page[..], 0)?;
        page[..SECTOR_BYTES].copy_from_slice(&self.sector);
        Ok(page)
    }
}

impl StorageFile for ShadowReader {
    fn path(&self) -> &Path {
        self.file.path()
    }

    fn length(&self) -> Result<u64> {
        self.file.length()
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        self.shadow.read_exact_at(buffer, offset)?;
        // The module's invariant.
        if has_sector(&*self.shadow, &self.sector)? { Ok(()) } else { self.file.read_exact_at(buffer, offset) }
    }

    fn write_all_at(&self, bytes: &[u8], offset: u64) -> Result<()> {
        self.file.write_all_at(bytes, offset)
    }

    fn set_length(&self, length: u64) -> Result<()> {
        self.file.set_length(length)
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }
}
