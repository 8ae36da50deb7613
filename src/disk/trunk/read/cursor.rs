//! A cursor over a tree (SplinterDB §2.6): a merge of the runs on the path to one leaf, rebuilt when it leaves the
//! range of the leaf. One thread at a time. It holds the tree, so what it shows never changes.
//!
//! Invariants:
//! 1. A valid cursor is on an entry with a key in [lower, upper) of the path's leaf. What the runs of the path have
//!    outside this range belongs to other children, or is no longer active there.
//! 2. It reports range tombstones only for keys of this range. For another key the caller is on an entry of a newer
//!    source, and nothing in the tree is newer than that.

use crate::branch::Target;
use crate::disk::runs::run::{self, Key, Run};
use crate::disk::runs::run_cursor::{RunCursor, seek_together};
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::tree::Tree;
use crate::format::sorted_page::SortedPage;
use crate::merge::{Cursor, EntryRef, Limit, MergeCursor, PinnedValue, RangeTombstones, Visitor};
use crate::util::sync::Arc;
use crate::util::{Kind, Result, SequenceNumber};
use std::ops::{ControlFlow, Range};

/// See the module.
pub struct TreeCursor {
    tree: Arc<Tree>,
    path: Option<Path>,
    valid: bool,
    /// Entries stepped over since the last search.
    steps: u64,
    /// Tombstones stepped over in the current leaf.
    tombstones: u64,
}

/// The path to a leaf.
struct Path {
    lower: Key,
    upper: Option<Key>,
    leaf: Arc<Node>,
    runs: usize,
    /// Whether some run has keys before or past the range, so that bounds must be checked.
    spills_before: bool,
    spills_past: bool,
    cursor: MergeCursor<RunCursor>,
    /// The range tombstones over keys of the range.
    tombstones: RangeTombstones,
}

impl Path {
    /// The path to the leaf to which `descend` leads: it returns a slot for each node, root first.
    fn to(tree: &Tree, descend: impl Fn(&Node) -> usize) -> Result<Self> {
        let mut node = tree.root();
        let (mut runs, mut shares) = (Vec::new(), Vec::new());
        loop {
            let at = descend(node);
            let (slot, below) = (&node.slots[at], node.pivots.get(at));
            runs.extend(slot.runs.iter().cloned());
            let entries = slot.pending.entries + below.map_or(0, |pivot| pivot.child.totals.entries);
            shares.extend(slot.run_bytes.iter().map(|bytes| (bytes << 8) / entries.max(1)));
            match below {
                Some(pivot) => node = &pivot.child,
                None => break,
            }
        }
        let (lower, upper) = (Arc::clone(&node.lower), node.upper.clone());
        let is_before = |run: &Arc<Run>| run.parts().first().is_some_and(|part| part.meta().key_min[..] < *lower);
        let is_past = |run: &Arc<Run>| upper.as_ref().is_some_and(|upper| run.extends_past(upper));
        let spills_before = runs.iter().any(is_before);
        let spills_past = runs.iter().any(is_past);
        let tombstones = run::range_tombstones(&runs, &lower, upper.as_deref())?;
        let (leaf, count) = (Arc::clone(node), runs.len());
        let cursors = runs.into_iter().zip(shares).map(|(run, share)| RunCursor::for_scans(run, share));
        let cursor = MergeCursor::new(cursors.collect());
        Ok(Self { lower, upper, leaf, runs: count, spills_before, spills_past, cursor, tombstones })
    }

    /// `expected`: the number of entries that the scan is likely to pass.
    fn search(&mut self, key: &[u8], number: SequenceNumber, backward: bool, expected: u64) -> Result<()> {
        let target = Target { key, number, backward };
        let reads = self.cursor.search(backward, |runs| seek_together(runs, target, expected))?;
        self.leaf.scans.charge(self.runs, reads);
        Ok(())
    }

    fn contains(&self, key: &[u8]) -> bool {
        *key >= *self.lower && self.upper.as_ref().is_none_or(|upper| *key < **upper)
    }

    #[inline]
    fn is_past_end(&self) -> bool {
        !self.cursor.valid()
            || (self.spills_past && self.upper.as_ref().is_some_and(|upper| *self.cursor.entry().key >= **upper))
    }

    fn is_before_start(&self) -> bool {
        !self.cursor.valid() || (self.spills_before && *self.cursor.entry().key < *self.lower)
    }
}

impl Tree {
    /// A cursor over all entries.
    pub fn cursor(self: &Arc<Self>) -> TreeCursor {
        TreeCursor::new(Arc::clone(self))
    }
}

impl TreeCursor {
    fn new(tree: Arc<Tree>) -> Self {
        Self { tree, path: None, valid: false, steps: 0, tombstones: 0 }
    }

    /// A scan begins. Returns the number of entries that it is likely to pass.
    fn begin_scan(&mut self) -> u64 {
        self.end_scan();
        self.tree.scan_length().expected(0)
    }

    fn end_scan(&mut self) {
        if self.path.is_some() {
            self.tree.scan_length().ended(self.steps);
        }
        self.steps = 0;
        self.leave_leaf();
    }

    /// Charges the leaf for the tombstones in it.
    fn leave_leaf(&mut self) {
        if let Some(path) = &self.path {
            path.leaf.scans.charge_tombstones(self.tombstones);
        }
        self.tombstones = 0;
    }

