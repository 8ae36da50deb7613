//! A cursor over a tree (SplinterDB §2.6): a merge of the runs on the path to one leaf, rebuilt when it passes the leaf's
//! bounds. One thread at a time; it holds the tree, so what it shows never changes.
//!
//! Invariants:
//! 1. While valid it stands on an entry with a key in [lower, upper) of the path's leaf: what the path's runs have
//!    outside of it belongs to other children, or is no longer active there.
//! 2. It tells of range tombstones for keys of that range only. Whoever asks for another key stands on an entry of a newer
//!    source, which nothing in the tree is newer than.

use super::node::{Key, Node};
use super::run::{self, Run};
use super::run_cursor::{RunCursor, seek_together};
use super::tree::Tree;
use crate::base::sync::Arc;
use crate::base::{Result, SequenceNumber};
use crate::branch::{Purpose, Target};
use crate::merge::{Cursor, EntryRef, MergeCursor, RangeTombstones};

/// See the module.
pub struct TreeCursor {
    tree: Arc<Tree>,
    path: Option<Path>,
    valid: bool,
}

/// A leaf's range and what covers it.
struct Path {
    lower: Key,
    upper: Option<Key>,
    leaf: Arc<Node>,
    runs: usize,
    /// Whether some run has keys before or past the range, so that bounds must be looked at.
    spills_before: bool,
    spills_past: bool,
    cursor: MergeCursor<RunCursor>,
    /// The range tombstones over keys of the range.
    tombstones: RangeTombstones,
}

impl Path {
    /// The path to the leaf that `descend` leads to: it is asked for a slot of each node, root first.
    fn to(tree: &Tree, descend: impl Fn(&Node) -> usize) -> Result<Self> {
        let mut node = tree.root();
        let mut runs = Vec::new();
        loop {
            let slot = descend(node);
            runs.extend(node.slots[slot].runs.iter().cloned());
            match node.pivots.get(slot) {
                Some(pivot) => node = &pivot.child,
                None => break,
            }
        }
        let (lower, upper) = (Arc::clone(&node.lower), node.upper.clone());
        let is_before = |run: &Arc<Run>| run.parts().first().is_some_and(|part| part.meta().key_min[..] < *lower);
        let is_past = |run: &Arc<Run>| upper.as_ref().is_some_and(|upper| run.reaches(upper));
        let spills_before = runs.iter().any(is_before);
        let spills_past = runs.iter().any(is_past);
        let tombstones = run::range_tombstones(&runs, &lower, upper.as_deref())?;
        let (leaf, count) = (Arc::clone(node), runs.len());
        let cursor = MergeCursor::new(runs.into_iter().map(|run| RunCursor::new(run, Purpose::Read)).collect());
        Ok(Self { lower, upper, leaf, runs: count, spills_before, spills_past, cursor, tombstones })
    }

    fn search(&mut self, key: &[u8], number: SequenceNumber, backward: bool) -> Result<()> {
        let target = Target { key, number, backward };
        let reads = self.cursor.search(backward, |runs| seek_together(runs, target))?;
        self.leaf.scans.charge(self.runs, reads);
        Ok(())
    }

    fn holds(&self, key: &[u8]) -> bool {
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

impl TreeCursor {
    pub(super) fn new(tree: Arc<Tree>) -> Self {
        Self { tree, path: None, valid: false }
    }

    /// The path whose range holds `key`.
    fn path_to(&mut self, key: &[u8]) -> Result<&mut Path> {
        let path = match self.path.take() {
            Some(path) if path.holds(key) => path,
            _ => Path::to(&self.tree, |node| node.slot_of(key))?,
        };
        Ok(self.path.insert(path))
    }

    /// From a position in the path's cursor, or past its range, to the next entry of the tree.
    #[inline]
    fn settle_forward(&mut self) -> Result<()> {
        while let Some(path) = &self.path {
            if !path.is_past_end() {
                self.valid = true;
                return Ok(());
            }
            let Some(upper) = path.upper.clone() else { break };
            self.path_to(&upper)?.search(&upper, SequenceNumber::MAX, false)?;
        }
        Ok(())
    }

    /// From a position in the path's cursor, or before its range, to the entry of the tree before it.
    fn settle_back(&mut self) -> Result<()> {
        while let Some(path) = &self.path {
            if !path.is_before_start() {
                self.valid = true;
                return Ok(());
            }
            if path.lower.is_empty() {
                break;
            }
            // The leaf in front ends where this one begins. No entry has the number MAX, so what is sought lies before.
            let lower = Arc::clone(&path.lower);
            let before = Path::to(&self.tree, |node| slot_before(node, &lower))?;
            self.path.insert(before).search(&lower, SequenceNumber::MAX, true)?;
        }
        Ok(())
    }
}

/// The slot of a node that holds the keys just before `key`.
fn slot_before(node: &Node, key: &[u8]) -> usize {
    node.pivots.partition_point(|pivot| *pivot.lower < *key).saturating_sub(1)
}

impl Cursor for TreeCursor {
    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.valid = false;
        self.path_to(key)?.search(key, number, false)?;
        self.settle_forward()
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        self.valid = false;
        self.path_to(key)?.search(key, number, true)?;
        self.settle_back()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.seek(&[], SequenceNumber::MAX)
    }

    fn seek_last(&mut self) -> Result<()> {
        self.valid = false;
        let last = Path::to(&self.tree, |node| node.pivots.len().saturating_sub(1))?;
        self.path.insert(last).cursor.seek_last()?;
        self.settle_back()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        self.valid = false;
        if let Some(path) = &mut self.path {
            path.cursor.next()?;
        }
        self.settle_forward()
    }

    fn prev(&mut self) -> Result<()> {
        debug_assert!(self.valid);
        self.valid = false;
        if let Some(path) = &mut self.path {
            path.cursor.prev()?;
        }
        self.settle_back()
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
            None => unreachable!("a cursor that stands nowhere has no entry"),
        }
    }

    fn covering(&self, key: &[u8], at: SequenceNumber) -> SequenceNumber {
        match &self.path {
            Some(path) if !path.tombstones.is_empty() && path.holds(key) => path.tombstones.covering(key, at),
            _ => SequenceNumber::ZERO,
        }
    }
}
