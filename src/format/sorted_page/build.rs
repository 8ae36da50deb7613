//! Collects entries and lays them out as a page. One thread at a time. The builder is reused, so that once warm it
//! allocates nothing.
//!
//! Invariants:
//! 1. `size()` is exactly the length that `encode` writes.
//! 2. `prefix` is the longest common prefix of all collected keys (the first and the last key decide, as keys are
//!    sorted).

use super::KIND_BITS;
use super::layout::{HEAD_BYTES_MAX, HEADER_BYTES, LENGTHS_DIFFER, Layout, bytes_of};
use crate::util::{key, varint};

/// An entry in the scratch: its key, then its value.
struct Collected {
    start: u32,
    key_len: u32,
    value_len: u32,
    tag: u64,
}

/// The layout of the page with one more entry.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// The payload's length with it.
    pub size: usize,
    shape: Shape,
}

/// The properties of the collected entries that determine the layout.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    count: usize,
    prefix: usize,
    /// Shortest and longest key.
    keys: (usize, usize),
    /// Bytes of the key lengths, if they are stored in the entries.
    lengths: usize,
    /// Bytes of keys after prefix and head.
    rests: usize,
    /// Shortest and longest value.
    values: (usize, usize),
    value_bytes: usize,
    /// Smallest and largest sequence number.
    numbers: (u64, u64),
    /// The kind of all entries; 0 if kinds differ.
    kind: u8,
}

impl Shape {
    fn of_one(key_len: usize, tag: u64, value_len: usize) -> Self {
        let (prefix, number) = (key_len, tag >> 8);
        let (keys, values, numbers) = ((key_len, key_len), (value_len, value_len), (number, number));
        Self { count: 1, prefix, keys, lengths: 1, rests: 0, values, value_bytes: value_len, numbers, kind: tag as u8 }
    }

    /// The shape with one more entry, whose key has the prefix.
    fn grown(self, key_len: usize, tag: u64, value_len: usize) -> Self {
        let widened = |(least, most): (usize, usize), length: usize| (least.min(length), most.max(length));
        let (number, kind) = (tag >> 8, tag as u8);
        Self {
            count: self.count + 1,
            prefix: self.prefix,
            keys: widened(self.keys, key_len),
            lengths: self.lengths + varint::length((key_len - self.prefix) as u64),
            rests: self.rests + (key_len - self.prefix).saturating_sub(HEAD_BYTES_MAX),
            values: widened(self.values, value_len),
            value_bytes: self.value_bytes + value_len,
            numbers: (self.numbers.0.min(number), self.numbers.1.max(number)),
            kind: if self.kind == kind { kind } else { 0 },
        }
    }

    fn layout(&self, width: usize) -> Layout {
        let (shortest, longest) = (self.keys.0 - self.prefix, self.keys.1 - self.prefix);
        let (least, most) = self.numbers;
        let kind_bits = if self.kind == 0 { KIND_BITS } else { 0 };
        // If the numbers are equal and the kinds are not, tags contain the kinds alone.
        let largest_tag = (most - least) << kind_bits | ((1 << kind_bits) - 1);
        let mut layout = Layout {
            count: self.count,
            head_bytes: longest.min(HEAD_BYTES_MAX),
            prefix_len: self.prefix,
            width,
            base: least << 8 | u64::from(self.kind),
            suffix_len: if shortest == longest { longest } else { LENGTHS_DIFFER },
            tag_bytes: bytes_of(largest_tag),
            entry_bytes: 0,
            offset_bytes: 0,
        };
        if shortest == longest && self.values.0 == self.values.1 {
            layout.entry_bytes = self.entries(&layout) / self.count;
        } else {
            let others = layout.entries_at() + self.entries(&layout);
            layout.offset_bytes =
                (1..).find(|bytes| bytes_of((others + bytes * self.count) as u64) <= *bytes).unwrap_or(0);
        }
        layout
    }

    /// Bytes of the entries.
    fn entries(&self, layout: &Layout) -> usize {
        let lengths = if layout.suffix_len == LENGTHS_DIFFER { self.lengths } else { 0 };
        let values = if layout.width > 0 { 0 } else { self.value_bytes };
        layout.tag_bytes * self.count + lengths + self.rests + values
    }

    /// Length of the payload.
    fn size(&self, width: usize) -> usize {
        let layout = self.layout(width);
        layout.entries_at() + self.entries(&layout)
    }
}

/// A page being collected.
#[derive(Default)]
pub struct SortedPageBuilder {
    scratch: Vec<u8>,
    entries: Vec<Collected>,
    shape: Shape,
    /// Bytes of a packed value; 0 if values are in the entries.
    width: usize,
}

/// The length of the common prefix of two strings.
pub fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    let length = one.len().min(other.len());
    let (chunks, _) = one[..length].as_chunks::<8>();
    let (others, _) = other[..length].as_chunks::<8>();
    let mut at = 0;
    for (left, right) in chunks.iter().zip(others) {
        let difference = u64::from_le_bytes(*left) ^ u64::from_le_bytes(*right);
        if difference != 0 {
            return at + difference.trailing_zeros() as usize / 8;
        }
        at += 8;
    }
    at + one[at..length].iter().zip(&other[at..length]).take_while(|(left, right)| left == right).count()
}

