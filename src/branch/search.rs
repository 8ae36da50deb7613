//! Searches in several branches that go down level by level, side by side: what one waits for, from memory or from the disk, the
//! others wait for at the same time. One thread at a time.
//!
//! A seek in a tree is a search in every run on its path (SplinterDB §2.6), and one after the other each would wait for a dozen lines
//! of memory, or for two reads of the disk. Side by side, a round looks at one page of each branch and asks the processor for
//! the lines that the next round will read; pages that are in no cache are read together.
//!
//! Invariant: a round takes every cursor one page further, so there are at most as many rounds as the tallest branch has levels,
//! its leaf among them, and three more: to ask for the leaf, to find the place in it, and to stand there.

use super::branch::{Branch, page_number};
use super::cursor::BranchCursor;
use super::page_read::Wanted;
use crate::cache::Page;
use crate::io::ReadRequest;
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};
use crossbeam_epoch::Guard;

/// Where a search goes, and from which side it comes to its place.
#[derive(Clone, Copy, Debug)]
pub struct Target<'k> {
    /// Encoded key.
    pub key: &'k [u8],
    /// Number of the version.
    pub number: SequenceNumber,
    /// To the last entry at or before the place, not the first at or behind it.
    pub backward: bool,
}

/// How far a search has come.
#[derive(Debug)]
pub enum Progress {
    /// It goes on with the next round.
    Under,
    /// The page is not in memory: what is to be read for it.
    Missing(ReadRequest),
    /// The cursor stands at the target.
    Arrived,
}

/// Takes cursors that have begun (`BranchCursor::begin`) to the target; returns how many pages came from the disk for that.
///
/// # Errors
/// The first error of any of them; then nobody may rely on where they stand.
pub fn search_together<'c>(cursors: impl Iterator<Item = &'c mut BranchCursor>, target: Target<'_>) -> Result<usize> {
    let mut reads = 0;
    let mut guard = crossbeam_epoch::pin();
    let mut under_way: Vec<&mut BranchCursor> = cursors.collect();
    let mut requests = Vec::new();
    while !under_way.is_empty() {
        let mut failed = None;
        under_way.retain_mut(|cursor| match cursor.go_on(target, &guard) {
            Ok(Progress::Under) => true,
            Ok(Progress::Missing(request)) => {
                requests.push(request);
                true
            }
            Ok(Progress::Arrived) => false,
            Err(error) => {
                failed.get_or_insert(error);
                false
            }
        });
        if let Some(error) = failed {
            return Err(error);
        }
        let Some(cursor) = under_way.first().filter(|_| !requests.is_empty()) else { continue };
        reads += requests.len();
        let storage = Arc::clone(&cursor.branch().context().storage);
        let requests = std::mem::take(&mut requests);
        // Pages retired while this waits can be freed.
        let mut done = guard.repin_after(|| storage.start_reads(requests).wait()).into_iter();
        for cursor in under_way.iter_mut().filter(|cursor| cursor.lacks_page()) {
            if let Some(done) = done.next() {
                cursor.go_on_with(done, target, &guard)?;
            }
        }
    }
    Ok(reads)
}

/// Reads pages that no cache has, all at once, and gives them to the cache; in the order asked for. The first error wins.
pub fn read_together(wanted: &[(&Branch, Wanted)], guard: &mut Guard) -> Result<Vec<Page>> {
    let Some((first, _)) = wanted.first() else { return Ok(Vec::new()) };
    let storage = Arc::clone(&first.context().storage);
    let mut requests = Vec::with_capacity(wanted.len());
    for (branch, wanted) in wanted {
        requests.push(branch.request(*wanted)?);
    }
    // Pages retired while this waits can be freed.
    let done = guard.repin_after(|| storage.start_reads(requests).wait());
    let mut pages = Vec::with_capacity(wanted.len());
    for ((branch, wanted), done) in wanted.iter().zip(done) {
        pages.push(branch.arrived(done, *wanted)?);
    }
    Ok(pages)
}

impl Branch {
    /// Asks the processor for these lines of a page that will be read soon, if it is in memory.
    #[inline]
    pub(super) fn look_ahead_at(&self, wanted: Wanted, lines: [usize; 8], guard: &Guard) {
        if let Some(page) = self.table().peek(page_number(wanted.offset), guard) {
            lines.into_iter().for_each(|line| page.prefetch(line * 64));
        }
        if wanted.level == 0 {
            self.table().look_ahead_hold(page_number(wanted.offset), guard);
        }
    }
}
