//! The value file: one large value in a file of its own. Pure encoding and decoding; any thread.
//!
//! ```text
//! header page, at offset 0, 4,096 bytes
//! offset  bytes  what
//!      0      8  magic "ALLUVALU"
//!      8      4  format version
//!     12      4  block size: 65,536
//!     16      8  database id
//!     24      8  file number
//!     32      8  length of the value, bytes
//!     40  4,052  zeroes
//!  4,092      4  checksum of bytes 0..4,092, salt index 2^64 - 1
//!
//! block i, at offset 4,096 + i * 65,536; the last one ends at the first multiple of 4,096 after its payload
//!      0      4  checksum of the block's bytes from 4 to its end, salt index i
//!      4      n  payload: bytes i * 65,532 .. of the value, 65,532 of them except in the last block
//!  4 + n         zeroes to the block's end (the last block only)
//!
//! value reference, the value of an entry of `Kind::ValueReference`, 20 bytes
//!      0      8  file number
//!      8      8  length of the value, bytes
//!     16      4  root checksum
//! ```
//!
//! Checksums are salted CRC-32C (`util::checksum`). The salt is the low half of the XXH3 hash of database id, file
//! number and salt index. The root checksum covers the whole value: it starts as the salt of index 2^64 - 2 and
//! includes each block's checksum in turn, `root = crc32c(root ++ block checksum)`. So one read of a value checks both
//! its blocks and the whole.
//!
//! Invariant: every byte of the file is covered by a checksum, and every checksum depends on the store, the file and the place.

use super::{FORMAT_VERSION, newer_or_damaged, u32_at, u64_at};
use crate::util::checksum::checksum;
use crate::util::hash::bytes_hash;
use crate::util::limits::{IO_ALIGNMENT, VALUE_BYTES_MAX};
use crate::util::{DatabaseId, Error, FileNumber, Result};
use std::path::Path;

#[cfg(test)]
mod tests;

/// The first bytes of the file.
pub const MAGIC: [u8; 8] = *b"ALLUVALU";
/// Bytes of the header page.
pub const HEADER_BYTES: usize = 4096;
/// Bytes of a full block.
pub const BLOCK_BYTES: usize = 64 << 10;
/// Bytes of the checksum at the front of a block.
pub const BLOCK_CHECKSUM_BYTES: usize = 4;
/// Bytes of the value in a full block.
pub const PAYLOAD_BYTES: usize = BLOCK_BYTES - BLOCK_CHECKSUM_BYTES;

const HEADER_CHECKSUM_AT: usize = HEADER_BYTES - 4;
const HEADER_SALT: u64 = u64::MAX;
const ROOT_SALT: u64 = u64::MAX - 1;

const _: () = assert!(HEADER_BYTES.is_multiple_of(IO_ALIGNMENT) && BLOCK_BYTES.is_multiple_of(IO_ALIGNMENT));

/// The file of a large value, with the checksum that identifies the value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ValueReference {
    /// The value file.
    pub file: FileNumber,
    /// Length of the value, bytes.
    pub length: u64,
    /// Root checksum over the whole value.
    pub checksum: u32,
}

impl ValueReference {
    /// Bytes of the encoded form.
    pub const BYTES: usize = 20;

    /// The encoded form.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..8].copy_from_slice(&self.file.0.to_le_bytes());
        out[8..16].copy_from_slice(&self.length.to_le_bytes());
        out[16..].copy_from_slice(&self.checksum.to_le_bytes());
        out
    }

    /// Decodes a reference. `None` if the bytes do not have exactly its length (another length is another format), or
    /// if its value is longer than any value may be.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let reference =
            Self { file: FileNumber(u64_at(bytes, 0)), length: u64_at(bytes, 8), checksum: u32_at(bytes, 16) };
        (reference.length <= VALUE_BYTES_MAX as u64).then_some(reference)
    }
}

/// The contents of the header page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueFileHeader {
    /// The store that the file belongs to.
    pub database: DatabaseId,
    /// The file's own number.
    pub file: FileNumber,
    /// Length of the value, bytes.
    pub length: u64,
}