impl SortedPageBuilder {
    /// A builder of pages whose values all have this length and are packed. (`default()` makes pages with values in the
    /// entries.)
    pub fn packed(width: u8) -> Self {
        Self { width: usize::from(width), ..Self::default() }
    }

    /// The number of collected entries.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Whether no entries are collected.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Length of the payload; 0 if nothing is collected.
    pub fn size(&self) -> usize {
        if self.is_empty() { 0 } else { self.shape.size(self.width) }
    }

    fn key(&self, entry: &Collected) -> &[u8] {
        &self.scratch[entry.start as usize..][..entry.key_len as usize]
    }

    /// The effect of one more entry. Widths apply to the whole page, so an entry can cost more than its own bytes.
    pub fn fit(&self, key: &[u8], tag: u64, value_len: usize) -> Fit {
        let shape = match self.entries.first() {
            None => Shape::of_one(key.len(), tag, value_len),
            Some(first) => {
                let mut shape = self.shape;
                let prefix = common_prefix(&self.key(first)[..shape.prefix], key);
                if prefix != shape.prefix {
                    // Rare: the common prefix only gets shorter, mostly within the first few entries.
                    let suffixes = self.entries.iter().map(|entry| entry.key_len as usize - prefix);
                    shape.lengths = suffixes.clone().map(|length| varint::length(length as u64)).sum();
                    shape.rests = suffixes.map(|length| length.saturating_sub(HEAD_BYTES_MAX)).sum();
                    shape.prefix = prefix;
                }
                shape.grown(key.len(), tag, value_len)
            }
        };
        Fit { size: shape.size(self.width), shape }
    }

    /// Adds an entry, which must be after all others in entry order. `fit` is the result of `fit()` for it.
    pub fn push(&mut self, key: &[u8], tag: u64, value: &[u8], fit: Fit) {
        let start = self.scratch.len() as u32;
        self.scratch.extend_from_slice(key);
        self.scratch.extend_from_slice(value);
        self.entries.push(Collected { start, key_len: key.len() as u32, value_len: value.len() as u32, tag });
        self.shape = fit.shape;
        debug_assert!(self.width == 0 || value.len() == self.width);
        debug_assert_eq!(self.shape.count, self.entries.len());
    }

    /// Writes the page's payload. `out` must have `size()` bytes. Requires at least one entry.
    pub fn encode(&self, out: &mut [u8]) {
        assert!(!self.is_empty() && out.len() == self.size());
        let layout = self.shape.layout(self.width);
        let Layout { head_bytes, prefix_len, width, base, tag_bytes, offset_bytes, .. } = layout;
        out[..HEADER_BYTES].copy_from_slice(&layout.bytes());
        let entries_at = layout.entries_at();
        let (front, entries) = out.split_at_mut(entries_at);
        let (prefix, behind) = front[HEADER_BYTES..].split_at_mut(prefix_len);
        let (heads, behind) = behind.split_at_mut(head_bytes * layout.count);
        let (packed, offsets) = behind.split_at_mut(width * layout.count);
        prefix.copy_from_slice(&self.key(&self.entries[0])[..prefix_len]);
        let mut at = 0;
        for (index, entry) in self.entries.iter().enumerate() {
            let stored = &self.scratch[entry.start as usize..][..(entry.key_len + entry.value_len) as usize];
            let (key, value) = stored.split_at(entry.key_len as usize);
            let suffix = &key[prefix_len..];
            let head = key::head(suffix).checked_shr(64 - 8 * head_bytes as u32).unwrap_or(0);
            put(head, &mut heads[index * head_bytes..][..head_bytes]);
            put((entries_at + at) as u64, &mut offsets[index * offset_bytes..][..offset_bytes]);
            let above = (entry.tag >> 8) - (base >> 8);
            let tag = if base as u8 != 0 { above } else { above << KIND_BITS | entry.tag & 0xff };
            put(tag, &mut entries[at..at + tag_bytes]);
            at += tag_bytes;
            if layout.suffix_len == LENGTHS_DIFFER {
                at += varint::write_to(suffix.len() as u64, &mut entries[at..]);
            }
            let rest = suffix.get(HEAD_BYTES_MAX..).unwrap_or_default();
            entries[at..at + rest.len()].copy_from_slice(rest);
            at += rest.len();
            if width > 0 {
                packed[index * width..][..width].copy_from_slice(value);
            } else {
                entries[at..at + value.len()].copy_from_slice(value);
                at += value.len();
            }
        }
        debug_assert_eq!(at, entries.len());
    }

    /// Removes the entries and keeps the memory.
    pub fn clear(&mut self) {
        self.scratch.clear();
        self.entries.clear();
        self.shape = Shape::default();
    }
}

/// Writes the low bytes of a number, as many as fit into `out`.
fn put(number: u64, out: &mut [u8]) {
    out.copy_from_slice(&number.to_le_bytes()[..out.len()]);
}
