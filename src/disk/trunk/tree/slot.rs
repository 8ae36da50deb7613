//! Trunk slots. A slot describes what a node holds for one of its children, or a leaf for its whole range: the runs
//! that a read visits, and how many bytes wait to be flushed or merged. It is computed when the node is made, so that
//! reads and the choice of jobs need no computation. Immutable; any thread.
//!
//! Invariants:
//! 1. `runs` are the runs of the active bundles, newest first, without branches outside the range. (`stored` makes a
//!    slot of shares only, which no read may use.)
//! 2. Sizes are on-disk sizes. The share of a branch that extends past the range is estimated from its index.

use super::bundle::Bundle;
use super::maplet_index::MapletIndex;
use crate::branch::{Branch, Maplet};
use crate::disk::runs::load::Load;
use crate::disk::runs::run::{self, Run};
use crate::format::manifest_edit::ShareImage;
use crate::util::sync::Arc;

/// See the module.
#[derive(Debug, Default)]
pub struct Slot {
    /// The runs that a read visits, newest first.
    pub runs: Vec<Arc<Run>>,
    /// Bytes that each of `runs` has in the range.
    pub run_bytes: Vec<u64>,
    /// The data that each active bundle has in the range. Oldest first, unlike `runs`.
    pub loads: Vec<Load>,
    /// The sum of `loads`.
    pub pending: Load,
    /// The bytes in the range of each branch that extends past it.
    pub shares: Vec<ShareImage>,
    /// Which maplets answer for the runs.
    pub maplet_index: MapletIndex,
}

impl Slot {
    /// The shares that the manifest recorded for a slot, for use as `known` in `new`. Its other fields are empty.
    pub fn stored(shares: &[ShareImage]) -> Arc<Self> {
        Arc::new(Self { shares: shares.to_vec(), ..Self::default() })
    }

    /// The slot of the range [lower, upper) with these active bundles, oldest first. `known` is the former slot of the
    /// same range, or the result of `stored`; its shares are reused. `maplets` are the candidates for the index.
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
        slot.maplet_index = MapletIndex::new(&slot.runs, lower, upper, maplets);
        Arc::new(slot)
    }

    /// Bytes that a branch of the slot has in the range.
    pub fn bytes_of(&self, branch: &Branch) -> u64 {
        let meta = branch.meta();
        self.shares.iter().find(|share| share.branch == meta.file).map_or(meta.bytes, |share| share.bytes)
    }

    /// Lookups that a get makes here before it reads data.
    pub fn probes(&self) -> usize {
        self.maplet_index.probes(self.runs.len())
    }

    /// How many of these lookups one maplet could replace.
    pub fn replaceable_probes(&self) -> usize {
        self.maplet_index.replaceable_probes(self.runs.len())
    }

    fn measure(&mut self, branch: &Branch, lower: &[u8], upper: Option<&[u8]>, known: Option<&Slot>) -> Load {
        let meta = branch.meta();
        if meta.key_min[..] >= *lower && upper.is_none_or(|upper| meta.ends_before(upper)) {
            return Load::of(branch);
        }
        let before = known.and_then(|slot| slot.shares.iter().find(|share| share.branch == meta.file));
        let bytes = match before {
            Some(share) => share.bytes.min(meta.bytes),
            // The estimate only affects when a merge or flush is chosen, so a read error may wait until the data is
            // read.
            None => branch.approximate_bytes(lower, upper).unwrap_or(meta.bytes / 2).min(meta.bytes),
        };
        self.shares.push(ShareImage { branch: meta.file, bytes });
        let in_proportion = |count: u64| (u128::from(count) * u128::from(bytes) / u128::from(meta.bytes.max(1))) as u64;
        let (entries, tombstones) = (in_proportion(meta.entries), in_proportion(meta.tombstones));
        // Not scaled (`load.rs`).
        Load { bytes, entries, tombstones, range_tombstones: meta.range_tombstones }
    }
}
