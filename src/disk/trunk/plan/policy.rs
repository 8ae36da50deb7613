//! The order of ordinary work. Pure functions of nodes and trees; any thread.
//!
//! The order is that of flush-then-compact (SplinterDB §3). Flushes move references and cost nothing, so they go first,
//! and data that only passes through a node is never merged there. A flush for which the child has no room is refused,
//! and the merge follows that makes room (`run_bound.rs`). Next are nodes with very many runs, which get a
//! maplet or are merged, because reads meet the runs. Then leaves above their target are split by reference, or
//! rewritten if they are full of garbage, those with the densest updates first. Then runs are merged, and maplets
//! built, where reads meet most runs; a leaf for which scans have paid is merged whole instead (`for_scans.rs`). Then
//! many small bundles of a node are merged (`small_bundles.rs`). Last, nodes that deletes have left with little data are
//! joined (`join.rs`).
//!
//! Write amplification of a steady load: an entry is written once by incorporation, about once at each internal node
//! where it waits with other data, and at its leaf once plus what is rewritten to limit the number of runs.

use super::choice::Choice;
use super::for_scans::paid_merge;
use super::run_bound::{self, room_for, with_room};
use super::{join, small_bundles};
use crate::disk::runs::load::Load;
use crate::disk::trunk::options::{TOMBSTONE_PERCENT, TrunkOptions};
use crate::disk::trunk::tree::newer_data::{newer, oldest};
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::tree::Tree;
use crate::util::sync::Arc;

/// So many small bundles of a node are merged with each other.
const SMALL_BUNDLES: usize = 8;

/// The update density at which a leaf has as much newer data as old data.
const DENSITY_ONE: u128 = 1 << 16;

/// The most urgent work that `accepts` accepts. `is_released` says whether the oldest run of a leaf may have data that
/// only snapshots needed that are gone.
pub fn choose(
    tree: &Tree,
    is_released: &dyn Fn(&Node) -> bool,
    mut accepts: impl FnMut(&Choice) -> bool,
) -> Option<Choice> {
    let mut nodes = Vec::new();
    tree.visit(&mut |node| nodes.push(node));
    let flushes = nodes.iter().filter_map(|node| flush(node, tree.options()));
    let flushes = flushes.flat_map(|flush| with_room(flush, tree.options()));
    let target = tree.options().leaf_target(tree.bytes());
    let is_due = |leaf: &Node| leaf.is_leaf() && (needs_sample(leaf, target, tree.options()) || is_released(leaf));
    let mut samples: Vec<_> = nodes.iter().filter(|node| is_due(node)).collect();
    samples.sort_by_key(|leaf| std::cmp::Reverse(update_density(leaf)));
    let samples = samples.into_iter().map(|leaf| Choice::SampleLeaf(Arc::clone(leaf)));
    let mut merges: Vec<_> = nodes.iter().filter(|node| node.merge.is_some()).collect();
    merges.sort_by_key(|node| std::cmp::Reverse(node.runs()));
    // Under saturating writes there is always a leaf to sample, so nodes with very many runs go before it. *Otherwise:*
    // reads meet more and more runs. But a leaf of which more may be garbage than not is sampled before its newest runs
    // are merged with each other, which would free next to nothing.
    let urgent_merges = merges.partition_point(|node| node.runs() > tree.options().runs_limit);
    let merge = |node: &&Arc<Node>| {
        let some = node.merge.clone().map(|range| Choice::Merge(Arc::clone(node), range));
        paid_merge(node).into_iter().chain(some)
    };
    let (urgent_merges, merges) = (merges[..urgent_merges].iter(), merges[urgent_merges..].iter());
    let maplets = maplets(&nodes, tree.options());
    let many = maplets.partition_point(|(probes, _)| *probes >= tree.options().runs_limit / 2);
    let maplet = |(_, choice): &(usize, Choice)| {
        let paid = if let Choice::BuildMaplet(node, _) = choice { paid_merge(node) } else { None };
        paid.into_iter().chain([choice.clone()])
    };
    let (urgent_maplets, maplets) = (maplets[..many].iter().flat_map(maplet), maplets[many..].iter().flat_map(maplet));
    let is_dense = |node: &Node| is_due(node) && update_density(node) >= DENSITY_ONE;
    let sample_first = |node: &Arc<Node>| is_dense(node).then(|| Choice::SampleLeaf(Arc::clone(node)));
    let urgent_merges = urgent_merges.flat_map(|node| sample_first(node).into_iter().chain(merge(node)));
    let urgent = flushes.chain(urgent_maplets).chain(urgent_merges);
    let usual = samples.chain(merges.copied().flat_map(merge)).chain(maplets);
    let small = nodes.iter().filter_map(|node| small_bundles::merge(node, SMALL_BUNDLES, tree.options()));
    let joins = std::iter::once_with(|| join::choices(&nodes, target, tree.options())).flatten();
    let joins = joins.flat_map(|join| with_room(join, tree.options()));
    urgent.chain(usual).chain(small).chain(joins).find(|choice| accepts(choice))
}

