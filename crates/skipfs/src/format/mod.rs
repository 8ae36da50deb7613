//! The bytes of keys and records, and nothing else: no I/O, no state. `docs/format/skipfs.md` has the tables.
//!
//! Numbers in keys are big-endian, so that keys sort by them. Numbers in values are little-endian. Decoding takes any
//! bytes and never panics.

pub mod attributes;
mod chunk_map;
pub mod entry;
pub mod key;
pub mod record;
pub mod superblock;
pub mod usage;

pub use attributes::{Attributes, FileKind, Timestamp};
pub use chunk_map::ChunkMap;
pub use entry::Entry;
pub use key::Key;
pub use record::Record;
pub use superblock::{Layout, Limits, Superblock};
pub use usage::Usage;

use std::fmt;

/// Content is divided into chunks of this many bytes.
pub const CHUNK_BYTES: u64 = 256 << 10;
/// Partial changes of a chunk are blocks of this many bytes.
pub const BLOCK_BYTES: u64 = 4096;
/// Blocks in a chunk.
pub const BLOCKS_PER_CHUNK: u64 = CHUNK_BYTES / BLOCK_BYTES;
/// No file is longer: the number of a chunk has 32 bits.
pub const FILE_BYTES_MAX: u64 = CHUNK_BYTES << 32;
/// Longest name of an entry or of an extended attribute.
pub const NAME_BYTES_MAX: usize = 255;
/// Longest target of a symbolic link.
pub const TARGET_BYTES_MAX: usize = 4095;
/// The inode number of the root directory, as in FUSE.
pub const ROOT: u64 = 1;

const _: () = assert!(BLOCKS_PER_CHUNK < u8::MAX as u64);

/// Why bytes are not what they should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Malformed(pub String);

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Reads fields of fixed length one after the other.
struct Fields<'b> {
    rest: &'b [u8],
}

impl<'b> Fields<'b> {
    fn take<const N: usize>(&mut self, what: &str) -> Result<[u8; N], Malformed> {
        let found = self.rest.split_first_chunk::<N>();
        let (field, rest) =
            found.ok_or_else(|| Malformed(format!("{what}: expected {N} bytes, found {}", self.rest.len())))?;
        self.rest = rest;
        Ok(*field)
    }

    fn byte(&mut self, what: &str) -> Result<u8, Malformed> {
        self.take::<1>(what).map(|[byte]| byte)
    }
}
