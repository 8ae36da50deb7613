//! The trunk's tuning. Plain data, fixed while a store is open; any thread. The manifest has `branch_bytes`, so the sizes
//! that follow from it do not depend on the memory budget of an opening. Changing a figure never makes a store unreadable:
//! the shape of the tree follows the new figures as work is done.

use crate::merge::MergeOperators;
use crate::util::sync::Arc;
use std::ops::RangeInclusive;

/// The most children of a trunk node, and the Memtables of data that it gathers: the paper's F (SplinterDB §2.1: 8 to
/// 16).
pub const FANOUT: usize = 8;

/// The paper calls a node full at F·m (§2.3). Here it is full as well once it holds this share of the live bytes below
/// it. Data above the leaves may hide garbage below, so this bounds that part of the space amplification.
pub const NODE_PERCENT_OF_BELOW: u64 = 16;

/// The target of a leaf is F·m, or this share of all data, whichever is less, so that a small store already has enough
/// leaves for flushes and compactions to be local.
pub const LEAF_PERCENT_OF_ALL: u64 = 25;

/// The most runs that a get may meet in one node before some of them are merged. With fewer, reads touch fewer filters.
/// With more, an entry is rewritten less often.
pub const RUNS_MAX: usize = 8;

/// Nodes with more runs than this are merged first. Bundles of an internal node that are one run each are merged only
/// in such nodes.
pub const RUNS_LIMIT: usize = 3 * FANOUT;

/// The most runs that a get or a seek may meet in one node. Flushes and incorporations that would add to them wait for
/// merges (`plan/run_bound.rs`), and writers are slowed before that, from `RUNS_LIMIT` on. (SplinterDB, Appendix: a node
/// refers to at most 3F branches. Here a node that is merged from 3F on may receive what its neighbour above has.)
pub const RUNS_BOUND: usize = RUNS_LIMIT + RUNS_MAX;

/// The lookups of a get at one node that a maplet replaces. With fewer, gets are faster and maplets are written more
/// often.
pub const PROBES_MAX: usize = 3;

/// A leaf is sampled for garbage once its newer bundles have this share of the bytes of its oldest one, and rewritten
/// whole once this share of its oldest bundle's bytes is garbage.
pub const GARBAGE_PERCENT: u64 = 40;

/// A leaf is also sampled for garbage once its newer bundles have this many tombstones per hundred entries of its
/// oldest one. Tombstones are small, but each may hide much.
pub const TOMBSTONE_PERCENT: u64 = 25;

/// How far the parts of a split leaf are filled. The halves of a leaf just above its target are half full.
pub const SPLIT_FILL_PERCENT: u64 = 60;

/// The smallest part file at a cut. A branch file has at least one page each of data, index, filter, properties and
/// footer, with maplets one of fingerprints, and its key ranges are measured in pages. Below this size most of a part
/// file is overhead.
pub const PART_BYTES_MIN: u64 = 32 << 10;

/// Part files of internal nodes are cut at the pivots of the deepest level at which their mean size is at least this
/// many times that size. Data that is flushed to a leaf and merged there then frees its file, without waiting for the
/// leaf's neighbours.
pub const CUT_PARTS_MIN: u64 = 2;

/// A reused file has at least this many times that size, because it ends the new part files on either side.
pub const REUSED_PARTS_MIN: u64 = 4;

/// Leaves are not split below this size, for the same reason.
pub const LEAF_BYTES_MIN: u64 = 512 << 10;

/// How many bytes may be rewritten in quiet times for each hundred bytes that users have written.
pub const QUIET_PERCENT: u64 = 50;

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
    /// See `RUNS_BOUND`.
    pub runs_bound: usize,
    /// Part files of leaves are cut at about this size, so that after a split by reference most of them belong to one
    /// leaf.
    pub part_bytes: u64,
    /// Part files are cut at a pivot only from this size on: very small files cost more than shared ones.
    pub part_bytes_min: u64,
    /// A leaf below this size is never above its target.
    pub leaf_bytes_min: u64,
    /// See `NODE_PERCENT_OF_BELOW`.
    pub node_percent_of_below: u64,
    /// See `LEAF_PERCENT_OF_ALL`.
    pub leaf_percent_of_all: u64,
    /// See `GARBAGE_PERCENT`.
    pub garbage_percent: u64,
    /// See `QUIET_PERCENT`.
    pub quiet_percent: u64,
    /// They fold merge operands.
    pub merge_operators: Arc<MergeOperators>,
    /// Whether maplets are built and used. Otherwise the filter of every run is probed.
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
            runs_bound: RUNS_BOUND,
            part_bytes: (branch_bytes / 4).max(4096),
            part_bytes_min: (branch_bytes / 64).clamp(PART_BYTES_MIN, 1 << 20),
            leaf_bytes_min: LEAF_BYTES_MIN,
            node_percent_of_below: NODE_PERCENT_OF_BELOW,
            leaf_percent_of_all: LEAF_PERCENT_OF_ALL,
            garbage_percent: GARBAGE_PERCENT,
            quiet_percent: QUIET_PERCENT,
            merge_operators: Arc::default(),
            maplets: true,
            probes_max: PROBES_MAX,
        }
    }

    /// The same tuning for branches of another size, with all sizes that follow from it.
    #[must_use]
    pub fn with_branch_bytes(self, branch_bytes: u64) -> Self {
        if branch_bytes == self.branch_bytes {
            return self;
        }
        let Self { branch_bytes, part_bytes, part_bytes_min, .. } = Self::new(branch_bytes);
        Self { branch_bytes, part_bytes, part_bytes_min, ..self }
    }

    /// Sizes of files that a merge reuses if they overlap no other input (`runs/reuse.rs`). Stretches of close keys of
    /// such a size get files of their own (`runs/output/key_gaps.rs`).
    pub fn reused_bytes(&self) -> RangeInclusive<u64> {
        self.part_bytes_min.saturating_mul(REUSED_PARTS_MIN)..=u64::MAX
    }

    /// F·m: the most bytes that a node gathers and a leaf holds.
    pub fn node_bytes_max(&self) -> u64 {
        self.branch_bytes.saturating_mul(self.fanout as u64)
    }

    /// The active bytes above which an internal node flushes, with `below` live bytes under it.
    pub fn full_bytes(&self, below: u64) -> u64 {
        self.node_bytes_max().min(below / 100 * self.node_percent_of_below)
    }

    /// The bytes above which a leaf is split or rewritten, in a tree of `all` live bytes.
    pub fn leaf_target(&self, all: u64) -> u64 {
        (all / 100 * self.leaf_percent_of_all)
            .clamp(self.leaf_bytes_min, self.node_bytes_max().max(self.leaf_bytes_min))
    }
}
