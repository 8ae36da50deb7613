//! Files with a large dead part: some of the nodes that shared such a file have merged their part of it, others have
//! not. On a full disk the live data of the file is rewritten. That frees space at once, whatever else there is to do,
//! and needs no more space than the live data of one file. A merge frees the files that it read only if it was the last
//! to refer to them. (A part file is cut at the pivots of the node for which it was made, so a large file is not shared
//! for long. Small files are, in small stores.)
//!
//! Pure functions of nodes; any thread. The job (`jobs/rewrite_live.rs`) holds a claim on the bundles that refer to the
//! file. (*Otherwise:* a merge that reuses the file brings it back after the rewrite has dropped it.)

use crate::branch::Branch;
use crate::disk::runs::run::{self, Key};
use crate::disk::trunk::tree::node::Node;
use crate::format::manifest_edit::BundleId;
use crate::util::FileNumber;
use crate::util::sync::Arc;
use std::collections::BTreeMap;

/// A file is worth rewriting if at least one in this many of its bytes is dead. A small file is worth a try if anything
/// in it is dead: its index is too coarse to measure parts of it.
const DEAD_PART: u64 = 8;
const SMALL_BYTES: u64 = 1 << 20;
const GAIN_MIN: u64 = 4 << 10;

/// A key range: the first key, and the first past it.
type KeyRange = (Key, Option<Key>);

/// A file of which only the live data is to be retained.
#[derive(Clone, Debug)]
pub struct RewriteLive {
    pub branch: Arc<Branch>,
    /// The topmost node that refers to it.
    pub node: Arc<Node>,
    /// The bundles that refer to it, at any node.
    pub bundles: Vec<BundleId>,
    /// The ranges in which it is active, in key order, adjacent ones joined. No two nodes have the same part of it
    /// active.
    pub live: Vec<KeyRange>,
    /// About how many bytes these ranges have.
    bytes: u64,
    /// How many slots it is active in.
    live_places: usize,
}

/// The least that rewriting a file of this many bytes must gain.
pub fn gain_min(bytes: u64) -> u64 {
    if bytes <= SMALL_BYTES { GAIN_MIN } else { bytes / DEAD_PART }
}

impl RewriteLive {
    fn is_worth_it(&self) -> bool {
        let meta = self.branch.meta();
        let is_likely = meta.bytes.saturating_sub(self.bytes) >= gain_min(meta.bytes);
        let spans = |(lower, upper): &KeyRange| {
            **lower <= meta.key_min[..] && upper.as_ref().is_none_or(|upper| meta.ends_before(upper))
        };
        (is_likely || meta.bytes <= SMALL_BYTES) && !self.live.iter().any(spans)
    }

    /// The number of slots in which it is active. This distinguishes the states of the file well enough.
    pub fn live_places(&self) -> usize {
        self.live_places
    }

    /// Joins adjacent ranges.
    fn join_live(&mut self) {
        self.live.sort();
        self.live.dedup_by(|next, last| {
            let joins = last.1.as_ref() == Some(&next.0);
            if joins {
                last.1 = next.1.take();
            }
            joins
        });
    }
}

/// The files that are worth rewriting, those with the largest dead part first. O(references).
pub fn worthwhile(nodes: &[&Arc<Node>]) -> Vec<RewriteLive> {
    let mut files: BTreeMap<FileNumber, RewriteLive> = BTreeMap::new();
    for node in nodes {
        for bundle in &node.bundles {
            for branch in &bundle.branches {
                let found = files.entry(branch.meta().file).or_insert_with(|| RewriteLive {
                    branch: Arc::clone(branch),
                    node: Arc::clone(node),
                    bundles: Vec::new(),
                    live: Vec::new(),
                    bytes: 0,
                    live_places: 0,
                });
                found.bundles.push(bundle.id);
            }
        }
        for at in 0..node.slots.len() {
            let (lower, upper) = (node.slot_lower(at), node.slot_upper(at));
            let branches = node.bundles[node.first_active(at)..].iter().flat_map(|bundle| &bundle.branches);
            for branch in branches.filter(|branch| run::overlaps(branch, lower, upper.map(|upper| &**upper))) {
                let meta = branch.meta();
                let share = node.slots[at].shares.iter().find(|share| share.branch == meta.file);
                if let Some(found) = files.get_mut(&meta.file) {
                    found.live.push((Arc::clone(lower), upper.cloned()));
                    found.live_places += 1;
                    found.bytes += share.map_or(meta.bytes, |share| share.bytes);
                }
            }
        }
    }
    files.values_mut().for_each(RewriteLive::join_live);
    let mut files: Vec<RewriteLive> = files.into_values().filter(RewriteLive::is_worth_it).collect();
    files.sort_by_key(|file| (file.bytes << 16) / file.branch.meta().bytes.max(1));
    files
}
