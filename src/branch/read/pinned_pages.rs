//! The page source of a get that returns its value without copying it out of the leaf. One thread at a time.

use super::blocking_pages::BlockingPages;
use super::page_read::{FoundPage, WantedPage};
use super::pages::{LeavesRead, Pages};
use crate::branch::branch::Branch;
use crate::cache::{Page, PageBuffer};
use crate::format::page::{PAGE_HEADER_BYTES, PageKind};
use crate::merge::PinnedValue;
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use crossbeam_epoch::Guard;
use std::ops::Range;

/// As `BlockingPages`, but takes counted references to leaves (`docs/concurrency.md`, C3) and keeps the last value
/// found together with its leaf.
pub struct PinnedPages {
    reading: BlockingPages,
    leaf: Option<Page>,
    value: Option<PinnedValue>,
}

impl PinnedPages {
    /// A source for one operation: the epoch stays pinned until the value is dropped.
    pub fn new() -> Self {
        Self { reading: BlockingPages::new(), leaf: None, value: None }
    }

    /// The last value found, if it is pinned in its leaf. It is meaningful only if the get found a put.
    pub fn into_value(self) -> Option<PinnedValue> {
        self.value
    }
}

impl<'t> Pages<'t> for PinnedPages {
    type Stop = Error;
    const PINS_VALUES: bool = true;

    fn page<'a>(&'a mut self, branch: &'t Branch, wanted: WantedPage) -> Result<FoundPage<'a>>
    where
        't: 'a,
    {
        if wanted.kind != PageKind::Leaf {
            return self.reading.page(branch, wanted);
        }
        let page = branch.pinned_page(wanted, true)?;
        self.leaf = Some(Arc::clone(&page));
        Ok(FoundPage::Read(page))
    }

    fn guard(&self) -> &Guard {
        Pages::guard(&self.reading)
    }

    /// Always none: the value is not in the get's buffer, so it cannot be added to the item cache.
    fn leaves_read(&self) -> LeavesRead {
        LeavesRead::default()
    }

    fn pin_value(&mut self, value: Range<usize>, out: &mut Vec<u8>) {
        let Some(leaf) = self.leaf.take() else { return };
        let at = PAGE_HEADER_BYTES + value.start..PAGE_HEADER_BYTES + value.end;
        self.value = PinnedValue::new(Arc::<PageBuffer>::clone(&leaf), at);
        if self.value.is_none() {
            out.extend_from_slice(leaf.payload().get(value).unwrap_or_default());
        }
    }
}
