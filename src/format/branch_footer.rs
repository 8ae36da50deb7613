//! The last page of a branch file: the identity of the file and the places of its parts.
//!
//! Pure functions over bytes; any thread.
//!
//! The page has the usual header (`page`); its payload:
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | magic, `ALVBRNCH` |
//! | 8 | 4 | format version |
//! | 12 | 4 | height: levels of index pages, at least 1; 0 where there are no entries |
//! | 12 | 4 | height: levels of index pages, at least 1; 0 if there are no entries |
//! | 24 | 8 | file number |
//! | 32 | 8 | length of the file, footer included |
//! | 40 | 10 | the root index page (`ChildLocation`); zeroes if there are no entries |
//! | 50 | 2 | 1: all entries have one number, which the footer has and the pages do not (an ingested file); otherwise 0 |
//! | 52 | 4 | pages of the filter; 0: no filter |
//! | 56 | 8 | leaf pages |
//! | 64 | 8 | index pages |
//! | 72 | 8 | entries |
//! | 80 | 8 | fingerprints, one for each distinct key; 0 if they are omitted |
//! | 88 | 8 | offset of the fingerprints: where leaf and index pages, which start at 0, end |
//! | 96 | 8 | offset of the filter: where the fingerprints end |
//! | 104 | 8 | offset of the range tombstones: where the filter ends |
//! | 112 | 8 | offset of the properties: where the range tombstones end |
//! | 120 | 8 | length of the properties, bytes of payload |
//! | 128 | 8 | only in an ingested file: the number of all entries; 0 while it has none |
//!
//! Invariants:
//! 1. The parts follow one another without gaps: leaves and index pages, fingerprints, filter, range tombstones,
//!    properties, footer.
//! 2. In every later version, header, magic and format version keep their places and the checksum its rule, so that a
//!    newer file can be distinguished from a damaged one.

use super::page::{
    self, Compression, PAGE_BYTES, PAGE_HEADER_BYTES, PageHeader, PageKind, PageOwner, SMALL_PAYLOAD_BYTES,
};
use super::sorted_page::ChildLocation;
use super::{FORMAT_VERSION, newer_or_damaged};
use crate::util::{DatabaseId, Error, Result, SequenceNumber};
use std::path::Path;

/// First bytes of the payload.
pub const MAGIC: [u8; 8] = *b"ALVBRNCH";
/// Length of the payload.
pub const FOOTER_BYTES: usize = 128;
/// Length of the payload in an ingested file.
const INGESTED_FOOTER_BYTES: usize = FOOTER_BYTES + 8;
/// Fingerprints in a page, four bytes each.
pub const FINGERPRINTS_PER_PAGE: u64 = SMALL_PAYLOAD_BYTES as u64 / 4;
/// Most levels of index pages: each level has at most half as many pages as the one below, and a file has fewer than
/// 2^32.
pub const HEIGHT_MAX: u32 = 33;

/// The contents of the footer, without the identity, which `decode` checks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BranchFooter {
    /// Length of the file.
    pub file_bytes: u64,
    /// The root index page.
    pub root: ChildLocation,
    /// Levels of index pages.
    pub height: u32,
    /// Leaf pages.
    pub leaves: u64,
    /// Index pages.
    pub index_pages: u64,
    /// Entries.
    pub entries: u64,
    /// Fingerprints: as many as distinct keys, or 0 if they are omitted.
    pub fingerprints: u64,
    /// Where leaf and index pages end and the fingerprints begin.
    pub fingerprints_at: u64,
    /// Where the fingerprints end and the filter begins.
    pub filter_at: u64,
    /// Pages of the filter.
    pub filter_pages: u32,
    /// Where the filter ends and the range tombstones begin.
    pub range_tombstones_at: u64,
    /// Where the range tombstones end and the properties begin.
    pub properties_at: u64,
    /// Length of the properties.
    pub properties_bytes: u64,
    /// Of an ingested file: the number of all entries, in place of the 0 that the pages have; `ZERO` while it has none.
    pub common_number: Option<SequenceNumber>,
}

impl BranchFooter {
    /// Writes the whole page. `page` must have `PAGE_BYTES`.
    pub fn encode(&self, owner: PageOwner, page: &mut [u8]) {
        let length = if self.common_number.is_some() { INGESTED_FOOTER_BYTES } else { FOOTER_BYTES };
        let payload = &mut page[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + length];
        let mut at = 0;
        let mut put = |bytes: &[u8]| {
            payload[at..at + bytes.len()].copy_from_slice(bytes);
            at += bytes.len();
        };
        put(&MAGIC);
        put(&FORMAT_VERSION.to_le_bytes());
        put(&self.height.to_le_bytes());
        put(&owner.database.0.to_le_bytes());
        put(&owner.file.0.to_le_bytes());
        put(&self.file_bytes.to_le_bytes());
        put(&self.root.encode());
        put(&u16::from(self.common_number.is_some()).to_le_bytes());
        put(&self.filter_pages.to_le_bytes());
        for word in [
            self.leaves,
            self.index_pages,
            self.entries,
            self.fingerprints,
            self.fingerprints_at,
            self.filter_at,
            self.range_tombstones_at,
            self.properties_at,
            self.properties_bytes,
        ] {
            put(&word.to_le_bytes());
        }
        if let Some(number) = self.common_number {
            put(&number.0.to_le_bytes());
        }
        debug_assert_eq!(at, length);
        let header = PageHeader {
            kind: PageKind::Footer,
            compression: Compression::None,
            level: 0,
            stored_len: length as u32,
            raw_len: length as u32,
            offset: self.file_bytes - PAGE_BYTES as u64,
        };
        page::seal(page, &header, owner);
    }

