//! The payload of leaf and index pages: entries in order, laid out for search. (In the spirit of SplinterDB §2, whose
//! branches are static B-trees of packed 4 KiB nodes; the packed key heads are ours.)
//!
//! Pure functions over bytes; any thread.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 4 | n, the number of entries, at least 1 |
//! | 4 | 3 | p, the length of the prefix that all keys of the page share |
//! | 7 | 1 | w, the width of packed values: 10 in index pages (`ChildLocation`), in leaves 0, and values stand in entries |
//! | 8 | p | the prefix |
//! | 8 + p | 8 n | heads: for each key the eight bytes behind the prefix as a big-endian number (short keys filled with zeroes), stored little-endian like every number |
//! | 8 + p + 8 n | w n | packed values: a search of an index page ends here and never touches an entry, but for equal heads |
//! | 8 + p + (8 + w) n | 4 n | offsets: where in the payload each entry starts |
//! | 8 + p + (12 + w) n | | entries, without gaps; one ends where the next starts, the last with the payload |
//!
//! An entry:
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 8 | tag: sequence number << 8, or kind |
//! | 8 | 1–3 | s, the length of the key behind the prefix (varint) |
//! | | max(0, s - 8) | the key behind prefix and head |
//! | | the rest | value, where values are not packed |
//!
//! Invariants:
//! 1. Entries stand in entry order: key ascending, number descending.
//! 2. Comparing heads never contradicts comparing keys; equal heads leave the rest of the key, then the number.
//! 3. A page that `validate` accepted, or that the builder made, can be read with every function here without a panic,
//!    whatever its bytes are.

use crate::base::limits::KEY_BYTES_MAX;
use crate::base::{KeyspaceId, Kind, SequenceNumber, key, prefetch, varint};
use std::cmp::Ordering;
use std::ops::Range;

pub mod build;
pub mod child;

pub use build::SortedPageBuilder;
pub use child::ChildLocation;

/// Bytes before the heads.
const FIXED_BYTES: usize = 8;
/// Bytes that an entry takes among heads and offsets.
const SLOT_BYTES: usize = 12;
/// Bytes of a tag.
const TAG_BYTES: usize = 8;
/// Bytes of a head.
const HEAD_BYTES: usize = 8;

/// Number and kind in one word.
pub fn tag(number: SequenceNumber, kind: Kind) -> u64 {
    debug_assert!(number <= SequenceNumber::MAX);
    number.0 << 8 | kind as u64
}

/// The number in a tag.
pub fn tag_number(tag: u64) -> SequenceNumber {
    SequenceNumber(tag >> 8)
}

/// The kind in a tag; `Void`, which no reader takes for data, where a page was never validated.
pub fn tag_kind(tag: u64) -> Kind {
    Kind::from_byte(tag as u8).unwrap_or(Kind::Void)
}

/// A view of a page's payload.
#[derive(Clone, Copy, Debug)]
pub struct SortedPage<'a> {
    payload: &'a [u8],
    heads: &'a [[u8; HEAD_BYTES]],
    offsets: &'a [[u8; 4]],
    prefix: &'a [u8],
    packed: &'a [u8],
    /// Bytes of a packed value; 0 where values stand in entries.
    width: usize,
}

/// Where the parts of an entry stand.
#[derive(Clone, Debug)]
pub struct EntryParts {
    /// Number and kind.
    pub tag: u64,
    /// Length of the key behind the prefix.
    pub suffix_len: usize,
    /// The key behind prefix and head, in the payload.
    pub rest: Range<usize>,
    /// The value, in the payload.
    pub value: Range<usize>,
}

