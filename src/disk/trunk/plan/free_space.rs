//! What to do on a full disk. Pure functions of trees; any thread.

use super::choice::Choice;
use super::{rewrite_live, small_bundles};
use crate::disk::trunk::options::TrunkOptions;
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::tree::Tree;
use crate::util::sync::Arc;

/// Data has many tombstones if more than one in this many of its entries is one. With fewer, a merge would free less
/// than it costs: files that came from above are shared by many leaves, and are removed only once the last of these is
/// merged.
const ENTRIES_PER_TOMBSTONE: u64 = 32;
/// A leaf whose merge found no space is split down to an eighth of an ordinary leaf, and to this size.
const SPLIT_BYTES_MIN: u64 = 256 << 10;
const SPLIT_PART: u64 = 8;
/// So many small bundles of a node are merged with each other.
const SMALL_BUNDLES: usize = 4;

/// Work that frees space, in this order:
///
/// 1. Small bundles at a node are merged if that frees their files (`small_bundles.rs`).
/// 2. Files with a large dead part are rewritten (`rewrite_live.rs`).
/// 3. Data with many tombstones is flushed to the children, which costs nothing.
/// 4. Each leaf with many tombstones is merged whole. Those with most tombstones per entry go first: they free most for
///    the little space that there is.
/// 5. A large leaf whose merge found no space is split; `accepts` knows which.
pub fn choose(tree: &Tree, mut accepts: impl FnMut(&Choice) -> bool) -> Option<Choice> {
    let mut nodes = Vec::new();
    tree.visit(&mut |node| nodes.push(node));
    let small = nodes.iter().filter_map(|node| small_bundles::merge_to_free_space(node, SMALL_BUNDLES, tree.options()));
    let flushes = nodes.iter().filter_map(|node| flush_tombstones(node));
    let has_many = |leaf: &Node| {
        leaf.active.tombstones > leaf.active.entries / ENTRIES_PER_TOMBSTONE || leaf.active.range_tombstones > 0
    };
    let mut leaves: Vec<_> = nodes.iter().filter(|node| node.is_leaf() && node.runs() > 1 && has_many(node)).collect();
    let density = |leaf: &Node| (leaf.active.tombstones << 16) / leaf.active.entries.max(1);
    leaves.sort_by_key(|leaf| (std::cmp::Reverse(density(leaf)), leaf.active.bytes));
    let merges = leaves.iter().map(|leaf| Choice::Merge(Arc::clone(leaf), 0..leaf.bundles.len()));
    let splits = leaves.iter().filter(|leaf| leaf.active.bytes > split_bytes_min(tree.options()));
    let splits = splits.map(|leaf| Choice::Split(Arc::clone(leaf)));
    let live_rewrites = std::iter::once_with(|| rewrite_live::worthwhile(&nodes)).flatten().map(Choice::RewriteLive);
    small.chain(live_rewrites).chain(flushes).chain(merges).chain(splits).find(|choice| accepts(choice))
}

/// See `SPLIT_BYTES_MIN`.
fn split_bytes_min(options: &TrunkOptions) -> u64 {
    let ordinary = options.branch_bytes.max(options.leaf_bytes_min);
    (ordinary / SPLIT_PART).max(SPLIT_BYTES_MIN).min(ordinary)
}

/// The flush to a child of an internal node for which many tombstones wait.
fn flush_tombstones(node: &Arc<Node>) -> Option<Choice> {
    let has_many = |at: &usize| {
        let pending = node.slots[*at].pending;
        let below = node.pivots[*at].child.totals.entries;
        pending.tombstones > below / ENTRIES_PER_TOMBSTONE || pending.range_tombstones > 0
    };
    (0..node.pivots.len()).find(has_many).map(|at| Choice::Flush(Arc::clone(node), at))
}
