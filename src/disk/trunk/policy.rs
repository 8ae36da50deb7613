//! What is worth doing: pure functions of nodes and trees. Any thread.
//!
//! The order of work is the paper's flush-then-compact (SplinterDB §3): flushes move references and cost nothing, so they
//! go first, and data that only passes through a node is never merged there. Then very many runs are mapped or merged, since reads meet
//! them. Then leaves that outgrew their target are split by reference, or rewritten if it is garbage that they are full of, those with
//! the densest updates first. Then runs are merged and mapped where reads meet most.
//! Last, nodes that deletes have left with little are joined (`join.rs`).
//!
//! Write amplification of a steady load: an entry is written once by incorporation, about once at each internal node
//! where it waits beside others, and at its leaf once plus what is rewritten to keep the runs few.

use super::join;
use super::kept::Savings;
use super::node::Node;
use super::options::{TOMBSTONE_PERCENT, TrunkOptions};
use super::run::{self, Begun};
use super::slot::Load;
use super::squeeze::{self, RewriteLive};
use super::tree::Tree;
use crate::util::sync::Arc;
use std::ops::Range;

/// What a picker would do.
#[derive(Clone, Debug)]
pub enum Choice {
    /// Move what is active for the child at the index to that child.
    Flush(Arc<Node>, usize),
    /// Look at the leaf's data, then split it or rewrite it whole or leave it.
    SampleLeaf(Arc<Node>),
    /// Merge these bundles into one run.
    Merge(Arc<Node>, Range<usize>),
    /// Build a maplet of what is active at the slot.
    Map(Arc<Node>, usize),
    /// Write a file anew without what is dead in it.
    RewriteLive(RewriteLive),
    /// Split the leaf by reference, although it is not too large: its parts take less room to merge.
    Part(Arc<Node>),
    /// Make one node of these children of a node.
    Join(Arc<Node>, Range<usize>),
}

/// On a full disk tombstones are taken where they are more than one in so many entries: fewer would give back less than merging
/// them costs, since the files that came from above are shared by many leaves, and go only when the last of these was merged.
const RECLAIM_PART: u64 = 32;
/// On a full disk the newest bundles of a node that have no more bytes than this are merged with each other: a file of one
/// tombstone is mostly overhead.
const SMALL_BUNDLE_BYTES: u64 = 64 << 10;
/// So many of them.
const SMALL_BUNDLES: usize = 4;
/// The density of updates at which a leaf has as much that is newer as is old.
const DENSITY_ONE: u128 = 1 << 16;

/// The choices for a tree, the most urgent first, up to the first that `accepts` says yes to. `is_released` says of a leaf whether its
/// oldest run may have what only snapshots needed that are gone.
pub fn choose(
    tree: &Tree,
    is_released: &dyn Fn(&Node) -> bool,
    mut accepts: impl FnMut(&Choice) -> bool,
) -> Option<Choice> {
    let mut nodes = Vec::new();
    tree.visit(&mut |node| nodes.push(node));
    let flushes = nodes.iter().filter_map(|node| flush(node, tree.options()));
    let target = tree.options().leaf_target(tree.bytes());
    let is_doubtful = |leaf: &Node| leaf.is_leaf() && (is_doubtful(leaf, target, tree.options()) || is_released(leaf));
    let mut judged: Vec<_> = nodes.iter().filter(|node| is_doubtful(node)).collect();
    judged.sort_by_key(|leaf| std::cmp::Reverse(density(leaf)));
    let judged = judged.into_iter().map(|leaf| Choice::SampleLeaf(Arc::clone(leaf)));
    let mut merges: Vec<_> = nodes.iter().filter(|node| node.merge.is_some()).collect();
    merges.sort_by_key(|node| std::cmp::Reverse(node.runs()));
    // Beside saturated writers there is always a leaf to judge: reads would ask more and more runs. But where more may be
    // garbage than not, the leaf is looked at before its newest runs are merged with each other, which would free next to nothing.
    let pressing = merges.partition_point(|node| node.runs() > tree.options().runs_limit);
    let merge = |node: &&Arc<Node>| Some(Choice::Merge(Arc::clone(node), node.merge.clone()?));
    let (pressing, merges) = (merges[..pressing].iter(), merges[pressing..].iter());
    let maps = maps(&nodes, tree.options());
    let many = maps.partition_point(|(probes, _)| *probes >= tree.options().runs_limit / 2);
    let map = |(_, choice): &(usize, Choice)| choice.clone();
    let (pressing_maps, maps) = (maps[..many].iter().map(map), maps[many..].iter().map(map));
    let is_dense = |node: &Node| is_doubtful(node) && density(node) >= DENSITY_ONE;
    let judge_first = |node: &Arc<Node>| is_dense(node).then(|| Choice::SampleLeaf(Arc::clone(node)));
    let pressing = pressing.flat_map(|node| judge_first(node).into_iter().chain(merge(node)));
    let urgent = flushes.chain(pressing_maps).chain(pressing);
    let usual = judged.chain(merges.copied().filter_map(merge)).chain(maps);
    let joins = std::iter::once_with(|| join::choices(&nodes, target, tree.options())).flatten();
    urgent.chain(usual).chain(joins).find(|choice| accepts(choice))
}

