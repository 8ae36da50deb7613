//! The manifest's header page and the frame of its records (see also `docs/format/manifest.md`). Pure; any thread.
//!
//! Header page, 4096 bytes:
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 8 | magic `ALVMANIF` |
//! | 8 | 4 | format version |
//! | 12 | 4 | zero |
//! | 16 | 8 | database id |
//! | 24 | 4068 | zero |
//! | 4092 | 4 | checksum of everything before it, unsalted |
//!
//! Magic and version keep their places in every later version. The version is checked before the checksum.
//!
//! Records follow, each at a multiple of 8:
//!
//! | offset | bytes | field |
//! | --- | --- | --- |
//! | 0 | 4 | checksum of everything after it, including padding, salted with the database id |
//! | 4 | 4 | length of the payload |
//! | 8 | 8 | edit number |
//! | 16 | length | payload: an encoded edit (`manifest_edit`) |
//! | 16 + length | 0 to 7 | zeroes up to a multiple of 8 |

use super::manifest_edit::Identity;
use super::{FORMAT_VERSION, newer_or_damaged};
use crate::util::checksum::checksum;
use crate::util::hash::bytes_hash;
use crate::util::planted::planted;
use crate::util::{DatabaseId, Error, Result};
use std::path::Path;

/// The first bytes of every manifest.
pub const MAGIC: [u8; 8] = *b"ALVMANIF";
/// Bytes of the header page.
pub const HEADER_BYTES: usize = 4096;
/// Bytes of a record before its payload.
pub const FRAME_BYTES: usize = 16;
/// Every record begins at a multiple of this.
pub const RECORD_ALIGNMENT: usize = 8;
/// Longest payload. A snapshot of a hundred thousand branches takes a few dozen MiB.
pub const PAYLOAD_BYTES_MAX: usize = 256 << 20;

const CHECKSUM_AT: usize = HEADER_BYTES - 4;

const _: () = assert!(PAYLOAD_BYTES_MAX <= u32::MAX as usize);
const _: () = assert!(FRAME_BYTES.is_multiple_of(RECORD_ALIGNMENT) && HEADER_BYTES.is_multiple_of(RECORD_ALIGNMENT));

/// The header page of a manifest.
pub fn encode_header(identity: &Identity) -> Vec<u8> {
    let mut page = vec![0; HEADER_BYTES];
    page[..8].copy_from_slice(&MAGIC);
    page[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
    page[16..24].copy_from_slice(&identity.database.0.to_le_bytes());
    let sum = checksum(&page[..CHECKSUM_AT], 0);
    page[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
    page
}

/// Decodes the header page at the front of a manifest. `path` is for error messages.
pub fn decode_header(file: &[u8], path: &Path) -> Result<Identity> {
    let Some(page) = file.get(..HEADER_BYTES) else {
        return Err(Error::corruption(path, 0, "manifest length", format!("at least {HEADER_BYTES}"), file.len()));
    };
    if page[..8] != MAGIC {
        let found = format!("{:02x?}", &page[..8]);
        return Err(Error::corruption(path, 0, "manifest magic", format!("{MAGIC:02x?}"), found));
    }
    // Before the checksum, which a newer format may place elsewhere.
    let version = read_u32(page, 8);
    let found = read_u32(page, CHECKSUM_AT);
    if version > FORMAT_VERSION {
        planted!(Bug::NewerManifestRead => { return Ok(Identity { database: DatabaseId(read_u64(page, 16)) }) });
        let mut own = page[..CHECKSUM_AT].to_vec();
        own[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        return Err(newer_or_damaged(path, 8, version, checksum(&own, 0) == found));
    }
    let expected = checksum(&page[..CHECKSUM_AT], 0);
    if expected != found {
        let (expected, found) = (format!("{expected:08x}"), format!("{found:08x}"));
        return Err(Error::corruption(path, CHECKSUM_AT as u64, "manifest header checksum", expected, found));
    }
    if version != FORMAT_VERSION {
        return Err(Error::corruption(path, 8, "format version", FORMAT_VERSION, version));
    }
    if let Some(at) = (12..16).chain(24..CHECKSUM_AT).find(|at| page[*at] != 0) {
        return Err(Error::corruption(path, at as u64, "unused header byte", 0, page[at]));
    }
    Ok(Identity { database: DatabaseId(read_u64(page, 16)) })
}

/// The salt of the manifest records of a store.
pub fn record_salt(database: DatabaseId) -> u32 {
    bytes_hash(&database.0.to_le_bytes()) as u32
}

/// Bytes of a record with a payload of `length`.
pub fn record_bytes(length: usize) -> usize {
    (FRAME_BYTES + length).next_multiple_of(RECORD_ALIGNMENT)
}

/// Appends a record whose payload `encode` appends. `out` must end at a multiple of 8, and the payload must not exceed
/// `PAYLOAD_BYTES_MAX`.
pub fn encode_record(number: u64, salt: u32, out: &mut Vec<u8>, encode: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    assert!(start.is_multiple_of(RECORD_ALIGNMENT));
    out.resize(start + FRAME_BYTES, 0);
    encode(out);
    let length = out.len() - start - FRAME_BYTES;
    assert!(length <= PAYLOAD_BYTES_MAX, "a manifest edit of {length} bytes");
    out.resize(start + record_bytes(length), 0);
    let record = &mut out[start..];
    record[4..8].copy_from_slice(&(length as u32).to_le_bytes());
    record[8..16].copy_from_slice(&number.to_le_bytes());
    let sum = checksum(&record[4..], salt);
    record[..4].copy_from_slice(&sum.to_le_bytes());
}

/// A complete record with a valid checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The edit's number.
    pub number: u64,
    /// The encoded edit.
    pub payload: &'a [u8],
    /// Bytes from this record to the next.
    pub bytes: usize,
}

/// Why bytes are not a valid record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadRecord {
    /// The invalid part: "record length", "record checksum".
    pub what: &'static str,
    /// What was expected there.
    pub expected: String,
    /// What was found there.
    pub found: String,
}

/// The unchecked edit number of the frame at the front of `bytes`; `None` if they are too short for a frame.
pub fn claimed_number(bytes: &[u8]) -> Option<u64> {
    (bytes.len() >= FRAME_BYTES).then(|| read_u64(bytes, 8))
}

/// Decodes the record at the front of `bytes`, which extend to the end of the file.
pub fn decode_record(bytes: &[u8], salt: u32) -> std::result::Result<Record<'_>, BadRecord> {
    if bytes.len() < FRAME_BYTES {
        let found = format!("{} bytes", bytes.len());
        return Err(BadRecord { what: "record frame", expected: format!("{FRAME_BYTES} bytes"), found });
    }
    let length = read_u32(bytes, 4) as usize;
    let whole = record_bytes(length.min(PAYLOAD_BYTES_MAX));
    if length > PAYLOAD_BYTES_MAX || whole > bytes.len() {
        let space = (bytes.len() - FRAME_BYTES).min(PAYLOAD_BYTES_MAX);
        let expected = format!("at most {space}");
        return Err(BadRecord { what: "record length", expected, found: length.to_string() });
    }
    let (expected, found) = (checksum(&bytes[4..whole], salt), read_u32(bytes, 0));
    if expected != found {
        let (expected, found) = (format!("{expected:08x}"), format!("{found:08x}"));
        return Err(BadRecord { what: "record checksum", expected, found });
    }
    Ok(Record { number: read_u64(bytes, 8), payload: &bytes[FRAME_BYTES..FRAME_BYTES + length], bytes: whole })
}

