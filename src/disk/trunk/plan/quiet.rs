//! Merges in quiet times: what nobody waits for, and what makes the next reads cheaper. Pure functions of trees; any
//! thread.
//!
//! Ordinary work leaves up to `runs_max` runs in each node, so that a writer pays little. Once users stop writing, the
//! data on the path to a leaf goes down to the leaf by reference, and the leaf's newer runs become one, or all of them,
//! if that costs little more. Where searches met most runs for the bytes that a merge rewrites, it is done first. The
//! bytes are limited (`quiet_credit.rs`): a store that is written every few seconds must not be rewritten each time.

use super::choice::Choice;
use crate::disk::trunk::options::TrunkOptions;
use crate::disk::trunk::tree::newer_data::newer;
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::tree::Tree;
use crate::util::sync::Arc;

/// What a flush is charged with: its edit contains both nodes.
const FLUSH_COST: u64 = 8 << 10;
/// A merge may write this part more than its input: the shares of files that extend past the leaf are estimates.
const MERGE_MARGIN: u64 = 16;
/// Bytes of a part file besides entries: pages of index, filter, fingerprints, properties and footer that are not full.
const PART_COST: u64 = 24 << 10;
/// Bytes of a maplet for each entry of a leaf, which a merge may make necessary.
const MAPLET_BYTES_PER_ENTRY: u64 = 2;

/// Work for quiet times.
#[derive(Clone, Debug)]
pub struct QuietWork {
    /// A flush, or a merge of bundles of a leaf.
    pub choice: Choice,
    /// What it costs.
    pub cost: QuietCost,
}

/// What work for quiet times costs, in bytes, by an estimate that is rather too high.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuietCost {
    /// Of the flush or the merge itself.
    pub own: u64,
    /// The part of it for the maplet that ordinary work may then build.
    pub maplet: u64,
    /// Of all work on the path to the leaf, which is only worth it together.
    pub path: u64,
}

/// The most worthwhile work that costs at most `credit` and that `accepts` accepts.
pub fn choose(tree: &Tree, credit: u64, mut accepts: impl FnMut(&Choice) -> bool) -> Option<QuietWork> {
    if credit < FLUSH_COST {
        return None;
    }
    let mut found = Vec::new();
    gather(tree.root(), &Above::default(), tree.options(), &mut found);
    found.retain(|(_, work)| work.cost.path <= credit);
    // Stable: of equals the first in key order, because the choice must be deterministic.
    found.sort_by(|(one, _), (other, _)| other.cmp(one));
    found.into_iter().map(|(_, work)| work).find(|work| accepts(&work.choice))
}

/// What waits in the ancestors of a node for its range.
#[derive(Clone, Default)]
struct Above {
    bytes: u64,
    runs: usize,
    flushes: u64,
    topmost: Option<Choice>,
}

/// Searches saved for each byte rewritten, in a fraction of any unit.
type Worth = u128;

/// Gathers the work at and below a node, with its worth.
fn gather(node: &Arc<Node>, above: &Above, options: &TrunkOptions, found: &mut Vec<(Worth, QuietWork)>) {
    if node.is_leaf() {
        found.extend(of_leaf(node, above, options));
        return;
    }
    for (at, pivot) in node.pivots.iter().enumerate() {
        let slot = &node.slots[at];
        let mut above = above.clone();
        if !slot.runs.is_empty() {
            above.bytes += slot.pending.bytes;
            above.runs += slot.runs.len();
            above.flushes += 1;
            above.topmost = above.topmost.or_else(|| Some(Choice::Flush(Arc::clone(node), at)));
        }
        gather(&pivot.child, &above, options, found);
    }
}

/// The next step for a leaf, if merging is worth it: for each run that a search then no longer meets, at most half of the
/// leaf's data is rewritten.
fn of_leaf(leaf: &Arc<Node>, above: &Above, options: &TrunkOptions) -> Option<(Worth, QuietWork)> {
    let (all, runs) = (leaf.active.bytes + above.bytes, leaf.runs() + above.runs);
    let has_oldest = leaf.bundles.first().is_some_and(|bundle| bundle.is_compacted());
    let newer_runs = runs.saturating_sub(usize::from(has_oldest));
    let whole = (all, runs.saturating_sub(1), 0);
    let newer = (newer(leaf).bytes + above.bytes, newer_runs.saturating_sub(1), usize::from(has_oldest));
    let is_worthwhile = |(bytes, saved, _): &(u64, usize, usize)| *saved > 0 && bytes / *saved as u64 <= all / 2;
    let units = leaf.scans.units().saturating_add(1);
    let worth = |(bytes, saved, _): &(u64, usize, usize)| {
        ((*saved as u128 * u128::from(units)) << 40) / u128::from(*bytes).max(1)
    };
    let best = [newer, whole].into_iter().filter(is_worthwhile).max_by_key(worth)?;
    let (bytes, _, from) = best;
    let parts = bytes / options.part_bytes + 2;
    let maplet = leaf.active.entries.saturating_mul(MAPLET_BYTES_PER_ENTRY);
    let merge_cost = bytes + bytes / MERGE_MARGIN + parts * PART_COST + maplet;
    let path = merge_cost + above.flushes * FLUSH_COST;
    let work = match &above.topmost {
        Some(flush) => QuietWork { choice: flush.clone(), cost: QuietCost { own: FLUSH_COST, maplet: 0, path } },
        None => QuietWork {
            choice: Choice::Merge(Arc::clone(leaf), from..leaf.bundles.len()),
            cost: QuietCost { own: merge_cost, maplet, path },
        },
    };
    Some((worth(&best), work))
}
