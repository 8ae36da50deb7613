//! Searches in several branches that go down level by level, side by side: what one waits for, from memory or from the disk, the
//! others wait for at the same time. One thread at a time.
//!
//! A seek in a tree is a search in every run on its path (SplinterDB §2.6), and one after the other each would wait for a dozen lines
//! of memory, or for two reads of the disk. Side by side, a round looks at one page of each branch and asks the processor for
//! the lines that the next round will read; pages that are in no cache are read together.
//!
//! Invariant: a round takes every cursor one page further, so there are at most as many rounds as the tallest branch has levels,
//! its leaf among them, and three more: to ask for the leaf, to find the place in it, and to stand there.

use super::cursor::{BranchCursor, SearchStep, Target};
use crate::util::Result;
use crate::util::sync::Arc;

/// Takes cursors that have begun (`BranchCursor::begin_search`) to the target; returns how many pages came from the disk for that.
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
        under_way.retain_mut(|cursor| match cursor.advance(target, &guard) {
            Ok(SearchStep::Continue) => true,
            Ok(SearchStep::Missing(request)) => {
                requests.push(request);
                true
            }
            Ok(SearchStep::Arrived) => false,
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
        for cursor in under_way.iter_mut().filter(|cursor| cursor.needs_page()) {
            if let Some(done) = done.next() {
                cursor.advance_with(done, target, &guard)?;
            }
        }
    }
    Ok(reads)
}
