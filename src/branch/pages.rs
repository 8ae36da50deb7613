//! Where a get takes pages from: from the cache and, where they are not there, from the disk at once (`BlockingPages`), or from what
//! was read for it ahead, noting what is missing (`BatchedPages`). One thread at a time.
//!
//! A `BatchedPages` lets many gets of one call wait for the disk together (design.md, Cache and I/O): each goes as far as pages
//! are in memory and stops at the first that is not; all missing pages are read overlapped; those gets begin again. What was
//! read is held until the call is over, so every round gets further, whatever the cache gives up meanwhile.

use super::branch::{Branch, page_number};
use super::page_read::{Found, Wanted};
use super::search::read_together;
use crate::cache::Page;
use crate::format::page::{PAGE_BYTES, PageKind};
use crate::util::sync::Arc;
use crate::util::{Error, FileNumber, Result};
use crossbeam_epoch::Guard;
use std::collections::HashMap;
use std::ops::Range;

/// A source of pages of branches that live for `'t`.
pub trait Pages<'t> {
    /// Why a get ends without an answer.
    type Stop: From<Error>;
    /// Whether values of puts go to `hold`, not into the get's buffer.
    const HOLDS: bool = false;

    /// The page.
    fn page<'a>(&'a mut self, branch: &'t Branch, wanted: Wanted) -> Result<Found<'a>, Self::Stop>
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
    fn hold(&mut self, value: Range<usize>, out: &mut Vec<u8>) {
        let _ = (value, out);
    }
}

fn is_small_leaf(wanted: Wanted, page: &Page) -> bool {
    wanted.kind == PageKind::Leaf && page.bytes_held() == PAGE_BYTES
}

/// Reads what is not in memory at once.
pub struct BlockingPages {
    guard: Guard,
    small_leaves_read: u64,
}

impl BlockingPages {
    /// For one operation: the epoch is pinned as long as the value lives.
    #[inline]
    pub fn new() -> Self {
        Self { guard: crossbeam_epoch::pin(), small_leaves_read: 0 }
    }
}

impl<'t> Pages<'t> for BlockingPages {
    type Stop = Error;

    #[inline]
    fn page<'a>(&'a mut self, branch: &'t Branch, wanted: Wanted) -> Result<Found<'a>>
    where
        't: 'a,
    {
        let found = branch.page(wanted, true, &self.guard)?;
        if let Found::Read(page) = &found {
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

type Place = (FileNumber, u32);

/// Notes what is not in memory, and reads it all on `read`.
pub struct BatchedPages<'t> {
    guard: Guard,
    missing: HashMap<Place, (&'t Branch, Wanted)>,
    held: HashMap<Place, Page>,
    small_leaves_read: u64,
}

impl BatchedPages<'_> {
    /// Nothing noted.
    pub fn new() -> Self {
        Self { guard: crossbeam_epoch::pin(), missing: HashMap::new(), held: HashMap::new(), small_leaves_read: 0 }
    }

    /// Reads what was noted, all at once, and gives it to the cache. The first error wins; nothing is noted any more.
    pub fn read(&mut self) -> Result<()> {
        let mut wanted: Vec<(&Branch, Wanted)> = self.missing.drain().map(|(_, missing)| missing).collect();
        // In the order of places, so that a run repeats itself, and neighbours meet on the way to the disk.
        wanted.sort_unstable_by_key(|(branch, wanted)| (branch.meta().file, wanted.offset));
        let pages = read_together(&wanted, &mut self.guard)?;
        for ((branch, wanted), page) in wanted.iter().zip(pages) {
            self.held.insert((branch.meta().file, page_number(wanted.offset)), page);
        }
        Ok(())
    }
}

impl<'t> Pages<'t> for BatchedPages<'t> {
    type Stop = Stopped;

    fn page<'a>(&'a mut self, branch: &'t Branch, wanted: Wanted) -> Result<Found<'a>, Stopped>
    where
        't: 'a,
    {
        let place = (branch.meta().file, page_number(wanted.offset));
        if let Some(page) = self.held.get(&place) {
            self.small_leaves_read += u64::from(is_small_leaf(wanted, page));
            return Ok(Found::Read(Arc::clone(page)));
        }
        if let Some(page) = branch.cached(wanted, &self.guard)? {
            return Ok(Found::Cached(page));
        }
        self.missing.insert(place, (branch, wanted));
        Err(Stopped::Missing)
    }

    fn guard(&self) -> &Guard {
        &self.guard
    }
    fn small_leaves_read(&self) -> u64 {
        self.small_leaves_read
    }
}
