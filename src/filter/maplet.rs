//! The quotient maplet: from a fingerprint to the *columns*, small integers, under which it was added ("SplinterDB and
//! Maplets", SIGMOD 2023). One lookup replaces the lookups in a filter for each column. Pure; any thread.
//!
//! With *P* pages of 256 buckets and *N* = 256 *P*, the bucket of a fingerprint is the upper half of the 64-bit product
//! of the fingerprint and *N*, and its page is the bucket divided by 256. The remainder is the upper bits of the lower
//! half, as many as distinguish all fingerprints of a bucket. A page stores where each bucket ends, then all
//! remainders, each with its column, bit-packed. So a lookup reads the page's header, the bucket's end and the few
//! entries of the bucket: two or three cache lines, whatever the number of entries.
//!
//! Invariants:
//! 1. Nothing is lost: bucket and remainder determine the fingerprint. So maplets of any size can be merged in one
//!    pass, without the data and without loss of precision, and a match has the same 32 bits.
//! 2. No false negative: a page with too many entries is written as saturated, and an invalid page may contain
//!    everything.
//! 3. Buckets ascend with fingerprints. The order within a bucket has no meaning.
//!
//! Cost: (*r* + *c*) bits an entry and 2 bytes a bucket at `FILL_PERCENT`. With 16 columns that is 4.5 bytes an entry
//! for ten thousand entries and 3.5 for a million. False positives: entries / 2^32 for a lookup, all columns together.

use crate::format::filter_page::PAGE_PAYLOAD_BYTES;
use crate::format::maplet_page::{BUCKETS, COLUMN_BITS_MAX, ENTRIES_AT, MapletPage, end_offset, entries_max};

/// Most columns of a maplet.
pub const COLUMNS_MAX: usize = 1 << COLUMN_BITS_MAX;
/// Average fill of a page. The standard deviation with random fingerprints is a fifth of the rest.
const FILL_PERCENT: u64 = 88;
/// Most pages of a maplet: with so many, every fingerprint has a bucket of its own.
pub const PAGES_MAX: u64 = (1 << 32) / BUCKETS as u64;

/// A set of columns: bit *i* is column *i*.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Columns(pub u64);

impl Columns {
    /// Every column: for when nothing is known.
    pub const ALL: Self = Self(u64::MAX);
}

/// The sizes of a maplet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    pages: u32,
    remainder_bits: u32,
    column_bits: u32,
}

impl Shape {
    /// The shape for this number of entries and columns. Requires `columns <= COLUMNS_MAX`.
    pub fn new(entries: u64, columns: usize) -> Self {
        assert!(columns <= COLUMNS_MAX);
        let column_bits = columns.max(1).next_power_of_two().trailing_zeros();
        // More pages have shorter remainders, so this number of pages is always enough.
        let of_longest = u64::from(entries_max(Self::of_pages(1, column_bits).width())) * FILL_PERCENT / 100;
        let (mut enough, mut less) = (entries.div_ceil(of_longest).clamp(1, PAGES_MAX), 0);
        while enough - less > 1 {
            let middle = less + (enough - less) / 2;
            let room = u64::from(entries_max(Self::of_pages(middle, column_bits).width())) * middle;
            if room * FILL_PERCENT / 100 >= entries { enough = middle } else { less = middle }
        }
        Self::of_pages(enough, column_bits)
    }

    /// The shape with an eighth more pages.
    #[must_use]
    pub fn wider(self) -> Self {
        let pages = u64::from(self.pages);
        Self::of_pages((pages + pages / 8 + 1).min(PAGES_MAX), self.column_bits)
    }

    fn of_pages(pages: u64, column_bits: u32) -> Self {
        let remainder_bits = 32 - (pages * u64::from(BUCKETS)).ilog2();
        Self { pages: pages as u32, remainder_bits: remainder_bits.max(1), column_bits }
    }

    fn width(self) -> u32 {
        self.remainder_bits + self.column_bits
    }

    /// The number of pages.
    pub fn pages(self) -> u32 {
        self.pages
    }

    /// Bits of a remainder, and bits of a column.
    pub fn bits(self) -> (u32, u32) {
        (self.remainder_bits, self.column_bits)
    }

    /// The last fingerprint of a page.
    pub fn last_of(self, page: u32) -> u32 {
        last_of(page, self.pages)
    }
}

/// Bucket and remainder of a fingerprint, the remainder as a fraction of 2^32.
#[inline]
pub(super) fn digits(fingerprint: u32, pages: u32) -> (u32, u32) {
    // It would overflow only with more pages than `PAGES_MAX`.
    let product = u64::from(fingerprint).wrapping_mul(u64::from(pages) * u64::from(BUCKETS));
    ((product >> 32) as u32, product as u32)
}

/// The fingerprint with these digits: the smallest one whose product is not below them, since the product of the next
/// one is *N* larger. (Digits that no fingerprint has yield a fingerprint of a later bucket, or none.)
#[inline]
pub(super) fn fingerprint_of(bucket: u32, remainder: u32, remainder_bits: u32, pages: u32) -> u64 {
    let product = u64::from(bucket) << 32 | u64::from(remainder) << (32 - remainder_bits);
    product.div_ceil(u64::from(pages) * u64::from(BUCKETS))
}

/// The page for `fingerprint` in a maplet of `pages` pages.
#[inline]
pub fn page_of(fingerprint: u32, pages: u32) -> u32 {
    digits(fingerprint, pages).0 / BUCKETS
}

/// The last fingerprint of a page. Requires `page < pages`.
pub(super) fn last_of(page: u32, pages: u32) -> u32 {
    let next = (u64::from(page) + 1) << 32;
    (next.div_ceil(u64::from(pages)) - 1) as u32
}

/// The offsets that a lookup reads in the payload of page `page_of(fingerprint, pages)`: that of the bucket's end, and
/// the approximate one of its entries if the page has `page_bytes` of entries. For prefetching.
#[inline]
pub fn places(fingerprint: u32, pages: u32, page_bytes: usize) -> [usize; 2] {
    let bucket = digits(fingerprint, pages).0 % BUCKETS;
    [end_offset(bucket), ENTRIES_AT + page_bytes * bucket as usize / BUCKETS as usize]
}

/// Average bytes of the entries of a page, for `places`.
pub fn page_bytes(entries: u64, pages: u32, columns: usize) -> usize {
    let width = Shape::of_pages(u64::from(pages.max(1)), Shape::new(0, columns).column_bits).width();
    let bytes = entries * u64::from(width) / 8 / u64::from(pages.max(1));
    bytes.min((PAGE_PAYLOAD_BYTES - ENTRIES_AT) as u64) as usize
}

/// The columns that may contain a key with this fingerprint, from the payload of page `page_of(fingerprint, pages)`.
#[inline]
pub fn columns_of(payload: &[u8], fingerprint: u32, pages: u32) -> Columns {
    let Some(page) = MapletPage::parse(payload) else { return Columns::ALL };
    let (bucket, rest) = digits(fingerprint, pages);
    if page.saturated() || page.pages() != pages {
        return Columns::ALL;
    }
    let remainder = (u64::from(rest) >> (32 - page.remainder_bits())) as u32;
    page.columns(bucket % BUCKETS, remainder).map_or(Columns::ALL, Columns)
}
