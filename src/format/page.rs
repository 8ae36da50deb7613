//! A page of a branch file: a header, a payload, and zeroes up to a multiple of 4096 bytes.
//!
//! Pure functions over bytes; any thread.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 4 | CRC-32C of every byte of the page from offset 4 to its end, padding included, combined with the salt |
//! | 4 | 1 | kind (`PageKind`) |
//! | 5 | 1 | compression of the payload (`Compression`) |
//! | 6 | 1 | level: for index pages the height above the leaves, else 0 |
//! | 7 | 1 | layout of pages, 1 (`LAYOUT`) |
//! | 8 | 4 | stored length: bytes of the payload as stored |
//! | 12 | 4 | raw length: bytes of the payload after decompression |
//! | 16 | 8 | the page's own offset in its file |
//! | 24 | 8 | zero |
//! | 32 | stored length | payload |
//!
//! Invariants:
//! 1. The salt is a hash of database id, file number and offset, so a page at any other place fails its check.
//! 2. A page has `stored_bytes(stored length)` bytes. All of them are checked, including the padding.
//! 3. No length is used before it is bounded by `PAYLOAD_BYTES_MAX`, so invalid bytes never cause large allocations.

use crate::format::zstd;
use crate::util::checksum::checksum;
use crate::util::hash::bytes_hash;
use crate::util::limits::{IO_ALIGNMENT, KEY_BYTES_MAX, VALUE_FILE_BYTES_MIN};
use crate::util::planted::planted;
use crate::util::{DatabaseId, Error, FileNumber, Result};
use std::path::Path;

/// The unit of pages: the stored size of every page is a multiple.
pub const PAGE_BYTES: usize = 4096;
/// Bytes before the payload.
pub const PAGE_HEADER_BYTES: usize = 32;
/// Most bytes of a payload, stored or raw.
pub const PAYLOAD_BYTES_MAX: usize = (1 << 20) - PAGE_HEADER_BYTES;
/// Version of the page layout. It is raised with any change, so that a page of another layout is never read as a
/// current one, not even a single page that repair found.
const LAYOUT: u8 = 1;
/// Payload bytes of a page of `PAGE_BYTES`.
pub const SMALL_PAYLOAD_BYTES: usize = PAGE_BYTES - PAGE_HEADER_BYTES;

const _: () = assert!(PAGE_BYTES.is_multiple_of(IO_ALIGNMENT));
const _: () = assert!(KEY_BYTES_MAX * 3 + VALUE_FILE_BYTES_MIN < PAYLOAD_BYTES_MAX);

/// The kind of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageKind {
    /// Entries in order (`sorted_page`).
    Leaf = 1,
    /// Separators and children (`sorted_page`).
    Index = 2,
    /// One range of hashes of the filter.
    Filter = 3,
    /// Fingerprints in key order.
    Fingerprints = 4,
    /// A part of the properties (`branch_properties`).
    Properties = 5,
    /// The last page of the file (`branch_footer`).
    Footer = 6,
    /// Range tombstones in order (`sorted_page`).
    RangeTombstones = 7,
    /// One range of hashes of a maplet (`maplet_page`), in a file of its own.
    Maplet = 8,
    /// Fences of a branch. Only in memory.
    Fences = 9,
}

impl PageKind {
    fn from_byte(byte: u8) -> Option<Self> {
        Some(match byte {
            1 => Self::Leaf,
            2 => Self::Index,
            3 => Self::Filter,
            4 => Self::Fingerprints,
            5 => Self::Properties,
            6 => Self::Footer,
            7 => Self::RangeTombstones,
            8 => Self::Maplet,
            _ => return None,
        })
    }
}

/// How a payload is stored.
///
/// ```
/// use alluvium::{Compression, KeyspaceOptions, Options};
/// let options = Options::new().compression(Compression::Lz4);
/// let pictures = KeyspaceOptions::new().compression(Compression::None); // they are compressed already
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
#[non_exhaustive]
pub enum Compression {
    /// Uncompressed.
    #[default]
    None = 0,
    /// As one LZ4 block.
    Lz4 = 1,
    /// As one Zstandard frame: smaller than with LZ4, and several times as slow. Only with the feature `zstd`; without it
    /// opening a store with this option is an error, and so is reading such data.
    Zstd = 2,
}

impl Compression {
    /// An error if this build cannot compress so.
    pub fn check_built_in(self) -> Result<()> {
        match self {
            Self::Zstd if !zstd::IS_BUILT_IN => Err(Error::InvalidArgument(zstd::MISSING.into())),
            _ => Ok(()),
        }
    }

    /// The compression that a byte stands for.
    pub(super) fn from_byte(byte: u8) -> Option<Self> {
        match byte {
            0 => Some(Self::None),
            1 => Some(Self::Lz4),
            2 => Some(Self::Zstd),
            _ => None,
        }
    }
}

/// The owner of a page: the part of the salt that all pages of a file share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageOwner {
    /// The store.
    pub database: DatabaseId,
    /// The file.
    pub file: FileNumber,
}

impl PageOwner {
    /// The salt of the page at `offset`.
    pub fn salt(self, offset: u64) -> u32 {
        let mut place = [0; 24];
        place[..8].copy_from_slice(&self.database.0.to_le_bytes());
        place[8..16].copy_from_slice(&self.file.0.to_le_bytes());
        place[16..].copy_from_slice(&offset.to_le_bytes());
        bytes_hash(&place) as u32
    }
}

