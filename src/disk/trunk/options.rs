//! The trunk's tuning. Plain data, fixed while a store is open. Changing a figure never makes a store unreadable: the
//! tree's shape follows the new figures as work is done.

use crate::merge::MergeOperator;
use crate::util::sync::Arc;
use std::ops::RangeInclusive;

/// Children that a trunk node has at most, and bundles that it gathers: the paper's F (SplinterDB §2.1: 8 to 16).
pub const FANOUT: usize = 8;

/// The paper calls a node full at F·m (§2.3). Here it is full as well once it holds this share of the live bytes below
/// it, because what lies above the leaves may be garbage that waits: it bounds that part of the space amplification.
pub const NODE_PERCENT_OF_BELOW: u64 = 16;

/// A leaf is over its target at F·m, or at this share of all data, whichever is less, so that a small store already has
/// leaves enough for flushes and compactions to be local.
pub const LEAF_PERCENT_OF_ALL: u64 = 25;

/// Runs that a get may have to look at in one node before some of them are merged. With fewer, reads touch fewer filters;
/// with more, an entry is rewritten less often.
pub const RUNS_MAX: usize = 8;

/// Nodes of more runs than this are merged before all else. Bundles of an internal node that are one run each already are merged only past
/// it (SplinterDB, Appendix: a node refers to at most 3F branches; here it is the order of work, and no bound: beside a writer at full speed
/// there are up to twice as many).
pub const RUNS_LIMIT: usize = 3 * FANOUT;

/// Look-ups that a get makes at one node before a maplet takes their place: with fewer, gets are faster and maplets are
/// written more often.
pub const PROBES_MAX: usize = 3;

/// A leaf is sampled for garbage once its newer bundles have this share of the bytes of its oldest one, and rewritten
/// whole once this share of its oldest bundle's bytes is garbage.
pub const GARBAGE_PERCENT: u64 = 40;

/// A leaf is sampled for garbage as well once its newer bundles have this many tombstones per hundred entries of its
/// oldest one: tombstones are small, but each may hide much.
pub const TOMBSTONE_PERCENT: u64 = 25;

/// What the halves of a split leaf are filled to. Two halves of a leaf just over its target are half full.
pub const SPLIT_FILL_PERCENT: u64 = 60;

/// A branch file has at least a page each of data, index, filter, properties and footer, and one of fingerprints with maplets, and its
/// key ranges are measured to a page: below this size most of a part would be overhead.
pub const PART_BYTES_MIN: u64 = 32 << 10;

/// Part files of internal nodes are cut at the pivots of the deepest level for which parts come out at so many times that size on
/// average: what is flushed to a leaf and merged there then goes with its file, and does not wait in it for the leaf's neighbours.
pub const CUT_PARTS_MIN: u64 = 2;

/// What a merge keeps as it is has at least so many times that size: it ends the new parts on either side.
pub const KEPT_PARTS_MIN: u64 = 4;

/// Leaves are not split below this size; the same reason.
pub const LEAF_BYTES_MIN: u64 = 512 << 10;

/// See the module.
#[derive(Clone, Debug)]
pub struct TrunkOptions {
    /// The paper's m: about the size of a Memtable, and of the largest part file.
    pub branch_bytes: u64,
    /// The paper's F. At least 2.
    pub fanout: usize,
    /// See `RUNS_MAX`.
    pub runs_max: usize,
    /// See `RUNS_LIMIT`.
    pub runs_limit: usize,
    /// Part files of leaves are cut at about this size, so that after a split by reference most parts belong to one leaf.
    pub part_bytes: u64,
    /// Part files are cut at a pivot only from this size on: tiny files cost more than shared ones.
    pub part_bytes_min: u64,
    /// A leaf below this size is never over its target.
    pub leaf_bytes_min: u64,
    /// See `NODE_PERCENT_OF_BELOW`.
    pub node_percent_of_below: u64,
    /// See `LEAF_PERCENT_OF_ALL`.
    pub leaf_percent_of_all: u64,
    /// See `GARBAGE_PERCENT`.
    pub garbage_percent: u64,
    /// What folds merge operands; without it they are kept as they are.
    pub merge_operator: Option<Arc<dyn MergeOperator>>,
    /// Whether maplets are built and used; else every run is asked by its own filter.
    pub maplets: bool,
    /// See `PROBES_MAX`.
    pub probes_max: usize,
}

impl TrunkOptions {
    /// The defaults for branches of about `branch_bytes`.
    pub fn new(branch_bytes: u64) -> Self {
        let branch_bytes = branch_bytes.max(4096);
        Self {
            branch_bytes,
            fanout: FANOUT,
            runs_max: RUNS_MAX,
            runs_limit: RUNS_LIMIT,
            part_bytes: (branch_bytes / 4).max(4096),
            part_bytes_min: (branch_bytes / 64).clamp(PART_BYTES_MIN, 1 << 20),
            leaf_bytes_min: LEAF_BYTES_MIN,
            node_percent_of_below: NODE_PERCENT_OF_BELOW,
            leaf_percent_of_all: LEAF_PERCENT_OF_ALL,
            garbage_percent: GARBAGE_PERCENT,
            merge_operator: None,
            maplets: true,
            probes_max: PROBES_MAX,
        }
    }

    /// Sizes of files that a merge keeps if they overlap no other input (`kept.rs`). Stretches of close keys that are as large get
    /// files of their own (`density.rs`).
    pub fn reused_bytes(&self) -> RangeInclusive<u64> {
        self.part_bytes_min.saturating_mul(KEPT_PARTS_MIN)..=u64::MAX
    }

    /// F·m: the most that a node gathers and a leaf holds.
    pub fn node_bytes_max(&self) -> u64 {
        self.branch_bytes.saturating_mul(self.fanout as u64)
    }

    /// The active bytes at which an internal node flushes, with `below` live bytes under it.
    pub fn full_bytes(&self, below: u64) -> u64 {
        self.node_bytes_max().min(below / 100 * self.node_percent_of_below)
    }

    /// The bytes past which a leaf is split or rewritten, in a tree of `all` live bytes.
    pub fn leaf_target(&self, all: u64) -> u64 {
        (all / 100 * self.leaf_percent_of_all)
            .clamp(self.leaf_bytes_min, self.node_bytes_max().max(self.leaf_bytes_min))
    }
}
