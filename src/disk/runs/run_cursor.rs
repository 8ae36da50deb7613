//! A cursor over a run. It opens the parts one after the other, each when it is reached. One thread at a time.

use super::run::Run;
use crate::branch::{Branch, BranchCursor, Origin, Purpose, Target, search_together};
use crate::merge::{Cursor, EntryRef, Limit, MergeCursor, PinnedValue, Visitor};
use crate::util::sync::Arc;
use crate::util::{Result, SequenceNumber};
use std::ops::ControlFlow;

pub mod version_order;

/// The place of a cursor that came to its entry otherwise than by stepping from the first one.
const UNCOUNTED: u64 = u64::MAX;

/// See the module.
pub struct RunCursor {
    run: Arc<Run>,
    purpose: Purpose,
    /// The part that `cursor` reads, if it is open.
    at: usize,
    is_open: bool,
    /// Stays for the next part, and for the next run.
    cursor: Option<BranchCursor>,
    /// Bytes of this run for each entry that a scan passes, in 1/256.
    share: u64,
    /// Bytes that the current scan is expected to read here.
    expected: usize,
    /// The entries of the part before the current one, or `UNCOUNTED`.
    passed: u64,
}

impl RunCursor {
    /// An unpositioned cursor.
    pub fn new(run: Arc<Run>, purpose: Purpose) -> Self {
        let (at, is_open, cursor) = (0, false, None);
        Self { run, purpose, at, is_open, cursor, share: 0, expected: 0, passed: UNCOUNTED }
    }

    /// A cursor for scans that read `share` bytes of this run, in 1/256, for each entry that they pass.
    pub fn for_scans(run: Arc<Run>, share: u64) -> Self {
        Self { share, ..Self::new(run, Purpose::Read) }
    }

    /// Makes it an unpositioned cursor over another run, as `for_scans` does, which keeps the memory of its buffers.
    pub fn aim(&mut self, run: &Arc<Run>, share: u64) {
        self.rest();
        (self.share, self.expected) = (share, 0);
        if !Arc::ptr_eq(&self.run, run) {
            self.run = Arc::clone(run);
        }
    }

    /// The run that it is over.
    pub fn run(&self) -> &Arc<Run> {
        &self.run
    }

    /// Where on the disk the current entry is, if a merge came here from the start of the part by single steps.
    pub fn origin(&self) -> Option<Origin> {
        let part = self.run.parts().get(self.at).filter(|_| self.passed != UNCOUNTED)?;
        match part.in_buffer() {
            Some(buffered) => buffered.origins().get(self.passed),
            None => Some(Origin { parent: part.meta().file, at: self.passed }),
        }
    }

    #[inline]
    fn open(&mut self, at: usize) -> &mut BranchCursor {
        let is_new = !self.is_open || self.at != at;
        if is_new {
            (self.is_open, self.at) = (true, at);
        }
        let (part, purpose) = (&self.run.parts()[at], self.purpose);
        let cursor = self.cursor.get_or_insert_with(|| part.cursor(purpose));
        if is_new {
            cursor.aim(part);
            cursor.expect_bytes(self.expected);
        }
        cursor
    }

    /// The cursor over the current part.
    #[inline]
    fn opened(&self) -> Option<&BranchCursor> {
        self.cursor.as_ref().filter(|_| self.is_open)
    }

    fn opened_mut(&mut self) -> Option<&mut BranchCursor> {
        self.cursor.as_mut().filter(|_| self.is_open)
    }

    /// Begins a search, which `search_together` continues and `settle` ends.
    fn begin(&mut self, target: Target<'_>, expected: u64) -> Result<()> {
        self.expected = (expected.saturating_mul(self.share) >> 8) as usize;
        let parts = self.run.parts().len();
        let at = self.run.position(target.key);
        if at == parts && !target.backward {
            self.rest();
            return Ok(());
        }
        let expected = self.expected;
        let is_start = self.purpose == Purpose::Compaction
            && !target.backward
            && self.run.parts().get(at).is_some_and(|part| *target.key <= part.meta().key_min[..]);
        self.passed = if is_start { 0 } else { UNCOUNTED };
        let cursor = self.open(at.min(parts - 1));
        cursor.expect_bytes(expected);
        cursor.begin_search()
    }

    /// From the end of a part it moves on to the next.
    fn settle(&mut self, backward: bool) -> Result<()> {
        match (self.is_open, backward) {
            (false, _) => Ok(()),
            (true, false) => self.skip_forward(),
            (true, true) => self.skip_back(),
        }
    }

    /// Past the end of a part, moves to the first entry of the next.
    #[inline]
    fn skip_forward(&mut self) -> Result<()> {
        while !self.valid() {
            let next = self.at + 1;
            if next >= self.run.parts().len() {
                self.rest();
                return Ok(());
            }
            self.open(next).seek_first()?;
            self.passed = 0;
        }
        Ok(())
    }

