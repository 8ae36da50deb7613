//! A cursor over a tree (SplinterDB §2.6): a merge of the runs on the path to one leaf, rebuilt when it leaves the
//! range of the leaf. One thread at a time. It holds the tree, so what it shows never changes.
//!
//! Invariants:
//! 1. A valid cursor is on an entry with a key in [lower, upper) of the path's leaf. What the runs of the path have
//!    outside this range belongs to other children, or is no longer active there.
//! 2. It reports range tombstones only for keys of this range. For another key the caller is on an entry of a newer
//!    source, and nothing in the tree is newer than that.

use crate::branch::{Branch, Target};
use crate::disk::runs::run;
use crate::disk::runs::run_cursor::{RunCursor, note_search, seek_together};
use crate::disk::trunk::tree::node::Node;
use crate::disk::trunk::tree::slot::Slot;
use crate::disk::trunk::tree::tree::Tree;
use crate::format::sorted_page::SortedPage;
use crate::merge::{Cursor, EntryRef, Limit, MergeCursor, PinnedValue, RangeTombstones, Visitor};
use crate::util::sync::Arc;
use crate::util::{Kind, Result, SequenceNumber};
use std::ops::{ControlFlow, Range};

/// See the module.
pub struct TreeCursor {
    tree: Arc<Tree>,
    path: Path,
    valid: bool,
    /// Whether a scan has begun, which `end_scan` counts.
    in_scan: bool,
    /// Entries stepped over since the last search.
    steps: u64,
    /// Tombstones stepped over in the current leaf.
    tombstones: u64,
}

/// The path to a leaf. It keeps its memory when it changes to another leaf.
struct Path {
    /// `None`: no path, and the other fields are of no meaning.
    leaf: Option<Arc<Node>>,
    /// Whether some run has keys before or past the leaf's range, so that bounds must be checked.
    spills_before: bool,
    spills_past: bool,
    /// The runs of the path.
    cursor: MergeCursor<RunCursor>,
    /// The range tombstones over keys of the range.
    tombstones: RangeTombstones,
    /// Those of each run, newest run first; empty if no run has any.
    run_tombstones: Vec<RangeTombstones>,
}

impl Path {
    fn new() -> Self {
        let (cursor, tombstones) = (MergeCursor::new(Vec::new()), RangeTombstones::default());
        let run_tombstones = Vec::new();
        Self { leaf: None, spills_before: false, spills_past: false, cursor, tombstones, run_tombstones }
    }

    /// Changes to the leaf to which `descend` leads: it returns a slot for each node, root first.
    fn change(&mut self, tree: &Tree, descend: impl Fn(&Node) -> usize) -> Result<()> {
        self.leaf = None;
        let mut node = tree.root();
        let (mut count, mut has_range_tombstones) = (0, false);
        self.cursor.change_sources(|cursors| {
            loop {
                let at = descend(node);
                let (slot, below) = (&node.slots[at], node.pivots.get(at));
                let entries = slot.pending.entries + below.map_or(0, |pivot| pivot.child.totals.entries);
                for (run, bytes) in slot.runs.iter().zip(&slot.run_bytes) {
                    let share = (bytes << 8) / entries.max(1);
                    match cursors.get_mut(count) {
                        Some(cursor) => cursor.aim(run, share),
                        None => cursors.push(RunCursor::for_scans(Arc::clone(run), share)),
                    }
                    count += 1;
                    has_range_tombstones |= run.has_range_tombstones();
                }
                match below {
                    Some(pivot) => node = &pivot.child,
                    None => break,
                }
            }
            cursors.truncate(count);
        });
        let runs = || self.cursor.sources().iter().map(RunCursor::run);
        self.spills_before = runs().any(|run| run.may_begin_before(&node.lower));
        self.spills_past = node.upper.as_ref().is_some_and(|upper| runs().any(|run| run.may_extend_past(upper)));
        self.run_tombstones.clear();
        self.tombstones = RangeTombstones::default();
        if has_range_tombstones {
            let of_run = |run| run::range_tombstones([run], &node.lower, node.upper.as_deref());
            self.run_tombstones = runs().map(of_run).collect::<Result<_>>()?;
            self.tombstones = RangeTombstones::union(&self.run_tombstones);
        }
        self.leaf = Some(Arc::clone(node));
        Ok(())
    }

