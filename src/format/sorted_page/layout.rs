//! The layout of a page of entries: its first 24 bytes, and what follows from them. Pure; any thread.
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 3 | n, the number of entries, at least 1 |
//! | 3 | 1 | h, bytes of a head, 0 to 8 |
//! | 4 | 3 | p, the length of the common prefix of all keys of the page |
//! | 7 | 1 | w, bytes of a packed value |
//! | 8 | 8 | base: the smallest sequence number << 8, or the kind of all entries; or 0 if kinds differ |
//! | 16 | 3 | s, the length of every key after the prefix; 2^24 - 1 if lengths differ and each entry has its own |
//! | 19 | 1 | t, bytes of a tag, 0 to 8 |
//! | 20 | 3 | e, the length of every entry if there are no offsets; else 0 |
//! | 23 | 1 | o, bytes of an offset, 0 to 3 |
//!
//! Invariant: the widths h, t and o are the same for the whole page, so that the parts of an entry are found by its
//! index alone.

/// Bytes before the prefix.
pub const HEADER_BYTES: usize = 24;
/// Where the base is.
pub const BASE_AT: usize = 8;
/// Most bytes of a head.
pub const HEAD_BYTES_MAX: usize = 8;
/// Most bytes of a tag.
pub const TAG_BYTES_MAX: usize = 8;
/// Most bytes of an offset: payloads are below 2^24 bytes.
pub const OFFSET_BYTES_MAX: usize = 3;
/// The value of `s` if lengths differ.
pub const LENGTHS_DIFFER: usize = (1 << 24) - 1;

/// See the module documentation. The fields are in their order on disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// n.
    pub count: usize,
    /// h.
    pub head_bytes: usize,
    /// p.
    pub prefix_len: usize,
    /// w.
    pub width: usize,
    /// The base of the tags.
    pub base: u64,
    /// s, or `LENGTHS_DIFFER`.
    pub suffix_len: usize,
    /// t.
    pub tag_bytes: usize,
    /// e.
    pub entry_bytes: usize,
    /// o.
    pub offset_bytes: usize,
}

/// The smallest number of bytes that can represent `value`.
pub fn bytes_of(value: u64) -> usize {
    8 - value.leading_zeros() as usize / 8
}

/// The mask of a number of `bytes` bytes, at most 8.
#[inline]
pub fn mask(bytes: usize) -> u64 {
    !u64::MAX.checked_shl(8 * bytes as u32).unwrap_or(0)
}

const LOW_24: u64 = (1 << 24) - 1;

impl Layout {
    /// The layout according to a page, unchecked; `None` if the page is too short.
    #[inline]
    pub fn read(payload: &[u8]) -> Option<Self> {
        let header = payload.first_chunk::<HEADER_BYTES>()?;
        let ([counts, base, lengths], _) = header.as_chunks::<8>() else { return None };
        let (counts, lengths) = (u64::from_le_bytes(*counts), u64::from_le_bytes(*lengths));
        Some(Self {
            count: (counts & LOW_24) as usize,
            head_bytes: usize::from((counts >> 24) as u8),
            prefix_len: (counts >> 32 & LOW_24) as usize,
            width: usize::from((counts >> 56) as u8),
            base: u64::from_le_bytes(*base),
            suffix_len: (lengths & LOW_24) as usize,
            tag_bytes: usize::from((lengths >> 24) as u8),
            entry_bytes: (lengths >> 32 & LOW_24) as usize,
            offset_bytes: usize::from((lengths >> 56) as u8),
        })
    }

    /// The bytes on disk.
    pub fn bytes(&self) -> [u8; HEADER_BYTES] {
        let word = |low: usize, high: u32, next: usize, last: usize| {
            debug_assert!(low as u64 <= LOW_24 && next as u64 <= LOW_24 && last < 256);
            low as u64 | u64::from(high) << 24 | (next as u64) << 32 | (last as u64) << 56
        };
        let counts = word(self.count, self.head_bytes as u32, self.prefix_len, self.width);
        let lengths = word(self.suffix_len, self.tag_bytes as u32, self.entry_bytes, self.offset_bytes);
        let mut out = [0; HEADER_BYTES];
        for (eight, word) in out.as_chunks_mut::<8>().0.iter_mut().zip([counts, self.base, lengths]) {
            *eight = word.to_le_bytes();
        }
        out
    }

    /// Where the heads start.
    #[inline]
    pub fn heads_at(&self) -> usize {
        HEADER_BYTES + self.prefix_len
    }

    /// Where the packed values start.
    #[inline]
    pub fn packed_at(&self) -> usize {
        self.heads_at() + self.count * self.head_bytes
    }

    /// Where the offsets start.
    #[inline]
    pub fn offsets_at(&self) -> usize {
        self.packed_at() + self.count * self.width
    }

    /// Where the entries start.
    #[inline]
    pub fn entries_at(&self) -> usize {
        self.offsets_at() + self.count * self.offset_bytes
    }
}
