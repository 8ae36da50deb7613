//! File reuse (trivial move): which input files of a merge the merged run refers to unchanged. A file that overlaps no
//! other input has nothing to be merged with. Pure functions of branches; any thread.
//!
//! A file is reused only if
//! 1. it lies wholly in the range that is merged (*otherwise:* entries that were not active there become active);
//! 2. it overlaps no other input, range tombstones included, so that the run stays sorted and no tombstone of another
//!    input hides its keys;
//! 3. a merge would find no garbage in it (`garbage.rs`), or the merge may drop nothing because older data lies below;
//! 4. no request needs it rewritten (`Filtering::rewrites`);
//! 5. it is large: a reused file ends the new part files on either side, and small files cost more than rewriting them.

use super::garbage;
use super::run;
use crate::branch::Branch;
use crate::merge::Filtering;
use crate::util::sync::Arc;

/// Sizes of files that may be reused.
pub type Sizes = std::ops::RangeInclusive<u64>;

/// The reusable inputs of a merge of the range [lower, upper), in key order. `bottom`: no older data lies below.
pub fn choose<'a>(
    inputs: &[&'a Arc<Branch>],
    (lower, upper): (&[u8], Option<&[u8]>),
    bottom: bool,
    sizes: &Sizes,
    filtering: Option<&Filtering>,
) -> Vec<&'a Arc<Branch>> {
    let mut sorted = inputs.to_vec();
    sorted.sort_by(|left, right| left.meta().key_min.cmp(&right.meta().key_min));
    let mut reused = Vec::new();
    // Of the branches before the current one, the one that ends last.
    let mut farthest: Option<&Arc<Branch>> = None;
    for (at, branch) in sorted.iter().enumerate() {
        let is_behind = farthest.is_none_or(|farthest| run::follows(farthest, branch));
        let is_before = sorted.get(at + 1).is_none_or(|next| run::follows(branch, next));
        let has_garbage = bottom && garbage::may_have_garbage(branch);
        let is_rewritten =
            filtering.is_some_and(|filtering| filtering.rewrites(&branch.meta().key_min, &branch.meta().key_max));
        if is_behind && is_before && is_reusable(branch, (lower, upper), sizes) && !has_garbage && !is_rewritten {
            reused.push(*branch);
        }
        if farthest.is_none_or(|farthest| ends_after(branch, farthest)) {
            farthest = Some(branch);
        }
    }
    reused
}

/// Whether a file has a size that may be reused and lies wholly in [lower, upper).
pub fn is_reusable(branch: &Branch, (lower, upper): (&[u8], Option<&[u8]>), sizes: &Sizes) -> bool {
    let meta = branch.meta();
    sizes.contains(&meta.bytes) && meta.key_min[..] >= *lower && upper.is_none_or(|upper| meta.ends_before(upper))
}

fn ends_after(branch: &Branch, other: &Branch) -> bool {
    let end = |branch: &Branch| (branch.meta().key_max.clone(), !branch.meta().open_ended);
    end(branch) > end(other)
}
