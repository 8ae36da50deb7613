//! Blocks of tables: sorted entries. Each key is stored without the prefix that it shares with the previous key.
//!
//! | bytes | meaning |
//! | --- | --- |
//! | | entries: length of the shared prefix, length of the rest of the key, length of the value (varints); the rest of the key; the value |
//! | 4 each | restart points: offsets of entries that store their whole key |
//! | 4 | number of restart points |
//!
//! In the file, each block is followed by a byte with the compression type (0 none, 1 snappy) and the masked CRC-32C of
//! the stored block and that byte.

use crate::checksum;
use crate::decode::Decoder;
use crate::error::{Error, Result};
use crate::file::ReadFile;

/// Bytes of the trailer behind a block.
pub const TRAILER: u64 = 5;
/// The largest size that is read. A block is about 4 KiB, or one entry with a value of at most 4 GiB. The limit keeps
/// damaged lengths from allocating memory.
const BYTES_MAX: u64 = 5 << 30;

/// The location of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// Offset in the file.
    pub offset: u64,
    /// Length in bytes, without the trailer.
    pub length: u64,
}

impl Handle {
    /// Decodes two varints.
    pub fn decode(decoder: &mut Decoder<'_>) -> Option<Self> {
        Some(Self { offset: decoder.varint64()?, length: decoder.varint64()? })
    }
}

/// A block in memory, and a cursor in it.
#[derive(Debug, Default)]
pub struct Block {
    bytes: Vec<u8>,
    /// The end of the entries.
    end: usize,
    /// The key of the current entry.
    key: Vec<u8>,
    value: std::ops::Range<usize>,
    /// The offset of the next entry.
    next: usize,
}

impl Block {
    /// Reads and verifies a block. The cursor is before the first entry.
    pub fn read(file: &ReadFile, handle: Handle) -> Result<Self> {
        let Handle { offset, length } = handle;
        let end = offset.checked_add(length).and_then(|end| end.checked_add(TRAILER));
        if length > BYTES_MAX || end.is_none_or(|end| end > file.length()) {
            let found = format!("{length} bytes at {offset}");
            return Err(Error::damage(
                file.path(),
                offset,
                "location of a block",
                format!("one within the {} bytes of the file", file.length()),
                found,
            ));
        }
        let mut stored = file.read(offset, (length + TRAILER) as usize)?;
        let trailer = stored.split_off(length as usize);
        let (method, sum) = (trailer[0], Decoder::new(&trailer[1..]).fixed32().unwrap_or_default());
        let computed = checksum::masked(&[&stored, &trailer[..1]]);
        if computed != sum {
            let (expected, found) = (format!("{computed:08x}"), format!("{sum:08x}"));
            return Err(Error::damage(file.path(), offset, "checksum of a block", expected, found));
        }
        let bytes = match method {
            0 => stored,
            1 => snap::raw::Decoder::new().decompress_vec(&stored).map_err(|error| {
                Error::damage(file.path(), offset, "a compressed block", "valid snappy data", error)
            })?,
            method => return Err(Error::Compression { path: file.path().to_path_buf(), offset, method }),
        };
        Self::new(bytes)
            .ok_or_else(|| Error::damage(file.path(), offset, "a block", "entries and restart points", "invalid bytes"))
    }

    /// Creates a block from bytes; `None` if they are too short.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        let restarts = u32::from_le_bytes(*bytes.last_chunk()?) as usize;
        let end = bytes.len().checked_sub(restarts.checked_mul(4)?.checked_add(4)?)?;
        Some(Self { bytes, end, ..Self::default() })
    }

    /// Moves to the next entry. Returns false if there is none, and `None` if the bytes are invalid.
    pub fn advance(&mut self) -> Option<bool> {
        if self.next == self.end {
            return Some(false);
        }
        let mut decoder = Decoder::new(&self.bytes[self.next..self.end]);
        let (shared, own, value) =
            (decoder.varint32()? as usize, decoder.varint32()? as usize, decoder.varint32()? as usize);
        let key = decoder.bytes(own)?;
        if shared > self.key.len() {
            return None;
        }
        self.key.truncate(shared);
        self.key.extend_from_slice(key);
        decoder.bytes(value)?;
        self.next = self.end - decoder.rest().len();
        self.value = self.next - value..self.next;
        Some(true)
    }

    /// Returns the key of the entry.
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// Returns the value of the entry.
    pub fn value(&self) -> &[u8] {
        &self.bytes[self.value.clone()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_bytes_are_a_block_or_an_error(bytes: Vec<u8>) {
            if let Some(mut block) = Block::new(bytes) {
                while block.advance() == Some(true) {
                    let _ = (block.key(), block.value());
                }
            }
        }
    }

    #[test]
    fn keys_are_assembled_from_prefixes() {
        let mut bytes = vec![0, 3, 1, b'a', b'b', b'c', b'1', 2, 1, 0, b'd'];
        bytes.extend_from_slice(&[0, 0, 0, 0, 1, 0, 0, 0]);
        let mut block = Block::new(bytes).unwrap();
        assert_eq!(block.advance(), Some(true));
        assert_eq!((block.key(), block.value()), (&b"abc"[..], &b"1"[..]));
        assert_eq!(block.advance(), Some(true));
        assert_eq!((block.key(), block.value()), (&b"abd"[..], &b""[..]));
        assert_eq!(block.advance(), Some(false));
    }
}
