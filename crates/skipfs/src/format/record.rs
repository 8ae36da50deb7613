//! The inode record: attributes, and for some inodes the content.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 1 | 1 |
//! | 1 | 1 | flags: 1 there may be blocks over bases, 2 the content is here, 4 there may be extended attributes |
//! | 2 | 2 | mode: type and permissions |
//! | 4 | 4 | owner |
//! | 8 | 4 | group |
//! | 12 | 4 | number of links |
//! | 16 | 4 | number of a device |
//! | 20 | 4 | nanoseconds of the time of access |
//! | 24 | 4 | nanoseconds of the time of modification |
//! | 28 | 4 | nanoseconds of the time of change |
//! | 32 | 8 | inode number |
//! | 40 | 8 | size |
//! | 48 | 8 | of a directory: its parent; of a file: bytes of content that are kept, in whole blocks; otherwise 0 |
//! | 56 | 8 | seconds of the time of access, signed |
//! | 64 | 8 | seconds of the time of modification, signed |
//! | 72 | 8 | seconds of the time of change, signed |
//! | 80 | | a link's target, or with flag 2 the content, which ends in zeros that are left out; otherwise nothing |

use super::{Attributes, Fields, FileKind, Malformed, TARGET_BYTES_MAX, Timestamp};

/// The first byte of a record. An entry that begins with it has the record in it.
pub(super) const TAG: u8 = 1;
/// Bytes before the content.
pub const HEADER_BYTES: usize = 80;

const HAS_BLOCKS: u8 = 1;
const IS_INLINE: u8 = 2;
const HAS_ATTRIBUTES: u8 = 4;
const FLAGS: u8 = HAS_BLOCKS | IS_INLINE | HAS_ATTRIBUTES;
const PERMISSIONS: u32 = 0o7777;

/// An inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// What `stat` shows.
    pub attributes: Attributes,
    /// Whether chunks of the file may have blocks over their bases.
    pub has_blocks: bool,
    /// Whether the content is in `body`. Then there is no content elsewhere, and `body` is at most as long as the file.
    pub is_inline: bool,
    /// Whether there may be extended attributes.
    pub has_attributes: bool,
    /// The parent of a directory; 0 for others.
    pub parent: u64,
    /// The target of a link, or the content if `is_inline`.
    pub body: Vec<u8>,
}

impl Record {
    /// The record of an inode without content.
    pub fn new(attributes: Attributes) -> Self {
        Self { attributes, has_blocks: false, is_inline: false, has_attributes: false, parent: 0, body: Vec::new() }
    }

    /// The bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        let of = &self.attributes;
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        let flags = flag(self.has_blocks, HAS_BLOCKS)
            | flag(self.is_inline, IS_INLINE)
            | flag(self.has_attributes, HAS_ATTRIBUTES);
        let mode = (of.kind.mode() | of.permissions & PERMISSIONS) as u16;
        let mut bytes = Vec::with_capacity(HEADER_BYTES + self.body.len());
        bytes.extend_from_slice(&[TAG, flags]);
        bytes.extend_from_slice(&mode.to_le_bytes());
        let [atime, mtime, ctime] = [of.atime, of.mtime, of.ctime];
        let nanoseconds = [atime, mtime, ctime].map(|time| time.nanoseconds);
        let [a, m, c] = nanoseconds;
        for number in [of.uid, of.gid, of.nlink, of.rdev, a, m, c] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        let of_kind = if of.kind == FileKind::File { of.allocated } else { self.parent };
        for number in [of.ino, of.size, of_kind] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        for time in [atime, mtime, ctime] {
            bytes.extend_from_slice(&time.seconds.to_le_bytes());
        }
        bytes.extend_from_slice(&self.body);
        bytes
    }

    /// The record in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields { rest: bytes };
        let tag = fields.byte("tag")?;
        if tag != TAG {
            return Err(Malformed(format!("tag of an inode record: expected {TAG}, found {tag}")));
        }
        let flags = fields.byte("flags")?;
        if flags & !FLAGS != 0 {
            return Err(Malformed(format!("flags: expected at most {FLAGS}, found {flags}")));
        }
        let mode = u32::from(u16::from_le_bytes(fields.take("mode")?));
        let kind = FileKind::of_mode(mode).ok_or_else(|| Malformed(format!("mode: unknown type in {mode:o}")))?;
        let mut small = [0; 7];
        for number in &mut small {
            *number = u32::from_le_bytes(fields.take("a number of 32 bits")?);
        }
        let [uid, gid, nlink, rdev, a, m, c] = small;
        let mut large = [0; 3];
        for number in &mut large {
            *number = u64::from_le_bytes(fields.take("a number of 64 bits")?);
        }
        let [ino, size, of_kind] = large;
        let (parent, allocated) = if kind == FileKind::File { (0, of_kind) } else { (of_kind, 0) };
        let mut time = |nanoseconds| {
            let seconds = i64::from_le_bytes(fields.take("seconds")?);
            Ok(Timestamp { seconds, nanoseconds })
        };
        let (atime, mtime, ctime) = (time(a)?, time(m)?, time(c)?);
        let permissions = mode & PERMISSIONS;
        let attributes =
            Attributes { ino, kind, permissions, uid, gid, nlink, rdev, size, allocated, atime, mtime, ctime };
        let record = Self {
            attributes,
            has_blocks: flags & HAS_BLOCKS != 0,
            is_inline: flags & IS_INLINE != 0,
            has_attributes: flags & HAS_ATTRIBUTES != 0,
            parent,
            body: fields.rest.to_vec(),
        };
        record.check().map(|()| record)
    }

    fn check(&self) -> Result<(), Malformed> {
        let (kind, size, body) = (self.attributes.kind, self.attributes.size, self.body.len() as u64);
        let error = |what: &str| Err(Malformed(format!("{what}: size {size}, {body} bytes in the record")));
        match kind {
            FileKind::Symlink if body != size || self.is_inline => error("target of a symbolic link"),
            FileKind::Symlink if self.body.len() > TARGET_BYTES_MAX => error("target of a symbolic link"),
            FileKind::File if self.is_inline && (body > size || self.has_blocks) => error("inline content"),
            FileKind::File if !self.is_inline && body > 0 => error("content that is elsewhere"),
            FileKind::Symlink | FileKind::File => Ok(()),
            _ if body > 0 || self.is_inline || self.has_blocks => error("content of an inode that has none"),
            _ => Ok(()),
        }
    }
}