    /// Reads and checks the last page of a file of `file_bytes` bytes.
    pub fn decode(page: &[u8], file_bytes: u64, owner: PageOwner, path: &Path) -> Result<Self> {
        let offset = file_bytes - PAGE_BYTES as u64;
        // Before the checksum, which a newer format may place elsewhere.
        if let Some(payload) = page.get(PAGE_HEADER_BYTES..)
            && payload.starts_with(&MAGIC)
            && let Some(version) = word32(payload, 8)
            && version > FORMAT_VERSION
        {
            let mut own = page.to_vec();
            own[PAGE_HEADER_BYTES + 8..PAGE_HEADER_BYTES + 12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
            let fits = page::check(&own, offset, owner, path).is_ok();
            return Err(newer_or_damaged(path, offset + PAGE_HEADER_BYTES as u64 + 8, version, fits));
        }
        let header = match page::check(page, offset, owner, path) {
            Ok(header) => header,
            Err(error) => return Err(foreign(page, offset, owner, path).unwrap_or(error)),
        };
        let payload = page::payload(page);
        if header.kind != PageKind::Footer || !payload.starts_with(&MAGIC) {
            return Err(Error::corruption(path, offset, "last page", "the footer of a branch file", "another magic"));
        }
        let version = word32(payload, 8).unwrap_or(0);
        let invalid = || Error::corruption(path, offset, "footer", "a footer of this version", "invalid fields");
        if version == 0 {
            return Err(invalid());
        }
        let (footer, identity) = Self::fields(payload).ok_or_else(invalid)?;
        if identity != (owner.database.0, owner.file.0) {
            return Err(invalid());
        }
        footer
            .check_parts(file_bytes)
            .map_err(|what| Error::corruption(path, offset, "footer", "parts that fill the file", what))?;
        Ok(footer)
    }

    fn fields(payload: &[u8]) -> Option<(Self, (u64, u64))> {
        let footer = Self {
            height: word32(payload, 12)?,
            file_bytes: word64(payload, 32)?,
            root: match payload.get(40..50)? {
                [0, 0, 0, 0, 0, 0, 0, 0, 0, 0] => ChildLocation::default(),
                root => ChildLocation::decode(root)?,
            },
            filter_pages: word32(payload, 52)?,
            leaves: word64(payload, 56)?,
            index_pages: word64(payload, 64)?,
            entries: word64(payload, 72)?,
            fingerprints: word64(payload, 80)?,
            fingerprints_at: word64(payload, 88)?,
            filter_at: word64(payload, 96)?,
            range_tombstones_at: word64(payload, 104)?,
            properties_at: word64(payload, 112)?,
            properties_bytes: word64(payload, 120)?,
            common_number: match (payload.get(50..52)?, payload.len()) {
                ([0, 0], FOOTER_BYTES) => None,
                ([1, 0], INGESTED_FOOTER_BYTES) => {
                    let number = SequenceNumber(word64(payload, 128)?);
                    (number < SequenceNumber::MAX).then_some(Some(number))?
                }
                _ => return None,
            },
        };
        Some((footer, (word64(payload, 16)?, word64(payload, 24)?)))
    }

    /// Checks invariant 1, so that nothing read from a footer can lead outside its part or allocate more memory than
    /// the file has bytes.
    fn check_parts(&self, file_bytes: u64) -> std::result::Result<(), &'static str> {
        let page = PAGE_BYTES as u64;
        let bounds =
            [0, self.fingerprints_at, self.filter_at, self.range_tombstones_at, self.properties_at, file_bytes - page];
        if self.file_bytes != file_bytes {
            return Err("another file length");
        }
        if bounds.iter().any(|bound| !bound.is_multiple_of(page)) || !bounds.is_sorted() {
            return Err("parts out of order");
        }
        if (self.filter_at - self.fingerprints_at) / page != self.fingerprints.div_ceil(FINGERPRINTS_PER_PAGE) {
            return Err("a wrong number of fingerprints");
        }
        if (self.range_tombstones_at - self.filter_at) / page != u64::from(self.filter_pages) {
            return Err("a wrong number of filter pages");
        }
        if self.properties_bytes > file_bytes - page - self.properties_at {
            return Err("properties that are too long");
        }
        let has_root = self.root.pages > 0 && (1..=HEIGHT_MAX).contains(&self.height);
        let has_none = self.root == ChildLocation::default() && self.height == 0;
        if self.root.end() > self.fingerprints_at || !(if self.entries > 0 { has_root } else { has_none }) {
            return Err("a root outside the index");
        }
        Ok(())
    }
}

/// Whether the page is the valid footer of a file of another store or with another number. It allows a clearer message
/// than a bad checksum.
fn foreign(page: &[u8], offset: u64, owner: PageOwner, path: &Path) -> Option<Error> {
    let found = claimed_owner(page, offset, path)?;
    let name = |owner: PageOwner| format!("file {} of store {}", owner.file, owner.database);
    Some(Error::corruption(path, offset, "owner", name(owner), name(found)))
}

/// The file and store of the valid footer at `offset`, whatever they are.
pub fn claimed_owner(page: &[u8], offset: u64, path: &Path) -> Option<PageOwner> {
    let payload = page.get(PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + FOOTER_BYTES)?;
    let database = DatabaseId(word64(payload, 16)?);
    let file = crate::util::FileNumber(word64(payload, 24)?);
    let owner = PageOwner { database, file };
    (payload.starts_with(&MAGIC) && page::check(page, offset, owner, path).is_ok()).then_some(owner)
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(*bytes.get(at..)?.first_chunk()?))
}

#[cfg(test)]
mod tests;
