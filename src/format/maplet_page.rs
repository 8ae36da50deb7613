//! The encoding of one page of a maplet (see also `docs/format/maplet.md`). Pure; any thread.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 1 | version of this payload, 1 |
//! | 1 | 1 | *r*, bits of a remainder, at most 32 |
//! | 2 | 1 | *c*, bits of a column, at most 6; *r + c* is 1 to 32 |
//! | 3 | 1 | flags; bit 0: saturated, the page has no entries and may contain everything |
//! | 4 | 4 | pages of the maplet |
//! | 8 | 4 | *n*, entries |
//! | 12 | 4 | zero |
//! | 16 | 512 | for each of 256 buckets, two bytes: the number of entries before its end |
//! | 528 | ceil(*n* (*r* + *c*) / 8) | entries, bucket by bucket, packed without gaps, lowest bit first |
//! | then | 8 | zeroes, so that every entry can be read as eight bytes |
//!
//! An entry is, from its lowest bit, a remainder and a column. Bytes after the last are ignored, so a payload may
//! include the padding of its page.
//!
//! Invariant: every entry of a bucket of a `MapletPage` that `parse` returned can be read without a failing check,
//! whatever the bytes are.

use super::filter_page::PAGE_PAYLOAD_BYTES;

/// Buckets of a page.
pub const BUCKETS: u32 = 256;
/// Most bits of a column.
pub const COLUMN_BITS_MAX: u32 = 6;
/// Bytes before the entries.
pub const ENTRIES_AT: usize = HEADER_BYTES + 2 * BUCKETS as usize;

const HEADER_BYTES: usize = 16;
const TAIL_BYTES: usize = 8;
const VERSION: u8 = 1;
const SATURATED: u8 = 1;
const WIDTH_MAX: u32 = 32;

const _: () = assert!(WIDTH_MAX + 7 <= 64, "an entry is read as eight bytes");

/// Entries of `width` bits that fit into the longest payload.
pub const fn entries_max(width: u32) -> u32 {
    ((PAGE_PAYLOAD_BYTES - ENTRIES_AT - TAIL_BYTES) * 8) as u32 / width
}

/// The offset of a bucket's end in a payload.
pub const fn end_offset(bucket: u32) -> usize {
    HEADER_BYTES + 2 * bucket as usize
}

/// A payload with a valid header.
#[derive(Clone, Copy, Debug)]
pub struct MapletPage<'a> {
    ends: &'a [[u8; 2]; BUCKETS as usize],
    packed: &'a [u8],
    remainder_bits: u32,
    column_bits: u32,
    pages: u32,
    entries: u32,
    saturated: bool,
}

impl<'a> MapletPage<'a> {
    /// Parses a payload; `None` if its header is invalid.
    #[inline]
    pub fn parse(payload: &'a [u8]) -> Option<Self> {
        let (header, rest) = payload.split_first_chunk::<HEADER_BYTES>()?;
        let (ends, packed) = rest.split_first_chunk::<{ 2 * BUCKETS as usize }>()?;
        let [version, remainder_bits, column_bits, flags, p0, p1, p2, p3, n0, n1, n2, n3, ..] = *header;
        let page = Self {
            ends: ends.as_chunks::<2>().0.try_into().ok()?,
            packed,
            remainder_bits: u32::from(remainder_bits),
            column_bits: u32::from(column_bits),
            pages: u32::from_le_bytes([p0, p1, p2, p3]),
            entries: u32::from_le_bytes([n0, n1, n2, n3]),
            saturated: flags & SATURATED != 0,
        };
        let (width, columns_known) = (page.width(), page.column_bits <= COLUMN_BITS_MAX);
        if version != VERSION || !columns_known || !(1..=WIDTH_MAX).contains(&width) {
            return None;
        }
        let complete = page.entries <= entries_max(width) && packed.len() >= packed_bytes(page.entries, width);
        complete.then_some(page)
    }

    /// Bits of a remainder.
    #[inline]
    pub fn remainder_bits(&self) -> u32 {
        self.remainder_bits
    }

    /// The number of pages of the maplet.
    #[inline]
    pub fn pages(&self) -> u32 {
        self.pages
    }

    /// Whether the page may contain everything.
    #[inline]
    pub fn saturated(&self) -> bool {
        self.saturated
    }

    fn width(&self) -> u32 {
        self.remainder_bits + self.column_bits
    }

