//! Merging bundles of a node into one run (SplinterDB §2.3, §3). Heavy I/O, no lock; one thread for each merge.
//!
//! Rules:
//! 1. Only the ranges of pivots for which a bundle is still active are read, and for each pivot only its active
//!    bundles.
//! 2. Sources are read in age order, so nothing is reordered.
//! 3. Tombstones are dropped, and operands become values although nothing older was found, only when no older data lies
//!    below: at a leaf, when its oldest bundle takes part.
//! 4. A file that overlaps nothing else is not read: the result refers to it (`runs/reuse.rs`).
//! 5. Range tombstones are clipped to the ranges that are read. What a file has of them elsewhere is not active here.

use super::pass::Pass;
use crate::branch::Branch;
use crate::disk::runs::merged_run::MergedRun;
use crate::disk::runs::reuse::{self, Sizes};
use crate::disk::runs::run;
use crate::disk::trunk::tree::merge_range;
use crate::disk::trunk::tree::node::Node;
use crate::util::Result;
use crate::util::planted::planted;
use crate::util::sync::Arc;
use std::ops::Range;

impl Pass<'_> {
    /// Merges the bundles `range` of `node` into one run. Files of `sizes` may be reused. `None` if `progress` ended
    /// it.
    pub fn merge(&self, node: &Node, range: Range<usize>, sizes: &Sizes) -> Result<Option<MergedRun>> {
        let cuts = self.cuts(node, merge_range::load(node, range.clone()).bytes);
        let bytes_max = if node.is_leaf() { self.options.part_bytes } else { self.options.branch_bytes };
        let bottom = node.is_leaf() && planted!(range.start == 0, Bug::TombstoneDroppedEarly => true);
        let mut output = self.output(&cuts, bytes_max, bottom);
        let mut all_reused = Vec::new();
        for piece in pieces(node, &range) {
            let lower = node.slot_lower(piece.slots.start);
            let upper = node.slot_upper(piece.slots.end - 1);
            let bundles = &node.bundles[piece.first..range.end];
            let inside = bundles.iter().flat_map(|bundle| &bundle.branches);
            let mut inside: Vec<_> =
                inside.filter(|branch| run::overlaps(branch, lower, upper.map(|upper| &**upper))).collect();
            let bounds = (&lower[..], upper.map(|upper| &**upper));
            let reused = reuse::choose(&inside, bounds, bottom, sizes, self.retention.filtering());
            let is_reused = |branch: &Arc<Branch>| reused.iter().any(|reused| Arc::ptr_eq(reused, branch));
            inside.retain(|branch| !is_reused(branch));
            reused.iter().for_each(|branch| output.add_reused(branch));
            all_reused.extend(reused.into_iter().cloned());
            if !output.copy_branches(inside, (lower, upper), bottom)? {
                return Ok(None);
            }
        }
        Ok(Some(MergedRun { parts: output.finish()?, reused: all_reused }))
    }
}

/// Neighbouring slots for which the same merged bundles are active, so that one merge serves them all.
struct Piece {
    slots: Range<usize>,
    /// The oldest of the merged bundles that is active.
    first: usize,
}

fn pieces(node: &Node, range: &Range<usize>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for slot in 0..node.slots.len() {
        let first = node.first_active(slot).max(range.start);
        if first >= range.end {
            continue;
        }
        match pieces.last_mut() {
            Some(last) if last.slots.end == slot && last.first == first => last.slots.end += 1,
            _ => pieces.push(Piece { slots: slot..slot + 1, first }),
        }
    }
    pieces
}
