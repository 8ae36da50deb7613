//! The first page of a log segment file, and the poison mark of a failed sync. Pure encoding and decoding; any thread.
//!
//! A segment file is one header page of 4096 bytes, then chunks of equal size that contain records (`log_record`).
//!
//! Sector 0, written once per use of the file:
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | magic `alluvlog` |
//! | 8 | 4 | format version |
//! | 12 | 4 | CRC-32C of bytes 16..512, salted with the version |
//! | 16 | 8 | database id |
//! | 24 | 8 | segment number, the one in the file's name |
//! | 32 | 8 | log epoch |
//! | 40 | 8 | first sequence number of the epoch |
//! | 48 | 8 | 1 if the life is known, else 0 |
//! | 56 | 8 | life: boot |
//! | 64 | 8 | life: instance of the file system |
//! | 72 | 8 | length of the file |
//! | 80 | 8 | length of a chunk |
//! | 88 | 8 | number of the shadow that writers write first; 0 if there is none, or if all of it is written back |
//! | 96 | 416 | zeroes |
//!
//! Sectors 1 and 2 (offsets 512 and 1024) contain marks, written in turn so that a torn one leaves the other intact:
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | counter: the mark with the larger one is newer; from 1 |
//! | 8 | 8 | every number up to this one was synced |
//! | 16 | 8 | this edit of the manifest was synced |
//! | 24 | 4 | CRC-32C of bytes 0..24, salted with the segment's salt at the mark's offset |
//!
//! The file `POISON`: format version (4), CRC-32C of what follows (4), log epoch (8), reason (UTF-8).
//!
//! A *life* is one boot of the kernel and one instance of the file system.
//!
//! Assumption about the disk: it writes a sector of 512 bytes completely or not at all, and a rewrite leaves the other
//! sectors of its page unchanged.

use super::log_record::Salt;
use super::{FORMAT_VERSION, newer_or_damaged};
use crate::io::Life;
use crate::util::checksum::checksum;
use crate::util::limits::IO_ALIGNMENT;
use crate::util::{DatabaseId, Error, FileNumber, Result, SequenceNumber};
use std::path::Path;

/// Bytes of the header page; the first chunk starts here.
pub const PAGE_BYTES: usize = 4096;
/// Bytes that the disk writes completely or not at all.
pub const SECTOR_BYTES: usize = 512;
/// Bytes of an encoded mark.
pub const MARK_BYTES: usize = 28;
const MAGIC: &[u8; 8] = b"alluvlog";

/// The fixed part of the header page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// The store.
    pub database: DatabaseId,
    /// The segment's number, also in its name.
    pub number: FileNumber,
    /// The log epoch: one opening of the store.
    pub epoch: u64,
    /// The epoch's first number.
    pub first: SequenceNumber,
    /// The life in which the epoch was written.
    pub life: Option<Life>,
    /// The file's length.
    pub segment_bytes: u64,
    /// The length of a chunk.
    pub chunk_bytes: u64,
    /// The shadow, which may contain more than the file (`docs/recovery.md`, H).
    pub shadow: Option<FileNumber>,
}

