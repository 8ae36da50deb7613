//! Files of which a good part is dead: some of the nodes that shared them have merged what they had of them, others have not. On a
//! full disk such a file is written anew without what nobody refers to. That gives room back at once, whatever else there is to
//! do, and takes no more than what is still live in one file; a merge gives back the files that it read only when it was the
//! last to refer to them. (A part file is cut at the pivots of the node that it was made for, so a large file is not shared for
//! long; small ones are, in small stores.)
//!
//! Any thread; `Pass::squeeze` does I/O without a lock. A job holds a claim on the bundles that refer to the file. (*Else:* a
//! merge that keeps a branch by reference would bring back a file that a squeeze has dropped.)

use super::compact::Pass;
use super::node::{Key, Node};
use super::parts::{NewParts, OutputWriter};
use super::run;
use super::watch::Steps;
use crate::branch::{Branch, Purpose};
use crate::format::manifest_edit::BundleId;
use crate::merge::Cursor;
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result, SequenceNumber};
use std::collections::BTreeMap;

/// A file is worth the work if one in so many bytes is dead; a small one is worth a try if anything is: what the index tells of parts
/// of a small file is too coarse.
const DEAD_PART: u64 = 8;
const SMALL_BYTES: u64 = 1 << 20;
const GAIN_MIN: u64 = 8 << 10;

/// A range of keys: the first, and the first past it.
type KeyRange = (Key, Option<Key>);

/// A file to squeeze.
#[derive(Clone, Debug)]
pub struct RewriteLive {
    pub branch: Arc<Branch>,
    /// The topmost node that refers to it.
    pub node: Arc<Node>,
    /// The bundles that do, wherever they are.
    pub bundles: Vec<BundleId>,
    /// The ranges in which it is active, in key order, neighbours joined. No two nodes have the same of it.
    pub live: Vec<KeyRange>,
    /// About how many bytes that are.
    bytes: u64,
    places: usize,
}

/// What must be gained at least where the file has so many bytes.
pub fn gain_min(bytes: u64) -> u64 {
    (bytes / DEAD_PART).max(GAIN_MIN)
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

    /// In how many places it is active: what tells one state of it from the next, near enough.
    pub fn live_in(&self) -> usize {
        self.places
    }

    /// Joins neighbouring ranges.
    fn join(&mut self) {
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

/// The files that are worth it, those with the largest dead part first. O(references).
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
                    places: 0,
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
                    found.places += 1;
                    found.bytes += share.map_or(meta.bytes, |share| share.bytes);
                }
            }
        }
    }
    files.values_mut().for_each(RewriteLive::join);
    let mut files: Vec<RewriteLive> = files.into_values().filter(RewriteLive::is_worth_it).collect();
    files.sort_by_key(|file| (file.bytes << 16) / file.branch.meta().bytes.max(1));
    files
}

impl Pass<'_> {
    /// Writes what is live of a file to a new one; `None` where the watch ended it. What became dead since the choice is copied,
    /// too: more never becomes live.
    pub fn squeeze(&self, file: &RewriteLive) -> Result<Option<NewParts>> {
        let mut writer = OutputWriter::new(self.context, &[], 0, u64::MAX);
        let mut steps = Steps::new(self.watch);
        let runs = run::group([&file.branch]);
        for (lower, upper) in &file.live {
            let tombstones = run::range_tombstones(&runs, lower, upper.as_deref())?;
            let mut cursor = file.branch.cursor(Purpose::Compaction);
            cursor.seek(lower, SequenceNumber::MAX)?;
            // What is older lies elsewhere: never as if at the bottom.
            if !self.copy((&mut cursor, &tombstones), upper.as_ref(), false, &mut writer, &mut steps)? {
                return Ok(None);
            }
        }
        super::compact::finish(writer, steps)
    }
}
