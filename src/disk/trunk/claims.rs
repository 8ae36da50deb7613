//! Which parts of the tree jobs are working on, so that none is worked on twice. Any thread; one mutex, held for moments.
//!
//! A claim names bundles of a key range, not a node: a node may be split while one of its bundles is being merged, and
//! then neither half's share of it may be merged again.

use super::node::Key;
use crate::format::manifest_edit::{BundleId, NodeId};
use crate::util::sync::{Arc, Mutex};
use std::collections::BTreeMap;

/// What a job works on.
#[derive(Clone, Debug)]
pub struct Claim {
    /// `None` for bundles of any height.
    pub height: Option<u32>,
    pub lower: Key,
    pub upper: Option<Key>,
    /// The bundles that it will replace.
    pub bundles: Vec<BundleId>,
    /// The node that it flushes.
    pub flush: Option<NodeId>,
    /// Nodes that it makes one of, or the one that it flushes to: no two jobs may do either with the same.
    pub nodes: Vec<NodeId>,
    /// It makes a maplet of the bundles and replaces nothing: no reason to keep others from replacing them.
    pub only_maps: bool,
}

impl Claim {
    fn is_at_height_of(&self, other: &Claim) -> bool {
        self.height.zip(other.height).is_none_or(|(own, other)| own == other)
    }

    /// Whether this claim, which is held, is in the way of another.
    fn conflicts(&self, other: &Claim) -> bool {
        if self.only_maps && !other.only_maps {
            return false;
        }
        let meets = |lower: &Key, upper: &Option<Key>| upper.as_ref().is_none_or(|upper| **lower < **upper);
        (self.flush.is_some() && self.flush == other.flush)
            || self.nodes.iter().any(|node| other.nodes.contains(node))
            || (self.is_at_height_of(other)
                && meets(&self.lower, &other.upper)
                && meets(&other.lower, &self.upper)
                && self.bundles.iter().any(|bundle| other.bundles.contains(bundle)))
    }
}

/// The claims of running jobs.
#[derive(Debug, Default)]
pub struct Claims(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    next: u64,
    claims: BTreeMap<u64, Claim>,
}

impl Claims {
    /// Makes a claim, unless a running job has one that it conflicts with.
    pub fn take(self: &Arc<Self>, claim: Claim) -> Option<Arc<Ticket>> {
        let mut state = self.0.lock();
        if state.claims.values().any(|held| held.conflicts(&claim)) {
            return None;
        }
        let id = state.next;
        state.next += 1;
        state.claims.insert(id, claim);
        Some(Arc::new(Ticket { claims: Arc::clone(self), id }))
    }

    /// How many jobs are running.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.0.lock().claims.len()
    }
}

/// Holds a claim until the last reference is dropped.
#[derive(Debug)]
pub struct Ticket {
    claims: Arc<Claims>,
    id: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        self.claims.0.lock().claims.remove(&self.id);
    }
}
