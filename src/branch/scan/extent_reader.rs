//! Reads leaves in extents: one large read in place of one read a page (SplinterDB §2.3, extents and prefetching).
//! While the cursor uses one extent, the next one is read ahead. One thread at a time.
//!
//! A *streak* is a sequence of adjacent extents in one direction. Only a streak reads ahead, so a cursor that jumps
//! around reads no more than it needs, and only a long streak reads the larger extents. If the scan is known to be
//! short (`set_first_bytes`), the streak starts with the bytes that the scan needs; they are read together with the
//! pages that the searches in other branches need (`plan`, `arrived`).
//!
//! Invariants:
//! 1. At most one extent is being read ahead. It is dropped or used when the cursor leaves the current extent. So a
//!    cursor has at most two buffers, and all cursors of a store read at most `AHEAD_MAX` extents ahead.
//! 2. Reading ahead affects only speed. An error is discarded, and the wanted leaf is read by itself. So an error is
//!    always that of the wanted leaf, and a cursor that never reaches a damaged place never reports it.
//! 3. `current` is `None` after an error.

use super::window::{Window, position};
use crate::branch::branch::Branch;
use crate::branch::extent_memory::{
    EXTENT_BYTES, EXTENT_BYTES_MIN, ExtentMemory, Lease, READ_AHEAD_BYTES, ReadAheadPermit,
};
use crate::branch::read::page_read::WantedPage;
use crate::format::branch_footer::BranchFooter;
use crate::io::{PendingReads, ReadDone, ReadRequest, StorageFile};
use crate::util::Result;
use crate::util::sync::Arc;
use std::ops::Range;

/// The purpose of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// Reads for users of the store, through the cache.
    Read,
    /// A long sequential pass: reads large extents and bypasses the cache.
    Compaction,
}

/// An extent that is being read ahead.
struct Ahead {
    start: u64,
    length: usize,
    reads: Box<dyn PendingReads>,
    lease: Lease,
    _permit: ReadAheadPermit,
}

/// An extent that a search reads together with the pages of other searches.
pub struct Planned {
    start: u64,
    length: usize,
    lease: Lease,
}

/// The extent that contains the cursor's leaf.
struct Current {
    window: Window,
    _lease: Lease,
}

/// See the module documentation.
pub struct ExtentReader {
    branch: Arc<Branch>,
    purpose: Purpose,
    /// A merge's own handle, if the branch's is not direct.
    direct: Option<Arc<dyn StorageFile>>,
    current: Option<Current>,
    ahead: Option<Ahead>,
    streak: u32,
    backward: bool,
    /// Bytes of the first extent of a streak.
    first: usize,
}

impl ExtentReader {
    /// A reader without an extent. Memory is leased at first use.
    pub fn new(branch: Arc<Branch>, purpose: Purpose) -> Self {
        let (direct, current, ahead) = (None, None, None);
        Self { branch, purpose, direct, current, ahead, streak: 0, backward: false, first: READ_AHEAD_BYTES }
    }

    /// Sets the size of the first extent of the following streaks. The second extent has the same size, and each later
    /// one is as large as all before it.
    pub fn set_first_bytes(&mut self, bytes: usize) {
        self.first = bytes.min(READ_AHEAD_BYTES);
    }

    /// Whether the page is in the current extent.
    pub fn has(&self, wanted: WantedPage) -> bool {
        self.position(wanted).is_some()
    }

    /// Whether the current extent is no larger than what a short scan reads.
    pub fn is_short(&self) -> bool {
        self.current.as_ref().is_some_and(|current| current.window.filled <= EXTENT_BYTES_MIN)
    }

    /// The read request for the first extent of a streak that begins with this page. Pass its result to `arrived`.
    pub fn plan(&mut self, wanted: WantedPage, backward: bool) -> Result<(Planned, ReadRequest)> {
        let footer = *self.branch.footer()?;
        self.branch.check_bounds(wanted, &footer)?;
        (self.streak, self.backward, self.ahead) = (1, backward, None);
        self.drop_current();
        let bytes = self.extent_bytes(1).max(wanted.bytes);
        let (start, length) = self.extent(wanted.offset, wanted.bytes, bytes, &footer);
        let lease = self.memory().lease(bytes);
        let request = ReadRequest::new(self.file()?, start, length, self.memory().take(bytes));
        Ok((Planned { start, length, lease }, request))
    }

    /// Makes the planned extent the current one, if it was read without error.
    pub fn arrived(&mut self, planned: Planned, done: ReadDone) {
        match done.result {
            Ok(()) => {
                let window = Window { buffer: done.buffer, start: planned.start, filled: planned.length };
                self.current = Some(Current { window, _lease: planned.lease });
            }
            Err(_) => self.memory().give(done.buffer),
        }
    }