impl ValueFileHeader {
    /// Writes a header page. Requires `HEADER_BYTES`.
    pub fn encode(&self, page: &mut [u8]) {
        assert_eq!(page.len(), HEADER_BYTES);
        page.fill(0);
        page[..8].copy_from_slice(&MAGIC);
        page[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        page[12..16].copy_from_slice(&(BLOCK_BYTES as u32).to_le_bytes());
        page[16..24].copy_from_slice(&self.database.0.to_le_bytes());
        page[24..32].copy_from_slice(&self.file.0.to_le_bytes());
        page[32..40].copy_from_slice(&self.length.to_le_bytes());
        let sum = checksum(&page[..HEADER_CHECKSUM_AT], salt(self.database, self.file, HEADER_SALT));
        page[HEADER_CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
    }

    /// Checks that the page is the header that `self` would write. `path` is for the error. Requires `HEADER_BYTES`.
    pub fn check(&self, page: &[u8], path: &Path) -> Result<()> {
        assert_eq!(page.len(), HEADER_BYTES);
        if page[..8] != MAGIC {
            return Err(Error::corruption(path, 0, "value file magic", hex(&MAGIC), hex(&page[..8])));
        }
        // The version is checked before the checksum, which a newer format may place elsewhere.
        let version = u32_at(page, 8);
        if version > FORMAT_VERSION {
            let mut own = page.to_vec();
            own[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
            let sum = checksum(&own[..HEADER_CHECKSUM_AT], salt(self.database, self.file, HEADER_SALT));
            return Err(newer_or_damaged(path, 8, version, sum == u32_at(page, HEADER_CHECKSUM_AT)));
        }
        let expected = checksum(&page[..HEADER_CHECKSUM_AT], salt(self.database, self.file, HEADER_SALT));
        let found = u32_at(page, HEADER_CHECKSUM_AT);
        let equal = |offset: u64, what, expected: u64, found: u64| {
            if expected == found { Ok(()) } else { Err(Error::corruption(path, offset, what, expected, found)) }
        };
        equal(HEADER_CHECKSUM_AT as u64, "value file header checksum", expected.into(), found.into())?;
        equal(8, "value file format version", FORMAT_VERSION.into(), version.into())?;
        equal(12, "value file block size", BLOCK_BYTES as u64, u32_at(page, 12).into())?;
        equal(16, "database id", self.database.0, u64_at(page, 16))?;
        equal(24, "file number", self.file.0, u64_at(page, 24))?;
        equal(32, "value length", self.length, u64_at(page, 32))
    }

    /// Decodes the header of value file `file` of store `database`, whatever its value length. Requires `HEADER_BYTES`.
    pub fn decode(page: &[u8], database: DatabaseId, file: FileNumber, path: &Path) -> Result<Self> {
        let header = Self { database, file, length: u64_at(page, 32) };
        header.check(page, path)?;
        if header.length > VALUE_BYTES_MAX as u64 {
            return Err(Error::corruption(
                path,
                32,
                "value length",
                format!("at most {VALUE_BYTES_MAX}"),
                header.length,
            ));
        }
        Ok(header)
    }

    /// The number of blocks of the value.
    pub fn blocks(&self) -> u64 {
        self.length.div_ceil(PAYLOAD_BYTES as u64)
    }

    /// Length of the whole file, bytes.
    pub fn file_bytes(&self) -> u64 {
        let blocks = self.blocks();
        match blocks {
            0 => HEADER_BYTES as u64,
            _ => HEADER_BYTES as u64 + (blocks - 1) * BLOCK_BYTES as u64 + self.block_bytes(blocks - 1) as u64,
        }
    }

    /// Bytes of the value in block `index`, which is below `blocks()`.
    pub fn payload_bytes(&self, index: u64) -> usize {
        debug_assert!(index < self.blocks());
        (self.length - index * PAYLOAD_BYTES as u64).min(PAYLOAD_BYTES as u64) as usize
    }

    /// Bytes of block `index` on disk.
    pub fn block_bytes(&self, index: u64) -> usize {
        (BLOCK_CHECKSUM_BYTES + self.payload_bytes(index)).next_multiple_of(IO_ALIGNMENT)
    }

    /// The offset of block `index` in the file.
    pub fn block_offset(index: u64) -> u64 {
        HEADER_BYTES as u64 + index * BLOCK_BYTES as u64
    }

    /// Fills `block`, block number `index`, with this payload. Returns its checksum. Requires the right lengths of
    /// both.
    pub fn encode_block(&self, index: u64, payload: &[u8], block: &mut [u8]) -> u32 {
        assert_eq!((payload.len(), block.len()), (self.payload_bytes(index), self.block_bytes(index)));
        let end = BLOCK_CHECKSUM_BYTES + payload.len();
        block[BLOCK_CHECKSUM_BYTES..end].copy_from_slice(payload);
        block[end..].fill(0);
        let sum = checksum(&block[BLOCK_CHECKSUM_BYTES..], salt(self.database, self.file, index));
        block[..BLOCK_CHECKSUM_BYTES].copy_from_slice(&sum.to_le_bytes());
        sum
    }

    /// Checks block `index`. Returns its payload and its checksum. Requires a block of the right length.
    pub fn check_block<'a>(&self, index: u64, block: &'a [u8], path: &Path) -> Result<(&'a [u8], u32)> {
        assert_eq!(block.len(), self.block_bytes(index));
        let expected = checksum(&block[BLOCK_CHECKSUM_BYTES..], salt(self.database, self.file, index));
        let found = u32_at(block, 0);
        if expected != found {
            let offset = Self::block_offset(index);
            return Err(Error::corruption(path, offset, "value block checksum", expected, found));
        }
        Ok((&block[BLOCK_CHECKSUM_BYTES..][..self.payload_bytes(index)], found))
    }

    /// The root checksum before the first block.
    pub fn root(&self) -> u32 {
        salt(self.database, self.file, ROOT_SALT)
    }
}

/// The root checksum after a block with this checksum.
pub fn extend_root(root: u32, block_checksum: u32) -> u32 {
    let mut both = [0; 8];
    both[..4].copy_from_slice(&root.to_le_bytes());
    both[4..].copy_from_slice(&block_checksum.to_le_bytes());
    checksum(&both, 0)
}

fn salt(database: DatabaseId, file: FileNumber, index: u64) -> u32 {
    let mut place = [0; 24];
    place[..8].copy_from_slice(&database.0.to_le_bytes());
    place[8..16].copy_from_slice(&file.0.to_le_bytes());
    place[16..].copy_from_slice(&index.to_le_bytes());
    bytes_hash(&place) as u32
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
