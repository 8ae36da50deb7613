//! The tree as readers see it: immutable, from one root. Any thread; no locks (SplinterDB §2.2; `docs/concurrency.md`,
//! T1).
//!
//! `read/` has the functions that read it.

use super::node::Node;
use crate::branch::{Branch, Maplet};
use crate::disk::trunk::options::TrunkOptions;
use crate::disk::trunk::quiet_credit::QuietCredit;
use crate::merge::ScanLength;
use crate::util::FileNumber;
use crate::util::sync::Arc;
use std::collections::BTreeMap;

/// See the module. While it is held, all its branch files are readable.
#[derive(Debug)]
pub struct Tree {
    root: Arc<Node>,
    options: Arc<TrunkOptions>,
    scan_length: Arc<ScanLength>,
    credit: QuietCredit,
}

impl Tree {
    /// A tree with a root that spans all keys.
    pub fn new(
        root: Arc<Node>,
        options: Arc<TrunkOptions>,
        scan_length: Arc<ScanLength>,
        credit: QuietCredit,
    ) -> Arc<Self> {
        assert!(root.lower.is_empty() && root.upper.is_none(), "the root spans all keys");
        Arc::new(Self { root, options, scan_length, credit })
    }

    /// The next tree, with the same options and statistics.
    pub fn followed_by(&self, root: Arc<Node>, credit: QuietCredit) -> Arc<Self> {
        Self::new(root, Arc::clone(&self.options), Arc::clone(&self.scan_length), credit)
    }

    /// The root.
    #[inline]
    pub fn root(&self) -> &Arc<Node> {
        &self.root
    }

    /// The options of the trunk.
    pub fn options(&self) -> &TrunkOptions {
        &self.options
    }

    /// The mean length of scans.
    pub fn scan_length(&self) -> &ScanLength {
        &self.scan_length
    }

    /// What may be rewritten in quiet times.
    pub fn credit(&self) -> QuietCredit {
        self.credit
    }

    /// Bytes that may be rewritten in quiet times.
    pub fn credit_left(&self) -> u64 {
        self.credit.left(self.options.quiet_percent)
    }

    /// Whether any branch has range tombstones.
    pub fn has_range_tombstones(&self) -> bool {
        self.root.totals.range_tombstones > 0
    }

    /// Live bytes, estimated where nodes share branches.
    pub fn bytes(&self) -> u64 {
        self.root.totals.bytes
    }

    /// Bytes of work that waits: what nodes hold past their fill, and what is to be merged.
    pub fn debt(&self) -> u64 {
        self.root.totals.debt
    }

    /// About how many of the bytes are garbage, or newer versions that make some.
    pub fn garbage(&self) -> u64 {
        self.root.totals.garbage
    }

    /// Visits every node, level by level from the root, each level in key order.
    pub fn visit<'a>(&'a self, visit: &mut impl FnMut(&'a Arc<Node>)) {
        let mut level = vec![&self.root];
        while !level.is_empty() {
            for node in &level {
                visit(node);
            }
            level = level.iter().flat_map(|node| &node.pivots).map(|pivot| &pivot.child).collect();
        }
    }

    /// Every branch to which the tree refers, once, by file number.
    pub fn branches(&self) -> Vec<&Arc<Branch>> {
        let mut branches: BTreeMap<FileNumber, &Arc<Branch>> = BTreeMap::new();
        self.visit(&mut |node| branches.extend(node.branches().map(|branch| (branch.meta().file, branch))));
        branches.into_values().collect()
    }

    /// Every maplet that serves some slot of the tree, once, by file number.
    pub fn maplets(&self) -> Vec<&Arc<Maplet>> {
        let mut maplets: BTreeMap<FileNumber, &Arc<Maplet>> = BTreeMap::new();
        self.visit(&mut |node| {
            let serving = node.slots.iter().flat_map(|slot| slot.maplet_index.maplets());
            maplets.extend(serving.map(|maplet| (maplet.meta().file, maplet)));
        });
        maplets.into_values().collect()
    }
}
