//! One record of the log: a header, then a body of operations. Pure encoding and decoding; any thread.
//!
//! A record starts at a multiple of 8 in its segment file.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 4 | header checksum: CRC-32C of bytes 4..24, salted |
//! | 4 | 4 | length of the body |
//! | 8 | 8 | sequence number; the first one of a run |
//! | 16 | 4 | body checksum: CRC-32C of the body, salted |
//! | 20 | 1 | kind |
//! | 21 | 1 | flags: 1 the body of a void is its last number, 2 the body of a void is meaningless |
//! | 22 | 2 | tag: 16 more bits of the segment's salt, never 0 |
//! | 24 | n | body, then up to 7 arbitrary bytes, up to a multiple of 8 |
//!
//! An operation is {keyspace: varint, key length: varint, key, value length: varint, value}; a delete ends after its
//! key. For a range delete the key is the first one of the range, and the value the first one after it; an empty value is
//! the end of the keyspace. For a merge the value is the operand. The body of a put, delete, range delete, merge or value
//! reference is one operation. The body of a batch is {count: varint, count times {kind: 1 byte, operation}}. The body of
//! a void is empty, or 8 bytes with the last number of a run, or ignored.
//!
//! Invariants:
//! 1. The salt depends on the database id, the segment's number and the record's offset. So neither stale bytes of a
//!    recycled segment nor a part of a log that was stored as a value parse as a record.
//! 2. The word at offset 0 is stored last. With anything else there, the header does not parse. So a record either
//!    exists or not, at whatever moment its writer dies (`docs/concurrency.md`, W).

use crate::util::checksum::checksum;
use crate::util::planted::planted;
use crate::util::{DatabaseId, FileNumber, KeyspaceId, Kind, SequenceNumber, hash, varint};

/// Bytes of a record's header.
pub const HEADER_BYTES: usize = 24;
/// Every record starts at a multiple of this.
pub const ALIGNMENT: usize = 8;
/// Flag of a void that covers several numbers: its body is the last of them.
pub const FLAG_RUN: u8 = 1;
/// Flag of a void in place of a write that failed after it took its number: the body is meaningless.
pub const FLAG_DISCARDED: u8 = 2;
/// Longest body.
pub const BODY_BYTES_MAX: usize = (u32::MAX as usize) - HEADER_BYTES - ALIGNMENT;

/// The salt that makes the checksums of a segment its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Salt {
    word: u32,
    tag: u16,
}

impl Salt {
    /// The salt of a segment of a store.
    pub fn new(database: DatabaseId, segment: FileNumber) -> Self {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&database.0.to_le_bytes());
        bytes[8..].copy_from_slice(&segment.0.to_le_bytes());
        let hash = hash::bytes_hash(&bytes);
        Self { word: hash as u32, tag: (hash >> 32) as u16 | 1 }
    }

    /// The checksum salt of a record at `position` in the segment.
    pub fn at(self, position: u64) -> u32 {
        self.word ^ ((position >> 3) as u32).wrapping_mul(0x9e37_79b1)
    }

    /// The 16 bits at offset 22 of every header.
    pub fn tag(self) -> u16 {
        self.tag
    }
}

/// Bytes that a record takes, including header and padding.
pub fn record_length(body_length: usize) -> usize {
    (HEADER_BYTES + body_length).next_multiple_of(ALIGNMENT)
}

/// The header's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RecordHeader {
    /// Bytes of the body.
    pub body_length: u32,
    /// The record's number.
    pub number: SequenceNumber,
    /// The body's checksum.
    pub body_checksum: u32,
    /// The kind of the record.
    pub kind: Kind,
    /// See the byte table.
    pub flags: u8,
}

impl RecordHeader {
    /// The header as three words, to be stored little-endian, the first one last.
    pub fn encode(&self, salt: Salt, position: u64) -> [u64; 3] {
        let last = u64::from(self.body_checksum)
            | u64::from(self.kind as u8) << 32
            | u64::from(self.flags) << 40
            | u64::from(salt.tag) << 48;
        let mut covered = [0; HEADER_BYTES - 4];
        covered[..4].copy_from_slice(&self.body_length.to_le_bytes());
        covered[4..12].copy_from_slice(&self.number.0.to_le_bytes());
        covered[12..].copy_from_slice(&last.to_le_bytes());
        let sum = checksum(&covered, salt.at(position));
        [u64::from(sum) | u64::from(self.body_length) << 32, self.number.0, last]
    }