/// Requires `at + 4 <= bytes.len()`.
fn read_u32(bytes: &[u8], at: usize) -> u32 {
    let mut field = [0; 4];
    field.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(field)
}

/// Requires `at + 8 <= bytes.len()`.
fn read_u64(bytes: &[u8], at: usize) -> u64 {
    let mut field = [0; 8];
    field.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(field)
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity = Identity { database: DatabaseId(0x0123_4567_89ab_cdef) };

    #[test]
    fn the_header_page_never_changes() {
        let page = encode_header(&IDENTITY);
        assert_eq!(page.len(), 4096);
        assert_eq!(&page[..24], b"ALVMANIF\x01\0\0\0\0\0\0\0\xef\xcd\xab\x89\x67\x45\x23\x01");
        assert_eq!(decode_header(&page, Path::new("m")).unwrap(), IDENTITY);
    }

    #[test]
    fn every_flipped_bit_of_the_header_is_an_error() {
        let page = encode_header(&IDENTITY);
        for bit in 0..page.len() * 8 {
            let mut bad = page.clone();
            bad[bit / 8] ^= 1 << (bit % 8);
            match decode_header(&bad, Path::new("m")) {
                Err(Error::Corruption { .. }) => {}
                other => panic!("bit {bit}: {other:?}"),
            }
        }
        for length in [0, 1, 8, 4095] {
            assert!(matches!(decode_header(&page[..length], Path::new("m")), Err(Error::Corruption { .. })));
        }
    }

    #[test]
    fn a_newer_header_is_named_as_such() {
        let mut page = encode_header(&IDENTITY);
        page[8] = 2;
        let sum = checksum(&page[..CHECKSUM_AT], 0);
        page[CHECKSUM_AT..].copy_from_slice(&sum.to_le_bytes());
        let error = decode_header(&page, Path::new("m")).unwrap_err();
        assert!(matches!(error, Error::NewerFormat { found: 2, supported: 1, .. }), "{error}");
    }

    #[test]
    fn records_round_trip_and_every_flipped_bit_is_seen() {
        for length in 0..40 {
            let payload: Vec<u8> = (0..length).map(|at| at as u8 ^ 0x5a).collect();
            let mut out = vec![9; 8];
            encode_record(77, 5, &mut out, |out| out.extend_from_slice(&payload));
            let bytes = &out[8..];
            let record = Record { number: 77, payload: &payload, bytes: bytes.len() };
            assert_eq!(decode_record(bytes, 5), Ok(record));
            assert_eq!(claimed_number(bytes), Some(77));
            assert!(decode_record(bytes, 6).is_err());
            for bit in 0..bytes.len() * 8 {
                let mut bad = bytes.to_vec();
                bad[bit / 8] ^= 1 << (bit % 8);
                assert!(decode_record(&bad, 5).is_err(), "bit {bit}");
            }
            for cut in 0..bytes.len() {
                assert!(decode_record(&bytes[..cut], 5).is_err());
            }
        }
    }
}
