//! The page source of a get that asks only whether a key has a value. One thread at a time.

use super::page_read::{FoundPage, WantedPage};
use super::pages::{LeavesRead, Pages};
use crate::branch::branch::Branch;
use crossbeam_epoch::Guard;

/// As the source that it takes pages from, but the values of puts are left in their pages.
pub struct ValuelessPages<P>(P);

impl<P> ValuelessPages<P> {
    /// A source for one operation, as `pages` is.
    pub fn new(pages: P) -> Self {
        Self(pages)
    }
}

impl<'t, P: Pages<'t>> Pages<'t> for ValuelessPages<P> {
    type Stop = P::Stop;
    /// `pin_value` does nothing.
    const PINS_VALUES: bool = true;
    const WAITS: bool = P::WAITS;

    fn page<'a>(&'a mut self, branch: &'t Branch, wanted: WantedPage) -> Result<FoundPage<'a>, P::Stop>
    where
        't: 'a,
    {
        self.0.page(branch, wanted)
    }

    fn begin(&self, branch: &'t Branch) -> Result<(), P::Stop> {
        self.0.begin(branch)
    }

    fn guard(&self) -> &Guard {
        self.0.guard()
    }

    /// Always none: without the value there is nothing for the item cache.
    fn leaves_read(&self) -> LeavesRead {
        LeavesRead::default()
    }
}
