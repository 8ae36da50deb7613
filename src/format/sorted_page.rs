//! The payload of leaf and index pages: sorted entries, laid out for search. (SplinterDB §2 has static B-trees of
//! packed 4 KiB nodes; the packed key heads are an addition.)
//!
//! Pure functions over bytes; any thread.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 24 | n, h, p, w, base, s, t, e, o (`layout`) |
//! | 24 | p | the prefix |
//! | 24 + p | h n | heads: for each key, the h bytes after the prefix as a big-endian number (a short key is filled with zeroes), stored little-endian |
//! | then | w n | packed values: a search of an index page ends here and reads an entry only if heads are equal |
//! | then | o n | offsets: where in the payload each entry starts; none if all entries have the length e |
//! | then | | entries, without gaps; each ends where the next starts, the last with the payload |
//!
//! An entry:
//!
//! | bytes | what |
//! | --- | --- |
//! | t | tag: the sequence number minus the base's; if kinds differ, that << 3, or the kind |
//! | 1–3, or 0 | the length of the key after the prefix (varint), if lengths differ |
//! | max(0, length - 8) | the key after prefix and head |
//! | the rest | value, if values are not packed |
//!
//! Each width is one number a page, so reading a field needs no chain of varints: it is a read of eight bytes at a
//! place that follows from the index, and a mask.
//!
//! Invariants:
//! 1. Entries are in entry order: key ascending, number descending.
//! 2. Comparing heads never contradicts comparing keys. If heads are equal, the rest of the key decides, then the
//!    number. Heads shorter than eight bytes contain everything after the prefix of every key.
//! 3. A page that `validate` accepted, or that the builder made, can be read with every function here without a panic,
//!    whatever its bytes are.

use crate::util::limits::KEY_BYTES_MAX;
use crate::util::{KeyspaceId, Kind, SequenceNumber, key, prefetch, varint};
use layout::{HEAD_BYTES_MAX, LENGTHS_DIFFER, Layout, OFFSET_BYTES_MAX, TAG_BYTES_MAX, mask};
use std::cmp::Ordering;
use std::ops::Range;

pub mod build;
pub mod child;
mod layout;
mod uniform;

pub use build::SortedPageBuilder;
pub use child::ChildLocation;
pub use uniform::UniformPage;

/// Bits of a kind in a tag, if kinds differ.
const KIND_BITS: u32 = 3;

const _: () = assert!((Kind::Batch as u64) < 1 << KIND_BITS);

/// Combines number and kind in one word.
pub fn tag(number: SequenceNumber, kind: Kind) -> u64 {
    debug_assert!(number <= SequenceNumber::MAX);
    number.0 << 8 | kind as u64
}

/// The number of a tag.
pub fn tag_number(tag: u64) -> SequenceNumber {
    SequenceNumber(tag >> 8)
}

/// The kind of a tag. `Void`, which readers do not take for data, if the page was never validated and the kind is
/// invalid.
pub fn tag_kind(tag: u64) -> Kind {
    Kind::from_byte(tag as u8).unwrap_or(Kind::Void)
}

/// Gives all entries of a leaf this number, if they have 0 in its place, as in an ingested file.
pub fn set_common_number(payload: &mut [u8], number: SequenceNumber) {
    let base = payload.get_mut(layout::BASE_AT..).and_then(|rest| rest.first_chunk_mut::<8>());
    if let Some(base) = base.filter(|base| base[1..] == [0; 7]) {
        *base = (u64::from_le_bytes(*base) | number.0 << 8).to_le_bytes();
    }
}

/// A view of a page's payload.
#[derive(Clone, Copy, Debug)]
pub struct SortedPage<'a> {
    payload: &'a [u8],
    layout: Layout,
    prefix: &'a [u8],
}

/// The places of the parts of an entry.
#[derive(Clone, Debug)]
pub struct EntryParts {
    /// Number and kind.
    pub tag: u64,
    /// Length of the key after the prefix.
    pub suffix_len: usize,
    /// Range in the payload of the key after prefix and head.
    pub rest: Range<usize>,
    /// Range of the value in the payload.
    pub value: Range<usize>,
}

