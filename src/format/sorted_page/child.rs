//! The location of a child in an index page. The separator before it is at or before the child's first entry and after
//! the last entry of the previous child, in entry order.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 4 | offset of the child in the file, in units of 4096 bytes |
//! | 4 | 2 | its stored size, in units of 4096 bytes |
//! | 6 | 4 | index of the fingerprint of its first key |

use crate::format::page::{PAGE_BYTES, PAGE_HEADER_BYTES, PAYLOAD_BYTES_MAX};

/// The place of a page in its file, and the number of keys before it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChildLocation {
    /// Offset in units of `PAGE_BYTES`.
    pub page: u32,
    /// Stored size in units of `PAGE_BYTES`; from 1 to `PAGES_MAX`.
    pub pages: u16,
    /// Index of the fingerprint of its first key.
    pub first_key: u32,
}

/// Most units of one page.
pub const PAGES_MAX: usize = (PAGE_HEADER_BYTES + PAYLOAD_BYTES_MAX).div_ceil(PAGE_BYTES);

impl ChildLocation {
    /// Bytes on disk.
    pub const BYTES: usize = 10;

    /// Offset, bytes.
    pub fn offset(&self) -> u64 {
        u64::from(self.page) * PAGE_BYTES as u64
    }

    /// Stored size, bytes.
    pub fn bytes(&self) -> usize {
        usize::from(self.pages) * PAGE_BYTES
    }

    /// The offset after it.
    pub fn end(&self) -> u64 {
        self.offset() + self.bytes() as u64
    }

    /// The bytes on disk.
    pub fn encode(&self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..4].copy_from_slice(&self.page.to_le_bytes());
        out[4..6].copy_from_slice(&self.pages.to_le_bytes());
        out[6..].copy_from_slice(&self.first_key.to_le_bytes());
        out
    }

    /// Decodes what `encode` wrote; `None` for another length or a size that no page has.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (page, rest) = bytes.split_first_chunk::<4>()?;
        let (pages, rest) = rest.split_first_chunk::<2>()?;
        let first_key = u32::from_le_bytes(rest.try_into().ok()?);
        let location = Self { page: u32::from_le_bytes(*page), pages: u16::from_le_bytes(*pages), first_key };
        (1..=PAGES_MAX).contains(&usize::from(location.pages)).then_some(location)
    }
}
