//! Which bundles of a node are worth merging. Computed when a node is made, so that pickers only look it up. Pure
//! functions of a node; any thread.

use super::node::Node;
use super::reuse_savings::ReuseSavings;
use crate::disk::runs::load::Load;
use crate::disk::runs::run::{self, RunsBegun};
use crate::disk::trunk::options::TrunkOptions;
use std::ops::Range;

/// The bundles of a node that should be merged, if reads meet too many runs there.
pub fn merge(node: &Node, options: &TrunkOptions) -> Option<Range<usize>> {
    let runs = node.runs();
    if runs <= options.runs_max {
        return None;
    }
    if node.is_leaf() || runs > options.runs_limit {
        return cheapest(node, runs - options.runs_max, options);
    }
    // A bundle of an internal node is merged only once, if it came from above in several runs: it will be rewritten
    // below anyway.
    let begun = run::runs_begun(node.bundles.iter().map(|bundle| &bundle.branches[..]));
    let mut stretches = node.bundles.chunk_by(|left, right| left.is_compacted() == right.is_compacted());
    let mut from = 0;
    let mut best: Option<(usize, Range<usize>)> = None;
    for stretch in &mut stretches {
        let range = from..from + stretch.len();
        from = range.end;
        let runs =
            begun[range.start].alone + begun[range.start + 1..range.end].iter().map(|next| next.after).sum::<usize>();
        if !stretch[0].is_compacted() && best.as_ref().is_none_or(|(most, _)| runs > *most) {
            best = Some((runs, range));
        }
    }
    best.map(|(_, range)| range)
}

/// The neighbouring bundles whose merge rewrites the fewest bytes for each run that it removes, among those merges that
/// remove at least `wanted` runs, if there are any. So runs of equal size gather and are merged many at a time (size
/// tiering), a large old run is rewritten only once the newer ones are as large, and a bundle that came in many runs
/// goes first.
///
/// O(branches + bundles²), plus the cost of `ReuseSavings`. It is computed for every new node with too many runs.
pub fn cheapest(node: &Node, wanted: usize, options: &TrunkOptions) -> Option<Range<usize>> {
    let savings = ReuseSavings::of(node, options);
    let bytes: Vec<u64> = (0..node.bundles.len()).map(|at| bundle_bytes(node, at)).collect();
    let begun = run::runs_begun(node.bundles.iter().map(|bundle| &bundle.branches[..]));
    let mut best: Option<(bool, u128, u128, Range<usize>)> = None;
    for from in 0..node.bundles.len() {
        let (mut cost, mut runs) = (0u128, 0);
        for to in from + 1..=node.bundles.len() {
            cost += u128::from(bytes[to - 1]);
            let RunsBegun { alone, after } = begun[to - 1];
            runs += if to == from + 1 { alone } else { after };
            let removed = runs.saturating_sub(1);
            if removed == 0 {
                continue;
            }
            let (fails, removed) = (removed < wanted, removed as u128);
            let cost = cost.saturating_sub(savings.bytes(&(from..to), node.is_leaf()).into());
            // Fewer bytes per run: cost / removed, compared by cross-multiplication.
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

/// The active data of some bundles at a node.
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
pub fn bundle_bytes(node: &Node, at: usize) -> u64 {
    let load = |slot: usize| Some(node.slots[slot].loads.get(at.checked_sub(node.first_active(slot))?)?.bytes);
    (0..node.slots.len()).filter_map(load).sum()
}

/// Bytes of work that wait at a node: those past its fill, and those to be merged. Requires `node.merge` and the bytes
/// of its totals.
pub fn debt(node: &Node, options: &TrunkOptions) -> u64 {
    let over = if node.is_leaf() { 0 } else { node.active.bytes.saturating_sub(options.full_bytes(node.below())) };
    let merge = node.merge.clone().map_or(0, |range| {
        let reused = ReuseSavings::of(node, options).bytes(&range, node.is_leaf());
        range.map(|at| bundle_bytes(node, at)).sum::<u64>().saturating_sub(reused)
    });
    over + merge
}
