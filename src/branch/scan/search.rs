//! Searches in several branches that descend level by level, side by side, so that their waits for memory and for the
//! disk overlap. One thread at a time.
//!
//! A seek in the tree is a search in every run on its path (SplinterDB §2.6). One after the other, each search would
//! wait for a dozen cache misses or for two reads of the disk. Side by side, each round looks at one page of each
//! branch and prefetches the lines that the next round will read; pages that are not in the cache are read together.
//!
//! Invariant: a round advances every cursor by one page. So the number of rounds is at most the number of levels of the
//! tallest branch, including its leaf, plus three: to prefetch the leaf, to find the place in it, and to move there.

use super::cursor::{BranchCursor, SearchStep, Target};
use crate::util::Result;
use crate::util::sync::Arc;

/// Moves cursors whose search has begun (`BranchCursor::begin_search`) to the target. `branch_of` gives the cursor of a
/// source; without one there is nothing to search. Returns the number of pages that were read from the disk.
///
/// # Errors
/// The first error of any search. Then the positions of all cursors are unspecified.
pub fn search_together<C>(
    sources: &mut [C],
    branch_of: impl Fn(&mut C) -> Option<&mut BranchCursor>,
    target: Target<'_>,
) -> Result<usize> {
    let mut reads = 0;
    let mut guard = crossbeam_epoch::pin();
    let mut requests = Vec::new();
    loop {
        let mut is_under_way = false;
        let mut context = None;
        for cursor in sources.iter_mut().filter_map(&branch_of).filter(|cursor| cursor.is_searching()) {
            match cursor.advance(target, &guard)? {
                SearchStep::Continue => is_under_way = true,
                SearchStep::Missing(request) => {
                    is_under_way = true;
                    requests.push(request);
                    context.get_or_insert_with(|| Arc::clone(cursor.branch().context()));
                }
                SearchStep::Arrived => {}
            }
        }
        if !is_under_way {
            return Ok(reads);
        }
        let Some(context) = context else { continue };
        reads += requests.len();
        let requests = std::mem::take(&mut requests);
        // The guard is unpinned while this thread waits, so retired pages can be freed.
        let mut done =
            guard.repin_after(|| context.reads.waiting(|| context.storage.start_reads(requests).wait())).into_iter();
        for cursor in sources.iter_mut().filter_map(&branch_of).filter(|cursor| cursor.needs_page()) {
            if let Some(done) = done.next() {
                cursor.advance_with(done, target, &guard)?;
            }
        }
    }
}
