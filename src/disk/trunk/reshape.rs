//! What a caller may want of a key range beyond what is worth doing by itself: everything down at the leaves, in one run there, and
//! without garbage. Pure functions of trees. Any thread.
//!
//! Only data that was there when it was wanted counts, so that whoever waits for it ends although others write.

use super::node::Node;
use super::options::TrunkOptions;
use super::policy::{self, Choice};
use super::run;
use super::tree::Tree;
use crate::branch::Branch;
use crate::util::SequenceNumber;
use crate::util::sync::Arc;
use std::ops::Range;

/// See the module.
#[derive(Clone, Debug)]
pub struct RequestedRange {
    /// Encoded keys: the first, and the first behind; `None` at the right edge.
    pub lower: Vec<u8>,
    pub upper: Option<Vec<u8>>,
    /// Branches with newer numbers alone do not count.
    pub through: SequenceNumber,
    /// Whether leaves that are one run are rewritten where they may hold what no reader needs.
    pub clean: bool,
}

impl RequestedRange {
    /// Everything, as it reads best.
    #[cfg(test)]
    pub const ALL: Self = Self { lower: Vec::new(), upper: None, through: SequenceNumber::MAX, clean: false };

    fn covers(&self, lower: &[u8], upper: Option<&[u8]>) -> bool {
        upper.is_none_or(|upper| *self.lower < *upper) && self.upper.as_ref().is_none_or(|own| *lower < **own)
    }

    /// Whether the branch has something that counts.
    fn counts(&self, branch: &Branch) -> bool {
        branch.meta().number_min <= self.through && run::overlaps(branch, &self.lower, self.upper.as_deref())
    }

    /// Whether something waits at a node for the child at `at`.
    fn waits(&self, node: &Node, at: usize) -> bool {
        self.covers(node.slot_lower(at), node.slot_upper(at).map(|upper| &**upper))
            && node.slots[at].runs.iter().flat_map(|run| run.parts()).any(|part| self.counts(part))
    }

    /// The bundles of a leaf that are to be merged for it.
    fn merge(
        &self,
        leaf: &Node,
        options: &TrunkOptions,
        has_garbage: &dyn Fn(&Branch) -> bool,
    ) -> Option<Range<usize>> {
        let runs = leaf.slots[0].runs.iter().filter(|run| run.parts().iter().any(|part| self.counts(part))).count();
        let all = 0..leaf.bundles.len();
        if self.clean {
            let garbage = || leaf.branches().any(|branch| self.counts(branch) && has_garbage(branch));
            return (runs > 1 || (runs == 1 && garbage())).then_some(all);
        }
        (runs > 1).then(|| policy::cheapest(leaf, leaf.runs() - 1, options).unwrap_or(all))
    }
}

/// What is still to be done, the highest nodes first; none of it where the range is as it is wanted. `has_garbage` says of a branch
/// whether rewriting it might drop something.
pub fn choose(
    tree: &Tree,
    wanted: &RequestedRange,
    has_garbage: &dyn Fn(&Branch) -> bool,
    mut accepts: impl FnMut(&Choice) -> bool,
) -> Option<Choice> {
    let mut nodes = Vec::new();
    tree.visit(&mut |node| {
        if wanted.covers(&node.lower, node.upper.as_deref()) {
            nodes.push(node);
        }
    });
    let slots = nodes.iter().flat_map(|node| (0..node.pivots.len()).map(move |at| (*node, at)));
    let flushes =
        slots.filter(|(node, at)| wanted.waits(node, *at)).map(|(node, at)| Choice::Flush(Arc::clone(node), at));
    let target = tree.options().leaf_target(tree.bytes());
    let leaves = || nodes.iter().filter(|node| node.is_leaf());
    let merges = leaves().filter_map(|leaf| Some((leaf, wanted.merge(leaf, tree.options(), has_garbage)?)));
    // A leaf that is to be rewritten and has outgrown its target is split first: its parts take less room, and several threads.
    let judged = merges.clone().filter(|(leaf, _)| leaf.active.bytes > target);
    let judged = judged.map(|(leaf, _)| Choice::SampleLeaf(Arc::clone(leaf)));
    let merges = merges.map(|(leaf, range)| Choice::Merge(Arc::clone(leaf), range));
    flushes.chain(judged).chain(merges).find(|choice| accepts(choice))
}

/// About how many bytes are still to be read for it.
pub fn remaining(tree: &Tree, wanted: &RequestedRange, has_garbage: &dyn Fn(&Branch) -> bool) -> u64 {
    below(tree.root(), 0, (wanted, tree.options()), has_garbage)
}

/// The same for a node and what is below it, where `above` bytes wait for it higher up.
fn below(
    node: &Node,
    above: u64,
    (wanted, options): (&RequestedRange, &TrunkOptions),
    has_garbage: &dyn Fn(&Branch) -> bool,
) -> u64 {
    if !wanted.covers(&node.lower, node.upper.as_deref()) {
        return 0;
    }
    if node.is_leaf() {
        let is_merged = above > 0 && node.active.bytes > 0;
        let bytes = || node.active.bytes + above;
        return if is_merged || wanted.merge(node, options, has_garbage).is_some() { bytes() } else { 0 };
    }
    let share = above / node.pivots.len() as u64;
    let of_child = |at: usize| {
        let own = if wanted.waits(node, at) { node.slots[at].pending.bytes } else { 0 };
        below(&node.pivots[at].child, share + own, (wanted, options), has_garbage)
    };
    (0..node.pivots.len()).map(of_child).sum()
}
