//! Where a get takes pages from: from the cache and, where they are not there, from the disk at once (`BlockingPages`), or from what
//! was read for it ahead, noting what is missing (`BatchedPages`). One thread at a time.
//!
//! A `BatchedPages` lets many gets of one call wait for the disk together (design.md, Cache and I/O): each goes as far as pages
//! are in memory and stops at the first that is not; all missing pages are read overlapped; those gets begin again. What was
//! read is held until the call is over, so every round gets further, whatever the cache gives up meanwhile.

use super::page_read::{FoundPage, WantedPage};
use crate::branch::branch::Branch;
use crate::cache::Page;
use crate::format::page::{PAGE_BYTES, PageKind};
use crate::util::{Error, Result};
use crossbeam_epoch::Guard;
use std::ops::Range;

/// A source of pages of branches that live for `'t`.
pub trait Pages<'t> {
    /// Why a get ends without an answer.
    type Stop: From<Error>;
    /// Whether values of puts go to `pin_value`, not into the get's buffer.
    const PINS_VALUES: bool = false;

    /// The page.
    fn page<'a>(&'a mut self, branch: &'t Branch, wanted: WantedPage) -> Result<FoundPage<'a>, Self::Stop>
    where
        't: 'a;

    /// A get is about to look into the branch, and may read what this keeps outside of the page cache.
    fn begin(&self, branch: &'t Branch) -> Result<(), Self::Stop> {
        let _ = branch;
        Ok(())
    }

    /// The epoch in which pages are looked up.
    fn guard(&self) -> &Guard;

    /// How many leaves so far were not in the cache, of those whose memory is as large as the item cache's chunks: what it grows by is what
    /// the page cache gives up, and memory of one size is of no use for another (`io/frames.rs`).
    fn small_leaves_read(&self) -> u64;

    /// Keeps the value at this place of the payload of the leaf that was given last, or else appends it to `out`.
    fn pin_value(&mut self, value: Range<usize>, out: &mut Vec<u8>) {
        let _ = (value, out);
    }
}

pub(in crate::branch) fn is_small_leaf(wanted: WantedPage, page: &Page) -> bool {
    wanted.kind == PageKind::Leaf && page.bytes_held() == PAGE_BYTES
}

/// Why a get over a `BatchedPages` ended.
#[derive(Debug)]
pub enum Stopped {
    /// A page is missing and was noted.
    Missing,
    /// It failed.
    Failed(Error),
}

impl From<Error> for Stopped {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}
