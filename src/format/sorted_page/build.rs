//! Collects entries and lays them out as a page. One thread at a time; reused from page to page, so that a warmed
//! builder allocates nothing.
//!
//! Invariants:
//! 1. `size()` is exactly the length that `encode` will write.
//! 2. `prefix` is the longest prefix that all collected keys share (the first and the last decide, being sorted).

use super::{FIXED_BYTES, HEAD_BYTES, SLOT_BYTES, TAG_BYTES};
use crate::base::{key, varint};

/// An entry in the scratch: its key, then its value.
struct Collected {
    start: u32,
    key_len: u32,
    value_len: u32,
    tag: u64,
}

/// What the page would be like with one more entry.
#[derive(Clone, Copy, Debug)]
pub struct Fit {
    /// The payload's length then.
    pub size: usize,
    prefix: usize,
    suffix_bytes: usize,
}

/// A page being collected.
#[derive(Default)]
pub struct SortedPageBuilder {
    scratch: Vec<u8>,
    entries: Vec<Collected>,
    prefix: usize,
    /// Key lengths and rests as they will stand in the entries.
    suffix_bytes: usize,
    value_bytes: usize,
    /// Bytes of a packed value; 0 where values stand in entries.
    width: usize,
}

fn suffix_bytes(key_len: usize, prefix: usize) -> usize {
    let suffix = key_len - prefix;
    let length = if suffix < 0x80 { 1 } else { varint::length(suffix as u64) };
    length + suffix.saturating_sub(HEAD_BYTES)
}

/// The length of the longest prefix that two strings share.
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
    /// A builder of pages whose values all have this length and are packed. (`default()` makes pages with values in entries.)
    pub fn packed(width: u8) -> Self {
        Self { width: usize::from(width), ..Self::default() }
    }

    /// Entries collected.
    pub fn count(&self) -> usize {
        self.entries.len()
    }

    /// Whether nothing is collected.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Length of the payload as it stands.
    pub fn size(&self) -> usize {
        self.total(self.entries.len(), self.prefix, self.suffix_bytes, self.value_bytes)
    }

    fn total(&self, count: usize, prefix: usize, suffixes: usize, values: usize) -> usize {
        FIXED_BYTES + (SLOT_BYTES + TAG_BYTES) * count + prefix + suffixes + values
    }

    fn key(&self, entry: &Collected) -> &[u8] {
        &self.scratch[entry.start as usize..][..entry.key_len as usize]
    }

    /// What one more entry would make of the page.
    pub fn fit(&self, key: &[u8], value_len: usize) -> Fit {
        let (prefix, before) = match self.entries.first() {
            None => (key.len(), 0),
            Some(first) => {
                let prefix = common_prefix(&self.key(first)[..self.prefix], key);
                if prefix == self.prefix {
                    (prefix, self.suffix_bytes)
                } else {
                    // Rare: the shared prefix only ever gets shorter, and mostly within the first few entries.
                    let sum = self.entries.iter().map(|entry| suffix_bytes(entry.key_len as usize, prefix)).sum();
                    (prefix, sum)
                }
            }
        };
        let suffix_bytes = before + suffix_bytes(key.len(), prefix);
        let size = self.total(self.entries.len() + 1, prefix, suffix_bytes, self.value_bytes + value_len);
        Fit { size, prefix, suffix_bytes }
    }

    /// Collects an entry, which stands behind all collected ones in entry order. `fit` is what `fit()` said of it.
    pub fn push(&mut self, key: &[u8], tag: u64, value: &[u8], fit: Fit) {
        let start = self.scratch.len() as u32;
        self.scratch.extend_from_slice(key);
        self.scratch.extend_from_slice(value);
        self.entries.push(Collected { start, key_len: key.len() as u32, value_len: value.len() as u32, tag });
        self.prefix = fit.prefix;
        self.suffix_bytes = fit.suffix_bytes;
        self.value_bytes += value.len();
        debug_assert!(self.width == 0 || value.len() == self.width);
        debug_assert_eq!(self.size(), fit.size);
    }

    /// Writes the page's payload; `out` has `size()` bytes. At least one entry is collected.
    pub fn encode(&self, out: &mut [u8]) {
        let count = self.entries.len();
        assert!(count > 0 && out.len() == self.size());
        out[..4].copy_from_slice(&(count as u32).to_le_bytes());
        out[4..8].copy_from_slice(&(self.prefix as u32 | (self.width as u32) << 24).to_le_bytes());
        let entries_at = FIXED_BYTES + (SLOT_BYTES + self.width) * count + self.prefix;
        let (front, entries) = out.split_at_mut(entries_at);
        let (prefix, behind) = front[FIXED_BYTES..].split_at_mut(self.prefix);
        let (heads, behind) = behind.split_at_mut(HEAD_BYTES * count);
        let (packed, offsets) = behind.split_at_mut(self.width * count);
        prefix.copy_from_slice(&self.key(&self.entries[0])[..self.prefix]);
        let heads = heads.as_chunks_mut::<HEAD_BYTES>().0;
        let offsets = offsets.as_chunks_mut::<4>().0;
        let mut at = 0;
        for (index, ((entry, head), offset)) in self.entries.iter().zip(heads).zip(offsets).enumerate() {
            let stored = &self.scratch[entry.start as usize..][..(entry.key_len + entry.value_len) as usize];
            let (key, value) = stored.split_at(entry.key_len as usize);
            let suffix = &key[self.prefix..];
            *head = key::head(suffix).to_le_bytes();
            *offset = ((entries_at + at) as u32).to_le_bytes();
            entries[at..at + TAG_BYTES].copy_from_slice(&entry.tag.to_le_bytes());
            at += TAG_BYTES;
            at += varint::write_to(suffix.len() as u64, &mut entries[at..]);
            let rest = suffix.get(HEAD_BYTES..).unwrap_or_default();
            entries[at..at + rest.len()].copy_from_slice(rest);
            at += rest.len();
            if self.width > 0 {
                packed[index * self.width..][..self.width].copy_from_slice(value);
            } else {
                entries[at..at + value.len()].copy_from_slice(value);
                at += value.len();
            }
        }
        debug_assert_eq!(at, entries.len());
    }

    /// Forgets the entries, keeps the memory.
    pub fn clear(&mut self) {
        self.scratch.clear();
        self.entries.clear();
        (self.prefix, self.suffix_bytes, self.value_bytes) = (0, 0, 0);
    }
}
