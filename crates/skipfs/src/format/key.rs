//! Keys of the store.
//!
//! | key | value |
//! | --- | --- |
//! | `c` ino: u64, chunk: u32, block: u8 | content: block 0 is the base of the chunk, 1 to 64 the blocks over it |
//! | `d` directory: u64, name | an entry (`entry.rs`) |
//! | `i` ino: u64 | an inode record that is in no entry (`record.rs`) |
//! | `o` ino: u64 | empty: the inode has no name, but was in use |
//! | `s` | the superblock (`superblock.rs`) |
//! | `u` | what is used of the limits, while the file system is closed (`usage.rs`) |
//! | `x` ino: u64, name | the value of an extended attribute |
//!
//! All numbers are big-endian.

use super::{BLOCKS_PER_CHUNK, NAME_BYTES_MAX};

const CONTENT: u8 = b'c';
const ENTRY: u8 = b'd';
const INODE: u8 = b'i';
const ORPHAN: u8 = b'o';
const SUPERBLOCK: u8 = b's';
const USAGE: u8 = b'u';
const ATTRIBUTE: u8 = b'x';

/// A decoded key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key<'k> {
    /// Content of a file.
    Content {
        /// The file.
        ino: u64,
        /// The number of the chunk.
        chunk: u32,
        /// 0 for the base, otherwise the block's number in the chunk and one.
        block: u8,
    },
    /// A name in a directory.
    Entry {
        /// The directory.
        directory: u64,
        /// The name.
        name: &'k [u8],
    },
    /// A record by number.
    Inode(u64),
    /// The mark of an orphan.
    Orphan(u64),
    /// The superblock.
    Superblock,
    /// What is used of the limits.
    Usage,
    /// An extended attribute.
    Attribute {
        /// The inode.
        ino: u64,
        /// The name.
        name: &'k [u8],
    },
}

fn number(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (number, rest) = bytes.split_first_chunk()?;
    Some((u64::from_be_bytes(*number), rest))
}

fn alone(bytes: &[u8]) -> Option<u64> {
    number(bytes).filter(|(_, rest)| rest.is_empty()).map(|(number, _)| number)
}

fn named(bytes: &[u8]) -> Option<(u64, &[u8])> {
    number(bytes).filter(|(_, name)| (1..=NAME_BYTES_MAX).contains(&name.len()))
}

impl<'k> Key<'k> {
    /// The key that the bytes are; `None` if they are none.
    pub fn decode(bytes: &'k [u8]) -> Option<Self> {
        let (&tag, rest) = bytes.split_first()?;
        Some(match tag {
            CONTENT => {
                let (ino, rest) = number(rest)?;
                let (chunk, rest) = rest.split_first_chunk()?;
                let &[block] = rest else { return None };
                let chunk = u32::from_be_bytes(*chunk);
                (u64::from(block) <= BLOCKS_PER_CHUNK).then_some(Self::Content { ino, chunk, block })?
            }
            ENTRY => named(rest).map(|(directory, name)| Self::Entry { directory, name })?,
            INODE => Self::Inode(alone(rest)?),
            ORPHAN => Self::Orphan(alone(rest)?),
            SUPERBLOCK => rest.is_empty().then_some(Self::Superblock)?,
            USAGE => rest.is_empty().then_some(Self::Usage)?,
            ATTRIBUTE => named(rest).map(|(ino, name)| Self::Attribute { ino, name })?,
            _ => return None,
        })
    }
}

fn tagged(tag: u8, ino: u64, rest: &[u8]) -> Vec<u8> {
    let mut key = Vec::with_capacity(9 + rest.len());
    key.push(tag);
    key.extend_from_slice(&ino.to_be_bytes());
    key.extend_from_slice(rest);
    key
}

/// The first key after all that begin with a tag and a number.
fn after(tag: u8, ino: u64) -> Vec<u8> {
    ino.checked_add(1).map_or_else(|| vec![tag + 1], |next| tagged(tag, next, &[]))
}

/// The key of a part of a chunk.
pub fn content(ino: u64, chunk: u32, block: u8) -> Vec<u8> {
    let mut rest = [0; 5];
    rest[..4].copy_from_slice(&chunk.to_be_bytes());
    rest[4] = block;
    tagged(CONTENT, ino, &rest)
}

/// Where the content of a file ends.
pub fn content_end(ino: u64) -> Vec<u8> {
    after(CONTENT, ino)
}

/// Where the parts of a chunk end.
pub fn chunk_end(ino: u64, chunk: u32) -> Vec<u8> {
    chunk.checked_add(1).map_or_else(|| content_end(ino), |next| content(ino, next, 0))
}

/// The key of an entry.
pub fn entry(directory: u64, name: &[u8]) -> Vec<u8> {
    tagged(ENTRY, directory, name)
}

/// Where the entries of a directory begin and end.
pub fn entries(directory: u64) -> (Vec<u8>, Vec<u8>) {
    (tagged(ENTRY, directory, &[]), after(ENTRY, directory))
}

/// The first key that an entry after this name can have.
pub fn after_entry(directory: u64, name: &[u8]) -> Vec<u8> {
    let mut key = entry(directory, name);
    key.push(0);
    key
}

/// The key of a record by number.
pub fn inode(ino: u64) -> Vec<u8> {
    tagged(INODE, ino, &[])
}

/// The key of an orphan's mark.
pub fn orphan(ino: u64) -> Vec<u8> {
    tagged(ORPHAN, ino, &[])
}

/// Where the marks of orphans begin and end.
pub const ORPHANS: (&[u8], &[u8]) = (&[ORPHAN], &[ORPHAN + 1]);

/// Where all entries begin and end.
pub const ENTRIES: (&[u8], &[u8]) = (&[ENTRY], &[ENTRY + 1]);

/// Where the records by number begin and end.
pub const INODES: (&[u8], &[u8]) = (&[INODE], &[INODE + 1]);

/// The key of what is used of the limits.
pub const fn usage() -> &'static [u8] {
    &[USAGE]
}

/// The key of the superblock.
pub const fn superblock() -> &'static [u8] {
    &[SUPERBLOCK]
}

/// The key of an extended attribute.
pub fn attribute(ino: u64, name: &[u8]) -> Vec<u8> {
    tagged(ATTRIBUTE, ino, name)
}

/// Where the extended attributes of an inode begin and end.
pub fn attributes(ino: u64) -> (Vec<u8>, Vec<u8>) {
    (tagged(ATTRIBUTE, ino, &[]), after(ATTRIBUTE, ino))
}
