//! The change file: committed writes in the order of their numbers, for followers. Pure encoding and decoding; any thread.
//!
//! ```text
//! header, at offset 0, 72 bytes
//! offset  bytes  what
//!      0      8  magic "ALLUVCHG"
//!      8      4  format version
//!     12      4  checksum of bytes 16..72, salted with the version
//!     16      8  database id
//!     24      8  file number
//!     32      8  after: every write in the file has a greater number
//!     40      8  date at which the file was made, milliseconds since 1970
//!     48      8  retention: bytes of all change files
//!     56      8  retention: milliseconds; 0 if age does not matter
//!     64      8  0 in a file of writes; in one with the pairs of an ingest its number, or 2^64 - 1 until it has one
//!
//! frames, from offset 72 on
//!      0      4  checksum of bytes 4..24 and then the checksum of the payload, salted
//!      4      4  kind: 1 names, 2 writes, 3 pairs, 4 ingest
//!      8      8  length of the payload
//!     16      8  through: the file has every write up to this number; for names and pairs, `after`
//!     24      n  payload
//! ```
//!
//! The first frame has the names of the keyspaces that there were at `after`: {id: varint, length: varint, name in UTF-8}
//! for each. The payload of the others is {number - the number before: varint, length: varint, body} for each write, where
//! the number before that of the first one is the `through` of the frame before. The body is that of a batch in the log
//! (`log_record`), but large values are in it themselves. Numbers without a write (voids, gaps that recovery skipped) are
//! left out; `through` covers them.
//!
//! A frame of kind 4 has no payload: the write with the number `through` is an ingest, whose pairs are in another file.
//!
//! A file with the pairs of an ingest has the name of its keyspace, and in each of the other frames a batch body of puts, in the
//! order of their keys. Its `after` means nothing.
//!
//! Checksums of frames are salted with the low half of the XXH3 hash of database id, file number and the frame's offset.
//!
//! Invariant: every byte of the file is under a checksum that depends on the store, the file and the place. So a frame that
//! a crash has torn is not read, nor a part of another change file.

use super::{FORMAT_VERSION, newer_or_damaged, u32_at, u64_at};
use crate::util::checksum::checksum;
use crate::util::hash::bytes_hash;
use crate::util::{DatabaseId, Error, FileNumber, KeyspaceId, Result, SequenceNumber, varint};
use std::path::Path;

#[cfg(test)]
mod tests;

/// Bytes of the header. The first frame follows.
pub const HEADER_BYTES: usize = 72;
/// Bytes of a frame in front of its payload.
pub const FRAME_BYTES: usize = 24;

const MAGIC: [u8; 8] = *b"ALLUVCHG";

/// The header of a change file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChangeFileHeader {
    /// The store.
    pub database: DatabaseId,
    /// The file's number, also in its name.
    pub file: FileNumber,
    /// Every write in the file has a greater number.
    pub after: SequenceNumber,
    /// When the file was made, milliseconds since 1970.
    pub date: u64,
    /// The most bytes that all change files may take.
    pub retained_bytes: u64,
    /// How long writes are kept, milliseconds; 0 if age does not matter.
    pub retained_millis: u64,
    /// The number of the ingest whose pairs the file has; `MAX` until it has one. `None`: a file of writes.
    pub ingest: Option<SequenceNumber>,
}

impl ChangeFileHeader {
    /// The header's bytes.
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut out = [0; HEADER_BYTES];
        out[..8].copy_from_slice(&MAGIC);
        out[8..12].copy_from_slice(&FORMAT_VERSION.to_le_bytes());
        let Self { database, file, after, date, retained_bytes, retained_millis, ingest } = *self;
        let ingest = ingest.map_or(0, |number| number.0);
        let words = [database.0, file.0, after.0, date, retained_bytes, retained_millis, ingest];
        for (at, word) in (16..).step_by(8).zip(words) {
            out[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        let sum = checksum(&out[16..], FORMAT_VERSION);
        out[12..16].copy_from_slice(&sum.to_le_bytes());
        out
    }

    /// Reads the header of the file at `path`.
    pub fn decode(bytes: &[u8; HEADER_BYTES], path: &Path) -> Result<Self> {
        if bytes[..8] != MAGIC {
            let (expected, found) = (MAGIC.escape_ascii(), bytes[..8].escape_ascii());
            return Err(Error::corruption(path, 0, "change file magic", expected, found));
        }
        let version = u32_at(bytes, 8);
        if version > FORMAT_VERSION {
            let fits = checksum(&bytes[16..], FORMAT_VERSION) == u32_at(bytes, 12);
            return Err(newer_or_damaged(path, 8, version, fits));
        }
        let (expected, found) = (checksum(&bytes[16..], version), u32_at(bytes, 12));
        if expected != found {
            return Err(Error::corruption(path, 12, "change file header checksum", expected, found));
        }
        if version != FORMAT_VERSION {
            return Err(Error::corruption(path, 8, "change file format version", FORMAT_VERSION, version));
        }
        Ok(Self {
            database: DatabaseId(u64_at(bytes, 16)),
            file: FileNumber(u64_at(bytes, 24)),
            after: SequenceNumber(u64_at(bytes, 32)),
            date: u64_at(bytes, 40),
            retained_bytes: u64_at(bytes, 48),
            retained_millis: u64_at(bytes, 56),
            ingest: Some(SequenceNumber(u64_at(bytes, 64))).filter(|number| number.0 > 0),
        })
    }

    fn salt(&self, offset: u64) -> u32 {
        let mut place = [0; 24];
        place[..8].copy_from_slice(&self.database.0.to_le_bytes());
        place[8..16].copy_from_slice(&self.file.0.to_le_bytes());
        place[16..].copy_from_slice(&offset.to_le_bytes());
        bytes_hash(&place) as u32
    }
}

/// What a frame has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameKind {
    /// The names of keyspaces.
    Names = 1,
    /// Writes.
    Writes = 2,
    /// Pairs of an ingest.
    Pairs = 3,
    /// An ingest, whose pairs are in another file.
    Ingest = 4,
}

