//! The work of a requested compaction (`runs/requested_range.rs`): everything in the range is flushed to the leaves,
//! merged into one run there, and rewritten where it holds garbage. Pure functions of trees; any thread.

use super::choice::Choice;
use super::run_bound::with_room;
use crate::branch::Branch;
use crate::disk::runs::requested_range::RequestedRange;
use crate::disk::trunk::options::TrunkOptions;
use crate::disk::trunk::tree::merge_range;
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::tree::Tree;
use crate::util::sync::Arc;
use std::ops::Range;

/// Whether data that counts waits at a node for the child at `at`.
fn waits(requested: &RequestedRange, node: &Node, at: usize) -> bool {
    requested.meets(node.slot_lower(at), node.slot_upper(at).map(|upper| &**upper))
        && node.slots[at].runs.iter().flat_map(|run| run.parts()).any(|part| requested.counts(part))
}

/// The bundles of a leaf that the request needs merged.
fn merge(
    requested: &RequestedRange,
    leaf: &Node,
    options: &TrunkOptions,
    has_garbage: &dyn Fn(&Branch) -> bool,
) -> Option<Range<usize>> {
    let runs = leaf.slots[0].runs.iter().filter(|run| run.parts().iter().any(|part| requested.counts(part))).count();
    let all = 0..leaf.bundles.len();
    if requested.clean {
        let garbage = || leaf.branches().any(|branch| requested.counts(branch) && has_garbage(branch));
        return (runs > 1 || (runs == 1 && garbage())).then_some(all);
    }
    (runs > 1).then(|| merge_range::cheapest(leaf, leaf.runs() - 1, options).unwrap_or(all))
}

/// The next work for the request, the highest nodes first; `None` if nothing is left to do. `has_garbage` says whether
/// rewriting a branch may drop something.
pub fn choose(
    tree: &Tree,
    requested: &RequestedRange,
    has_garbage: &dyn Fn(&Branch) -> bool,
    mut accepts: impl FnMut(&Choice) -> bool,
) -> Option<Choice> {
    let mut nodes = Vec::new();
    tree.visit(&mut |node| {
        if requested.meets(&node.lower, node.upper.as_deref()) {
            nodes.push(node);
        }
    });
    let slots = nodes.iter().flat_map(|node| (0..node.pivots.len()).map(move |at| (*node, at)));
    let flushes =
        slots.filter(|(node, at)| waits(requested, node, *at)).map(|(node, at)| Choice::Flush(Arc::clone(node), at));
    let flushes = flushes.flat_map(|flush| with_room(flush, tree.options()));
    let target = tree.options().leaf_target(tree.bytes());
    let leaves = || nodes.iter().filter(|node| node.is_leaf());
    let merges = leaves().filter_map(|leaf| Some((leaf, merge(requested, leaf, tree.options(), has_garbage)?)));
    // A leaf above its target is split before it is rewritten: its parts need less space, and several threads can work
    // on them.
    let samples = merges.clone().filter(|(leaf, _)| leaf.active.bytes > target);
    let samples = samples.map(|(leaf, _)| Choice::SampleLeaf(Arc::clone(leaf)));
    let merges = merges.map(|(leaf, range)| Choice::Merge(Arc::clone(leaf), range));
    flushes.chain(samples).chain(merges).find(|choice| accepts(choice))
}

/// About how many bytes must still be read for the request.
pub fn remaining(tree: &Tree, requested: &RequestedRange, has_garbage: &dyn Fn(&Branch) -> bool) -> u64 {
    below(tree.root(), 0, (requested, tree.options()), has_garbage)
}

/// The same at and below a node for which `above` bytes wait higher up.
fn below(
    node: &Node,
    above: u64,
    (requested, options): (&RequestedRange, &TrunkOptions),
    has_garbage: &dyn Fn(&Branch) -> bool,
) -> u64 {
    if !requested.meets(&node.lower, node.upper.as_deref()) {
        return 0;
    }
    if node.is_leaf() {
        let is_merged = above > 0 && node.active.bytes > 0;
        let bytes = || node.active.bytes + above;
        return if is_merged || merge(requested, node, options, has_garbage).is_some() { bytes() } else { 0 };
    }
    let share = above / node.pivots.len() as u64;
    let of_child = |at: usize| {
        let own = if waits(requested, node, at) { node.slots[at].pending.bytes } else { 0 };
        below(&node.pivots[at].child, share + own, (requested, options), has_garbage)
    };
    (0..node.pivots.len()).map(of_child).sum()
}
