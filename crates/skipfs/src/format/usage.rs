//! What a file system with limits uses, between a close and the next opening.
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | allocated bytes of all files |
//! | 8 | 8 | inodes, with the root |

use super::{Fields, Malformed};

/// What is used of the limits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Allocated bytes of all files.
    pub bytes: u64,
    /// Inodes, with the root.
    pub inodes: u64,
}

impl Usage {
    /// The bytes of the record.
    pub fn encode(&self) -> Vec<u8> {
        [self.bytes, self.inodes].into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// The record in the bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, Malformed> {
        let mut fields = Fields { rest: bytes };
        let mut number = || fields.take("a number of 64 bits").map(u64::from_le_bytes);
        let found = Self { bytes: number()?, inodes: number()? };
        match fields.rest.len() {
            0 => Ok(found),
            more => Err(Malformed(format!("{more} more bytes"))),
        }
    }
}