    /// The range of the page in `bytes()`. If the page is not there yet, reads the extent that starts (or, backward,
    /// ends) with it.
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
            None => unreachable!("the page is in the extent that was read for it"),
        }
    }

    /// Bytes of the current extent.
    pub fn bytes(&self, range: Range<usize>) -> &[u8] {
        self.current.as_ref().and_then(|current| current.window.buffer.get(range)).unwrap_or_default()
    }

    fn position(&self, wanted: WantedPage) -> Option<Range<usize>> {
        self.current.as_ref()?.window.position(wanted.offset, wanted.bytes)
    }

    /// Whether the page is adjacent to the current extent, or so near that only index pages or cached pages are between
    /// them.
    fn is_next(&self, wanted: WantedPage, backward: bool) -> bool {
        let Some(Current { window, .. }) = &self.current else { return false };
        let (near, end) = (window.filled as u64, wanted.offset + wanted.bytes as u64);
        (self.streak <= 1 || self.backward == backward)
            && match backward {
                false => wanted.offset > window.start && wanted.offset <= window.end() + near,
                true => end < window.end() && end + near >= window.start,
            }
    }

    /// The size of an extent at this point of a streak. The extents of a scan grow no faster than what the scan has
    /// consumed, so the bytes that it may have read in vain at its end are a bounded share of that. No extent is larger
    /// than memory allows.
    fn extent_bytes(&self, streak: u32) -> usize {
        let first = self.first << streak.saturating_sub(2).min(8);
        self.memory().allowed(match (self.purpose, streak) {
            (Purpose::Read, 0..=3) => first.min(READ_AHEAD_BYTES),
            (Purpose::Read, 4) => first.min(2 * READ_AHEAD_BYTES),
            (Purpose::Read, _) => first.min(EXTENT_BYTES),
            (Purpose::Compaction, _) => EXTENT_BYTES,
        })
    }

    /// The file that the extents are read from.
    fn file(&mut self) -> Result<Arc<dyn StorageFile>> {
        if let Some(direct) = &self.direct {
            return Ok(Arc::clone(direct));
        }
        let file = self.branch.file()?;
        if self.purpose == Purpose::Read || !file.reads_through_page_cache() {
            return Ok(file);
        }
        Ok(Arc::clone(self.direct.insert(self.branch.direct_file()?)))
    }

    fn memory(&self) -> &Arc<ExtentMemory> {
        &self.branch.context().extents
    }

    /// The start and length of an extent of `bytes` that starts, or backward ends, with the `front` bytes at `offset`.
    fn extent(&self, offset: u64, front: usize, bytes: usize, footer: &BranchFooter) -> (u64, usize) {
        let end = offset + front as u64;
        let start = if self.backward { end.saturating_sub(bytes as u64) } else { offset };
        // Leaves and index pages end where the fingerprints begin.
        let data_end = footer.fingerprints_at.max(end);
        (start, (data_end - start).min(bytes as u64) as usize)
    }

    fn drop_current(&mut self) {
        if let Some(current) = self.current.take() {
            self.memory().give(current.window.buffer);
        }
    }

    /// Makes the extent that is being read ahead the current one, if it contains the page and was read without error.
    /// Otherwise drops it.
    fn use_read_ahead(&mut self, wanted: WantedPage) {
        let Some(Ahead { start, length, mut reads, lease, .. }) = self.ahead.take() else { return };
        let is_wanted = position(start, length, wanted.offset, wanted.bytes).is_some();
        // A read that is still in progress is abandoned and not waited for.
        if !is_wanted && !reads.is_done() {
            return;
        }
        // One request has exactly one result.
        let counters = &self.branch.context().reads;
        let is_waited_for = self.purpose == Purpose::Read && !reads.is_done();
        let mut done = if is_waited_for { counters.waiting(|| reads.wait()) } else { reads.wait() };
        let Some(read) = done.pop() else { return };
        if is_wanted && read.result.is_ok() {
            let window = Window { buffer: read.buffer, start, filled: length };
            self.current = Some(Current { window, _lease: lease });
        } else {
            self.memory().give(read.buffer);
        }
    }

    /// Reads an extent with the page now. If the extent cannot be read, reads the page alone.
    fn read(&mut self, wanted: WantedPage, footer: &BranchFooter) -> Result<()> {
        let bytes = self.extent_bytes(self.streak).max(wanted.bytes);
        let lease = self.memory().lease(bytes);
        let mut buffer = self.memory().take(bytes);
        let (mut start, mut filled) = self.extent(wanted.offset, wanted.bytes, bytes, footer);
        let file = self.file()?;
        let mut result = match self.purpose {
            Purpose::Read => self.branch.context().reads.waiting(|| file.read_exact_at(&mut buffer[..filled], start)),
            Purpose::Compaction => file.read_exact_at(&mut buffer[..filled], start),
        };
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

    /// Starts to read the extent after (or, backward, before) the current one.
    fn read_ahead(&mut self, wanted: WantedPage, footer: &BranchFooter) {
        let Some(Current { window, .. }) = &self.current else { return };
        let streak_min = if self.purpose == Purpose::Compaction { 1 } else { 2 };
        let bytes = self.extent_bytes(self.streak.saturating_add(1));
        // Reads of such large leaves are large already, and the leaf might not fit. Nothing is read ahead when memory
        // is short.
        if self.streak < streak_min || wanted.bytes > bytes / 2 || bytes < READ_AHEAD_BYTES {
            return;
        }
        let edge = if self.backward { window.first_page() } else { Some(window.next_page(wanted.offset)) };
        let Some(edge) = edge.filter(|edge| if self.backward { *edge > 0 } else { *edge < footer.fingerprints_at })
        else {
            return;
        };
        let (start, length) = self.extent(edge, 0, bytes, footer);
        let Some(permit) = self.memory().permit_read_ahead() else { return };
        // If the file cannot be opened now, the read that needs it will report the error.
        let Ok(file) = self.file() else { return };
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
