//! The tree as readers see it: immutable, from one root. Any thread; no locks (SplinterDB §2.2; `docs/concurrency.md`, T1).

use super::cover;
use super::cursor::TreeCursor;
use super::node::Node;
use super::options::TrunkOptions;
use super::scans::ScanLength;
use super::slot::Slot;
use crate::branch::{Branch, Pages};
use crate::util::hash::fingerprint;
use crate::util::key::wide_head;
use crate::util::sync::Arc;
use crate::util::{Kind, Result, SequenceNumber};

/// Branches that a get asks for ahead. More are in few trees, and the processor has no more misses under way at once.
const GATHERED_MAX: usize = 24;

/// Slots that a get gathers: one a level, and trees have fewer levels.
const SLOTS_MAX: usize = 12;

/// See the module. Holding it keeps all its branch files readable.
#[derive(Debug)]
pub struct Tree {
    root: Arc<Node>,
    options: Arc<TrunkOptions>,
    scan_length: Arc<ScanLength>,
}

impl Tree {
    pub(super) fn new(root: Arc<Node>, options: Arc<TrunkOptions>, scan_length: Arc<ScanLength>) -> Arc<Self> {
        assert!(root.lower.is_empty() && root.upper.is_none(), "the root spans all keys");
        Arc::new(Self { root, options, scan_length })
    }

    /// The tree that follows it.
    pub(super) fn followed_by(&self, root: Arc<Node>) -> Arc<Self> {
        Self::new(root, Arc::clone(&self.options), Arc::clone(&self.scan_length))
    }

    /// The root.
    pub fn root(&self) -> &Arc<Node> {
        &self.root
    }

    pub(super) fn options(&self) -> &TrunkOptions {
        &self.options
    }

    pub(super) fn scan_length(&self) -> &ScanLength {
        &self.scan_length
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
        let asked = Asked { key, head: wide_head(key), hash, at };
        let fingerprint = fingerprint(hash);
        let mut node = &self.root;
        // Slots are gathered before they are asked, so that the cache misses of their maplets overlap.
        let mut slots: [Option<&'t Slot>; SLOTS_MAX] = [None; SLOTS_MAX];
        let mut count = 0;
        loop {
            let at = node.slot_of(key);
            let slot = &node.slots[at];
            slot.cover.look_ahead(fingerprint, pages.guard());
            slots[count] = Some(slot);
            count += 1;
            let below = node.pivots.get(at);
            if below.is_none() || count == SLOTS_MAX {
                if let Some(hit) = asked.find(slots[..count].iter().flatten(), pages, out)? {
                    return Ok(Some(hit));
                }
                count = 0;
            }
            match below {
                Some(pivot) => node = &pivot.child,
                None => return Ok(None),
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
}

/// What a get looks for.
#[derive(Clone, Copy)]
struct Asked<'k> {
    key: &'k [u8],
    head: u128,
    hash: u64,
    at: SequenceNumber,
}

/// A branch that may have the key, and whether that is a maplet's word.
type MayHave<'t> = Option<(&'t Branch, bool)>;

impl Asked<'_> {
    /// The newest version in these slots, newest first.
    fn find<'s, 't: 's, P: Pages<'t>>(
        &self,
        slots: impl Iterator<Item = &'s &'t Slot>,
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        let fingerprint = fingerprint(self.hash);
        // Branches are gathered before they are asked, so that the cache misses of their filters overlap.
        let mut gathered: [MayHave<'t>; GATHERED_MAX] = [None; GATHERED_MAX];
        let mut count = 0;
        for slot in slots {
            let may = slot.cover.may_have(fingerprint, slot.runs.len(), pages.guard());
            let mut left = may.told | may.open;
            let mut next = cover::RUNS_MAX;
            loop {
                // The runs with a bit, then those that are too many to have one.
                let (at, is_told) = if left != 0 {
                    let at = left.trailing_zeros();
                    left &= left - 1;
                    (at as usize, may.open >> at & 1 == 0)
                } else {
                    next += 1;
                    (next - 1, false)
                };
                let Some(run) = slot.runs.get(at) else { break };
                let part = run.part_of(self.key, self.head).filter(|part| part.spans(self.key, self.head));
                let Some(part) = part else { continue };
                if !is_told {
                    part.prefetch(self.hash, pages.guard());
                }
                gathered[count] = Some((part, is_told));
                count += 1;
                if count == GATHERED_MAX {
                    if let Some(hit) = self.first_hit(&gathered, pages, out)? {
                        return Ok(Some(hit));
                    }
                    count = 0;
                }
            }
        }
        self.first_hit(&gathered[..count], pages, out)
    }

    /// The first of these branches, newest first, that has a version of the key.
    fn first_hit<'t, P: Pages<'t>>(
        &self,
        branches: &[MayHave<'t>],
        pages: &mut P,
        out: &mut Vec<u8>,
    ) -> Result<Option<(SequenceNumber, Kind)>, P::Stop> {
        for (branch, is_told) in branches.iter().flatten() {
            let hit = if *is_told {
                branch.get_unfiltered(self.key, self.at, pages, out)?
            } else {
                branch.get(self.key, self.hash, self.at, pages, out)?
            };
            if hit.is_some() {
                return Ok(hit);
            }
        }
        Ok(None)
    }
}
