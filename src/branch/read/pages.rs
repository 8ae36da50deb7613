//! The sources from which gets take pages. One thread at a time.
//!
//! `BlockingPages` reads a missing page from the disk immediately. `BatchedPages` collects missing pages and reads them
//! together. `CacheOnlyPages` never reads. `PinnedPages` returns a value without copying it out of its page.
//! `ValuelessPages` leaves it there, whichever source the pages come from.

use super::page_read::{FoundPage, WantedPage};
use crate::branch::branch::Branch;
use crate::cache::Page;
use crate::format::page::PageKind;
use crate::util::{Error, Result};
use crossbeam_epoch::Guard;
use std::ops::Range;

/// A source of pages of branches that live for `'t`.
pub trait Pages<'t> {
    /// The reason for which a get ends without an answer.
    type Stop: From<Error>;
    /// Whether values of puts are passed to `pin_value` and not copied into the get's buffer.
    const PINS_VALUES: bool = false;
    /// Whether a get may wait for the disk at any page.
    const WAITS: bool = false;

    /// Returns the page.
    fn page<'a>(&'a mut self, branch: &'t Branch, wanted: WantedPage) -> Result<FoundPage<'a>, Self::Stop>
    where
        't: 'a;

    /// Called before a get reads the branch. Ensures that the data which the branch keeps outside the page cache may be
    /// used.
    fn begin(&self, branch: &'t Branch) -> Result<(), Self::Stop> {
        let _ = branch;
        Ok(())
    }

    /// The epoch guard under which pages are looked up.
    fn guard(&self) -> &Guard;

    /// The leaves so far that were not in the cache, and whose values may be added to the item cache.
    fn leaves_read(&self) -> LeavesRead;

    /// Pins the value at this range of the payload of the last returned leaf, or else appends it to `out`.
    fn pin_value(&mut self, value: Range<usize>, out: &mut Vec<u8>) {
        let _ = (value, out);
    }
}

/// Leaves that were not in the cache.
#[derive(Clone, Copy, Debug, Default)]
pub struct LeavesRead {
    /// Their number.
    pub count: u64,
    /// Bytes of memory of the last one.
    pub last_bytes: usize,
}

impl LeavesRead {
    pub(in crate::branch) fn note(&mut self, wanted: WantedPage, page: &Page) {
        if wanted.kind == PageKind::Leaf {
            *self = Self { count: self.count + 1, last_bytes: page.memory_bytes() };
        }
    }
}

/// Why a get over `BatchedPages` or `CacheOnlyPages` ended.
#[derive(Debug)]
pub enum Stopped {
    /// A page is not in memory. `BatchedPages` has added it to its collection.
    Missing,
    /// An error.
    Failed(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