impl<'a> SortedPage<'a> {
    /// The view, with only the outer bounds checked; `None` where even those do not hold.
    #[inline]
    pub fn new(payload: &'a [u8]) -> Option<Self> {
        let (count, rest) = payload.split_first_chunk::<4>()?;
        let (&[p0, p1, p2, width], rest) = rest.split_first_chunk::<4>()?;
        let (count, width) = (u32::from_le_bytes(*count) as usize, usize::from(width));
        let (prefix, rest) = rest.split_at_checked(u32::from_le_bytes([p0, p1, p2, 0]) as usize)?;
        let (heads, rest) = rest.split_at_checked(count.checked_mul(HEAD_BYTES)?)?;
        let (packed, rest) = rest.split_at_checked(count.checked_mul(width)?)?;
        let offsets = rest.get(..count.checked_mul(4)?)?;
        Some(Self { payload, heads: heads.as_chunks().0, offsets: offsets.as_chunks().0, prefix, packed, width })
    }

    /// Checks everything that reading relies on (invariant 3). Not the order: that would cost comparisons, and a wrong
    /// order under a right checksum cannot come from the disk.
    pub fn validate(&self) -> Result<(), &'static str> {
        if self.heads.is_empty() {
            return Err("a page without entries");
        }
        let mut start = FIXED_BYTES + (SLOT_BYTES + self.width) * self.heads.len() + self.prefix.len();
        for at in 0..self.heads.len() {
            let (from, end) = (self.offset(at), self.end(at));
            if from != start || end < from || end > self.payload.len() {
                return Err("an entry out of its place");
            }
            let Some((tag, mut rest)) = self.payload[from..end].split_first_chunk::<TAG_BYTES>() else {
                return Err("an entry too short for its tag");
            };
            if Kind::from_byte(tag[0]).is_none() {
                return Err("an unknown kind");
            }
            let Some(suffix_len) = varint::read(&mut rest) else { return Err("a malformed key length") };
            if suffix_len.saturating_add(self.prefix.len() as u64) > (KEY_BYTES_MAX + KeyspaceId::BYTES) as u64 {
                return Err("a key too long");
            }
            let rest_len = (suffix_len as usize).saturating_sub(HEAD_BYTES);
            if rest_len > rest.len() {
                return Err("a key past its entry");
            }
            if self.width > 0 && rest_len < rest.len() {
                return Err("an entry with a value beside the packed ones");
            }
            start = end;
        }
        Ok(())
    }

    /// Entries.
    #[inline]
    pub fn count(&self) -> usize {
        self.heads.len()
    }

    /// What all keys start with.
    #[inline]
    pub fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// The head of entry `at` as a number.
    #[inline]
    pub fn head(&self, at: usize) -> u64 {
        u64::from_le_bytes(self.heads[at])
    }

    #[inline]
    fn offset(&self, at: usize) -> usize {
        u32::from_le_bytes(self.offsets[at]) as usize
    }

    #[inline]
    fn end(&self, at: usize) -> usize {
        self.offsets.get(at + 1).map_or(self.payload.len(), |end| u32::from_le_bytes(*end) as usize)
    }

    /// Takes entry `at` apart. Requires `at < count()`.
    #[inline]
    pub fn parts(&self, at: usize) -> EntryParts {
        let (start, end) = (self.offset(at), self.end(at));
        let entry = &self.payload[start..end];
        let (tag, mut behind) = entry.split_first_chunk::<TAG_BYTES>().unwrap_or((&[0; TAG_BYTES], &[]));
        let suffix_len = match behind.split_first() {
            Some((&short, more)) if short < 0x80 => {
                behind = more;
                usize::from(short)
            }
            _ => varint::read(&mut behind).unwrap_or(0) as usize,
        };
        let rest = end - behind.len();
        let value = rest + suffix_len.saturating_sub(HEAD_BYTES);
        EntryParts { tag: u64::from_le_bytes(*tag), suffix_len, rest: rest..value, value: value..end }
    }

    /// Asks the processor for the first lines of entry `at`, if there is one.
    #[inline]
    pub fn look_ahead(&self, at: usize) {
        if let Some(start) = self.offsets.get(at).map(|offset| u32::from_le_bytes(*offset) as usize) {
            let entry = self.payload.as_ptr().wrapping_add(start);
            prefetch::line(entry);
            prefetch::line(entry.wrapping_add(64));
        }
    }

    /// Bytes of a packed value; 0 where values stand in entries.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The packed value of entry `at`; empty where values stand in entries. Requires `at < count()`.
    #[inline]
    pub fn packed(&self, at: usize) -> &'a [u8] {
        &self.packed[at * self.width..][..self.width]
    }

    /// The value of an entry taken apart, where it stands in the entry.
    pub fn value(&self, parts: &EntryParts) -> &'a [u8] {
        &self.payload[parts.value.clone()]
    }

    /// Replaces what `key` holds behind the page's prefix, which it must start with, by the key of entry `at`.
    #[inline]
    pub fn complete_key(&self, at: usize, parts: &EntryParts, key: &mut Vec<u8>) {
        key.truncate(self.prefix.len());
        let head = self.head(at).to_be_bytes();
        if parts.suffix_len >= HEAD_BYTES {
            key.extend_from_slice(&head);
            key.extend_from_slice(&self.payload[parts.rest.clone()]);
        } else {
            key.extend_from_slice(&head[..parts.suffix_len]);
        }
    }

    /// Whether entry `at`'s key is the same as the one before; false for the first.
    pub fn repeats_key(&self, at: usize) -> bool {
        if at == 0 || self.heads[at] != self.heads[at - 1] {
            return false;
        }
        let (one, other) = (self.parts(at - 1), self.parts(at));
        one.suffix_len == other.suffix_len && self.payload[one.rest] == self.payload[other.rest]
    }

    /// How many entries stand before (`key`, `number`) in entry order; with `inclusive` an equal one counts too.
    /// O(log n); touches the heads, and entries only where heads are equal.
    pub fn rank(&self, key: &[u8], number: SequenceNumber, inclusive: bool) -> usize {
        let shared = key.len().min(self.prefix.len());
        match key[..shared].cmp(&self.prefix[..shared]) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.count(),
            Ordering::Equal if shared < self.prefix.len() => return 0,
            Ordering::Equal => {}
        }
        let suffix = &key[shared..];
        let head = key::head(suffix);
        let first = self.heads.partition_point(|stored| u64::from_le_bytes(*stored) < head);
        if self.heads.get(first).is_none_or(|stored| u64::from_le_bytes(*stored) != head) {
            return first;
        }
        let tied = self.heads[first..].partition_point(|stored| u64::from_le_bytes(*stored) == head);
        let (mut low, mut high) = (first, first + tied);
        while low < high {
            let middle = low + (high - low) / 2;
            let before = match self.order_of_tied(middle, suffix, number) {
                Ordering::Less => true,
                Ordering::Equal => inclusive,
                Ordering::Greater => false,
            };
            if before {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        low
    }

    /// Order of entry `at` against (`suffix`, `number`), given that their heads are equal. Where a key ends within its
    /// head, equal heads make it a prefix of the other up to zeroes, so length decides.
    fn order_of_tied(&self, at: usize, suffix: &[u8], number: SequenceNumber) -> Ordering {
        let parts = self.parts(at);
        let rest = suffix.get(HEAD_BYTES..).unwrap_or_default();
        let in_head = parts.suffix_len.min(HEAD_BYTES).cmp(&suffix.len().min(HEAD_BYTES));
        in_head
            .then_with(|| self.payload[parts.rest.clone()].cmp(rest))
            .then_with(|| number.cmp(&tag_number(parts.tag)))
    }

    /// The entry with this key that is the newest `<= number`, and where it stands.
    pub fn find(&self, key: &[u8], number: SequenceNumber) -> Option<EntryParts> {
        let at = self.rank(key, number, false);
        if at >= self.count() || !key.starts_with(self.prefix) {
            return None;
        }
        let suffix = &key[self.prefix.len()..];
        if self.head(at) != key::head(suffix) {
            return None;
        }
        let parts = self.parts(at);
        let rest = suffix.get(HEAD_BYTES..).unwrap_or_default();
        (parts.suffix_len == suffix.len() && self.payload[parts.rest.clone()] == *rest).then_some(parts)
    }
}

#[cfg(test)]
mod tests;
