//! Writes the range tombstones of a branch file. One thread.

use super::page_writer::{NewPage, PageWriter};
use crate::format::page::PageKind;
use crate::format::sorted_page::{SortedPageBuilder, tag};
use crate::merge::{RangeTombstone, RangeTombstones};
use crate::util::{Kind, Result};

/// A page is full once its payload has this many bytes.
const FULL_BYTES: usize = 60 << 10;

/// Appends the pages of the range tombstones.
pub(in crate::branch) fn write(writer: &mut PageWriter, tombstones: &RangeTombstones) -> Result<()> {
    let mut page = SortedPageBuilder::default();
    for RangeTombstone { start, end, number } in tombstones.deletions() {
        if page.size() >= FULL_BYTES {
            append(writer, &mut page)?;
        }
        let tag = tag(number, Kind::RangeDelete);
        let fit = page.fit(&start, tag, end.len());
        page.push(&start, tag, &end, fit);
    }
    append(writer, &mut page)
}

fn append(writer: &mut PageWriter, page: &mut SortedPageBuilder) -> Result<()> {
    if !page.is_empty() {
        let new = NewPage::plain(PageKind::RangeTombstones, 0, page.size());
        writer.append(new, |payload| page.encode(payload))?;
        page.clear();
    }
    Ok(())
}
