//! The superblock: what holds for the whole file system.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | `SKIPFS`, 0, 0 |
//! | 8 | 4 | version: 2 |
//! | 12 | 4 | most bytes of a file whose content is one item |
//! | 16 | 4 | most bytes of content in an inode record; 0: content is never there |
//! | 20 | 4 | reserved, 0 |
//! | 24 | 8 | inode numbers from this one on were never used |
//! | 32 | 8 | most allocated bytes of all files; 0: no limit |
//! | 40 | 8 | most inodes; 0: no limit |

use super::{CHUNK_BYTES, Fields, Malformed};

const MAGIC: [u8; 8] = *b"SKIPFS\0\0";
const VERSION: u32 = 2;
/// Most bytes of content that a file system may keep in inode records. The records of directories in use are in memory.
pub const INLINE_BYTES_MAX: u32 = 64 << 10;

/// Where the content of small files is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Layout {
    /// Inode and content are two items, as in SkipStore §6.4.
    Items,
    /// The content is in the inode record up to a size, and is an item beyond it.
    Inline {
        /// Most bytes in a record.
        up_to: u32,
    },
}

/// What holds for the whole file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Superblock {
    /// Where the content of small files is.
    pub layout: Layout,
    /// Most bytes of a file whose content is one item that every write replaces.
    pub small_bytes: u32,
    /// Inode numbers from this one on were never used.
    pub unused_from: u64,
    /// How much it may use.
    pub limits: Limits,
}

/// How much a file system may use; `None`: as much as the store has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Most allocated bytes of all files. Names, attributes and what the store needs in addition do not count.
    pub max_bytes: Option<u64>,
    /// Most inodes, with the root.
    pub max_inodes: Option<u64>,
}

impl Limits {
    /// Whether there are any.
    pub fn any(&self) -> bool {
        self.max_bytes.is_some() || self.max_inodes.is_some()
    }
}

impl Superblock {
    /// The bytes of the superblock.
    pub fn encode(&self) -> Vec<u8> {
        let up_to = match self.layout {
            Layout::Items => 0,
            Layout::Inline { up_to } => up_to,
        };
        let mut bytes = MAGIC.to_vec();
        for number in [VERSION, self.small_bytes, up_to, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let Limits { max_bytes, max_inodes } = self.limits;
        for number in [self.unused_from, max_bytes.unwrap_or(0), max_inodes.unwrap_or(0)] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// The superblock in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields { rest: bytes };
        if fields.take("magic")? != MAGIC {
            return Err(Malformed("this is not a SkipFS".into()));
        }
        let mut number = |what| fields.take(what).map(u32::from_le_bytes);
        let (version, small_bytes, up_to) = (number("version")?, number("small bytes")?, number("inline bytes")?);
        let reserved = number("reserved")?;
        if version != VERSION {
            return Err(Malformed(format!("version {version}; this build reads {VERSION}")));
        }
        let mut number = |what| fields.take(what).map(u64::from_le_bytes);
        let unused_from = number("unused inode numbers")?;
        let (max_bytes, max_inodes) = (number("limit of bytes")?, number("limit of inodes")?);
        let limit = |number: u64| (number > 0).then_some(number);
        let limits = Limits { max_bytes: limit(max_bytes), max_inodes: limit(max_inodes) };
        let layout = if up_to == 0 { Layout::Items } else { Layout::Inline { up_to } };
        let found = Self { layout, small_bytes, unused_from, limits };
        match found.is_valid() && reserved == 0 && fields.rest.is_empty() {
            true => Ok(found),
            false => Err(Malformed(format!("sizes out of range in {found:?}, {} more bytes", fields.rest.len()))),
        }
    }

    /// Whether bytes begin as a superblock does. Any program may use its key.
    pub fn is_one(bytes: &[u8]) -> bool {
        bytes.starts_with(&MAGIC)
    }

    /// Whether the sizes are in their ranges.
    pub fn is_valid(&self) -> bool {
        let is_inline_valid = match self.layout {
            Layout::Items => true,
            Layout::Inline { up_to } => (1..=INLINE_BYTES_MAX).contains(&up_to),
        };
        is_inline_valid && u64::from(self.small_bytes) <= CHUNK_BYTES
    }
}
