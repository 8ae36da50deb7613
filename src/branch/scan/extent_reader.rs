//! Reads leaves by the extent: one large read instead of one a page (SplinterDB §2.3, extents and prefetching), and the next
//! one ahead while the cursor is busy with this one. One thread at a time.
//!
//! A streak is a row of extents that each lie beside the one before, in one direction. Only a streak reads ahead, so a
//! cursor that looks here and there reads no more than it needs, and it is a long streak that reads the larger extents. A streak
//! may be known to be a short scan's (`set_first_bytes`): then it begins with what that needs, read together with what the search of
//! other branches lacks (`plan`, `arrived`).
//!
//! Invariants:
//! 1. At most one extent is on its way, and it is dropped or taken over when the cursor leaves the current one; so a cursor has
//!    at most two buffers, and all cursors of a store together at most `AHEAD_MAX` extents on their way.
//! 2. What was read ahead has no effect but speed: its error is forgotten, and the leaf that is wanted read by itself. So an error
//!    is always that of the leaf wanted, and who never comes to a bad place never hears of it.
//! 3. `current` is `None` after an error.

use super::window::{Window, position};
use crate::branch::branch::Branch;
use crate::branch::extent_memory::{
    EXTENT_BYTES, EXTENT_BYTES_MIN, ExtentMemory, Lease, READ_AHEAD_BYTES, ReadAheadPermit,
};
use crate::branch::read::page_read::WantedPage;
use crate::format::branch_footer::BranchFooter;
use crate::io::{PendingReads, ReadDone, ReadRequest};
use crate::util::Result;
use crate::util::sync::Arc;
use std::ops::Range;

/// What a cursor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reads of the store's users: through the cache.
    Read,
    /// A long sequential pass: reads large extents, leaves the cache alone.
    Compaction,
}

/// An extent on its way.
struct Ahead {
    start: u64,
    length: usize,
    reads: Box<dyn PendingReads>,
    lease: Lease,
    _permit: ReadAheadPermit,
}

/// An extent that a search has read together with what others need.
pub struct Planned {
    start: u64,
    length: usize,
    lease: Lease,
}

/// The extent that the cursor is in.
struct Current {
    window: Window,
    _lease: Lease,
}

/// See the module.
pub struct ExtentReader {
    branch: Arc<Branch>,
    purpose: Purpose,
    current: Option<Current>,
    ahead: Option<Ahead>,
    streak: u32,
    backward: bool,
    /// Bytes that a streak begins with.
    first: usize,
}

impl ExtentReader {
    /// Nothing read yet; memory is taken at first use.
    pub fn new(branch: Arc<Branch>, purpose: Purpose) -> Self {
        Self { branch, purpose, current: None, ahead: None, streak: 0, backward: false, first: READ_AHEAD_BYTES }
    }

    /// The streaks from now on begin with so many bytes; behind them comes as much, and then always as much as came before.
    pub fn set_first_bytes(&mut self, bytes: usize) {
        self.first = bytes.min(READ_AHEAD_BYTES);
    }

    /// Whether the page is in the current extent.
    pub fn has(&self, wanted: WantedPage) -> bool {
        self.position(wanted).is_some()
    }

