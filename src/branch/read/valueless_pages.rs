//! The page source of a get that asks only whether a key has a value. One thread at a time.

use super::blocking_pages::BlockingPages;
use super::page_read::{FoundPage, WantedPage};
use super::pages::{LeavesRead, Pages};
use crate::branch::branch::Branch;
use crate::util::{Error, Result};
use crossbeam_epoch::Guard;

/// As `BlockingPages`, but the values of puts are left in their pages.
pub struct ValuelessPages(BlockingPages);

impl ValuelessPages {
    /// A source for one operation: the epoch stays pinned until the value is dropped.
    pub fn new() -> Self {
        Self(BlockingPages::new())
    }
}

impl<'t> Pages<'t> for ValuelessPages {
    type Stop = Error;
    /// `pin_value` does nothing.
    const PINS_VALUES: bool = true;
    const WAITS: bool = true;

    fn page<'a>(&'a mut self, branch: &'t Branch, wanted: WantedPage) -> Result<FoundPage<'a>>
    where
        't: 'a,
    {
        self.0.page(branch, wanted)
    }

    fn guard(&self) -> &Guard {
        Pages::guard(&self.0)
    }

    /// Always none: without the value there is nothing for the item cache.
    fn leaves_read(&self) -> LeavesRead {
        LeavesRead::default()
    }
}