    /// The header at `position`; `None` if these bytes are not a header.
    pub fn decode(bytes: &[u8; HEADER_BYTES], salt: Salt, position: u64) -> Option<Self> {
        let [s0, s1, s2, s3, covered @ ..] = bytes;
        let [l0, l1, l2, l3, n0, n1, n2, n3, n4, n5, n6, n7, b0, b1, b2, b3, kind, flags, t0, t1] = *covered;
        if u16::from_le_bytes([t0, t1]) != salt.tag
            || u32::from_le_bytes([*s0, *s1, *s2, *s3]) != checksum(covered, salt.at(position))
        {
            return None;
        }
        let header = Self {
            body_length: u32::from_le_bytes([l0, l1, l2, l3]),
            number: SequenceNumber(u64::from_le_bytes([n0, n1, n2, n3, n4, n5, n6, n7])),
            body_checksum: u32::from_le_bytes([b0, b1, b2, b3]),
            kind: Kind::from_byte(kind)?,
            flags,
        };
        let number_fits = header.number > SequenceNumber::ZERO && header.number < SequenceNumber::MAX;
        let length_fits = header.body_length as usize <= BODY_BYTES_MAX;
        let flags_fit = flags == 0 || (header.kind == Kind::Void && flags <= FLAG_DISCARDED);
        (number_fits && length_fits && flags_fit).then_some(header)
    }

    /// Whether `body` is the one for which this header was made.
    pub fn accepts(&self, body: &[u8], salt: Salt, position: u64) -> bool {
        let found = checksum(body, salt.at(position));
        let sum_fits = planted!(found == self.body_checksum, Bug::RecordChecksumIgnored => true);
        body.len() == self.body_length as usize && sum_fits
    }

    /// The last number that the record covers: its own, except for a run of voids. `None` if the body is not that of
    /// such a run.
    pub fn last_number(&self, body: &[u8]) -> Option<SequenceNumber> {
        if self.kind != Kind::Void || self.flags & FLAG_RUN == 0 {
            return Some(self.number);
        }
        let last = SequenceNumber(u64::from_le_bytes(body.try_into().ok()?));
        (last >= self.number && last < SequenceNumber::MAX).then_some(last)
    }
}

/// One operation, borrowed from a record's body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation<'a> {
    /// `Put`, `Delete`, `RangeDelete`, `Merge` or `ValueReference`.
    pub kind: Kind,
    /// The keyspace.
    pub keyspace: KeyspaceId,
    /// The user's key, without the keyspace.
    pub key: &'a [u8],
    /// The value, the operand, or the encoded reference; empty for a delete. Of a range delete, see the module.
    pub value: &'a [u8],
}

impl<'a> Operation<'a> {
    /// Bytes that `encode` writes.
    pub fn encoded_length(&self) -> usize {
        operation_length(self.kind, self.keyspace, self.key.len(), self.value.len())
    }

    /// Writes the operation to the front of `out` and returns the number of bytes written. `out` must be long enough.
    pub fn encode(&self, out: &mut [u8]) -> usize {
        debug_assert!(is_operation(self.kind));
        let mut at = varint::write_to(u64::from(self.keyspace.0), out);
        at = put_bytes(self.key, out, at);
        if self.kind != Kind::Delete {
            at = put_bytes(self.value, out, at);
        }
        at
    }

    fn decode(kind: Kind, bytes: &mut &'a [u8]) -> Option<Self> {
        let keyspace = KeyspaceId(u32::try_from(varint::read(bytes)?).ok()?);
        let key = varint::read_bytes(bytes)?;
        let value = if kind == Kind::Delete { &[] } else { varint::read_bytes(bytes)? };
        let is_range = kind != Kind::RangeDelete || (keyspace < KeyspaceId::LAST && (value.is_empty() || key < value));
        (is_operation(kind) && is_range).then_some(Self { kind, keyspace, key, value })
    }