/// What makes room for an incorporation in the root: a flush, if the child has room, or a merge of its bundles.
pub fn room_in_root(tree: &Tree) -> impl Iterator<Item = Choice> {
    let (root, options) = (tree.root(), tree.options());
    let flush = flush(root, options).filter(|flush| room_for(flush, options).is_none());
    flush.into_iter().chain(run_bound::merge(root, 1, options))
}

/// The slots where a maplet replaces many lookups, with the number of these lookups, the largest first.
fn maplets(nodes: &[&Arc<Node>], options: &TrunkOptions) -> Vec<(usize, Choice)> {
    let probes_max = if options.maplets { options.probes_max.max(2) } else { usize::MAX };
    let slots = nodes.iter().flat_map(|node| (0..node.slots.len()).map(move |at| (*node, at)));
    let mut slots: Vec<_> = slots
        .map(|(node, at)| (node.slots[at].replaceable_probes(), node, at))
        .filter(|slot| {
            let maplet_index = &slot.1.slots[slot.2].maplet_index;
            slot.0 >= probes_max || (options.maplets && maplet_index.is_broken())
        })
        .collect();
    slots.sort_by_key(|(probes, ..)| std::cmp::Reverse(*probes));
    slots.into_iter().map(|(probes, node, at)| (probes, Choice::BuildMaplet(Arc::clone(node), at))).collect()
}

/// The flush of a full node, to the child with the most pending data (§2.3). Pending data weighs at least half as much
/// as the data that it may replace, so that tombstones, and small values over large ones, do not stay above that for
/// ever. Many tombstones for one child are flushed even if the node is not full.
fn flush(node: &Arc<Node>, options: &TrunkOptions) -> Option<Choice> {
    if node.is_leaf() {
        return None;
    }
    let below: u64 = node.pivots.iter().map(|pivot| pivot.child.totals.entries).sum();
    let weight = |load: &Load| {
        let as_below = u128::from(load.entries) * u128::from(node.below()) / u128::from(below.max(1));
        u64::try_from(as_below / 2).unwrap_or(u64::MAX).max(load.bytes)
    };
    let has_many_tombstones = |at: &usize| {
        let tombstones = node.slots[*at].pending.tombstones;
        let hidden = node.pivots[*at].child.totals.entries;
        tombstones > 0 && tombstones.saturating_mul(100) >= hidden.saturating_mul(TOMBSTONE_PERCENT)
    };
    let mut slots = 0..node.slots.len();
    let at = if weight(&node.active) > options.full_bytes(node.below()) {
        // Of equals the first: the choice must be deterministic.
        slots.rev().max_by_key(|at| weight(&node.slots[*at].pending))
    } else {
        slots.find(has_many_tombstones)
    }?;
    (!node.slots[at].runs.is_empty()).then(|| Choice::Flush(Arc::clone(node), at))
}

/// How dense the updates of a leaf are, by bytes or by entries. Where they are densest, a rewrite frees most for its
/// cost.
fn update_density(leaf: &Node) -> u128 {
    let (newer, oldest) = (newer(leaf), oldest(leaf));
    let share = |newer: u64, oldest: u64| u128::from(newer) * DENSITY_ONE / u128::from(oldest.max(1));
    share(newer.bytes, oldest.bytes).max(share(newer.entries, oldest.entries))
}

/// Whether a leaf is above its target or may be full of garbage, judged by its sizes.
fn needs_sample(node: &Node, target: u64, options: &TrunkOptions) -> bool {
    if !node.is_leaf() || node.bundles.is_empty() {
        return false;
    }
    if node.active.bytes > target {
        return true;
    }
    let (oldest, newer) = (oldest(node), newer(node));
    let is_dense = |newer: u64, oldest: u64| {
        newer > 0 && newer.saturating_mul(100) >= oldest.saturating_mul(options.garbage_percent)
    };
    // By entries as well: a small value may hide a large one.
    let many = is_dense(newer.bytes, oldest.bytes) || is_dense(newer.entries, oldest.entries);
    let tombstones = newer.tombstones > 0
        && newer.tombstones.saturating_mul(100) >= oldest.entries.saturating_mul(TOMBSTONE_PERCENT);
    // No count says what a range tombstone hides.
    many || tombstones || newer.range_tombstones > 0
}
