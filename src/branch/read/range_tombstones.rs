//! The range tombstones of a branch, which stand in pages of their own: their entries are starts, their values ends. Any
//! thread.
//!
//! They are few, so a branch reads all of its own at first use and keeps them as long as it is open, outside the page cache. A
//! branch without any, which its `BranchMeta` knows, reads nothing and asks nothing.
//!
//! Invariants:
//! 1. The whole range of every range tombstone lies in the branch's key range (`BranchMeta::ends_before`): whoever cuts a run
//!    into parts clips them, so whoever is led to a part needs no other part's.
//! 2. Each page stands for itself, so that what is whole can be saved where another is damaged.

use crate::branch::branch::Branch;
use crate::format::page::{self, PAGE_BYTES, PageKind};
use crate::format::sorted_page::{SortedPage, tag_kind, tag_number};
use crate::io::AlignedBuffer;
use crate::merge::{Fragment, NO_RANGE_TOMBSTONES, RangeTombstone, RangeTombstones};
use crate::util::{Kind, Result};

impl Branch {
    /// Its range tombstones.
    #[inline]
    pub fn range_tombstones(&self) -> Result<&RangeTombstones> {
        if self.meta().range_tombstones == 0 {
            return Ok(&NO_RANGE_TOMBSTONES);
        }
        self.load_range_tombstones()
    }

    #[cold]
    fn load_range_tombstones(&self) -> Result<&RangeTombstones> {
        let kept = self.range_tombstones_cell();
        if let Some(tombstones) = kept.get() {
            return Ok(tombstones);
        }
        let footer = self.footer()?;
        let mut bytes = AlignedBuffer::new((footer.properties_at - footer.range_tombstones_at) as usize);
        self.file()?.read_exact_at(&mut bytes, footer.range_tombstones_at)?;
        let mut deletions = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let offset = footer.range_tombstones_at + at as u64;
            let claimed =
                page::peek(&bytes[at..]).map_or(PAGE_BYTES, |header| page::stored_bytes(header.stored_len as usize));
            let end = (at + claimed).min(bytes.len());
            let header = page::check(&bytes[at..end], offset, self.owner(), self.path())?;
            if header.kind != PageKind::RangeTombstones {
                return Err(self.corruption(offset, "page kind", "range tombstones", format!("{:?}", header.kind)));
            }
            decode(page::payload(&bytes[at..end]), &mut deletions)
                .map_err(|what| self.corruption(offset, "page structure", "a page of range tombstones", what))?;
            at = end;
        }
        let tombstones = RangeTombstones::new(deletions.iter().cloned());
        // Fragmented anew they must be what they were, or ranges overlap that should not.
        if !tombstones.deletions().eq(deletions) {
            let (expected, found) = ("fragments in their order", "others");
            return Err(self.corruption(footer.range_tombstones_at, "range tombstones", expected, found));
        }
        let (expected, found) = (self.meta().range_tombstones, tombstones.count());
        let meta = self.meta();
        let inside = |fragment: &Fragment| meta.key_min <= fragment.start && fragment.end <= meta.key_max;
        if expected != found || !tombstones.fragments().iter().all(inside) {
            let expected = format!("{expected} in the file's key range");
            return Err(self.corruption(footer.range_tombstones_at, "range tombstones", expected, found));
        }
        Ok(kept.get_or_init(|| tombstones))
    }
}

/// Reads a page's payload.
pub(in crate::branch) fn decode(payload: &[u8], deletions: &mut Vec<RangeTombstone>) -> Result<(), &'static str> {
    let page = SortedPage::new(payload).ok_or("lengths past the page")?;
    page.validate()?;
    if page.width() != 0 {
        return Err("packed values");
    }
    let mut start = page.prefix().to_vec();
    for at in 0..page.count() {
        let parts = page.parts(at);
        page.complete_key(at, &parts, &mut start);
        let end = page.value(&parts);
        if tag_kind(parts.tag) != Kind::RangeDelete || *end <= start[..] {
            return Err("an entry that deletes no range");
        }
        deletions.push(RangeTombstone { start: start.clone(), end: end.to_vec(), number: tag_number(parts.tag) });
    }
    Ok(())
}
