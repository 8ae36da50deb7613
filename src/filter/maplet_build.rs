//! Builds maplets in one pass, from fingerprints and from other maplets, without the data. Pure. Each build belongs to
//! one thread.
//!
//! For each page, the entries that belong to it are taken from every source, sorted into buckets by counting sort, and
//! packed. So the cost is that of unpacking and packing, whatever the number of sources. A merged maplet has exactly
//! the entries of its sources, without the columns that were left out.

use super::maplet::{COLUMNS_MAX, Shape, digits, fingerprint_of, last_of, page_of};
use crate::format::maplet_page::{BUCKETS, MapletPage, MapletPageWriter, entries_max};
use crate::util::{Error, Result};

/// If more than one page in this many is saturated, it is better to repeat the build with more pages. If fingerprints
/// occur under many columns, page sizes deviate more from their mean.
const SATURATED_PART: u32 = 128;

/// A fingerprint and its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// The fingerprint.
    pub fingerprint: u32,
    /// The column.
    pub column: u8,
}

/// Why a build ended early.
#[derive(Debug)]
pub enum BuildError {
    /// A maplet to be merged lacks entries: a page is saturated or invalid. The fingerprints of its keys have them.
    Incomplete,
    /// A source could not be read.
    Failed(Error),
}

impl From<Error> for BuildError {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A source of entries in ascending order of fingerprints.
pub trait Source {
    /// Appends the entries with fingerprints up to `last` that were not returned before, in any order. `last` ascends
    /// from call to call.
    fn take_through(&mut self, last: u32, out: &mut Vec<Entry>) -> Result<(), BuildError>;
}

/// Sorted fingerprints of one column.
#[derive(Debug)]
pub struct SortedFingerprints {
    fingerprints: Vec<u32>,
    next: usize,
    column: u8,
}

impl SortedFingerprints {
    /// A source of `fingerprints`, which must be sorted.
    pub fn new(fingerprints: Vec<u32>, column: u8) -> Self {
        debug_assert!(fingerprints.is_sorted());
        Self { fingerprints, next: 0, column }
    }
}

impl Source for SortedFingerprints {
    fn take_through(&mut self, last: u32, out: &mut Vec<Entry>) -> Result<(), BuildError> {
        let due = self.fingerprints[self.next..].iter().take_while(|fingerprint| **fingerprint <= last);
        let before = out.len();
        out.extend(due.map(|fingerprint| Entry { fingerprint: *fingerprint, column: self.column }));
        self.next += out.len() - before;
        Ok(())
    }
}

/// The pages of a maplet, read in order.
pub trait Payloads {
    /// The payload of a page.
    fn payload(&mut self, page: u32) -> Result<&[u8]>;
}

/// The new number of each column of a maplet; `None` for a column that is left out.
pub type ColumnMap = [Option<u8>; COLUMNS_MAX];

/// The entries of an older maplet.
#[derive(Debug)]
pub struct MapletEntries<P> {
    payloads: P,
    columns: ColumnMap,
    pages: u32,
    next: u32,
    /// Entries that are unpacked but beyond `last`.
    early: Vec<Entry>,
}

impl<P> MapletEntries<P> {
    /// The entries of a maplet of `pages` pages.
    pub fn new(payloads: P, pages: u32, columns: ColumnMap) -> Self {
        Self { payloads, columns, pages, next: 0, early: Vec::new() }
    }
}

impl<P: Payloads> Source for MapletEntries<P> {
    fn take_through(&mut self, last: u32, out: &mut Vec<Entry>) -> Result<(), BuildError> {
        let Self { payloads, columns, pages, next, early } = self;
        early.retain(|entry| {
            if entry.fingerprint <= last {
                out.push(*entry);
            }
            entry.fingerprint > last
        });
        while *next < *pages && *next <= page_of(last, *pages) {
            let page = MapletPage::parse(payloads.payload(*next)?).filter(|page| !page.saturated());
            let page = page.filter(|page| page.pages() == *pages).ok_or(BuildError::Incomplete)?;
            let (first, own_last) = (*next * BUCKETS, u64::from(last_of(*next, *pages)));
            for bucket in 0..BUCKETS {
                for at in page.bucket(bucket).ok_or(BuildError::Incomplete)? {
                    let (remainder, column) = page.entry(at);
                    let Some(column) = columns[column as usize % COLUMNS_MAX] else { continue };
                    let fingerprint = fingerprint_of(first + bucket, remainder, page.remainder_bits(), *pages);
                    if fingerprint > own_last {
                        return Err(BuildError::Incomplete);
                    }
                    let fingerprint = fingerprint as u32;
                    let to = if fingerprint <= last { &mut *out } else { &mut *early };
                    to.push(Entry { fingerprint, column });
                }
            }
            *next += 1;
        }
        Ok(())
    }
}

/// A maplet being built, page by page.
pub struct MapletBuild<'a> {
    shape: Shape,
    sources: Vec<Box<dyn Source + 'a>>,
    next: u32,
    taken: Vec<Entry>,
    writer: MapletPageWriter,
    entries: [u64; COLUMNS_MAX],
    saturated: u32,
}

impl<'a> MapletBuild<'a> {
    /// A build with this shape. The columns of the sources must be below the number of columns of the shape.
    pub fn new(shape: Shape, sources: Vec<Box<dyn Source + 'a>>) -> Self {
        Self {
            shape,
            sources,
            next: 0,
            taken: Vec::new(),
            writer: MapletPageWriter::default(),
            entries: [0; COLUMNS_MAX],
            saturated: 0,
        }
    }

    /// The payload of the next page; `None` after the last.
    pub fn next_page(&mut self) -> Result<Option<&[u8]>, BuildError> {
        let page = self.next;
        if page == self.shape.pages() {
            return Ok(None);
        }
        self.next += 1;
        self.taken.clear();
        let last = self.shape.last_of(page);
        for source in &mut self.sources {
            source.take_through(last, &mut self.taken)?;
        }
        self.pack(page);
        Ok(Some(self.writer.payload()))
    }

    fn pack(&mut self, page: u32) {
        let (pages, bits) = (self.shape.pages(), self.shape.bits());
        if self.taken.len() > entries_max(bits.0 + bits.1) as usize {
            self.saturated += 1;
            return self.writer.saturate(bits, pages);
        }
        let bucket_of = |fingerprint: u32| {
            let (bucket, rest) = digits(fingerprint, pages);
            debug_assert_eq!(bucket / BUCKETS, page);
            ((bucket % BUCKETS) as usize, (u64::from(rest) >> (32 - bits.0)) as u32)
        };
        let mut counts = [0u16; BUCKETS as usize];
        for entry in &self.taken {
            counts[bucket_of(entry.fingerprint).0] += 1;
        }
        let mut end = 0;
        let ends = counts.map(|count| {
            end += count;
            end
        });
        self.writer.begin(bits, pages, &ends);
        let mut places = ends;
        for entry in &self.taken {
            let (bucket, remainder) = bucket_of(entry.fingerprint);
            places[bucket] -= 1;
            self.writer.set(u32::from(places[bucket]), remainder, u32::from(entry.column));
            self.entries[entry.column as usize] += 1;
        }
    }

    /// Whether so many pages are saturated that the build should be repeated with `Shape::wider`.
    pub fn is_too_full(&self) -> bool {
        self.saturated > self.shape.pages() / SATURATED_PART
    }

    /// The number of entries of each column, without those on saturated pages.
    pub fn entries(&self) -> &[u64; COLUMNS_MAX] {
        &self.entries
    }
}