    /// Counts the entry that the cursor steps over.
    #[inline]
    fn step(&mut self) {
        self.steps += 1;
        self.tombstones += u64::from(self.entry().kind == Kind::Delete);
    }

    /// The path whose range contains `key`.
    fn path_to(&mut self, key: &[u8]) -> Result<&mut Path> {
        let path = match self.path.take() {
            Some(path) if path.contains(key) => path,
            _ => Path::to(&self.tree, |node| node.slot_of(key))?,
        };
        Ok(self.path.insert(path))
    }

    /// Moves from a position in the path's cursor, or past its range, to the next entry of the tree.
    #[inline]
    fn settle_forward(&mut self) -> Result<()> {
        while let Some(path) = &self.path {
            if !path.is_past_end() {
                self.valid = true;
                return Ok(());
            }
            let Some(upper) = path.upper.clone() else { break };
            self.leave_leaf();
            let expected = self.tree.scan_length().expected(self.steps);
            self.path_to(&upper)?.search(&upper, SequenceNumber::MAX, false, expected)?;
        }
        Ok(())
    }

    /// Moves from a position in the path's cursor, or before its range, to the previous entry of the tree.
    fn settle_back(&mut self) -> Result<()> {
        while let Some(path) = &self.path {
            if !path.is_before_start() {
                self.valid = true;
                return Ok(());
            }
            if path.lower.is_empty() {
                break;
            }
            // The previous leaf ends where this one begins. No entry has the number MAX, so the search ends before this
            // leaf.
            let lower = Arc::clone(&path.lower);
            self.leave_leaf();
            let before = Path::to(&self.tree, |node| slot_before(node, &lower))?;
            let expected = self.tree.scan_length().expected(self.steps);
            self.path.insert(before).search(&lower, SequenceNumber::MAX, true, expected)?;
        }
        Ok(())
    }
}

/// The slot of a node that holds the keys just before `key`.
fn slot_before(node: &Node, key: &[u8]) -> usize {
    node.pivots.partition_point(|pivot| *pivot.lower < *key).saturating_sub(1)
}

/// Counts what a visitor takes.
struct Counting<'v> {
    visitor: &'v mut dyn Visitor,
    steps: u64,
    tombstones: u64,
}

impl Visitor for Counting<'_> {
    fn visit(&mut self, entry: EntryRef<'_>) -> ControlFlow<()> {
        let flow = self.visitor.visit(entry);
        if flow.is_continue() {
            self.steps += 1;
            self.tombstones += u64::from(entry.kind == Kind::Delete);
        }
        flow
    }

    fn visit_page(&mut self, page: &SortedPage<'_>, entries: Range<usize>) -> usize {
        let taken = self.visitor.visit_page(page, entries.clone());
        self.steps += taken as u64;
        self.tombstones += page.tombstones(entries.start..entries.start + taken);
        taken
    }

    fn wants(&self) -> usize {
        self.visitor.wants()
    }
}

impl Drop for TreeCursor {
    fn drop(&mut self) {
        self.end_scan();
    }
}

impl Cursor for TreeCursor {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.valid = false;
        let expected = self.begin_scan();
        self.path_to(key)?.search(key, number, false, expected)?;
        self.settle_forward()
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.valid = false;
        let expected = self.begin_scan();
        self.path_to(key)?.search(key, number, true, expected)?;
        self.settle_back()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.seek(&[], SequenceNumber::MAX)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.valid = false;
        self.end_scan();
        let last = Path::to(&self.tree, |node| node.pivots.len().saturating_sub(1))?;
        self.path.insert(last).cursor.seek_last()?;
        self.settle_back()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        self.step();
        self.valid = false;
        if let Some(path) = &mut self.path {
            path.cursor.next()?;
        }
        self.settle_forward()
    }

    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        self.step();
        self.valid = false;
        if let Some(path) = &mut self.path {
            path.cursor.prev()?;
        }
        self.settle_back()
    }

    fn pass(&mut self, limit: Limit<'_>, visitor: &mut dyn Visitor) -> Result<ControlFlow<()>> {
        debug_assert!(self.valid);
        self.valid = false;
        while let Some(path) = &mut self.path {
            // Invariant 1.
            let upper = path.upper.as_deref().filter(|_| path.spills_past).map_or(Limit::NONE, Limit::at);
            let mut counting = Counting { visitor, steps: 0, tombstones: 0 };
            let flow = path.cursor.pass(limit.min(upper), &mut counting);
            self.steps += counting.steps;
            self.tombstones += counting.tombstones;
            let flow = flow?;
            self.settle_forward()?;
            if flow.is_break() || !self.valid || limit.is_reached(self.entry().key) {
                return Ok(flow);
            }
            self.valid = false;
        }
        Ok(ControlFlow::Continue(()))
    }

    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        match &self.path {
            Some(path) => path.cursor.entry(),
            // The trait's contract: `entry` requires `valid()`.
            None => unreachable!("an invalid cursor has no entry"),
        }
    }

    fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        match &self.path {
            Some(path) if !path.tombstones.is_empty() && path.contains(key) => path.tombstones.covering(key, at),
            _ => SequenceNumber::ZERO,
        }
    }

    fn note_untaken(&mut self, entries: u64) {
        self.steps = self.steps.saturating_sub(entries);
    }

    fn pin_value(&self) -> Option<PinnedValue> {
        self.path.as_ref()?.cursor.pin_value()
    }
}