    /// The entries of a bucket; `None` if the page is inconsistent. Requires `bucket < BUCKETS`.
    #[inline]
    pub fn bucket(&self, bucket: u32) -> Option<std::ops::Range<u32>> {
        let end = |at: u32| u32::from(u16::from_le_bytes(self.ends[at as usize]));
        let start = if bucket == 0 { 0 } else { end(bucket - 1) };
        let end = end(bucket);
        (start <= end && end <= self.entries).then_some(start..end)
    }

    /// The columns with `remainder` in a bucket, as bits; `None` if the page is inconsistent. Requires `bucket <
    /// BUCKETS`.
    #[inline]
    pub fn columns(&self, bucket: u32, remainder: u32) -> Option<u64> {
        let range = self.bucket(bucket)?;
        let (width, mask) = (self.width() as usize, (1 << self.remainder_bits) - 1);
        let column_mask = (1 << self.column_bits) - 1;
        let (mut bit, mut columns) = (range.start as usize * width, 0);
        for _ in range {
            let eight = self.packed.get(bit / 8..)?.first_chunk::<8>()?;
            let bits = u64::from_le_bytes(*eight) >> (bit % 8);
            if bits & mask == u64::from(remainder) {
                columns |= 1 << (bits >> self.remainder_bits & column_mask);
            }
            bit += width;
        }
        Some(columns)
    }

    /// The remainder and the column of entry `at`. Requires `at` in the range of a bucket.
    #[inline]
    pub fn entry(&self, at: u32) -> (u32, u32) {
        debug_assert!(at < self.entries);
        let bit = at as usize * self.width() as usize;
        match self.packed.get(bit / 8..).and_then(|rest| rest.first_chunk::<8>()) {
            Some(eight) => {
                let bits = u64::from_le_bytes(*eight) >> (bit % 8);
                (low_bits(bits, self.remainder_bits), low_bits(bits >> self.remainder_bits, self.column_bits))
            }
            None => (0, 0),
        }
    }
}

/// A payload being written, in reused memory.
#[derive(Debug, Default)]
pub struct MapletPageWriter {
    payload: Vec<u8>,
    remainder_bits: u32,
    column_bits: u32,
}

impl MapletPageWriter {
    /// Begins a page whose buckets end before these entries. Requires that they ascend and that the entries fit.
    pub fn begin(&mut self, (remainder_bits, column_bits): (u32, u32), pages: u32, ends: &[u16; BUCKETS as usize]) {
        let (width, entries) = (remainder_bits + column_bits, u32::from(ends[ends.len() - 1]));
        assert!((1..=WIDTH_MAX).contains(&width) && column_bits <= COLUMN_BITS_MAX && entries <= entries_max(width));
        (self.remainder_bits, self.column_bits) = (remainder_bits, column_bits);
        self.payload.clear();
        self.payload.extend([VERSION, remainder_bits as u8, column_bits as u8, 0]);
        self.payload.extend(pages.to_le_bytes());
        self.payload.extend(entries.to_le_bytes());
        self.payload.extend([0; 4]);
        self.payload.extend(ends.iter().flat_map(|end| end.to_le_bytes()));
        self.payload.resize(ENTRIES_AT + packed_bytes(entries, width), 0);
    }

    /// Sets entry `at`, once.
    #[inline]
    pub fn set(&mut self, at: u32, remainder: u32, column: u32) {
        debug_assert!(u64::from(remainder) >> self.remainder_bits == 0 && column >> self.column_bits == 0);
        let bit = at as usize * (self.remainder_bits + self.column_bits) as usize;
        let bits = (u64::from(column) << self.remainder_bits | u64::from(remainder)) << (bit % 8);
        if let Some(eight) = self.payload.get_mut(ENTRIES_AT + bit / 8..).and_then(|rest| rest.first_chunk_mut::<8>()) {
            *eight = (u64::from_le_bytes(*eight) | bits).to_le_bytes();
        }
    }

    /// Makes the page saturated: it may contain everything.
    pub fn saturate(&mut self, bits: (u32, u32), pages: u32) {
        self.begin(bits, pages, &[0; BUCKETS as usize]);
        self.payload[3] = SATURATED;
    }

    /// The payload.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }
}

fn packed_bytes(entries: u32, width: u32) -> usize {
    (entries as usize * width as usize).div_ceil(8) + TAIL_BYTES
}

#[inline]
fn low_bits(bits: u64, count: u32) -> u32 {
    (bits & ((1 << count) - 1)) as u32
}
