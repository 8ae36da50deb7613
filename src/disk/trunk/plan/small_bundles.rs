//! Merges of small bundles with each other: a file of one key is mostly overhead, and a program that opens the store for
//! one write after the other leaves a file for each. If their keys are in order they are one run, so neither reads nor
//! the number of runs ask for the merge. Pure functions of nodes; any thread.

use super::choice::Choice;
use crate::disk::trunk::options::TrunkOptions;
use crate::disk::trunk::tree::merge_range::bundle_bytes;
use crate::disk::trunk::tree::node::Node;
use crate::util::sync::Arc;

/// A bundle is small if it has at most so many bytes at a node, and at most two part files of the least size.
const SMALL_BYTES: u64 = 64 << 10;

/// The merge of the newest bundles of a node, if at least `least` of them are small.
pub fn merge(node: &Arc<Node>, least: usize, options: &TrunkOptions) -> Option<Choice> {
    let count = node.bundles.len();
    let bytes_max = SMALL_BYTES.min(2 * options.part_bytes_min);
    let is_small = |at: &usize| bundle_bytes(node, *at) <= bytes_max;
    let small = (0..count).rev().take_while(is_small).count();
    (small >= least).then(|| Choice::Merge(Arc::clone(node), count - small..count))
}
