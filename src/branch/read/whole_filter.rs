//! The filter of a branch, read as a whole: for merges that ask it for many keys. One thread.

use super::page_read::WantedPage;
use crate::branch::branch::Branch;
use crate::branch::extent_memory::Lease;
use crate::filter::quotient;
use crate::format::page::{self, PAGE_BYTES, PageKind};
use crate::util::Result;

/// See the module. It has no false negatives. Its bytes count as memory of cursors while it lives.
#[derive(Debug)]
pub struct WholeFilter {
    pages: Vec<u8>,
    count: u32,
    _lease: Lease,
}

impl WholeFilter {
    /// Whether the branch may contain a key with this fingerprint (`util::hash`).
    pub fn may_contain(&self, fingerprint: u32) -> bool {
        // A branch without a filter may contain anything.
        let at = quotient::page_of(fingerprint, self.count.max(1)) as usize;
        let page = self.pages.chunks(PAGE_BYTES).nth(at);
        page.is_none_or(|page| quotient::may_contain(page::payload(page), fingerprint, self.count))
    }
}

impl Branch {
    /// Reads the whole filter with one read, past the cache: about 1.5 bytes for each key.
    pub fn whole_filter(&self) -> Result<WholeFilter> {
        let footer = self.footer()?;
        let count = if footer.entries == 0 { 0 } else { footer.filter_pages };
        let bytes = count as usize * PAGE_BYTES;
        let lease = self.context().extents.lease(bytes);
        let mut buffer = self.context().extents.take(bytes);
        let mut read = || {
            let extent = &mut buffer[..bytes];
            self.direct_file()?.read_exact_at(extent, footer.filter_at)?;
            for (at, page) in (0u64..).zip(extent.chunks(PAGE_BYTES)) {
                let offset = footer.filter_at + at * PAGE_BYTES as u64;
                self.check_page(page, WantedPage { offset, bytes: PAGE_BYTES, kind: PageKind::Filter, level: 0 })?;
            }
            Ok(extent.to_vec())
        };
        let pages = if count == 0 { Ok(Vec::new()) } else { read() };
        self.context().extents.give(buffer);
        Ok(WholeFilter { pages: pages?, count, _lease: lease })
    }
}