/// The slots where a maplet takes the place of many look-ups, those of most first, with how many these are.
fn maps(nodes: &[&Arc<Node>], options: &TrunkOptions) -> Vec<(usize, Choice)> {
    let probes_max = if options.maplets { options.probes_max.max(2) } else { usize::MAX };
    let slots = nodes.iter().flat_map(|node| (0..node.slots.len()).map(move |at| (*node, at)));
    let mut slots: Vec<_> = slots
        .map(|(node, at)| (node.slots[at].spared_probes(), node, at))
        .filter(|slot| {
            let cover = &slot.1.slots[slot.2].cover;
            slot.0 >= probes_max || (options.maplets && cover.is_broken())
        })
        .collect();
    slots.sort_by_key(|(probes, ..)| std::cmp::Reverse(*probes));
    slots.into_iter().map(|(probes, node, at)| (probes, Choice::Map(Arc::clone(node), at))).collect()
}

/// Where scans have paid as much for runs as merging these costs (`scans.rs`): first everything on the way goes down to that leaf, then the
/// leaf is merged to one run. The leaf that was paid most for goes first.
pub fn choose_for_scans(tree: &Tree, mut accepts: impl FnMut(&Choice) -> bool) -> Option<Choice> {
    let mut worth = Vec::new();
    for_scans(tree.root(), (0, None), &mut worth);
    worth.sort_by_key(|(units, _)| std::cmp::Reverse(*units));
    worth.into_iter().map(|(_, choice)| choice).find(|choice| accepts(choice))
}

/// Gathers what is worth doing below a node. `above`: bytes that wait in its ancestors for its range, and the topmost flush of them.
fn for_scans(node: &Arc<Node>, above: (u64, Option<Choice>), worth: &mut Vec<(u64, Choice)>) {
    let (bytes, flush) = above;
    if node.is_leaf() {
        let is_split = flush.is_some() || node.runs() > 1;
        if is_split && node.scans.exceeds(node.active.bytes + bytes) {
            let merge = || Choice::Merge(Arc::clone(node), 0..node.bundles.len());
            worth.push((node.scans.units(), flush.unwrap_or_else(merge)));
        }
        return;
    }
    for (at, pivot) in node.pivots.iter().enumerate() {
        let slot = &node.slots[at];
        let own = || (!slot.runs.is_empty()).then(|| Choice::Flush(Arc::clone(node), at));
        for_scans(&pivot.child, (bytes + slot.pending.bytes, flush.clone().or_else(own)), worth);
    }
}

/// What to do on a full disk. Small bundles at a node become one: who opens the store for one delete after the other leaves a file
/// of its own for each. Files of which much is dead are written anew. Then what is for a child with a fair part of tombstones goes
/// down, which costs nothing, and each leaf with such a part is merged whole, so that it holds only what is live. Those with most
/// tombstones an entry go first: they give back most for the little room that there is. A large leaf whose merging finds no room is
/// split: `accepts` knows which.
pub fn choose_reclaim(tree: &Tree, mut accepts: impl FnMut(&Choice) -> bool) -> Option<Choice> {
    let mut nodes = Vec::new();
    tree.visit(&mut |node| nodes.push(node));
    let small = nodes.iter().filter_map(|node| merge_small(node, tree.options()));
    let flushes = nodes.iter().filter_map(|node| flush_tombstones(node));
    let is_rich =
        |leaf: &Node| leaf.active.tombstones > leaf.active.entries / RECLAIM_PART || leaf.active.range_tombstones > 0;
    let mut leaves: Vec<_> = nodes.iter().filter(|node| node.is_leaf() && node.runs() > 1 && is_rich(node)).collect();
    let density = |leaf: &Node| (leaf.active.tombstones << 16) / leaf.active.entries.max(1);
    leaves.sort_by_key(|leaf| (std::cmp::Reverse(density(leaf)), leaf.active.bytes));
    let merges = leaves.iter().map(|leaf| Choice::Merge(Arc::clone(leaf), 0..leaf.bundles.len()));
    // The room that is kept for a merge is more than that.
    let fits = tree.options().branch_bytes.max(tree.options().leaf_bytes_min);
    let parts = leaves.iter().filter(|leaf| leaf.active.bytes > fits);
    let parts = parts.map(|leaf| Choice::Part(Arc::clone(leaf)));
    let live_rewrites = std::iter::once_with(|| squeeze::worthwhile(&nodes)).flatten().map(Choice::RewriteLive);
    small.chain(live_rewrites).chain(flushes).chain(merges).chain(parts).find(|choice| accepts(choice))
}

