//! The sources from which gets take pages. One thread at a time.
//!
//! `BlockingPages` reads a missing page from the disk immediately. `BatchedPages` collects missing pages and reads them
//! together. `CacheOnlyPages` never reads. `PinnedPages` returns a value without copying it out of its page.

use super::page_read::{FoundPage, WantedPage};
use crate::branch::branch::Branch;
use crate::cache::Page;
use crate::format::page::{PAGE_BYTES, PageKind};
use crate::util::{Error, Result};
use crossbeam_epoch::Guard;
use std::ops::Range;

/// A source of pages of branches that live for `'t`.
pub trait Pages<'t> {
    /// The reason for which a get ends without an answer.
    type Stop: From<Error>;
    /// Whether values of puts are passed to `pin_value` and not copied into the get's buffer.
    const PINS_VALUES: bool = false;

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

    /// The number of leaves so far that were not in the cache and whose memory has the size of an item cache chunk. The
    /// item cache grows by the memory that the page cache gives up, and memory of one size cannot serve another size
    /// (`io/frames.rs`).
    fn small_leaves_read(&self) -> u64;

    /// Pins the value at this range of the payload of the last returned leaf, or else appends it to `out`.
    fn pin_value(&mut self, value: Range<usize>, out: &mut Vec<u8>) {
        let _ = (value, out);
    }
}

pub(in crate::branch) fn is_small_leaf(wanted: WantedPage, page: &Page) -> bool {
    wanted.kind == PageKind::Leaf && page.memory_bytes() == PAGE_BYTES
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
