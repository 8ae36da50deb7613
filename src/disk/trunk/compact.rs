//! Merging bundles of a node into one run (SplinterDB §2.3, §3). Heavy I/O, no lock; one thread a merge.
//!
//! Rules:
//! 1. Only the ranges of pivots for which a bundle is still active are read, and for each pivot only its active bundles.
//! 2. Sources are read in age order, so nothing is reordered.
//! 3. Tombstones go, and operands become values for want of anything older, only when nothing older lies below: at a leaf,
//!    when its oldest bundle takes part.
//! 4. What overlaps nothing else is not read: the result refers to it (`kept.rs`).
//! 5. Range tombstones are clipped to the ranges that are read: what a file has of them elsewhere is not active here.

use super::join;
use super::kept::{self, Sizes};
use super::node::{Key, Node, Pivot};
use super::options::{CUT_PARTS_MIN, TrunkOptions};
use super::parts::{NewParts, OutputWriter};
use super::policy;
use super::run;
use super::run_cursor::{RunCursor, seek_together};
use super::watch::{Progress, Steps};
use crate::branch::{Branch, BranchContext, Purpose, Target};
use crate::merge::{Cursor, MergeCursor, RangeTombstones, Retention, VersionFilter};
use crate::util::planted::planted;
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};
use std::ops::Range;

/// What every pass over data needs.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    pub context: &'a Arc<BranchContext>,
    pub options: &'a TrunkOptions,
    pub retention: &'a Retention,
    pub watch: &'a dyn Progress,
}

/// What comes from memory into the tree.
pub struct FromMemory<'a> {
    /// Every entry up to `through` that the tree has not, but for what is older in memory.
    pub entries: &'a mut dyn Cursor,
    /// The range tombstones beside them.
    pub tombstones: &'a RangeTombstones,
    /// The last number among them, or one behind it.
    pub through: SequenceNumber,
    /// Nothing in memory is older.
    pub is_oldest: bool,
}

/// A merged run.
#[derive(Debug)]
pub struct Merged {
    /// What was written.
    pub parts: NewParts,
    /// Inputs that stay as they are.
    pub kept: Vec<Arc<Branch>>,
}

impl Merged {
    /// Entries of the run.
    pub fn entries(&self) -> u64 {
        let kept = self.kept.iter().map(|branch| branch.meta().entries);
        kept.chain([self.parts.load().entries]).sum()
    }

    /// Bytes of the inputs that stay.
    pub fn reused_bytes(&self) -> u64 {
        self.kept.iter().map(|branch| branch.meta().bytes).sum()
    }

    /// The run, in key order, and which of it is new; from here on whoever took them decides their fate.
    pub fn take(self) -> (Vec<Arc<Branch>>, Vec<Arc<Branch>>) {
        let added = self.parts.take();
        let mut all = self.kept;
        all.extend(added.iter().cloned());
        all.sort_by(|left, right| left.meta().key_min.cmp(&right.meta().key_min));
        (all, added)
    }
}