/// The fields of a header, without the checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageHeader {
    /// The page's kind.
    pub kind: PageKind,
    /// How its payload is stored.
    pub compression: Compression,
    /// Height above the leaves, for index pages.
    pub level: u8,
    /// Bytes of the payload as stored.
    pub stored_len: u32,
    /// Bytes of the payload after decompression.
    pub raw_len: u32,
    /// The page's own offset.
    pub offset: u64,
}

/// Bytes of a page whose stored payload has this length.
pub fn stored_bytes(stored_len: usize) -> usize {
    (PAGE_HEADER_BYTES + stored_len).next_multiple_of(PAGE_BYTES)
}

/// Completes a page. `page` has its final size and contains the payload. Zeroes the padding, writes the header, then
/// the checksum.
pub fn seal(page: &mut [u8], header: &PageHeader, owner: PageOwner) {
    let stored = header.stored_len as usize;
    assert_eq!(page.len(), stored_bytes(stored));
    assert!(stored <= PAYLOAD_BYTES_MAX && header.raw_len as usize <= PAYLOAD_BYTES_MAX);
    page[4..8].copy_from_slice(&[header.kind as u8, header.compression as u8, header.level, LAYOUT]);
    page[8..12].copy_from_slice(&header.stored_len.to_le_bytes());
    page[12..16].copy_from_slice(&header.raw_len.to_le_bytes());
    page[16..24].copy_from_slice(&header.offset.to_le_bytes());
    page[24..32].fill(0);
    page[PAGE_HEADER_BYTES + stored..].fill(0);
    let sum = checksum(&page[4..], owner.salt(header.offset));
    page[..4].copy_from_slice(&sum.to_le_bytes());
}

/// The header, unchecked except for its bounds; `None` if the bytes cannot be a header.
pub fn peek(bytes: &[u8]) -> Option<PageHeader> {
    let header = bytes.first_chunk::<PAGE_HEADER_BYTES>()?;
    let word = |at: usize| u32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]]);
    let (stored_len, raw_len) = (word(8), word(12));
    let compression = Compression::from_byte(header[5])?;
    let fits = stored_len as usize <= PAYLOAD_BYTES_MAX && raw_len as usize <= PAYLOAD_BYTES_MAX;
    let agrees = compression != Compression::None || stored_len == raw_len;
    let ours = header[7] == LAYOUT && word(24) == 0 && word(28) == 0;
    (fits && agrees && ours).then_some(PageHeader {
        kind: PageKind::from_byte(header[4])?,
        compression,
        level: header[6],
        stored_len,
        raw_len,
        offset: u64::from(word(16)) | u64::from(word(20)) << 32,
    })
}

/// Checks a page that was read from `offset` of the file at `path`, and returns its header. `page` must have the exact
/// length of the page.
pub fn check(page: &[u8], offset: u64, owner: PageOwner, path: &Path) -> Result<PageHeader> {
    let Some((sum, rest)) = page.split_first_chunk::<4>() else {
        return Err(Error::corruption(path, offset, "page", "at least 4096 bytes", page.len()));
    };
    let stored = u32::from_le_bytes(*sum);
    let computed = checksum(rest, owner.salt(offset));
    if planted!(stored != computed, Bug::PageChecksumIgnored => false) {
        let (expected, found) = (format!("{stored:#010x}"), format!("{computed:#010x}"));
        return Err(Error::corruption(path, offset, "page checksum", expected, found));
    }
    if let Some(found) = page.get(7).filter(|layout| **layout != LAYOUT) {
        return Err(Error::corruption(path, offset, "layout of a page", LAYOUT, found));
    }
    let Some(header) = peek(page) else {
        return Err(Error::corruption(path, offset, "page header", "a header of this version", "invalid fields"));
    };
    if header.offset != offset {
        return Err(Error::corruption(path, offset, "page offset", offset, header.offset));
    }
    let length = stored_bytes(header.stored_len as usize);
    if length != page.len() {
        return Err(Error::corruption(path, offset, "page length", page.len(), length));
    }
    Ok(header)
}

/// Decompresses the payload of a checked page into `raw`, which must have the header's raw length.
pub fn decompress(page: &[u8], header: &PageHeader, raw: &mut [u8], path: &Path) -> Result<()> {
    debug_assert_eq!(raw.len(), header.raw_len as usize);
    let stored = &page[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + header.stored_len as usize];
    let written = match header.compression {
        Compression::None => {
            raw.copy_from_slice(stored);
            raw.len()
        }
        Compression::Lz4 => lz4_flex::block::decompress_into(stored, raw)
            .map_err(|error| Error::corruption(path, header.offset, "LZ4 block", "a whole block", error))?,
        Compression::Zstd if !zstd::IS_BUILT_IN => {
            let place = format!("{} is compressed at offset {}", path.display(), header.offset);
            return Err(Error::InvalidArgument(format!("{place}, and {}", zstd::MISSING)));
        }
        Compression::Zstd => zstd::unpack(stored, raw)
            .map_err(|error| Error::corruption(path, header.offset, "Zstandard frame", "a whole frame", error))?,
    };
    if written != raw.len() {
        return Err(Error::corruption(path, header.offset, "raw length", raw.len(), written));
    }
    Ok(())
}

/// The raw length of the payload according to a header, unchecked.
#[inline]
pub fn raw_length(header: &[u8; PAGE_HEADER_BYTES]) -> usize {
    u32::from_le_bytes([header[12], header[13], header[14], header[15]]) as usize
}

/// The raw payload of a page in memory, which is a header and the uncompressed payload. Empty if the bytes are not a
/// page.
pub fn payload(page: &[u8]) -> &[u8] {
    let length = peek(page).map_or(0, |header| header.raw_len as usize);
    page.get(PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + length).unwrap_or_default()
}

#[cfg(test)]
mod tests;
