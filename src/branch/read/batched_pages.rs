//! The page source of many gets that wait for the disk together. One thread at a time.
//!
//! Each get proceeds until it needs a page that is not in memory, and stops there. Then all missing pages are read with
//! overlapped reads, and the stopped gets start again. The pages that were read stay referenced until the call ends, so
//! every round makes progress, whatever the cache evicts in the meantime.

use super::page_read::{FoundPage, WantedPage};
use super::pages::{LeavesRead, Pages, Stopped};
use crate::branch::branch::{Branch, page_number};
use crate::cache::Page;
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result};
use crossbeam_epoch::Guard;
use std::collections::HashMap;

type Place = (FileNumber, u32);

/// Collects the pages that are not in memory; `read` reads them all.
pub struct BatchedPages<'t> {
    guard: Guard,
    missing: HashMap<Place, (&'t Branch, WantedPage)>,
    held: HashMap<Place, Page>,
    leaves_read: LeavesRead,
}

impl BatchedPages<'_> {
    /// A source with nothing collected.
    pub fn new() -> Self {
        let leaves_read = LeavesRead::default();
        Self { guard: crossbeam_epoch::pin(), missing: HashMap::new(), held: HashMap::new(), leaves_read }
    }

    /// Reads all collected pages at once and inserts them into the cache. Returns the first error. Afterwards the
    /// collection is empty.
    pub fn read(&mut self) -> Result<()> {
        let mut wanted: Vec<(&Branch, WantedPage)> = self.missing.drain().map(|(_, missing)| missing).collect();
        // Sorted by position: runs are reproducible, and reads of neighbouring pages reach the disk together.
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

    fn page<'a>(&'a mut self, branch: &'t Branch, wanted: WantedPage) -> Result<FoundPage<'a>, Stopped>
    where
        't: 'a,
    {
        let place = (branch.meta().file, page_number(wanted.offset));
        if let Some(page) = self.held.get(&place) {
            self.leaves_read.note(wanted, page);
            return Ok(FoundPage::Read(Arc::clone(page)));
        }
        if let Some(page) = branch.cached(wanted, &self.guard)? {
            return Ok(FoundPage::Cached(page));
        }
        self.missing.insert(place, (branch, wanted));
        Err(Stopped::Missing)
    }

    fn guard(&self) -> &Guard {
        &self.guard
    }
    fn leaves_read(&self) -> LeavesRead {
        self.leaves_read
    }
}

/// Reads uncached pages, all at once, and inserts them into the cache. Returns them in the given order, or the first
/// error.
fn read_together(wanted: &[(&Branch, WantedPage)], guard: &mut Guard) -> Result<Vec<Page>> {
    let Some((first, _)) = wanted.first() else { return Ok(Vec::new()) };
    let context = first.context();
    let mut requests = Vec::with_capacity(wanted.len());
    for (branch, wanted) in wanted {
        requests.push(branch.request(*wanted)?);
    }
    // The guard is unpinned while this thread waits, so retired pages can be freed.
    let done = guard.repin_after(|| context.reads.waiting(|| context.storage.start_reads(requests).wait()));
    let mut pages = Vec::with_capacity(wanted.len());
    for ((branch, wanted), done) in wanted.iter().zip(done) {
        pages.push(branch.arrived(done, *wanted)?);
    }
    Ok(pages)
}
