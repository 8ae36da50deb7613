//! The page source of a get that waits for the disk at each missing page. One thread at a time.

use super::page_read::{FoundPage, WantedPage};
use super::pages::{Pages, is_small_leaf};
use crate::branch::branch::Branch;
use crate::util::{Error, Result};
use crossbeam_epoch::Guard;

/// Reads each page that is not in memory immediately.
pub struct BlockingPages {
    guard: Guard,
    small_leaves_read: u64,
}

impl BlockingPages {
    /// A source for one operation: the epoch stays pinned until the value is dropped.
    #[inline]
    pub fn new() -> Self {
        Self { guard: crossbeam_epoch::pin(), small_leaves_read: 0 }
    }
}

impl<'t> Pages<'t> for BlockingPages {
    type Stop = Error;

    #[inline]
    fn page<'a>(&'a mut self, branch: &'t Branch, wanted: WantedPage) -> Result<FoundPage<'a>>
    where
        't: 'a,
    {
        let found = branch.page(wanted, true, &self.guard)?;
        if let FoundPage::Read(page) = &found {
            self.small_leaves_read += u64::from(is_small_leaf(wanted, page));
        }
        Ok(found)
    }

    #[inline]
    fn guard(&self) -> &Guard {
        &self.guard
    }

    #[inline]
    fn small_leaves_read(&self) -> u64 {
        self.small_leaves_read
    }
}
