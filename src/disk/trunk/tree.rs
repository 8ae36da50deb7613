//! The tree as readers see it: immutable, from one root. Any thread; no locks (SplinterDB §2.2; `docs/concurrency.md`, T1).

use super::cursor::TreeCursor;
use super::node::Node;
use super::options::TrunkOptions;
use crate::base::key::wide_head;
use crate::base::sync::Arc;
use crate::base::{Kind, Result, SequenceNumber};
use crate::branch::{Branch, Pages};

/// Branches that a get asks for ahead. More are in few trees, and the processor has no more misses under way at once.
const GATHERED_MAX: usize = 24;

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

    /// The newest version `<= at` of `key`, whose hash is `hash`: its number and kind; its value is appended to `out`. Where a
    /// range tombstone is newer, the answer is that, as of a branch: what is older in the branch where it was found is hidden by
    /// it, what is newer was found first, and all that lies behind is older.
    pub fn get<'t, P: Pages<'t>>(
        &'t self,
        key: &[u8],
        hash: u64,
        at: SequenceNumber,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        let head = wide_head(key);
        let mut node = &self.root;
        // Branches are gathered before they are asked, so that the cache misses of their filters overlap.
        let mut gathered: [Option<&'t Branch>; GATHERED_MAX] = [None; GATHERED_MAX];
        let mut count = 0;
        loop {
            let slot = node.slot_of(key);
            for run in &node.slots[slot].runs {
                let Some(part) = run.part_of(key, head).filter(|part| part.spans(key, head)) else { continue };
                part.look_ahead(hash, pages.guard());
                gathered[count] = Some(part);
                count += 1;
                if count == GATHERED_MAX {
                    if let Some(hit) = first_hit(&gathered, key, hash, at, pages, out)? {
                        return Ok(Some(hit));
                    }
                    count = 0;
                }
            }
            match node.pivots.get(slot) {
                Some(pivot) => node = &pivot.child,
                None => return first_hit(&gathered[..count], key, hash, at, pages, out),
            }
        }
    }

    /// A cursor over all entries.
    pub fn cursor(self: &Arc<Self>) -> TreeCursor {
        TreeCursor::new(Arc::clone(self))
    }

    /// Whether any branch has range tombstones.
    pub fn has_range_tombstones(&self) -> bool {
        self.root.totals.range_tombstones > 0
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

/// The first of these branches, newest first, that has a version of the key.
fn first_hit<'t, P: Pages<'t>>(
    branches: &[Option<&'t Branch>],
    key: &[u8],
    hash: u64,
    at: SequenceNumber,
    pages: &mut P,
    out: &mut Vec<u8>,
) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
    for branch in branches.iter().flatten() {
        if let Some(hit) = branch.get(key, hash, at, pages, out)? {
            return Ok(Some(hit));
        }
    }
    Ok(None)
}