impl SegmentHeader {
    /// Sector 0.
    pub fn encode(&self) -> [u8; SECTOR_BYTES] {
        let mut sector = [0; SECTOR_BYTES];
        sector[..8].copy_from_slice(MAGIC);
        sector[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        let life = self.life.unwrap_or(Life { boot: 0, instance: 0 });
        let words = [
            self.database.0,
            self.number.0,
            self.epoch,
            self.first.0,
            u64::from(self.life.is_some()),
            life.boot,
            life.instance,
            self.segment_bytes,
            self.chunk_bytes,
            self.shadow.map_or(0, |shadow| shadow.0),
        ];
        for (at, word) in (16..).step_by(8).zip(words) {
            sector[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = checksum(&sector[16..], FORMAT_VERSION);
        sector[12..16].copy_from_slice(&sum.to_le_bytes());
        sector
    }

    /// Reads sector 0 of the file at `path`.
    pub fn decode(sector: &[u8; SECTOR_BYTES], path: &Path) -> Result<Self> {
        let bad =
            |offset, what, expected: String, found: String| Error::corruption(path, offset, what, expected, found);
        if &sector[..8] != MAGIC {
            let found = String::from_utf8_lossy(&sector[..8]).into_owned();
            return Err(bad(0, "log segment magic", "alluvlog".into(), format!("{found:?}")));
        }
        let half = |at: usize| u32::from_le_bytes([sector[at], sector[at + 1], sector[at + 2], sector[at + 3]]);
        let word = |index: usize| u64::from(half(16 + 8 * index)) | u64::from(half(20 + 8 * index)) << 32;
        let version = half(8);
        if version > FORMAT_VERSION {
            let fits = half(12) == checksum(&sector[16..], FORMAT_VERSION);
            return Err(newer_or_damaged(path, 8, version, fits));
        }
        let sum = checksum(&sector[16..], version);
        if half(12) != sum {
            return Err(bad(12, "log segment header checksum", format!("{sum:08x}"), format!("{:08x}", half(12))));
        }
        let header = Self {
            database: DatabaseId(word(0)),
            number: FileNumber(word(1)),
            epoch: word(2),
            first: SequenceNumber(word(3)),
            life: (word(4) == 1).then_some(Life { boot: word(5), instance: word(6) }),
            segment_bytes: word(7),
            chunk_bytes: word(8),
            shadow: Some(FileNumber(word(9))).filter(|shadow| shadow.0 > 0),
        };
        let alignment = IO_ALIGNMENT as u64;
        let whole = header.chunk_bytes >= alignment
            && header.chunk_bytes.is_multiple_of(alignment)
            && header.segment_bytes >= PAGE_BYTES as u64
            && (header.segment_bytes - PAGE_BYTES as u64).is_multiple_of(header.chunk_bytes);
        if version == 0 || !whole {
            let found =
                format!("version {version}, {} bytes in chunks of {}", header.segment_bytes, header.chunk_bytes);
            return Err(bad(72, "log segment geometry", "whole chunks after one page".into(), found));
        }
        Ok(header)
    }

    /// The number of chunks of the segment.
    pub fn chunks(&self) -> u64 {
        (self.segment_bytes - PAGE_BYTES as u64) / self.chunk_bytes
    }
}

/// What is known to be durable.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Increases with every mark of an epoch.
    pub counter: u64,
    /// Every number up to this one was synced.
    pub synced_through: SequenceNumber,
    /// This edit of the manifest was synced.
    pub manifest_edit: u64,
}

impl Mark {
    /// The offset of the mark in the header page.
    pub fn offset(&self) -> usize {
        SECTOR_BYTES * (1 + (self.counter % 2) as usize)
    }

    /// The mark's bytes.
    pub fn encode(&self, salt: Salt) -> [u8; MARK_BYTES] {
        let mut bytes = [0; MARK_BYTES];
        bytes[..8].copy_from_slice(&self.counter.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.synced_through.0.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.manifest_edit.to_le_bytes());
        let sum = checksum(&bytes[..24], salt.at(self.offset() as u64));
        bytes[24..].copy_from_slice(&sum.to_le_bytes());
        bytes
    }

    /// The newest mark in a header page; `None` if neither sector has a valid one.
    pub fn newest(page: &[u8; PAGE_BYTES], salt: Salt) -> Option<Self> {
        let read = |sector: usize| {
            let at = SECTOR_BYTES * sector;
            let word = |at: usize| page[at..].first_chunk().map(|bytes| u64::from_le_bytes(*bytes));
            let mark = Self {
                counter: word(at)?,
                synced_through: SequenceNumber(word(at + 8)?),
                manifest_edit: word(at + 16)?,
            };
            (mark.counter > 0 && mark.offset() == at && page[at..at + MARK_BYTES] == mark.encode(salt)).then_some(mark)
        };
        [read(1), read(2)].into_iter().flatten().max_by_key(|mark| mark.counter)
    }
}

/// The contents of the file `POISON`, which a failed sync leaves behind.
pub fn encode_poison(epoch: u64, reason: &str) -> Vec<u8> {
    let mut bytes = vec![0; 8];
    bytes.extend_from_slice(&epoch.to_le_bytes());
    bytes.extend_from_slice(reason.as_bytes());
    let sum = checksum(&bytes[8..], FORMAT_VERSION);
    bytes[..4].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    bytes[4..8].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// The epoch of a poison mark; `None` if it was not completely written, in which case it applies to any epoch.
pub fn decode_poison(bytes: &[u8]) -> Option<u64> {
    let (version, rest) = bytes.split_first_chunk::<4>()?;
    let (sum, rest) = rest.split_first_chunk::<4>()?;
    let epoch = rest.first_chunk::<8>()?;
    let whole =
        u32::from_le_bytes(*version) == FORMAT_VERSION && u32::from_le_bytes(*sum) == checksum(rest, FORMAT_VERSION);
    whole.then_some(u64::from_le_bytes(*epoch))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(life: Option<Life>) -> SegmentHeader {
        SegmentHeader {
            database: DatabaseId(7),
            number: FileNumber(12),
            epoch: 3,
            first: SequenceNumber(99),
            life,
            segment_bytes: 4096 + 4 * 8192,
            chunk_bytes: 8192,
            shadow: Some(FileNumber(5)),
        }
    }

    #[test]
    fn headers_round_trip_and_any_flipped_byte_is_found() {
        let path = Path::new("x.log");
        for life in [None, Some(Life { boot: 1, instance: 2 })] {
            let sector = header(life).encode();
            assert_eq!(SegmentHeader::decode(&sector, path).unwrap(), header(life));
            for at in 0..SECTOR_BYTES {
                let mut bad = sector;
                bad[at] ^= 0x40;
                assert!(SegmentHeader::decode(&bad, path).is_err(), "byte {at}");
            }
        }
        assert!(SegmentHeader::decode(&[0; SECTOR_BYTES], path).is_err());
    }

    #[test]
    fn a_header_without_a_shadow_has_zeroes_there() {
        let sector = SegmentHeader { shadow: None, ..header(None) }.encode();
        assert!(sector[88..].iter().all(|byte| *byte == 0));
        assert_eq!(SegmentHeader::decode(&sector, Path::new("x")).unwrap().shadow, None);
    }

    #[test]
    fn a_newer_version_is_named_as_such() {
        let mut sector = header(None).encode();
        sector[8] = FORMAT_VERSION as u8 + 1;
        let flipped = SegmentHeader::decode(&sector, Path::new("x"));
        assert!(
            matches!(flipped, Err(Error::Corruption { offset: 8, .. })),
            "only the version is damaged: {flipped:?}"
        );
        sector[100] = 1;
        assert!(matches!(SegmentHeader::decode(&sector, Path::new("x")), Err(Error::NewerFormat { found: 2, .. })));
    }

    #[test]
    fn the_newest_whole_mark_wins_and_a_torn_one_leaves_the_other() {
        let salt = Salt::new(DatabaseId(7), FileNumber(12));
        let mut page = [0; PAGE_BYTES];
        assert_eq!(Mark::newest(&page, salt), None);
        let mark = |counter| Mark { counter, synced_through: SequenceNumber(counter * 10), manifest_edit: counter };
        for counter in 1..6 {
            let mark = mark(counter);
            page[mark.offset()..mark.offset() + MARK_BYTES].copy_from_slice(&mark.encode(salt));
            assert_eq!(Mark::newest(&page, salt), Some(mark));
        }
        for at in 0..MARK_BYTES {
            let mut torn = page;
            torn[mark(5).offset() + at] ^= 1;
            assert_eq!(Mark::newest(&torn, salt), Some(mark(4)));
        }
        assert_eq!(Mark::newest(&page, Salt::new(DatabaseId(7), FileNumber(13))), None);
    }

    #[test]
    fn poison_marks_round_trip_and_garbage_is_none() {
        let bytes = encode_poison(5, "the disk died");
        assert_eq!(decode_poison(&bytes), Some(5));
        for length in 0..bytes.len() {
            assert_eq!(decode_poison(&bytes[..length]), None);
        }
    }
}
