//! Filters without files, for benchmarks: one quotient filter, several as in a get, a maplet in place of several.

use super::KEYSPACE;
use crate::filter::maplet::{self, Columns, Shape};
use crate::filter::maplet_build::{
    BuildError, ColumnMap, MapletBuild, MapletEntries, Payloads, SortedFingerprints, Source,
};
use crate::filter::quotient::{self, FilterBuilder};
use crate::format::maplet_page::entries_max;
use crate::util::Result;
use crate::util::hash::{fingerprint, key_hash};
use crate::util::prefetch;

/// The pages of a filter.
pub struct FilterPart(Vec<Vec<u8>>);

impl FilterPart {
    /// Builds it.
    pub fn build(fingerprints: &[u32]) -> Self {
        Self::build_with(quotient::REMAINDER_BITS, fingerprints)
    }

    /// Builds it with remainders of these bits.
    pub fn build_with(remainder_bits: u32, fingerprints: &[u32]) -> Self {
        let mut builder = FilterBuilder::new(remainder_bits);
        fingerprints.iter().for_each(|fingerprint| builder.add(*fingerprint));
        Self(builder.finish())
    }

    /// Bytes of its pages.
    pub fn bytes(&self) -> usize {
        self.0.iter().map(Vec::len).sum()
    }

    /// The fingerprint of a user key.
    pub fn fingerprint(user_key: &[u8]) -> u32 {
        fingerprint(key_hash(KEYSPACE, user_key))
    }

    /// Whether the key may be present.
    pub fn may_contain(&self, fingerprint: u32) -> bool {
        let pages = self.0.len() as u32;
        quotient::may_contain(&self.0[quotient::page_of(fingerprint, pages) as usize], fingerprint, pages)
    }

    /// Prefetches what `may_contain` will read.
    pub fn prefetch(&self, fingerprint: u32) {
        let pages = self.0.len() as u32;
        let page = &self.0[quotient::page_of(fingerprint, pages) as usize];
        prefetch::line(page.as_ptr());
        prefetch::line(page.as_ptr().wrapping_add(quotient::slot_at(fingerprint, pages)));
    }
}

/// The pages of a maplet.
pub struct MapletPart {
    pages: Vec<Vec<u8>>,
    page_bytes: usize,
    entries: u64,
}

struct Read<'a>(&'a [Vec<u8>]);

impl Payloads for Read<'_> {
    fn payload(&mut self, page: u32) -> Result<&[u8]> {
        Ok(&self.0[page as usize])
    }
}

impl MapletPart {
    /// Builds a maplet from the fingerprints of each column.
    pub fn build(columns: &[Vec<u32>]) -> Self {
        let sources = columns.iter().enumerate().map(|(column, fingerprints)| sorted(fingerprints, column as u8));
        let sources = sources.collect();
        Self::of(sources, columns.iter().map(|column| column.len() as u64).sum(), columns.len())
    }

    /// A maplet with one more column, merged in one pass.
    pub fn merged(&self, columns: u8, fresh: &[u32]) -> Self {
        let mut renumbering: ColumnMap = [None; maplet::COLUMNS_MAX];
        (0..columns).for_each(|column| renumbering[usize::from(column)] = Some(column));
        let kept = MapletEntries::new(Read(&self.pages), self.pages.len() as u32, renumbering);
        let sources: Vec<Box<dyn Source + '_>> = vec![Box::new(kept), sorted(fresh, columns)];
        Self::of(sources, self.entries + fresh.len() as u64, usize::from(columns) + 1)
    }

    /// A copy of the maplet with only this page, if it is valid.
    pub fn of_page(payload: &[u8]) -> Option<Self> {
        let pages = [payload.to_vec()];
        let renumbering = std::array::from_fn(|column| Some(column as u8));
        let entries = entries_max(1).into();
        Self::try_of(vec![Box::new(MapletEntries::new(Read(&pages), 1, renumbering))], entries, maplet::COLUMNS_MAX)
            .ok()
    }

    /// A page's payload.
    pub fn page(&self, at: usize) -> Vec<u8> {
        self.pages[at].clone()
    }

    fn of(sources: Vec<Box<dyn Source + '_>>, entries: u64, columns: usize) -> Self {
        Self::try_of(sources, entries, columns).expect("sources in memory")
    }

    fn try_of(sources: Vec<Box<dyn Source + '_>>, entries: u64, columns: usize) -> Result<Self, BuildError> {
        let shape = Shape::new(entries, columns);
        let mut build = MapletBuild::new(shape, sources);
        let mut pages = Vec::with_capacity(shape.pages() as usize);
        while let Some(payload) = build.next_page()? {
            pages.push(payload.to_vec());
        }
        Ok(Self { page_bytes: maplet::page_bytes(entries, shape.pages(), columns), pages, entries })
    }

    /// The columns that may contain the key.
    pub fn columns(&self, fingerprint: u32) -> u64 {
        let pages = self.pages.len() as u32;
        let page = &self.pages[maplet::page_of(fingerprint, pages) as usize];
        let Columns(columns) = maplet::columns_of(page, fingerprint, pages);
        columns
    }

    /// Prefetches what `columns` will read.
    pub fn prefetch(&self, fingerprint: u32) {
        let pages = self.pages.len() as u32;
        let page = &self.pages[maplet::page_of(fingerprint, pages) as usize];
        prefetch::line(page.as_ptr());
        for place in maplet::places(fingerprint, pages, self.page_bytes) {
            prefetch::line(page.as_ptr().wrapping_add(place));
        }
    }
}

fn sorted(fingerprints: &[u32], column: u8) -> Box<dyn Source> {
    let mut fingerprints = fingerprints.to_vec();
    fingerprints.sort_unstable();
    Box::new(SortedFingerprints::new(fingerprints, column))
}
