//! The tree as readers see it: immutable, from one root. Any thread; no locks (SplinterDB §2.2; `docs/concurrency.md`, T1).

use super::cursor::TreeCursor;
use super::node::Node;
use super::options::TrunkOptions;
use crate::base::sync::Arc;
use crate::base::{Kind, Result, SequenceNumber};

/// See the module. Holding it keeps all its branch files readable.
#[derive(Debug)]
pub struct Tree {
    root: Arc<Node>,
    options: Arc<TrunkOptions>,
}

impl Tree {
    pub(super) fn new(root: Arc<Node>, options: Arc<TrunkOptions>) -> Arc<Self> {
        assert!(root.lower.is_empty() && root.upper.is_none(), "the root spans all keys");
        Arc::new(Self { root, options })
    }

    /// The root.
    pub fn root(&self) -> &Arc<Node> {
        &self.root
    }

    pub(super) fn options(&self) -> &TrunkOptions {
        &self.options
    }

    /// The newest version `<= at` of `key`, whose hash is `hash`: its number and kind; its value is appended to `out`.
    pub fn get(
        &self,
        key: &[u8],
        hash: u64,
        at: SequenceNumber,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>> {
        let mut node = &self.root;
        loop {
            let slot = node.slot_of(key);
            for run in &node.slots[slot].runs {
                if let Some(part) = run.part_of(key)
                    && let Some(hit) = part.get(key, hash, at, out)?
                {
                    return Ok(Some(hit));
                }
            }
            match node.pivots.get(slot) {
                Some(pivot) => node = &pivot.child,
                None => return Ok(None),
            }
        }
    }

    /// A cursor over all entries.
    pub fn cursor(self: &Arc<Self>) -> TreeCursor {
        TreeCursor::new(Arc::clone(self))
    }

    /// Live bytes, estimated where nodes share branches.
    pub fn bytes(&self) -> u64 {
        self.root.totals.bytes
    }

    /// Bytes of work that waits: what nodes hold past their fill and what is to be merged.
    pub fn debt(&self) -> u64 {
        self.root.totals.debt
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
}
