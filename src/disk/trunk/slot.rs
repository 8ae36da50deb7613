//! What a node holds for one of its children (for a leaf: for its whole range): the runs that a read visits, and how much
//! waits. Worked out when a node is made, so that reads and pickers only look. Immutable; any thread.
//!
//! Invariants:
//! 1. `runs` are those of the active bundles, newest first, without branches that have no key in the range.
//! 2. Bytes are those of the branch files; a branch that reaches over the range's bounds is measured by its index.

use super::bundle::Bundle;
use super::cover::Cover;
use super::run::{self, Run};
use crate::branch::{Branch, Maplet};
use crate::format::manifest_edit::ShareImage;
use crate::util::sync::Arc;

/// How much of something there is; estimates where branches are shared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Load {
    /// Bytes of branch files.
    pub bytes: u64,
    /// Entries, all versions counted.
    pub entries: u64,
    /// Entries that are tombstones.
    pub tombstones: u64,
    /// Range tombstones: all of each branch, for a few may hide anything.
    pub range_tombstones: u64,
}

impl Load {
    /// All of a branch.
    pub fn of(branch: &Branch) -> Self {
        let meta = branch.meta();
        Self {
            bytes: meta.bytes,
            entries: meta.entries,
            tombstones: meta.tombstones,
            range_tombstones: meta.range_tombstones,
        }
    }
}

impl std::ops::AddAssign for Load {
    fn add_assign(&mut self, other: Self) {
        self.bytes += other.bytes;
        self.entries += other.entries;
        self.tombstones += other.tombstones;
        self.range_tombstones += other.range_tombstones;
    }
}

/// See the module.
#[derive(Debug, Default)]
pub struct Slot {
    /// What a read visits, newest first.
    pub runs: Vec<Arc<Run>>,
    /// Bytes that each of them has for the range.
    pub run_bytes: Vec<u64>,
    /// What each active bundle has for the range, oldest first.
    pub loads: Vec<Load>,
    /// Their sum.
    pub pending: Load,
    /// Those of the branches that reach over the range's bounds.
    pub shares: Vec<ShareImage>,
    /// The maplets that answer for the runs.
    pub cover: Cover,
}

impl Slot {
    /// What the manifest kept of a slot.
    pub fn kept(shares: &[ShareImage]) -> Arc<Self> {
        Arc::new(Self { shares: shares.to_vec(), ..Self::default() })
    }

    /// The slot of the range [lower, upper) with these active bundles, oldest first. `known` is a slot that the same range
    /// had before, or what the manifest kept of it: what is measured there is not measured again. `maplets` may serve it.
    pub fn new(
        bundles: &[Arc<Bundle>],
        lower: &[u8],
        upper: Option<&[u8]>,
        known: Option<&Slot>,
        maplets: &[Arc<Maplet>],
    ) -> Arc<Self> {
        let mut slot = Self::default();
        let mut inside = Vec::new();
        for bundle in bundles {
            let mut sum = Load::default();
            for branch in bundle.branches.iter().filter(|branch| run::overlaps(branch, lower, upper)) {
                sum += slot.measure(branch, lower, upper, known);
                inside.push(branch);
            }
            slot.pending += sum;
            slot.loads.push(sum);
        }
        slot.runs = run::group(inside);
        slot.runs.reverse();
        let bytes_of = |run: &Arc<Run>| run.parts().iter().map(|part| slot.bytes_of(part)).sum();
        slot.run_bytes = slot.runs.iter().map(bytes_of).collect();
        slot.cover = Cover::new(&slot.runs, lower, upper, maplets);
        Arc::new(slot)
    }

    /// What one of its branches has for the range.
    pub fn bytes_of(&self, branch: &Branch) -> u64 {
        let meta = branch.meta();
        self.shares.iter().find(|share| share.branch == meta.file).map_or(meta.bytes, |share| share.bytes)
    }

    /// Look-ups that a get makes here before it reads data.
    pub fn probes(&self) -> usize {
        self.cover.probes(self.runs.len())
    }

    /// How many of them one maplet could take the place of.
    pub fn spared_probes(&self) -> usize {
        self.cover.spared(self.runs.len())
    }

    fn measure(&mut self, branch: &Branch, lower: &[u8], upper: Option<&[u8]>, known: Option<&Slot>) -> Load {
        let meta = branch.meta();
        if meta.key_min[..] >= *lower && upper.is_none_or(|upper| meta.ends_before(upper)) {
            return Load::of(branch);
        }
        let before = known.and_then(|slot| slot.shares.iter().find(|share| share.branch == meta.file));
        let bytes = match before {
            Some(share) => share.bytes.min(meta.bytes),
            // The figure steers only when work is done. A read error shows itself where the data is read.
            None => branch.approximate_bytes(lower, upper).unwrap_or(meta.bytes / 2).min(meta.bytes),
        };
        self.shares.push(ShareImage { branch: meta.file, bytes });
        let share = |count: u64| (u128::from(count) * u128::from(bytes) / u128::from(meta.bytes.max(1))) as u64;
        let (entries, tombstones) = (share(meta.entries), share(meta.tombstones));
        Load { bytes, entries, tombstones, range_tombstones: meta.range_tombstones }
    }
}
