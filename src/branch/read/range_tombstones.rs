//! The range tombstones of a branch. They have pages of their own, in which the key of an entry is the start of a range
//! and the value is its end. Any thread.
//!
//! A branch has few of them, so it reads all of them at first use and keeps them, outside the page cache, while it is
//! open. If its `BranchMeta` says that it has none, it reads nothing.
//!
//! Invariants:
//! 1. Every range tombstone lies completely within the branch's key range (`BranchMeta::ends_before`). A writer that
//!    cuts a run into parts clips the tombstones, so a reader of one part needs no tombstones of another part.
//! 2. Those of an ingested file are written without a number and have that of its entries (`write/common_number.rs`).
//! 3. Each page can be read by itself, so intact pages can be salvaged when another page is damaged.

use crate::branch::branch::Branch;
use crate::format::page::{self, PAGE_BYTES, PageKind};
use crate::format::sorted_page::{SortedPage, tag_kind, tag_number};
use crate::io::AlignedBuffer;
use crate::merge::{Fragment, NO_RANGE_TOMBSTONES, RangeTombstone, RangeTombstones};
use crate::util::{Kind, Result, SequenceNumber};

impl Branch {
    /// The range tombstones of the branch.
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
        // Fragmenting them again must give the same fragments. Otherwise ranges overlap that must not overlap.
        if !tombstones.deletions().eq(deletions) {
            let (expected, found) = ("sorted fragments that do not overlap", "other fragments");
            return Err(self.corruption(footer.range_tombstones_at, "range tombstones", expected, found));
        }
        let (expected, found) = (self.meta().range_tombstones, tombstones.count());
        let meta = self.meta();
        let inside = |fragment: &Fragment| meta.key_min <= fragment.start && fragment.end <= meta.key_max;
        if expected != found || !tombstones.fragments().iter().all(inside) {
            let expected = format!("{expected} in the file's key range");
            return Err(self.corruption(footer.range_tombstones_at, "range tombstones", expected, found));
        }
        let tombstones = self.with_common_number(tombstones)?;
        Ok(kept.get_or_init(|| tombstones))
    }

    /// Those of an ingested file have the number of all its entries, and none of their own.
    fn with_common_number(&self, mut tombstones: RangeTombstones) -> Result<RangeTombstones> {
        let footer = self.footer()?;
        let Some(number) = self.common_number(footer) else { return Ok(tombstones) };
        if let Some(other) = tombstones.numbers().into_iter().find(|number| *number != SequenceNumber::ZERO) {
            let at = footer.range_tombstones_at;
            return Err(self.corruption(at, "number of a range tombstone of an ingest", SequenceNumber::ZERO, other));
        }
        tombstones.set_number(number);
        Ok(tombstones)
    }
}

/// Decodes the payload of a page.
pub(in crate::branch) fn decode(payload: &[u8], deletions: &mut Vec<RangeTombstone>) -> Result<(), &'static str> {
    let page = SortedPage::new(payload).ok_or("lengths that exceed the page")?;
    page.validate()?;
    if page.width() != 0 {
        return Err("packed values in a page of range tombstones");
    }
    let mut start = page.prefix().to_vec();
    for at in 0..page.count() {
        let parts = page.parts(at);
        page.complete_key(at, &parts, &mut start);
        let end = page.value(&parts);
        if tag_kind(parts.tag) != Kind::RangeDelete || *end <= start[..] {
            return Err("an entry that is not a range tombstone");
        }
        deletions.push(RangeTombstone { start: start.clone(), end: end.to_vec(), number: tag_number(parts.tag) });
    }
    Ok(())
}
