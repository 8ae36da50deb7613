//! The fingerprints of a branch: one for each distinct key, in key order. Any thread.
//!
//! The fingerprints of a key range are a slice of them, so a filter or maplet of a part of the branch is built from the
//! slice without reading the data. A store without maplets writes no fingerprints and saves four bytes a key. If
//! maplets are enabled later, the fingerprints of older branches are computed from the keys.

use super::branch::Branch;
use super::extent_memory::EXTENT_BYTES;
use super::read::blocking_pages::BlockingPages;
use super::read::page_read::WantedPage;
use super::read::pages::Pages;
use super::scan::extent_reader::Purpose;
use crate::format::branch_footer::FINGERPRINTS_PER_PAGE;
use crate::format::page::{self, PAGE_BYTES, PageKind};
use crate::format::sorted_page::SortedPage;
use crate::merge::Cursor;
use crate::util::hash::{encoded_key_hash, fingerprint};
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};
use std::ops::Range;

impl Branch {
    /// The number of distinct keys of the branch below `key`. Reads one index page a level and one leaf.
    pub fn key_rank(&self, key: &[u8]) -> Result<u64> {
        if key <= &self.meta().key_min[..] || self.meta().entries == 0 {
            return Ok(0);
        }
        if key > &self.meta().key_max[..] {
            return Ok(self.meta().distinct_keys);
        }
        let mut pages = BlockingPages::new();
        let location = self.leaf_of(key, SequenceNumber::MAX, &mut pages)?;
        let leaf = pages.page(self, WantedPage::child(location, 0))?;
        let Some(page) = SortedPage::new(leaf.payload()) else { return Ok(u64::from(location.first_key)) };
        let below = page.rank(key, SequenceNumber::MAX, false);
        let distinct = (0..below).filter(|at| !page.repeats_key(*at)).count();
        Ok(u64::from(location.first_key) + distinct as u64)
    }

    /// Appends the fingerprints of the keys in [`lower`, `upper`) in key order. `None` as `upper` means the end.
    pub fn fingerprints_between(
        self: &Arc<Self>,
        lower: &[u8],
        upper: Option<&[u8]>,
        out: &mut Vec<u32>,
    ) -> Result<()> {
        if self.footer()?.fingerprints == 0 {
            return self.fingerprints_of_keys(lower, upper, out);
        }
        let end = upper.map_or(Ok(self.meta().distinct_keys), |upper| self.key_rank(upper))?;
        self.fingerprints(self.key_rank(lower)?..end, out)
    }

    /// As `fingerprints_between`, computed from the keys of a branch without fingerprints.
    fn fingerprints_of_keys(self: &Arc<Self>, lower: &[u8], upper: Option<&[u8]>, out: &mut Vec<u32>) -> Result<()> {
        let mut cursor = self.cursor(Purpose::Compaction);
        cursor.seek(lower, SequenceNumber::MAX)?;
        let mut last: Option<Vec<u8>> = None;
        while cursor.valid() {
            let key = cursor.entry().key;
            if upper.is_some_and(|upper| key >= upper) {
                break;
            }
            if last.as_deref() != Some(key) {
                out.push(fingerprint(encoded_key_hash(key)));
                let last = last.get_or_insert_default();
                last.clear();
                last.extend_from_slice(key);
            }
            cursor.next()?;
        }
        Ok(())
    }

    /// Appends the fingerprints with these indexes. Reads whole extents and bypasses the cache.
    pub fn fingerprints(&self, range: Range<u64>, out: &mut Vec<u32>) -> Result<()> {
        let footer = self.footer()?;
        let end = range.end.min(footer.fingerprints);
        if range.start >= end {
            return Ok(());
        }
        let pages = range.start / FINGERPRINTS_PER_PAGE..(end - 1) / FINGERPRINTS_PER_PAGE + 1;
        let memory = &self.context().extents;
        let bytes = memory.allowed(EXTENT_BYTES);
        let _lease = memory.lease(bytes);
        let mut buffer = memory.take(bytes);
        let result = self.read_fingerprints(pages, range.start..end, &mut buffer, out);
        memory.give(buffer);
        result
    }

    fn read_fingerprints(
        &self,
        mut pages: Range<u64>,
        range: Range<u64>,
        buffer: &mut [u8],
        out: &mut Vec<u32>,
    ) -> Result<()> {
        let footer = self.footer()?;
        let file = self.direct_file()?;
        let unit = PAGE_BYTES as u64;
        out.reserve((range.end - range.start) as usize);
        while !pages.is_empty() {
            let count = (pages.end - pages.start).min(buffer.len() as u64 / unit);
            let extent = &mut buffer[..(count * unit) as usize];
            let start = footer.fingerprints_at + pages.start * unit;
            file.read_exact_at(extent, start)?;
            for (number, page) in (pages.start..).zip(extent.chunks(PAGE_BYTES)) {
                let offset = footer.fingerprints_at + number * unit;
                self.check_page(
                    page,
                    WantedPage { offset, bytes: PAGE_BYTES, kind: PageKind::Fingerprints, level: 0 },
                )?;
                let first = number * FINGERPRINTS_PER_PAGE;
                let values = page::payload(page).as_chunks::<4>().0;
                let expected = (footer.fingerprints - first).min(FINGERPRINTS_PER_PAGE) as usize;
                if values.len() != expected {
                    return Err(self.corruption(offset, "fingerprints in a page", expected, values.len()));
                }
                let from = range.start.saturating_sub(first).min(expected as u64) as usize;
                let to = range.end.saturating_sub(first).min(expected as u64) as usize;
                out.extend(values[from..to].iter().map(|value| u32::from_le_bytes(*value)));
            }
            pages.start += count;
        }
        Ok(())
    }
}
