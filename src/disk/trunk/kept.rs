//! Which inputs of a merge stay as they are: files that overlap no other input hold nothing that could be merged with
//! anything, so the merged run refers to them. Pure functions of branches. Any thread.
//!
//! A file is kept only if
//! 1. it lies wholly in the range that is merged, so that nothing of it comes to life that was not active there;
//! 2. it overlaps no other input, range tombstones included, so that the run stays sorted and no other input's tombstone was of its keys;
//! 3. at a leaf whose oldest bundle takes part, a merge would find no garbage in it (`garbage.rs`);
//! 4. it is large: what is kept ends the new parts on either side, and small files cost more than rewriting them.

use super::garbage;
use super::node::Node;
use super::options::TrunkOptions;
use super::run;
use crate::branch::Branch;
use crate::util::sync::Arc;
use std::ops::Range;

/// Sizes of files that may be kept.
pub type Sizes = std::ops::RangeInclusive<u64>;

/// Those of a range [lower, upper), if `bottom` is whether nothing older lies below.
pub fn choose<'a>(
    inputs: &[&'a Arc<Branch>],
    (lower, upper): (&[u8], Option<&[u8]>),
    bottom: bool,
    sizes: &Sizes,
) -> Vec<&'a Arc<Branch>> {
    let mut sorted = inputs.to_vec();
    sorted.sort_by(|left, right| left.meta().key_min.cmp(&right.meta().key_min));
    let mut kept = Vec::new();
    // Of those in front, the one that reaches farthest.
    let mut farthest: Option<&Arc<Branch>> = None;
    for (at, branch) in sorted.iter().enumerate() {
        let is_behind = farthest.is_none_or(|farthest| run::follows(farthest, branch));
        let is_before = sorted.get(at + 1).is_none_or(|next| run::follows(branch, next));
        if is_behind && is_before && may_stay(branch, (lower, upper), sizes) && !(bottom && garbage::has_kept(branch)) {
            kept.push(*branch);
        }
        if farthest.is_none_or(|farthest| reaches_farther(branch, farthest)) {
            farthest = Some(branch);
        }
    }
    kept
}

fn may_stay(branch: &Branch, (lower, upper): (&[u8], Option<&[u8]>), sizes: &Sizes) -> bool {
    let meta = branch.meta();
    sizes.contains(&meta.bytes) && meta.key_min[..] >= *lower && upper.is_none_or(|upper| meta.ends_before(upper))
}

fn reaches_farther(branch: &Branch, than: &Branch) -> bool {
    let end = |branch: &Branch| (branch.meta().key_max.clone(), !branch.meta().open_ended);
    end(branch) > end(than)
}

/// What is kept of a node's neighbouring bundles, whichever of them are merged, for the choice of these. An estimate where pivots have
/// different bundles active.
pub struct Savings(Vec<Candidate>);

struct Candidate {
    bytes: u64,
    bundle: usize,
    /// The bundles nearest to its own, on either side, of which a branch overlaps it.
    older: Option<usize>,
    newer: usize,
    is_clean: bool,
}

impl Savings {
    /// Those of the node.
    pub fn of(node: &Node, options: &TrunkOptions) -> Self {
        let sizes = options.reused_bytes();
        let bounds = (&*node.lower, node.upper.as_deref());
        let mut candidates = Vec::new();
        for (at, bundle) in node.bundles.iter().enumerate() {
            let large = bundle.branches.iter().filter(|branch| may_stay(branch, bounds, &sizes));
            candidates.extend(large.filter_map(|branch| Candidate::of(node, at, branch)));
        }
        Self(candidates)
    }

    /// The bytes that stay where they are when the bundles `range` are merged.
    pub fn bytes(&self, range: &Range<usize>, is_leaf: bool) -> u64 {
        let bottom = is_leaf && range.start == 0;
        let stays = |candidate: &&Candidate| {
            range.contains(&candidate.bundle)
                && candidate.older.is_none_or(|older| older < range.start)
                && candidate.newer >= range.end
                && (candidate.is_clean || !bottom)
        };
        self.0.iter().filter(stays).map(|candidate| candidate.bytes).sum()
    }
}

impl Candidate {
    fn of(node: &Node, at: usize, branch: &Arc<Branch>) -> Option<Self> {
        let meets = |other: &Arc<Branch>| {
            other.meta().file != branch.meta().file && !run::follows(other, branch) && !run::follows(branch, other)
        };
        let meets_any = |at: &usize| node.bundles[*at].branches.iter().any(meets);
        if meets_any(&at) {
            return None;
        }
        let count = node.bundles.len();
        let newer = (at + 1..count).find(meets_any).unwrap_or(count);
        let older = (0..at).rev().find(meets_any);
        let (bytes, is_clean) = (branch.meta().bytes, !garbage::has_kept(branch));
        Some(Self { bytes, bundle: at, older, newer, is_clean })
    }
}
