//! Looks up one key in a branch. Any thread.
//!
//! Invariant: a get reads at most one filter page, one index page for each level and one leaf, never a second leaf
//! (`Separator::between` in `write/index_builder.rs` chooses the separators accordingly). Now and then one makes fences,
//! which takes all index pages. The footer and the range
//! tombstones are loaded once and kept. All versions that a get may need are visible at its number
//! (`docs/concurrency.md`, S4).

use super::fences;
use super::page_read::{INDEX_LINES, LEAF_LINES, WantedPage, child_of};
use super::pages::Pages;
use crate::branch::branch::{Branch, page_number};
use crate::filter::quotient;
use crate::format::branch_footer::BranchFooter;
use crate::format::page::{PAGE_BYTES, PAGE_HEADER_BYTES, PageKind};
use crate::format::sorted_page::{ChildLocation, SortedPage, tag_kind, tag_number};
use crate::util::hash::fingerprint;
use crate::util::{Kind, Result, SequenceNumber};
use crossbeam_epoch::Guard;

impl Branch {
    /// Finds the newest version `<= at` of `key`, whose hash is `hash` (`util::hash`). Returns its number and kind, and
    /// appends its value, or the reference to its value, to `out`. If a range tombstone `<= at` covers the key and is
    /// newer, returns `Kind::RangeDelete` and the tombstone's number. The caller should check `spans(key)` first;
    /// otherwise the result is the same, but the get may read pages needlessly.
    pub fn get<'t, P: Pages<'t>>(
        &'t self,
        key: &[u8],
        hash: u64,
        at: SequenceNumber,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        pages.begin(self)?;
        if self.meta().range_tombstones == 0 {
            return self.find(key, hash, at, pages, out);
        }
        let newest_tombstone = self.range_tombstones()?.covering(key, at);
        let length = out.len();
        let found = self.find(key, hash, at, pages, out)?;
        // With equal numbers the entry wins (`range_tombstones.rs`).
        if newest_tombstone == SequenceNumber::ZERO || found.is_some_and(|(number, _)| number >= newest_tombstone) {
            return Ok(found);
        }
        out.truncate(length);
        Ok(Some((newest_tombstone, Kind::RangeDelete)))
    }

    /// Like `get`, but without range tombstones.
    #[inline]
    fn find<'t, P: Pages<'t>>(
        &'t self,
        key: &[u8],
        hash: u64,
        at: SequenceNumber,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        if at < self.meta().number_min {
            return Ok(None);
        }
        let footer = self.footer()?;
        if footer.entries == 0 || !self.may_contain(footer, fingerprint(hash), pages)? {
            return Ok(None);
        }
        self.get_unfiltered(key, at, pages, out)
    }

    /// Like `get`, but without the filter and without range tombstones. For callers whose maplet has found that the
    /// branch may contain the key; such a branch has no range tombstones (`maplet_index.rs`, invariant 3).
    pub fn get_unfiltered<'t, P: Pages<'t>>(
        &'t self,
        key: &[u8],
        at: SequenceNumber,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        pages.begin(self)?;
        if at < self.meta().number_min {
            return Ok(None);
        }
        let leaf = self.search_leaf(key, at, pages)?;
        let leaf = pages.page(self, WantedPage::child(leaf, 0))?;
        leaf.prefetch(LEAF_LINES);
        // Never `None`: pages are validated when they are read.
        let Some(page) = SortedPage::new(leaf.payload()) else { return Ok(None) };
        let Some(parts) = page.find(key, at) else { return Ok(None) };
        let kind = tag_kind(parts.tag);
        if P::PINS_VALUES && kind == Kind::Put {
            pages.pin_value(parts.value, out);
        } else {
            out.extend_from_slice(page.value(&parts));
        }
        Ok(Some((tag_number(parts.tag), kind)))
    }

    /// Prefetches the cache lines of the filter that `get` will read, so that the cache misses of many branches overlap.
    #[inline]
    pub fn prefetch(&self, hash: u64, guard: &Guard) {
        let Some(footer) = self.loaded_footer().filter(|footer| footer.filter_pages > 0) else { return };
        let fingerprint = fingerprint(hash);
        let page = quotient::page_of(fingerprint, footer.filter_pages);
        if let Some(page) = self.table().peek(page_number(footer.filter_at) + page, guard) {
            page.prefetch(0);
            page.prefetch(PAGE_HEADER_BYTES + quotient::slot_at(fingerprint, footer.filter_pages));
        }
    }

    /// Whether the branch may contain a key with this fingerprint. Reads one page of the filter.
    fn may_contain<'t, P: Pages<'t>>(
        &'t self,
        footer: &BranchFooter,
        fingerprint: u32,
        pages: &mut P,
    ) -> Result<bool, P::Stop> {
        if footer.filter_pages == 0 {
            return Ok(true);
        }
        let page = quotient::page_of(fingerprint, footer.filter_pages);
        let offset = footer.filter_at + u64::from(page) * PAGE_BYTES as u64;
        let page = pages.page(self, WantedPage { offset, bytes: PAGE_BYTES, kind: PageKind::Filter, level: 0 })?;
        Ok(quotient::may_contain(page.payload(), fingerprint, footer.filter_pages))
    }

    /// As `leaf_of`, by fences if they are in memory. The location has no number of the first key then.
    #[inline]
    fn search_leaf<'t, P: Pages<'t>>(
        &'t self,
        key: &[u8],
        number: SequenceNumber,
        pages: &mut P,
    ) -> Result<ChildLocation, P::Stop> {
        let footer = self.footer()?;
        if fences::are_worthwhile(footer.height) {
            match self.fences(pages.guard()).map(|fences| fences.leaf_of(key)) {
                Some(Some((_, leaf))) => return Ok(leaf),
                None if P::WAITS => self.note_search_without_fences(footer),
                Some(None) | None => {}
            }
        }
        self.leaf_of(key, number, pages)
    }

    /// The leaf in which (`key`, `number`) would be. Requires that the branch has entries.
    pub(in crate::branch) fn leaf_of<'t, P: Pages<'t>>(
        &'t self,
        key: &[u8],
        number: SequenceNumber,
        pages: &mut P,
    ) -> Result<ChildLocation, P::Stop> {
        let footer = self.footer()?;
        let mut location = footer.root;
        for level in (1..=footer.height).rev() {
            let page = pages.page(self, WantedPage::child(location, level as u8))?;
            page.prefetch(INDEX_LINES);
            location = self.child(page.payload(), location, child_of(page.payload(), key, number))?;
        }
        Ok(location)
    }
}