impl<'a> SortedPage<'a> {
    /// A view, with only the outer bounds checked; `None` if they do not hold.
    #[inline]
    pub fn new(payload: &'a [u8]) -> Option<Self> {
        let layout = Layout::read(payload)?;
        let widths_fit = layout.head_bytes <= HEAD_BYTES_MAX
            && layout.tag_bytes <= TAG_BYTES_MAX
            && layout.offset_bytes <= OFFSET_BYTES_MAX;
        if !widths_fit || layout.entries_at() > payload.len() {
            return None;
        }
        let prefix = &payload[layout.heads_at() - layout.prefix_len..layout.heads_at()];
        Some(Self { payload, layout, prefix })
    }

    /// Checks everything that reading relies on (invariant 3), except the order: checking it would cost comparisons,
    /// and a wrong order under a right checksum cannot come from the disk.
    pub fn validate(&self) -> Result<(), &'static str> {
        let Layout { count, head_bytes, base, tag_bytes, entry_bytes, offset_bytes, .. } = self.layout;
        if count == 0 {
            return Err("a page without entries");
        }
        if count > 1 && head_bytes + tag_bytes == 0 {
            return Err("entries without any difference");
        }
        if offset_bytes > 0 && entry_bytes > 0 {
            return Err("offsets although all entries have one length");
        }
        let kinds_differ = base as u8 == 0;
        if !kinds_differ && Kind::from_byte(base as u8).is_none() {
            return Err("an unknown kind");
        }
        let mut start = self.layout.entries_at();
        for at in 0..count {
            let (from, end) = (self.start(at), self.end(at));
            if from != start || end < from || end > self.payload.len() {
                return Err("an entry outside its place");
            }
            if end - from < tag_bytes {
                return Err("an entry too short for its tag");
            }
            let packed = self.word(from, tag_bytes);
            let (above, kind) = if kinds_differ { (packed >> KIND_BITS, packed & 7) } else { (packed, base & 0xff) };
            if Kind::from_byte(kind as u8).is_none() {
                return Err("an unknown kind");
            }
            if above > SequenceNumber::MAX.0 - (base >> 8) {
                return Err("a sequence number above the largest");
            }
            let mut rest = &self.payload[from + tag_bytes..end];
            let suffix_len = match self.layout.suffix_len {
                LENGTHS_DIFFER => varint::read(&mut rest).ok_or("a malformed key length")?,
                same => same as u64,
            };
            if suffix_len.saturating_add(self.prefix.len() as u64) > (KEY_BYTES_MAX + KeyspaceId::BYTES) as u64 {
                return Err("a key that is too long");
            }
            if head_bytes < HEAD_BYTES_MAX && suffix_len > head_bytes as u64 {
                return Err("a key longer than its head");
            }
            let rest_len = (suffix_len as usize).saturating_sub(HEAD_BYTES_MAX);
            if rest_len > rest.len() {
                return Err("a key that exceeds its entry");
            }
            if self.layout.width > 0 && rest_len < rest.len() {
                return Err("an entry with a value in addition to the packed one");
            }
            start = end;
        }
        if start != self.payload.len() {
            return Err("bytes after the last entry");
        }
        Ok(())
    }

    /// The number of entries.
    #[inline]
    pub fn count(&self) -> usize {
        self.layout.count
    }

    /// The common prefix of all keys.
    #[inline]
    pub fn prefix(&self) -> &'a [u8] {
        self.prefix
    }

    /// The number of `bytes` bytes at `at`.
    #[inline]
    fn word(&self, at: usize, bytes: usize) -> u64 {
        let eight = match self.payload.get(at..).and_then(|from| from.first_chunk()) {
            Some(eight) => u64::from_le_bytes(*eight),
            None => self.last_word(at),
        };
        eight & mask(bytes)
    }

    /// As `read_at`, within eight bytes of the payload's end.
    #[cold]
    fn last_word(&self, at: usize) -> u64 {
        let last = self.payload.get(at..).unwrap_or_default();
        last.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
    }

    /// The head of entry `at` as a number of `head_bytes` bytes.
    #[inline]
    fn head(&self, at: usize) -> u64 {
        self.word(self.layout.heads_at() + at * self.layout.head_bytes, self.layout.head_bytes)
    }

    /// The head that a key with this suffix has, or would have, in the page.
    #[inline]
    fn head_of(&self, suffix: &[u8]) -> u64 {
        // A shift by all 64 bits leaves nothing, which is right for a head of no bytes.
        key::head(suffix).checked_shr(64 - 8 * self.layout.head_bytes as u32).unwrap_or(0)
    }

    #[inline]
    fn start(&self, at: usize) -> usize {
        match self.layout.offset_bytes {
            0 => self.layout.entries_at() + at * self.layout.entry_bytes,
            bytes => self.word(self.layout.offsets_at() + at * bytes, bytes) as usize,
        }
    }

    #[inline]
    fn end(&self, at: usize) -> usize {
        match self.layout.offset_bytes {
            0 => self.start(at) + self.layout.entry_bytes,
            _ if at + 1 < self.count() => self.start(at + 1),
            _ => self.payload.len(),
        }
    }

    /// The parts of entry `at`. Requires `at < count()`.
    #[inline]
    pub fn parts(&self, at: usize) -> EntryParts {
        let (start, end) = (self.start(at), self.end(at));
        let packed = self.word(start, self.layout.tag_bytes);
        let base = self.layout.base;
        let above = if base as u8 != 0 { packed << 8 } else { packed >> KIND_BITS << 8 | packed & 7 };
        let mut rest = start + self.layout.tag_bytes;
        let mut suffix_len = self.layout.suffix_len;
        if suffix_len == LENGTHS_DIFFER {
            let mut behind = &self.payload[rest..end];
            suffix_len = match behind.split_first() {
                Some((&short, more)) if short < 0x80 => {
                    behind = more;
                    usize::from(short)
                }
                _ => varint::read(&mut behind).unwrap_or(0) as usize,
            };
            rest = end - behind.len();
        }
        let value = rest + suffix_len.saturating_sub(HEAD_BYTES_MAX);
        EntryParts { tag: base.wrapping_add(above), suffix_len, rest: rest..value, value: value..end }
    }

    /// Prefetches the first lines of entry `at`, if it exists.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        if at < self.count() {
            let entry = self.payload.as_ptr().wrapping_add(self.start(at));
            prefetch::line(entry);
            prefetch::line(entry.wrapping_add(64));
        }
    }

    /// Bytes of a packed value; 0 if values are in the entries.
    pub fn width(&self) -> usize {
        self.layout.width
    }

    /// The packed value of entry `at`; empty if values are in the entries. Requires `at < count()`.
    #[inline]
    pub fn packed(&self, at: usize) -> &'a [u8] {
        &self.payload[self.layout.packed_at() + at * self.layout.width..][..self.layout.width]
    }

    /// The value of an entry, if values are in the entries.
    pub fn value(&self, parts: &EntryParts) -> &'a [u8] {
        &self.payload[parts.value.clone()]
    }

    /// Sets `key`, which must start with the page's prefix, to the key of entry `at`.
    #[inline]
    pub fn complete_key(&self, at: usize, parts: &EntryParts, key: &mut Vec<u8>) {
        key.truncate(self.prefix.len());
        self.append_suffix(at, parts, key);
    }

    /// Appends the key of entry `at`.
    #[inline]
    pub fn append_key(&self, at: usize, parts: &EntryParts, out: &mut Vec<u8>) {
        out.extend_from_slice(self.prefix);
        self.append_suffix(at, parts, out);
    }

    #[inline]
    fn append_suffix(&self, at: usize, parts: &EntryParts, out: &mut Vec<u8>) {
        let unused = 8 * (HEAD_BYTES_MAX - self.layout.head_bytes) as u32;
        let head = self.head(at).checked_shl(unused).unwrap_or(0).to_be_bytes();
        if parts.suffix_len >= HEAD_BYTES_MAX {
            out.extend_from_slice(&head);
            out.extend_from_slice(&self.payload[parts.rest.clone()]);
        } else {
            out.extend_from_slice(&head[..parts.suffix_len]);
        }
    }

    /// Whether the key of entry `at` may equal that of the previous entry: their heads are equal. False for the first.
    #[inline]
    pub fn may_repeat_key(&self, at: usize) -> bool {
        at > 0 && self.head(at) == self.head(at - 1)
    }

    /// The number of tombstones among these entries. O(1) where all entries of the page have one kind.
    pub fn tombstones(&self, entries: Range<usize>) -> u64 {
        match Kind::from_byte(self.layout.base as u8) {
            Some(Kind::Delete) => entries.len() as u64,
            Some(_) => 0,
            None => entries.filter(|at| tag_kind(self.parts(*at).tag) == Kind::Delete).count() as u64,
        }
    }

    /// Whether the key of entry `at` equals that of the previous entry; false for the first.
    pub fn repeats_key(&self, at: usize) -> bool {
        if !self.may_repeat_key(at) {
            return false;
        }
        let (one, other) = (self.parts(at - 1), self.parts(at));
        one.suffix_len == other.suffix_len && self.payload[one.rest] == self.payload[other.rest]
    }

    /// The number of entries before (`key`, `number`) in entry order; with `inclusive` an equal entry counts too. O(log
    /// n). Reads the heads, and entries only if heads are equal.
    pub fn rank(&self, key: &[u8], number: SequenceNumber, inclusive: bool) -> usize {
        let shared = key.len().min(self.prefix.len());
        match key[..shared].cmp(&self.prefix[..shared]) {
            Ordering::Less => return 0,
            Ordering::Greater => return self.count(),
            Ordering::Equal if shared < self.prefix.len() => return 0,
            Ordering::Equal => {}
        }
        let suffix = &key[shared..];
        let head = self.head_of(suffix);
        let first = self.partition_point(0..self.count(), |stored| stored < head);
        if first == self.count() || self.head(first) != head {
            return first;
        }
        // Usually there is one such head, so looking at the next entry is cheaper than a search.
        let one = first + 1 == self.count() || self.head(first + 1) != head;
        let (mut low, mut high) =
            (first, if one { first + 1 } else { self.partition_point(first..self.count(), |stored| stored == head) });
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

    /// As `rank(key, SequenceNumber::MAX, false)`, for a key after that of entry `at`: the number of entries with keys
    /// before `key`. O(log n) in the entries between, so cheap if these are few.
    pub fn rank_after(&self, at: usize, key: &[u8]) -> usize {
        let Some(suffix) = key.strip_prefix(self.prefix) else { return self.rank(key, SequenceNumber::MAX, false) };
        let head = self.head_of(suffix);
        let (mut low, mut step) = (at + 1, 1);
        let mut high = low;
        while high < self.count() && self.head(high) < head {
            low = high + 1;
            high = low + step;
            step *= 2;
        }
        let first = self.partition_point(low..high.min(self.count()), |stored| stored < head);
        let is_tied = first < self.count() && self.head(first) == head;
        if is_tied { self.rank(key, SequenceNumber::MAX, false) } else { first }
    }

    /// The first of these entries for whose head `holds` is false; their end if there is none. It must be true for all
    /// entries before it.
    #[inline]
    fn partition_point(&self, entries: Range<usize>, holds: impl Fn(u64) -> bool) -> usize {
        let mut low = entries.start;
        let mut left = entries.len();
        while left > 0 {
            let half = left / 2;
            let middle = low + half;
            (low, left) = if holds(self.head(middle)) { (middle + 1, left - half - 1) } else { (low, half) };
        }
        low
    }

    /// The order of entry `at` against (`suffix`, `number`), given that their heads are equal. If a key ends within its
    /// head, it is, up to zeroes, a prefix of the other, so the length decides.
    fn order_of_tied(&self, at: usize, suffix: &[u8], number: SequenceNumber) -> Ordering {
        let parts = self.parts(at);
        let rest = suffix.get(HEAD_BYTES_MAX..).unwrap_or_default();
        let in_head = parts.suffix_len.min(HEAD_BYTES_MAX).cmp(&suffix.len().min(HEAD_BYTES_MAX));
        in_head
            .then_with(|| self.payload[parts.rest.clone()].cmp(rest))
            .then_with(|| number.cmp(&tag_number(parts.tag)))
    }

    /// The newest entry `<= number` with this key, and its parts.
    pub fn find(&self, key: &[u8], number: SequenceNumber) -> Option<EntryParts> {
        let at = self.rank(key, number, false);
        if at >= self.count() || !key.starts_with(self.prefix) {
            return None;
        }
        let suffix = &key[self.prefix.len()..];
        if self.head(at) != self.head_of(suffix) {
            return None;
        }
        let parts = self.parts(at);
        let rest = suffix.get(HEAD_BYTES_MAX..).unwrap_or_default();
        (parts.suffix_len == suffix.len() && self.payload[parts.rest.clone()] == *rest).then_some(parts)
    }
}

#[cfg(test)]
mod tests;