impl Pass<'_> {
    /// Merges the bundles `range` of `node` into one run, of which files of `sizes` may be old ones; `None` where the watch ended
    /// it.
    pub fn merge(&self, node: &Node, range: Range<usize>, sizes: &Sizes) -> Result<Option<Merged>> {
        let cuts = self.cuts(node, policy::load(node, range.clone()).bytes);
        let bytes_max = if node.is_leaf() { self.options.part_bytes } else { self.options.branch_bytes };
        let mut writer = self.writer(&cuts, bytes_max);
        let bottom = node.is_leaf() && planted!(range.start == 0, Bug::TombstoneDroppedEarly => true);
        let mut all_kept = Vec::new();
        let mut steps = Steps::new(self.watch);
        for piece in pieces(node, &range) {
            let lower = node.slot_lower(piece.slots.start);
            let upper = node.slot_upper(piece.slots.end - 1);
            let bundles = &node.bundles[piece.first..range.end];
            let inside = bundles.iter().flat_map(|bundle| &bundle.branches);
            let mut inside: Vec<_> =
                inside.filter(|branch| run::overlaps(branch, lower, upper.map(|upper| &**upper))).collect();
            let kept = kept::choose(&inside, (lower, upper.map(|upper| &**upper)), bottom, sizes);
            let is_kept = |branch: &Arc<Branch>| kept.iter().any(|kept| Arc::ptr_eq(kept, branch));
            inside.retain(|branch| !is_kept(branch));
            kept.iter().for_each(|branch| writer.add_stop(branch.meta().key_min[..].into()));
            all_kept.extend(kept.into_iter().cloned());
            if !self.copy_all(inside, (lower, upper), bottom, &mut writer, &mut steps)? {
                return Ok(None);
            }
        }
        let parts = finish(writer, steps)?;
        Ok(parts.map(|parts| Merged { parts, kept: all_kept }))
    }

    /// Merges all that neighbouring leaves have into one run (`join.rs`), each leaf's part of it from its own bundles and its own
    /// range alone; `None` where the watch ended it.
    pub fn join(&self, leaves: &[Arc<Node>]) -> Result<Option<Merged>> {
        let kept = join::kept(leaves, self.options);
        let mut writer = self.writer(&[], self.options.part_bytes);
        kept.iter().for_each(|branch| writer.add_stop(branch.meta().key_min[..].into()));
        let mut steps = Steps::new(self.watch);
        for leaf in leaves {
            let is_kept = |branch: &Arc<Branch>| kept.iter().any(|kept| Arc::ptr_eq(kept, branch));
            let rest = leaf.branches().filter(|branch| !is_kept(branch)).collect();
            if !self.copy_all(rest, (&leaf.lower, leaf.upper.as_ref()), true, &mut writer, &mut steps)? {
                return Ok(None);
            }
        }
        let kept = kept.into_iter().cloned().collect();
        Ok(finish(writer, steps)?.map(|parts| Merged { parts, kept }))
    }

    /// Copies what branches, oldest first, have in a range that lies behind all that was written before; `false` where the watch
    /// ended it.
    fn copy_all(
        &self,
        branches: Vec<&Arc<Branch>>,
        (lower, upper): (&Key, Option<&Key>),
        bottom: bool,
        writer: &mut OutputWriter<'_>,
        steps: &mut Steps<'_>,
    ) -> Result<bool> {
        let runs = run::group(branches);
        let tombstones = run::range_tombstones(&runs, lower, upper.map(|upper| &**upper))?;
        let mut cursor = merged(runs, Purpose::Compaction);
        let target = Target { key: lower, number: SequenceNumber::MAX, backward: false };
        cursor.search(false, |runs| seek_together(runs, target, 0))?;
        self.copy((&mut cursor, &tombstones), upper, bottom, writer, steps)
    }

    /// Where part files of `bytes` of a node's data are cut: at its pivots, or at those of its descendants (`CUT_PARTS_MIN`).
    fn cuts(&self, node: &Node, bytes: u64) -> Vec<Key> {
        let parts_max = bytes / (self.options.part_bytes_min * CUT_PARTS_MIN).max(1);
        let mut level: Vec<&Pivot> = node.pivots.iter().collect();
        loop {
            let below: Vec<&Pivot> = level.iter().flat_map(|pivot| &pivot.child.pivots).collect();
            if below.is_empty() || below.len() as u64 > parts_max {
                return level.iter().map(|pivot| Arc::clone(&pivot.lower)).collect();
            }
            level = below;
        }
    }

    fn writer<'b>(&'b self, cuts: &'b [Key], bytes_max: u64) -> OutputWriter<'b> {
        OutputWriter::new(self.context, cuts, self.options.part_bytes_min, bytes_max)
            .with_edges_from(*self.options.reused_bytes().start())
    }

    /// Writes what comes from memory as parts for the tree's root; `None` where the watch ended it.
    pub fn incorporate(&self, root: &Node, from: FromMemory<'_>) -> Result<Option<NewParts>> {
        let cuts = self.cuts(root, self.options.branch_bytes);
        let bytes_max = if root.is_leaf() { self.options.part_bytes } else { self.options.branch_bytes };
        let mut writer = self.writer(&cuts, bytes_max);
        let bottom = from.is_oldest && root.is_leaf() && root.bundles.is_empty();
        let mut steps = Steps::new(self.watch);
        from.entries.seek_first()?;
        if !self.copy((from.entries, from.tombstones), None, bottom, &mut writer, &mut steps)? {
            return Ok(None);
        }
        finish(writer, steps)
    }

    /// What decides which versions of an input with these range tombstones are kept.
    pub fn filter<'b>(&'b self, tombstones: &'b RangeTombstones, bottom: bool) -> VersionFilter<'b> {
        let operator = self.options.merge_operator.as_deref();
        VersionFilter::new(self.retention, bottom).with_tombstones(tombstones).with_operator(operator)
    }

    /// Copies what is kept from the cursor's position to below `upper`; `false` where the watch ended it.
    pub(super) fn copy<C: Cursor + ?Sized>(
        &self,
        (cursor, tombstones): (&mut C, &RangeTombstones),
        upper: Option<&Key>,
        bottom: bool,
        writer: &mut OutputWriter<'_>,
        steps: &mut Steps<'_>,
    ) -> Result<bool> {
        writer.add_range_tombstones(tombstones.retained(self.retention, bottom));
        let mut filter = self.filter(tombstones, bottom);
        while cursor.valid() {
            let entry = cursor.entry();
            if upper.is_some_and(|upper| *entry.key >= **upper) {
                break;
            }
            filter.push(entry, &mut |entry| writer.add(entry))?;
            if !steps.step(writer.bytes()) {
                return Ok(false);
            }
            cursor.next()?;
        }
        filter.finish(&mut |entry| writer.add(entry))?;
        Ok(true)
    }
}

/// Ends the parts, and tells the watch of what that wrote. They are complete: it is too late to end the pass.
pub(super) fn finish(writer: OutputWriter<'_>, mut steps: Steps<'_>) -> Result<Option<NewParts>> {
    let parts = writer.finish()?;
    steps.tell(parts.load().bytes);
    Ok(Some(parts))
}

/// Neighbouring slots for which the same of the merged bundles are active, so that one merge serves them all.
struct Piece {
    slots: Range<usize>,
    /// The oldest of the merged bundles that is active.
    first: usize,
}

fn pieces(node: &Node, range: &Range<usize>) -> Vec<Piece> {
    let mut pieces: Vec<Piece> = Vec::new();
    for slot in 0..node.slots.len() {
        let first = node.first_active(slot).max(range.start);
        if first >= range.end {
            continue;
        }
        match pieces.last_mut() {
            Some(last) if last.slots.end == slot && last.first == first => last.slots.end += 1,
            _ => pieces.push(Piece { slots: slot..slot + 1, first }),
        }
    }
    pieces
}

/// One cursor over runs that stand oldest first.
pub fn merged(runs: Vec<Arc<run::Run>>, purpose: Purpose) -> MergeCursor<RunCursor> {
    MergeCursor::new(runs.into_iter().rev().map(|run| RunCursor::new(run, purpose)).collect())
}