/// The part of a frame in front of its payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    checksum: u32,
    /// What the payload is.
    pub kind: FrameKind,
    /// Bytes of the payload.
    pub length: u64,
    /// The file has every write up to this number.
    pub through: SequenceNumber,
}

impl FrameHeader {
    /// Reads the front of a frame; `None` if the bytes are not that. Its checksum is not checked yet.
    pub fn decode(bytes: &[u8; FRAME_BYTES]) -> Option<Self> {
        let kind = match u32_at(bytes, 4) {
            1 => FrameKind::Names,
            2 => FrameKind::Writes,
            3 => FrameKind::Pairs,
            4 => FrameKind::Ingest,
            _ => return None,
        };
        let through = SequenceNumber(u64_at(bytes, 16));
        let is_number = through < SequenceNumber::MAX;
        is_number.then(|| Self { checksum: u32_at(bytes, 0), kind, length: u64_at(bytes, 8), through })
    }

    /// Whether this is the frame at `offset` with this payload.
    pub fn accepts(&self, payload: &[u8], file: &ChangeFileHeader, offset: u64) -> bool {
        let front = front(self.kind, payload.len() as u64, self.through);
        self.length == payload.len() as u64 && self.checksum == frame_checksum(&front, payload, file.salt(offset))
    }

    /// The offset behind the frame at `offset`.
    pub fn end(&self, offset: u64) -> Option<u64> {
        offset.checked_add(FRAME_BYTES as u64)?.checked_add(self.length)
    }
}

/// The bytes of a frame in front of its payload.
pub fn encode_frame(
    file: &ChangeFileHeader,
    offset: u64,
    kind: FrameKind,
    through: SequenceNumber,
    payload: &[u8],
) -> [u8; FRAME_BYTES] {
    let front = front(kind, payload.len() as u64, through);
    let mut out = [0; FRAME_BYTES];
    out[..4].copy_from_slice(&frame_checksum(&front, payload, file.salt(offset)).to_le_bytes());
    out[4..].copy_from_slice(&front);
    out
}

fn front(kind: FrameKind, length: u64, through: SequenceNumber) -> [u8; FRAME_BYTES - 4] {
    let mut front = [0; FRAME_BYTES - 4];
    front[..4].copy_from_slice(&(kind as u32).to_le_bytes());
    front[4..12].copy_from_slice(&length.to_le_bytes());
    front[12..].copy_from_slice(&through.0.to_le_bytes());
    front
}

fn frame_checksum(front: &[u8], payload: &[u8], salt: u32) -> u32 {
    checksum(&[front, &checksum(payload, 0).to_le_bytes()].concat(), salt)
}

/// Adds a write to the payload of a frame.
pub fn push_write(before: SequenceNumber, number: SequenceNumber, body: &[u8], payload: &mut Vec<u8>) {
    debug_assert!(number > before);
    varint::write(number.0 - before.0, payload);
    varint::write_bytes(body, payload);
}

/// Takes the next write off the payload of a frame: its number and its body.
pub fn next_write<'a>(before: SequenceNumber, payload: &mut &'a [u8]) -> Option<(SequenceNumber, &'a [u8])> {
    let number = SequenceNumber(before.0.checked_add(varint::read(payload)?)?);
    (before < number && number < SequenceNumber::MAX).then_some(())?;
    Some((number, varint::read_bytes(payload)?))
}

/// The payload of a frame of names.
pub fn encode_names<'a>(names: impl Iterator<Item = (KeyspaceId, &'a str)>) -> Vec<u8> {
    let mut payload = Vec::new();
    for (id, name) in names {
        varint::write(u64::from(id.0), &mut payload);
        varint::write_bytes(name.as_bytes(), &mut payload);
    }
    payload
}

/// Decodes what `encode_names` wrote; `None` if it is something else.
pub fn decode_names(mut payload: &[u8]) -> Option<Vec<(KeyspaceId, &str)>> {
    let mut names = Vec::new();
    while !payload.is_empty() {
        let id = KeyspaceId(u32::try_from(varint::read(&mut payload)?).ok()?);
        names.push((id, std::str::from_utf8(varint::read_bytes(&mut payload)?).ok()?));
    }
    Some(names)
}