/// The merge of a node's newest bundles, where several of them are small.
fn merge_small(node: &Arc<Node>, options: &TrunkOptions) -> Option<Choice> {
    let count = node.bundles.len();
    let bytes_max = SMALL_BUNDLE_BYTES.min(2 * options.part_bytes_min);
    let is_small = |at: &usize| bundle_bytes(node, *at) <= bytes_max;
    let small = (0..count).rev().take_while(is_small).count();
    (small >= SMALL_BUNDLES).then(|| Choice::Merge(Arc::clone(node), count - small..count))
}

/// The flush to a child of an internal node for which a fair part of tombstones waits.
fn flush_tombstones(node: &Arc<Node>) -> Option<Choice> {
    let is_rich = |at: &usize| {
        let pending = node.slots[*at].pending;
        pending.tombstones > node.pivots[*at].child.totals.entries / RECLAIM_PART || pending.range_tombstones > 0
    };
    (0..node.pivots.len()).find(is_rich).map(|at| Choice::Flush(Arc::clone(node), at))
}

/// The flush of a full node: to the child that most waits for (§2.3). What waits weighs at least half as much as what it may take the
/// place of, so that tombstones, and small values over large ones, do not lie above that for ever. And where tombstones for one child
/// are many, they go down although the node is not full.
fn flush(node: &Arc<Node>, options: &TrunkOptions) -> Option<Choice> {
    if node.is_leaf() {
        return None;
    }
    let below: u64 = node.pivots.iter().map(|pivot| pivot.child.totals.entries).sum();
    let weight = |load: &Load| {
        let as_below = u128::from(load.entries) * u128::from(node.below()) / u128::from(below.max(1));
        u64::try_from(as_below / 2).unwrap_or(u64::MAX).max(load.bytes)
    };
    let is_rich = |at: &usize| {
        let tombstones = node.slots[*at].pending.tombstones;
        let hidden = node.pivots[*at].child.totals.entries;
        tombstones > 0 && tombstones.saturating_mul(100) >= hidden.saturating_mul(TOMBSTONE_PERCENT)
    };
    let mut slots = 0..node.slots.len();
    let at = if weight(&node.active) > options.full_bytes(node.below()) {
        // Of equals the first, for the goldens' sake.
        slots.rev().max_by_key(|at| weight(&node.slots[*at].pending))
    } else {
        slots.find(is_rich)
    }?;
    (!node.slots[at].runs.is_empty()).then(|| Choice::Flush(Arc::clone(node), at))
}

/// What the oldest run of a leaf has.
fn oldest(node: &Node) -> Load {
    let is_run = node.is_leaf() && node.bundles.first().is_some_and(|bundle| bundle.is_compacted());
    if is_run { node.slots[0].loads[0] } else { Load::default() }
}

/// What a node has beyond that: it may be newer versions of what is there, or below.
pub fn newer(node: &Node) -> Load {
    let oldest = oldest(node);
    Load {
        bytes: node.active.bytes - oldest.bytes,
        entries: node.active.entries - oldest.entries,
        tombstones: node.active.tombstones - oldest.tombstones,
        range_tombstones: node.active.range_tombstones - oldest.range_tombstones,
    }
}

/// How dense the updates of a leaf are, by bytes or by entries: where they are densest a rewrite gives most back for what it costs.
fn density(leaf: &Node) -> u128 {
    let (newer, oldest) = (newer(leaf), oldest(leaf));
    let share = |newer: u64, oldest: u64| u128::from(newer) * DENSITY_ONE / u128::from(oldest.max(1));
    share(newer.bytes, oldest.bytes).max(share(newer.entries, oldest.entries))
}

/// How much of what a node holds is probably garbage, or makes some.
pub fn garbage(node: &Node) -> u64 {
    if node.is_leaf() {
        return node.redundancy.of(newer(node).bytes);
    }
    let of_slot = |at: usize| node.pivots[at].child.redundancy.of(node.slots[at].pending.bytes);
    (0..node.pivots.len()).map(of_slot).sum()
}