    /// `expected`: the number of entries that the scan is likely to pass.
    fn search(&mut self, key: &[u8], number: SequenceNumber, backward: bool, expected: u64) -> Result<()> {
        let target = Target { key, number, backward };
        let reads = self.cursor.search(backward, |runs| seek_together(runs, target, expected))?;
        note_search(self.cursor.sources());
        if let Some(leaf) = &self.leaf {
            leaf.scans.charge(self.cursor.sources().len(), reads);
        }
        Ok(())
    }

    /// Past the end of the leaf: the end of what range tombstones `<= at` of one branch of the path delete from there on, before
    /// which a reader at `at` sees nothing. `None` if nothing at the end is deleted so.
    ///
    /// Below the node that has the branch everything is older, and so are the runs behind it in its slots. Each run before it is
    /// on its first entry behind the leaf. Slots behind that of the leaf may have other branches that are newer
    /// (`newer_begin`).
    fn deleted_behind<'p>(&'p self, tree: &'p Tree, at: SequenceNumber) -> Result<Option<Vec<u8>>> {
        let (Some(leaf), Some(end)) = (&self.leaf, self.upper()) else { return Ok(None) };
        let mut sources = self.cursor.sources();
        // The first entry of the runs so far, and the furthest end.
        let (mut next, mut furthest): (Option<&'p [u8]>, &'p [u8]) = (None, end);
        let mut node = tree.root();
        loop {
            let place = node.slot_of(&leaf.lower);
            for run in &node.slots[place].runs {
                let Some((source, others)) = sources.split_first() else { return Ok(None) };
                sources = others;
                next = source.valid().then(|| source.key()).into_iter().chain(next).min();
                let branch = run.parts().get(run.position(end)).filter(|_| run.has_range_tombstones());
                let Some(branch) = branch else { continue };
                let Some(deleted) = branch.range_tombstones()?.covered_until(end, at) else { continue };
                let deleted = next.into_iter().fold(deleted, Ord::min);
                furthest = furthest.max(self.skippable(node, place, branch, (end, deleted)));
            }
            match node.pivots.get(place) {
                Some(pivot) => node = &pivot.child,
                None => break,
            }
        }
        Ok((furthest > end).then(|| furthest.to_vec()))
    }

    /// How far a range that a branch deletes, and that begins in or at the end of a slot of the node, goes on through the node's
    /// slots.
    fn skippable<'p>(
        &self,
        node: &'p Node,
        place: usize,
        branch: &Arc<Branch>,
        (from, to): (&'p [u8], &'p [u8]),
    ) -> &'p [u8] {
        let (mut from, mut to, mut place) = (from, to, place);
        loop {
            let end = node.pivots.get(place + 1).map(|pivot| &*pivot.lower).or(node.upper.as_deref());
            match end {
                Some(end) if end < to => from = from.max(end),
                _ => return to,
            }
            place += 1;
            // Not in another node: the path to it may have other runs.
            let Some(slot) = node.slots.get(place) else { return from };
            match self.newer_begin(slot, branch, (from, to)) {
                Some(begin) => to = begin,
                None => return from,
            }
        }
    }

    /// Where, in a range that a branch deletes, branches of a slot begin that are not older and not among the sources. `None`
    /// if the slot does not have the branch.
    fn newer_begin<'p>(
        &self,
        slot: &'p Slot,
        branch: &Arc<Branch>,
        (from, to): (&'p [u8], &'p [u8]),
    ) -> Option<&'p [u8]> {
        let mut begin = to;
        for run in &slot.runs {
            let mut has_branch = false;
            let parts = run.parts()[run.position(from)..].iter();
            for part in parts.take_while(|part| part.meta().key_min[..] < *to) {
                has_branch |= Arc::ptr_eq(part, branch);
                let is_same = |source: &RunCursor| {
                    let run = source.run();
                    run.parts().get(run.position(&part.meta().key_min)).is_some_and(|other| Arc::ptr_eq(other, part))
                };
                if !self.cursor.sources().iter().any(is_same) {
                    begin = begin.min(&part.meta().key_min);
                }
            }
            if has_branch {
                return Some(begin.max(from));
            }
        }
        None
    }

    fn lower(&self) -> &[u8] {
        self.leaf.as_ref().map_or(&[], |leaf| &leaf.lower)
    }

    fn upper(&self) -> Option<&[u8]> {
        self.leaf.as_ref()?.upper.as_deref()
    }

    fn contains(&self, key: &[u8]) -> bool {
        self.leaf.is_some() && *key >= *self.lower() && self.upper().is_none_or(|upper| key < upper)
    }

    #[inline]
    fn is_past_end(&self) -> bool {
        !self.cursor.valid() || (self.spills_past && self.upper().is_some_and(|upper| self.cursor.key() >= upper))
    }

    fn is_before_start(&self) -> bool {
        !self.cursor.valid() || (self.spills_before && self.cursor.key() < self.lower())
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
        Self { tree, path: Path::new(), valid: false, in_scan: false, steps: 0, tombstones: 0 }
    }

    /// A scan begins. Returns the number of entries that it is likely to pass.
    fn begin_scan(&mut self) -> u64 {
        self.end_scan();
        self.in_scan = true;
        self.tree.scan_length().expected(0)
    }

    fn end_scan(&mut self) {
        if std::mem::take(&mut self.in_scan) {
            self.tree.scan_length().ended(self.steps);
        }
        self.leave_leaf();
        self.steps = 0;
    }

    /// Charges the leaf for the turns between runs and the tombstones of the scan in it.
    fn leave_leaf(&mut self) {
        let turns = self.path.cursor.take_turns();
        if let Some(leaf) = &self.path.leaf {
            leaf.scans.charge_turns(turns);
            leaf.scans.charge_tombstones(self.tombstones);
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
        if !self.path.contains(key) {
            self.path.change(&self.tree, |node| node.slot_of(key))?;
        }
        Ok(&mut self.path)
    }

    /// Moves from a position in the path's cursor, or past its range, to the next entry of the tree.
    #[inline]
    fn settle_forward(&mut self) -> Result<()> {
        while self.path.is_past_end() {
            if self.path.upper().is_none() {
                return Ok(());
            }
            self.leave_leaf();
            let leaf = self.path.leaf.take();
            let Some(upper) = leaf.as_ref().and_then(|leaf| leaf.upper.as_deref()) else { return Ok(()) };
            let expected = self.tree.scan_length().expected(self.steps);
            self.path_to(upper)?.search(upper, SequenceNumber::MAX, false, expected)?;
        }
        self.valid = true;
        Ok(())
    }

    /// As `settle_forward`, from an entry that range tombstones `<= at` hide. If they go on behind the leaf, it skips the
    /// leaves that they cover.
    fn settle_behind_deleted(&mut self, at: SequenceNumber) -> Result<()> {
        if self.path.is_past_end()
            && let Some(end) = self.path.deleted_behind(&self.tree, at)?
        {
            self.leave_leaf();
            let expected = self.tree.scan_length().expected(self.steps);
            self.path_to(&end)?.search(&end, SequenceNumber::MAX, false, expected)?;
        }
        self.settle_forward()
    }

    /// Moves from a position in the path's cursor, or before its range, to the previous entry of the tree.
    fn settle_back(&mut self) -> Result<()> {
        while self.path.is_before_start() {
            if self.path.lower().is_empty() {
                return Ok(());
            }
            // The previous leaf ends where this one begins. No entry has the number MAX, so the search ends before this
            // leaf.
            self.leave_leaf();
            let Some(leaf) = self.path.leaf.take() else { return Ok(()) };
            self.path.change(&self.tree, |node| slot_before(node, &leaf.lower))?;
            let expected = self.tree.scan_length().expected(self.steps);
            self.path.search(&leaf.lower, SequenceNumber::MAX, true, expected)?;
        }
        self.valid = true;
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
        self.begin_scan();
        self.path.change(&self.tree, |node| node.pivots.len().saturating_sub(1))?;
        self.path.cursor.seek_last()?;
        note_search(self.path.cursor.sources());
        self.settle_back()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        self.step();
        self.valid = false;
        self.path.cursor.next()?;
        self.settle_forward()
    }

    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        self.step();
        self.valid = false;
        self.path.cursor.prev()?;
        self.settle_back()
    }

    fn pass(&mut self, limit: Limit<'_>, visitor: &mut dyn Visitor) -> Result<ControlFlow<()>> {
        debug_assert!(self.valid);
        loop {
            self.valid = false;
            // Invariant 1.
            let Path { leaf, spills_past, cursor, .. } = &mut self.path;
            let upper = leaf.as_ref().filter(|_| *spills_past).and_then(|leaf| leaf.upper.as_deref());
            let mut counting = Counting { visitor, steps: 0, tombstones: 0 };
            let flow = cursor.pass(limit.min(upper.map_or(Limit::NONE, Limit::at)), &mut counting);
            self.steps += counting.steps;
            self.tombstones += counting.tombstones;
            let flow = flow?;
            self.settle_forward()?;
            if flow.is_break() || !self.valid || limit.is_reached(self.key()) {
                return Ok(flow);
            }
        }
    }

    fn rest(&mut self) {
        self.valid = false;
        self.end_scan();
        self.path.cursor.rest();
    }

    #[inline]
    fn valid(&self) -> bool {
        self.valid
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        self.path.cursor.entry()
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.path.cursor.key()
    }

    fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        let Path { tombstones, .. } = &self.path;
        if !tombstones.is_empty() && self.path.contains(key) {
            tombstones.covering(key, at)
        } else {
            SequenceNumber::ZERO
        }
    }

    fn deleted_until(&self, key: &[u8], at: SequenceNumber) -> Option<Vec<u8>> {
        let Path { tombstones, .. } = &self.path;
        if tombstones.is_empty() || !self.path.contains(key) {
            return None;
        }
        tombstones.covered_until(key, at).map(<[u8]>::to_vec)
    }

    fn next_deleted(&self, key: &[u8]) -> Option<Vec<u8>> {
        if !self.tree.has_range_tombstones() {
            return None;
        }
        // Those of other leaves are not known.
        match (self.path.tombstones.next_covered(key), self.path.upper()) {
            (Some(covered), _) => Some(covered.to_vec()),
            (None, Some(upper)) => Some(key.max(upper).to_vec()),
            (None, None) => None,
        }
    }

    /// A run seeks to the end of what newer runs delete around its entry, within the leaf.
    fn leave_deleted(&mut self, at: SequenceNumber) -> Result<()> {
        debug_assert!(self.valid);
        self.steps += 1;
        // The scan pays for them as for a tombstone.
        self.tombstones += 1;
        self.valid = false;
        let Path { cursor, run_tombstones, .. } = &mut self.path;
        let (winner, key) = (cursor.source(), cursor.key());
        let newer = run_tombstones.iter().take(winner);
        let end = newer.filter_map(|run| run.covered_until(key, at)).max().map(<[u8]>::to_vec);
        match end {
            Some(end) => cursor.leave_to(winner, Some(&end), at)?,
            None => cursor.next()?,
        }
        self.settle_behind_deleted(at)
    }

    fn note_untaken(&mut self, entries: u64) {
        self.steps = self.steps.saturating_sub(entries);
    }

    fn pin_value(&self) -> Option<PinnedValue> {
        self.path.cursor.pin_value()
    }
}
