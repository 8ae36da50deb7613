//! Merges of small bundles with each other: a file of one key is mostly overhead, and a program that opens the store for
//! one write after the other leaves a file for each. If their keys are in order they are one run, so neither reads nor
//! the number of runs ask for the merge. Pure functions of nodes; any thread.

use super::choice::Choice;
use crate::branch::Branch;
use crate::disk::trunk::options::TrunkOptions;
use crate::disk::trunk::tree::merge_range::bundle_bytes;
use crate::disk::trunk::tree::node::Node;
use crate::util::sync::Arc;

/// A bundle is small if it has at most so many bytes at a node, and at most two part files of the least size.
const SMALL_BYTES: u64 = 64 << 10;

/// The merge of the newest bundles of a node, if at least `least` of them are small.
pub fn merge(node: &Arc<Node>, least: usize, options: &TrunkOptions) -> Option<Choice> {
    merge_newest(node, least, |at| is_small(node, at, options))
}

/// The same of bundles whose files lie in the node's range, so that the merge frees them. (Of a file that many leaves
/// share, each has a small bundle.)
pub fn merge_to_free_space(node: &Arc<Node>, least: usize, options: &TrunkOptions) -> Option<Choice> {
    let is_inside = |branch: &Branch| {
        let meta = branch.meta();
        node.lower[..] <= meta.key_min[..] && node.upper.as_ref().is_none_or(|upper| meta.ends_before(upper))
    };
    merge_newest(node, least, |at| {
        is_small(node, at, options) && node.bundles[at].branches.iter().all(|branch| is_inside(branch))
    })
}

fn is_small(node: &Node, at: usize, options: &TrunkOptions) -> bool {
    bundle_bytes(node, at) <= SMALL_BYTES.min(2 * options.part_bytes_min)
}

fn merge_newest(node: &Arc<Node>, least: usize, is_small: impl Fn(usize) -> bool) -> Option<Choice> {
    let count = node.bundles.len();
    let small = (0..count).rev().take_while(|at| is_small(*at)).count();
    (small >= least).then(|| Choice::Merge(Arc::clone(node), count - small..count))
}