    /// Before the start of a part, moves to the last entry of the one before.
    fn skip_back(&mut self) -> Result<()> {
        while !self.valid() {
            if self.at == 0 {
                self.rest();
                return Ok(());
            }
            let before = self.at - 1;
            self.passed = UNCOUNTED;
            self.open(before).seek_last()?;
        }
        Ok(())
    }
}

/// Moves all cursors to the target, so that their disk reads overlap, for a scan that is expected to pass `expected`
/// entries in all. Returns how often the disk was read.
pub fn seek_together(cursors: &mut [RunCursor], target: Target<'_>, expected: u64) -> Result<usize> {
    for cursor in cursors.iter_mut() {
        cursor.begin(target, expected)?;
    }
    let reads = search_together(cursors, RunCursor::opened_mut, target)?;
    cursors.iter_mut().try_for_each(|cursor| cursor.settle(target.backward))?;
    Ok(reads)
}

/// Counts a user's search with these cursors.
pub fn note_search(cursors: &[RunCursor]) {
    if let Some(branch) = cursors.first().and_then(|first| first.run.parts().first()) {
        branch.note_search(cursors.iter().filter(|cursor| cursor.is_open).count());
    }
}

/// One cursor over runs that are in age order, oldest first.
pub fn merged(runs: Vec<Arc<Run>>, purpose: Purpose) -> MergeCursor<RunCursor> {
    MergeCursor::new(runs.into_iter().rev().map(|run| RunCursor::new(run, purpose)).collect())
}

/// A key of a branch from `lower` to below `upper` of which some version, or a range tombstone over it, has a number above
/// `since`.
pub fn newer_key(
    branch: &Arc<Branch>,
    since: SequenceNumber,
    lower: &[u8],
    upper: Option<&[u8]>,
) -> Result<Option<Vec<u8>>> {
    let deleted = branch.range_tombstones()?.clip(lower, upper);
    if let Some(deletion) = deleted.deletions().find(|deletion| deletion.number > since) {
        return Ok(Some(deletion.start));
    }
    let mut cursor = branch.cursor(Purpose::Read);
    cursor.seek(lower, SequenceNumber::MAX)?;
    while cursor.valid() && upper.is_none_or(|upper| cursor.entry().key < upper) {
        if cursor.entry().number > since {
            return Ok(Some(cursor.entry().key.to_vec()));
        }
        cursor.next()?;
    }
    Ok(None)
}

impl Cursor for RunCursor {
    fn rest(&mut self) {
        self.is_open = false;
        if let Some(cursor) = &mut self.cursor {
            cursor.rest();
        }
    }

    fn seek(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let at = self.run.position(key);
        if at == self.run.parts().len() {
            self.rest();
            return Ok(());
        }
        self.passed = UNCOUNTED;
        self.open(at).seek(key, number)?;
        self.skip_forward()
    }

    fn seek_for_prev(&mut self, key: &[u8], number: SequenceNumber) -> Result<()> {
        let at = self.run.position(key).min(self.run.parts().len() - 1);
        self.passed = UNCOUNTED;
        self.open(at).seek_for_prev(key, number)?;
        self.skip_back()
    }

    fn seek_first(&mut self) -> Result<()> {
        self.passed = 0;
        self.open(0).seek_first()?;
        self.skip_forward()
    }

    fn seek_last(&mut self) -> Result<()> {
        self.passed = UNCOUNTED;
        self.open(self.run.parts().len() - 1).seek_last()?;
        self.skip_back()
    }

    #[inline]
    fn next(&mut self) -> Result<()> {
        let at = self.at;
        self.passed = self.passed.saturating_add(1);
        self.open(at).next()?;
        self.skip_forward()
    }

    fn prev(&mut self) -> Result<()> {
        let at = self.at;
        self.passed = UNCOUNTED;
        self.open(at).prev()?;
        self.skip_back()
    }

    fn pass(&mut self, limit: Limit<'_>, visitor: &mut dyn Visitor) -> Result<ControlFlow<()>> {
        self.passed = UNCOUNTED;
        loop {
            let at = self.at;
            let flow = self.open(at).pass(limit, visitor)?;
            // On an entry that was refused or is past the limit.
            if self.valid() {
                return Ok(flow);
            }
            self.skip_forward()?;
            if !self.valid() || limit.is_reached(self.key()) {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }

    #[inline]
    fn valid(&self) -> bool {
        self.opened().is_some_and(Cursor::valid)
    }

    #[inline]
    fn entry(&self) -> EntryRef<'_> {
        match self.opened() {
            Some(cursor) => cursor.entry(),
            // The trait's contract: `entry` requires `valid()`.
            None => unreachable!("an invalid cursor has no entry"),
        }
    }

    #[inline]
    fn key(&self) -> &[u8] {
        self.opened().map_or(&[], Cursor::key)
    }

    fn pin_value(&self) -> Option<PinnedValue> {
        self.opened()?.pin_value()
    }
}
