//! Pages whose entries have one kind, keys of one length and values of one length, as most have. Where an entry is then
//! follows from its index alone, so many of them are copied without a look at the layout for each.

use super::layout::{HEAD_BYTES_MAX, LENGTHS_DIFFER};
use super::{SortedPage, tag_kind};
use crate::util::prefetch;
use crate::util::{Kind, SequenceNumber};

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct UniformPage<'a> {
    page: SortedPage<'a>,
    heads_at: usize,
    entries_at: usize,
    /// How far heads are to be shifted, so that their first byte is the number's first one.
    unused_bits: u32,
    /// The common prefix as eight bytes, if it is not longer.
    short_prefix: Option<[u8; 8]>,
}

impl<'a> SortedPage<'a> {
    /// The page, if it is uniform and has its values in its entries.
    pub fn uniform(self) -> Option<UniformPage<'a>> {
        let layout = &self.layout;
        let is_uniform = layout.offset_bytes == 0
            && layout.suffix_len != LENGTHS_DIFFER
            && layout.base as u8 != 0
            && layout.width == 0
            && layout.head_bytes > 0
            && layout.entry_bytes >= layout.tag_bytes + layout.suffix_len.saturating_sub(HEAD_BYTES_MAX);
        let (heads_at, entries_at) = (layout.heads_at(), layout.entries_at());
        let unused_bits = 8 * HEAD_BYTES_MAX.saturating_sub(layout.head_bytes) as u32;
        let short_prefix = (self.prefix.len() <= 8).then(|| {
            let mut bytes = [0; 8];
            bytes[..self.prefix.len()].copy_from_slice(self.prefix);
            bytes
        });
        is_uniform.then_some(UniformPage { page: self, heads_at, entries_at, unused_bits, short_prefix })
    }
}

impl UniformPage<'_> {
    /// The kind of all entries.
    pub fn kind(&self) -> Kind {
        tag_kind(self.page.layout.base)
    }

    /// The length of each value.
    #[inline]
    pub fn value_len(&self) -> usize {
        let layout = &self.page.layout;
        layout.entry_bytes - layout.tag_bytes - layout.suffix_len.saturating_sub(HEAD_BYTES_MAX)
    }

    /// The head of entry `at`. Different heads mean different keys.
    #[inline]
    pub fn head(&self, at: usize) -> u64 {
        let bytes = self.page.layout.head_bytes;
        self.page.word(self.heads_at + at * bytes, bytes)
    }

    #[inline]
    fn start(&self, at: usize) -> usize {
        self.entries_at + at * self.page.layout.entry_bytes
    }

    /// The sequence number of entry `at`.
    #[inline]
    pub fn number(&self, at: usize) -> SequenceNumber {
        let layout = &self.page.layout;
        SequenceNumber((layout.base >> 8).wrapping_add(self.page.word(self.start(at), layout.tag_bytes)))
    }

    /// Prefetches entry `at`, if it exists.
    #[inline]
    pub fn prefetch(&self, at: usize) {
        let entry = self.page.payload.as_ptr().wrapping_add(self.start(at));
        prefetch::line(entry);
        prefetch::line(entry.wrapping_add(64));
    }

    /// Appends the key of entry `at`, whose head is `head`, and its value if `with_value`. Returns the length of the key.
    /// Requires `at` to be an entry.
    #[inline]
    pub fn append(&self, at: usize, head: u64, with_value: bool, out: &mut Vec<u8>) -> usize {
        let (layout, prefix) = (&self.page.layout, self.page.prefix);
        // Eight bytes at once and some taken back cost less than a copy of a variable number of bytes.
        let end = out.len() + prefix.len();
        match &self.short_prefix {
            Some(eight) => out.extend_from_slice(eight),
            None => out.extend_from_slice(prefix),
        }
        out.truncate(end);
        out.extend_from_slice(&(head << self.unused_bits).to_be_bytes());
        out.truncate(end + layout.suffix_len);
        let from = self.start(at) + layout.tag_bytes;
        let value_len = if with_value { 0 } else { self.value_len() };
        out.extend_from_slice(&self.page.payload[from..self.start(at) + layout.entry_bytes - value_len]);
        prefix.len() + layout.suffix_len
    }
}