    /// The end of a range delete, without the keyspace; `None` for the end of the keyspace.
    pub fn range_end(&self) -> Option<&'a [u8]> {
        debug_assert_eq!(self.kind, Kind::RangeDelete);
        Some(self.value).filter(|end| !end.is_empty())
    }
}

/// Bytes of an operation with a key and a value of these lengths. For a record with just this operation, the length of
/// its body.
pub fn operation_length(kind: Kind, keyspace: KeyspaceId, key_length: usize, value_length: usize) -> usize {
    let key = varint::length(u64::from(keyspace.0)) + varint::length(key_length as u64) + key_length;
    if kind == Kind::Delete { key } else { key + varint::length(value_length as u64) + value_length }
}

fn is_operation(kind: Kind) -> bool {
    matches!(kind, Kind::Put | Kind::Delete | Kind::RangeDelete | Kind::Merge | Kind::ValueReference)
}

fn put_bytes(bytes: &[u8], out: &mut [u8], at: usize) -> usize {
    let at = at + varint::write_to(bytes.len() as u64, &mut out[at..]);
    out[at..at + bytes.len()].copy_from_slice(bytes);
    at + bytes.len()
}

/// Bytes of a batch's body.
pub fn batch_length<'a>(operations: impl Iterator<Item = Operation<'a>>) -> usize {
    let (mut count, mut bytes) = (0, 0);
    for operation in operations {
        count += 1;
        bytes += 1 + operation.encoded_length();
    }
    varint::length(count) + bytes
}

/// Writes a batch's body operation by operation.
#[derive(Debug)]
pub struct BatchEncoder<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> BatchEncoder<'a> {
    /// A batch of `count` operations in `out`, which must have `batch_length` bytes.
    pub fn new(count: u64, out: &'a mut [u8]) -> Self {
        let at = varint::write_to(count, out);
        Self { out, at }
    }

    /// Adds an operation.
    pub fn push(&mut self, operation: Operation<'_>) {
        self.out[self.at] = operation.kind as u8;
        self.at += 1;
        self.at += operation.encode(&mut self.out[self.at..]);
    }

    /// Bytes written so far; at the end, all.
    pub fn filled(&self) -> usize {
        self.at
    }
}

/// The operations of one record. All of them are checked before the first is returned.
#[derive(Clone, Debug)]
pub struct Operations<'a> {
    kind: Kind,
    left: u64,
    bytes: &'a [u8],
}

impl<'a> Operations<'a> {
    /// The operations in the body of a record of this kind; `None` if the body is malformed.
    pub fn parse(kind: Kind, body: &'a [u8]) -> Option<Self> {
        let operations = match kind {
            Kind::Void => return Some(Self { kind, left: 0, bytes: &[] }),
            Kind::Batch => {
                let mut bytes = body;
                let left = varint::read(&mut bytes)?;
                Self { kind, left, bytes }
            }
            _ => Self { kind, left: 1, bytes: body },
        };
        let mut walk = operations.clone();
        while walk.left > 0 {
            walk.step()?;
        }
        walk.bytes.is_empty().then_some(operations)
    }

    /// Appends the operations that are left as the body of a batch.
    pub fn append_as_batch(&self, out: &mut Vec<u8>) {
        varint::write(self.left, out);
        if self.kind != Kind::Batch && self.left > 0 {
            out.push(self.kind as u8);
        }
        out.extend_from_slice(self.bytes);
    }

    fn step(&mut self) -> Option<Operation<'a>> {
        self.left = self.left.checked_sub(1)?;
        let kind = if self.kind == Kind::Batch {
            let (&byte, rest) = self.bytes.split_first()?;
            self.bytes = rest;
            Kind::from_byte(byte)?
        } else {
            self.kind
        };
        Operation::decode(kind, &mut self.bytes)
    }
}

impl<'a> Iterator for Operations<'a> {
    type Item = Operation<'a>;

    fn next(&mut self) -> Option<Operation<'a>> {
        self.step()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        // Every operation takes at least two bytes, so a count that `parse` accepted is plausible.
        (self.left as usize, Some(self.left as usize))
    }
}

#[cfg(test)]
mod tests;
