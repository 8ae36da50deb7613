//! The ids of new nodes and bundles. Any thread.

use crate::format::manifest_edit::{BundleId, NodeId};
use crate::util::sync::{AtomicU64, Ordering};

/// Distributes ids. Relaxed: the counters give out distinct numbers and order nothing.
#[derive(Debug)]
pub struct Ids {
    node: AtomicU64,
    bundle: AtomicU64,
}

impl Ids {
    /// Starts at these ids.
    pub fn new(node: u64, bundle: u64) -> Self {
        Self { node: AtomicU64::new(node), bundle: AtomicU64::new(bundle) }
    }

    /// The id of a new node.
    pub fn new_node(&self) -> NodeId {
        NodeId(self.node.fetch_add(1, Ordering::Relaxed))
    }

    /// The id of a new bundle.
    pub fn new_bundle(&self) -> BundleId {
        BundleId(self.bundle.fetch_add(1, Ordering::Relaxed))
    }

    /// The first ids that were not given out.
    pub fn next(&self) -> (NodeId, BundleId) {
        (NodeId(self.node.load(Ordering::Relaxed)), BundleId(self.bundle.load(Ordering::Relaxed)))
    }
}
