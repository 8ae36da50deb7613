//! The entry of a directory: an inode record (`record.rs`), or a reference to one.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 1 | 1: the record is here, as in `record.rs`; 2: it is under its number |
//! | 1 | 1 | reserved, 0 |
//! | 2 | 2 | mode: the type, without permissions |
//! | 4 | 8 | inode number |

use super::{Fields, FileKind, Malformed, Record, record};

const LINK: u8 = 2;

/// An entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Entry {
    /// The inode has, or had, only this name, and its record is here.
    Embedded(Record),
    /// The record is under the inode's number.
    Link {
        /// The inode.
        ino: u64,
        /// Its type.
        kind: FileKind,
    },
}

impl Entry {
    /// The bytes of an entry that refers to a record.
    pub fn encode_link(ino: u64, kind: FileKind) -> Vec<u8> {
        let mut bytes = vec![LINK, 0];
        bytes.extend_from_slice(&(kind.mode() as u16).to_le_bytes());
        bytes.extend_from_slice(&ino.to_le_bytes());
        bytes
    }

    /// The bytes of the entry.
    pub fn encode(&self) -> Vec<u8> {
        match self {
            Self::Embedded(record) => record.encode(),
            Self::Link { ino, kind } => Self::encode_link(*ino, *kind),
        }
    }

    /// The entry in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields { rest: bytes };
        match fields.byte("tag")? {
            record::TAG => Record::decode(bytes).map(Self::Embedded),
            LINK => {
                let reserved = fields.byte("reserved")?;
                let mode = u32::from(u16::from_le_bytes(fields.take("mode")?));
                let ino = u64::from_le_bytes(fields.take("inode number")?);
                match FileKind::of_mode(mode) {
                    Some(kind) if kind.mode() == mode && reserved == 0 && fields.rest.is_empty() => {
                        Ok(Self::Link { ino, kind })
                    }
                    _ => Err(Malformed(format!("link: mode {mode:o}, {} more bytes", fields.rest.len()))),
                }
            }
            tag => Err(Malformed(format!("tag of an entry: expected 1 or 2, found {tag}"))),
        }
    }

    /// The inode.
    pub fn ino(&self) -> u64 {
        match self {
            Self::Embedded(record) => record.attributes.ino,
            Self::Link { ino, .. } => *ino,
        }
    }

    /// Its type.
    pub fn kind(&self) -> FileKind {
        match self {
            Self::Embedded(record) => record.attributes.kind,
            Self::Link { kind, .. } => *kind,
        }
    }
}
