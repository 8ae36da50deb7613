//! The page source of a get that waits for the disk at each missing page. One thread at a time.

use super::page_read::{FoundPage, WantedPage};
use super::pages::{LeavesRead, Pages};
use crate::branch::branch::Branch;
use crate::util::{Error, Result};
use crossbeam_epoch::Guard;

/// Reads each page that is not in memory immediately.
pub struct BlockingPages {
    guard: Guard,
    leaves_read: LeavesRead,
}

impl BlockingPages {
    /// A source for one operation: the epoch stays pinned until the value is dropped.
    #[inline]
    pub fn new() -> Self {
        Self { guard: crossbeam_epoch::pin(), leaves_read: LeavesRead::default() }
    }
}

impl<'t> Pages<'t> for BlockingPages {
    type Stop = Error;
    const WAITS: bool = true;

    #[inline]
    fn page<'a>(&'a mut self, branch: &'t Branch, wanted: WantedPage) -> Result<FoundPage<'a>>
    where
        't: 'a,
    {
        let found = branch.page(wanted, true, &self.guard)?;
        if let FoundPage::Read(page) = &found {
            self.leaves_read.note(wanted, page);
        }
        Ok(found)
    }

    #[inline]
    fn guard(&self) -> &Guard {
        &self.guard
    }

    #[inline]
    fn leaves_read(&self) -> LeavesRead {
        self.leaves_read
    }
}