    /// Whether the current extent is all that a short scan reads.
    pub fn is_short(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.window.filled <= EXTENT_BYTES_MIN)
    }

    /// What is to be read for a streak that begins with this page; `arrived` takes it.
    pub fn plan(&mut self, wanted: WantedPage, backward: bool) -> Result<(Planned, ReadRequest)> {
        let footer = *self.branch.footer()?;
        self.branch.check_bounds(wanted, &footer)?;
        (self.streak, self.backward, self.ahead) = (1, backward, None);
        self.drop_current();
        let bytes = self.extent_bytes(1).max(wanted.bytes);
        let (start, length) = self.extent(wanted.offset, wanted.bytes, bytes, &footer);
        let lease = self.memory().lease(bytes);
        let request = ReadRequest::new(self.branch.file()?, start, length, self.memory().take(bytes));
        Ok((Planned { start, length, lease }, request))
    }

    /// Makes what was planned the current extent, if it came well.
    pub fn arrived(&mut self, planned: Planned, done: ReadDone) {
        match done.result {
            Ok(()) => {
                let window = Window { buffer: done.buffer, start: planned.start, filled: planned.length };
                self.current = Some(Current { window, _lease: planned.lease });
            }
            Err(_) => self.memory().give(done.buffer),
        }
    }

    /// Where in `bytes()` the page stands; reads the extent that starts (or, going backward, ends) with it where it is
    /// not there yet.
    pub fn page(&mut self, wanted: WantedPage, backward: bool) -> Result<Range<usize>> {
        if let Some(at) = self.position(wanted) {
            return Ok(at);
        }
        let footer = *self.branch.footer()?;
        self.branch.check_bounds(wanted, &footer)?;
        self.streak = if self.is_next(wanted, backward) { self.streak.saturating_add(1) } else { 1 };
        self.backward = backward;
        self.drop_current();
        self.use_read_ahead(wanted);
        if self.current.is_none() {
            self.read(wanted, &footer)?;
        }
        self.read_ahead(wanted, &footer);
        match self.position(wanted) {
            Some(at) => Ok(at),
            None => unreachable!("what was read has the page"),
        }
    }

    /// Bytes of the current extent.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.current.as_ref().and_then(|current| current.window.buffer.get(range)).unwrap_or_default()
    }

    fn position(&self, wanted: WantedPage) -> Option<Range<usize>> {
        self.current.as_ref()?.window.position(wanted.offset, wanted.bytes)
    }

    /// Whether the page lies beside the current extent, or so near that only pages of the index or of the cache are between.
    fn is_next(&self, wanted: WantedPage, backward: bool) -> bool {
        let Some(Current { window, .. }) = &self.current else { return false };
        let (near, end) = (window.filled as u64, wanted.offset + wanted.bytes as u64);
        (self.streak <= 1 || self.backward == backward)
            && match backward {
                false => wanted.offset > window.start && wanted.offset <= window.end() + near,
                true => end < window.end() && end + near >= window.start,
            }
    }

    /// Bytes of an extent so far into a streak. A scan's extents grow no faster than what it has consumed, so that what it may
    /// have read in vain when it ends is a part of that; and none is larger than what memory allows.
    fn extent_bytes(&self, streak: u32) -> usize {
        let first = self.first << streak.saturating_sub(2).min(8);
        self.memory().allowed(match (self.purpose, streak) {
            (Purpose::Read, 0..=3) => first.min(READ_AHEAD_BYTES),
            (Purpose::Read, 4) => first.min(2 * READ_AHEAD_BYTES),
            (Purpose::Read, _) => first.min(EXTENT_BYTES),
            (Purpose::Compaction, _) => EXTENT_BYTES,
        })
    }

    fn memory(&self) -> &Arc<ExtentMemory> {
        &self.branch.context().extents
    }

    /// An extent of `bytes` that starts, or going backward ends, with the `front` bytes at `offset`.
    fn extent(&self, offset: u64, front: usize, bytes: usize, footer: &BranchFooter) -> (u64, usize) {
        let end = offset + front as u64;
        let start = if self.backward { end.saturating_sub(bytes as u64) } else { offset };
        // Leaves and index pages end where the fingerprints start.
        let data_end = footer.fingerprints_at.max(end);
        (start, (data_end - start).min(bytes as u64) as usize)
    }

    fn drop_current(&mut self) {
        if let Some(current) = self.current.take() {
            self.memory().give(current.window.buffer);
        }
    }

    /// Makes the extent that is on its way the current one if it has the page and came well; else it is of no use any more.
    fn use_read_ahead(&mut self, wanted: WantedPage) {
        let Some(Ahead { start, length, mut reads, lease, .. }) = self.ahead.take() else { return };
        let is_wanted = position(start, length, wanted.offset, wanted.bytes).is_some();
        // What is still on its way is left to itself rather than waited for.
        if !is_wanted && !reads.is_done() {
            return;
        }
        // One request, one answer.
        let Some(read) = reads.wait().pop() else { return };
        if is_wanted && read.result.is_ok() {
            let window = Window { buffer: read.buffer, start, filled: length };
            self.current = Some(Current { window, _lease: lease });
        } else {
            self.memory().give(read.buffer);
        }
    }

    /// Reads an extent with the page now; the page alone where the extent cannot be read.
    fn read(&mut self, wanted: WantedPage, footer: &BranchFooter) -> Result<()> {
        let bytes = self.extent_bytes(self.streak).max(wanted.bytes);
        let lease = self.memory().lease(bytes);
        let mut buffer = self.memory().take(bytes);
        let (mut start, mut filled) = self.extent(wanted.offset, wanted.bytes, bytes, footer);
        let file = self.branch.file()?;
        let mut result = file.read_exact_at(&mut buffer[..filled], start);
        if result.is_err() && filled > wanted.bytes {
            (start, filled) = (wanted.offset, wanted.bytes);
            result = file.read_exact_at(&mut buffer[..filled], start);
            self.streak = 0;
        }
        match result {
            Ok(()) => self.current = Some(Current { window: Window { buffer, start, filled }, _lease: lease }),
            Err(_) => self.memory().give(buffer),
        }
        result
    }

    /// Starts reading the extent behind (or, going backward, before) the current one.
    fn read_ahead(&mut self, wanted: WantedPage, footer: &BranchFooter) {
        let Some(Current { window, .. }) = &self.current else { return };
        let streak_min = if self.purpose == Purpose::Compaction { 1 } else { 2 };
        let bytes = self.extent_bytes(self.streak.saturating_add(1));
        // Leaves so large are large reads already, and might not fit; and where memory is short, nothing is read ahead.
        if self.streak < streak_min || wanted.bytes > bytes / 2 || bytes < READ_AHEAD_BYTES {
            return;
        }
        let edge = if self.backward { window.first_page() } else { Some(window.next_page(wanted.offset)) };
        let Some(edge) = edge.filter(|edge| if self.backward { *edge > 0 } else { *edge < footer.fingerprints_at })
        else {
            return;
        };
        let (start, length) = self.extent(edge, 0, bytes, footer);
        let Some(permit) = self.memory().ahead() else { return };
        // A file that cannot be opened now will say so when it is needed.
        let Ok(file) = self.branch.file() else { return };
        let lease = self.memory().lease(bytes);
        let request = ReadRequest::new(file, start, length, self.memory().take(bytes));
        let reads = self.branch.context().storage.start_reads(vec![request]);
        self.ahead = Some(Ahead { start, length, reads, lease, _permit: permit });
    }
}

impl Drop for ExtentReader {
    fn drop(&mut self) {
        self.drop_current();
        if let Some(mut ahead) = self.ahead.take()
            && ahead.reads.is_done()
        {
            ahead.reads.wait().into_iter().for_each(|read| self.branch.context().extents.give(read.buffer));
        }
    }
}