/// Whether a leaf is over its target or may be full of garbage, as far as sizes tell.
fn is_doubtful(node: &Node, target: u64, options: &TrunkOptions) -> bool {
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
    // By entries as well: a small value hides a large one.
    let many = is_dense(newer.bytes, oldest.bytes) || is_dense(newer.entries, oldest.entries);
    let tombstones = newer.tombstones > 0
        && newer.tombstones.saturating_mul(100) >= oldest.entries.saturating_mul(TOMBSTONE_PERCENT);
    // What a range tombstone hides, no count tells.
    many || tombstones || newer.range_tombstones > 0
}

/// The bundles of a node that should be merged, if reads have to look at too many runs there.
pub fn merge(node: &Node, options: &TrunkOptions) -> Option<Range<usize>> {
    let runs = node.runs();
    if runs <= options.runs_max {
        return None;
    }
    if node.is_leaf() || runs > options.runs_limit {
        return cheapest(node, runs - options.runs_max, options);
    }
    // An internal node's bundles are merged once each, when they have come from above in several runs: they will be
    // rewritten below anyway.
    let begun = run::begun(node.bundles.iter().map(|bundle| &bundle.branches[..]));
    let mut stretches = node.bundles.chunk_by(|left, right| left.is_compacted() == right.is_compacted());
    let mut from = 0;
    let mut best: Option<(usize, Range<usize>)> = None;
    for stretch in &mut stretches {
        let range = from..from + stretch.len();
        from = range.end;
        let runs =
            begun[range.start].alone + begun[range.start + 1..range.end].iter().map(|next| next.behind).sum::<usize>();
        if !stretch[0].is_compacted() && best.as_ref().is_none_or(|(most, _)| runs > *most) {
            best = Some((runs, range));
        }
    }
    best.map(|(_, range)| range)
}

/// The neighbouring bundles whose merging rewrites the fewest bytes for each run that it takes away; among those that take
/// away `wanted`, if there are such. So equal runs gather and are merged many at once (size tiering), a large old run is
/// rewritten only when the newer ones have become as large, and a bundle that came in many runs goes first. O(branches +
/// bundles²), and what large files that may be kept cost beside (`kept.rs`): this is worked out for every node with too many runs that is made.
pub fn cheapest(node: &Node, wanted: usize, options: &TrunkOptions) -> Option<Range<usize>> {
    let savings = Savings::of(node, options);
    let bytes: Vec<u64> = (0..node.bundles.len()).map(|at| bundle_bytes(node, at)).collect();
    let begun = run::begun(node.bundles.iter().map(|bundle| &bundle.branches[..]));
    let mut best: Option<(bool, u128, u128, Range<usize>)> = None;
    for from in 0..node.bundles.len() {
        let (mut cost, mut runs) = (0u128, 0);
        for to in from + 1..=node.bundles.len() {
            cost += u128::from(bytes[to - 1]);
            let Begun { alone, behind } = begun[to - 1];
            runs += if to == from + 1 { alone } else { behind };
            let removed = runs.saturating_sub(1);
            if removed == 0 {
                continue;
            }
            let (fails, removed) = (removed < wanted, removed as u128);
            let cost = cost.saturating_sub(savings.bytes(&(from..to), node.is_leaf()).into());
            // Fewer bytes per run: cost / removed compared by cross-multiplication.
            let better = best.as_ref().is_none_or(|(best_fails, best_cost, best_removed, _)| {
                (fails, cost * best_removed) < (*best_fails, best_cost * removed)
            });
            if better {
                best = Some((fails, cost, removed, from..to));
            }
        }
    }
    best.map(|(_, _, _, range)| range)
}

/// What is active of some bundles at a node.
pub fn load(node: &Node, range: Range<usize>) -> Load {
    let mut load = Load::default();
    for (at, slot) in node.slots.iter().enumerate() {
        let first = node.first_active(at);
        let inside = range.start.max(first)..range.end.max(first);
        slot.loads[inside.start - first..inside.end - first].iter().for_each(|bundle| load += *bundle);
    }
    load
}

/// Active bytes of a bundle at a node.
fn bundle_bytes(node: &Node, at: usize) -> u64 {
    let load = |slot: usize| Some(node.slots[slot].loads.get(at.checked_sub(node.first_active(slot))?)?.bytes);
    (0..node.slots.len()).filter_map(load).sum()
}

/// Bytes that wait at a node: past its fill, and to be merged. (Requires `node.merge` and the totals' bytes.)
pub fn debt(node: &Node, options: &TrunkOptions) -> u64 {
    let over = if node.is_leaf() { 0 } else { node.active.bytes.saturating_sub(options.full_bytes(node.below())) };
    let merge = node.merge.clone().map_or(0, |range| {
        let kept = Savings::of(node, options).bytes(&range, node.is_leaf());
        range.map(|at| bundle_bytes(node, at)).sum::<u64>().saturating_sub(kept)
    });
    over + merge
}
