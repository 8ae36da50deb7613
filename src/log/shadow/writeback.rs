//! From a twin in shared memory to the segment's file: what writers have sealed since the last time, in large writes, direct where
//! the file system has that. Any thread; one at a time writes out.
//!
//! Invariants:
//! 1. `filled` of a chunk is the end of the last record sealed in it, stored by its owner behind the record (release). The bytes
//!    below it never change again while the twin is the segment's. So whoever has waited until a number is sealed, or until
//!    nobody writes any more, finds it below `filled`, and may read all below it without a race.
//! 2. A chunk that its owner has released is never written to again (`segment`, invariant 4); all of it may be read.
//! 3. What is written is whole pages. Behind `filled` a page has zeroes, or what is there in a chunk that was released: no record
//!    header of this segment, since it would have been sealed.
//! 4. Once finished nothing is read from the twin any more: it may be another segment's.

use super::copy::Shadow;
use crate::format::log_record::Salt;
use crate::format::log_segment::{Mark, PAGE_BYTES, SECTOR_BYTES, SegmentHeader};
use crate::io::{AlignedBuffer, StorageFile};
use crate::log::chunk_owners::ChunkOwners;
use crate::util::Result;
use crate::util::sync::{Arc, AtomicUsize, Mutex, Ordering};
use crossbeam_utils::CachePadded;

/// See the module.
#[derive(Debug)]
pub struct Writeback {
    shadow: Shadow,
    /// The segment's file, open for aligned writes.
    file: Arc<dyn StorageFile>,
    header: SegmentHeader,
    page: Mutex<HeaderPage>,
    filled: Box<[CachePadded<AtomicUsize>]>,
    progress: Mutex<Progress>,
}

/// The header page as it is to be written out.
#[derive(Debug)]
struct HeaderPage {
    bytes: Box<[u8; PAGE_BYTES]>,
    changed: bool,
}

#[derive(Debug)]
struct Progress {
    /// By chunk: the bytes below are in the file. Zero for none.
    written: Box<[usize]>,
    /// A page on its way to the file.
    page: AlignedBuffer,
    /// Something was written since the last sync.
    unsynced: bool,
    finished: bool,
}

impl Writeback {
    /// For a segment whose header page is this, in the file and in the twin.
    pub fn new(shadow: Shadow, file: Arc<dyn StorageFile>, header: SegmentHeader, page: Box<[u8; PAGE_BYTES]>) -> Self {
        let chunks = header.chunks() as usize;
        Self {
            shadow,
            file,
            header,
            page: Mutex::new(HeaderPage { bytes: page, changed: false }),
            filled: (0..chunks).map(|_| CachePadded::new(AtomicUsize::new(0))).collect(),
            progress: Mutex::new(Progress {
                written: vec![0; chunks].into(),
                page: AlignedBuffer::new(PAGE_BYTES),
                unsynced: false,
                finished: false,
            }),
        }
    }

    /// The twin.
    pub fn shadow(&self) -> &Shadow {
        &self.shadow
    }

    /// Notes that records are sealed in a chunk, or a run that begins with it, up to a position. Requires ownership.
    #[inline]
    pub fn fill(&self, chunk: usize, position: usize) {
        self.filled[chunk].store(position, Ordering::Release);
    }

    /// Notes a mark, which the next writing out takes along.
    pub fn mark(&self, mark: Mark, salt: Salt) {
        let bytes = mark.encode(salt);
        let mut page = self.page.lock();
        page.bytes[mark.offset()..mark.offset() + bytes.len()].copy_from_slice(&bytes);
        page.changed = true;
    }

    /// Writes what was sealed since the last time.
    pub fn write(&self) -> Result<()> {
        self.write_locked(&mut self.progress.lock())
    }

    fn write_locked(&self, progress: &mut Progress) -> Result<()> {
        if progress.finished {
            return Ok(());
        }
        // Bytes of several chunks that may go in one write.
        let mut together = 0..0;
        for chunk in 0..self.filled.len() {
            if self.filled[chunk].load(Ordering::Acquire) <= progress.written[chunk] {
                continue;
            }
            // In this order: what a released chunk holds does not change behind the look at its end.
            let released = !self.shadow.owners.is_owned(chunk);
            let filled = self.filled[chunk].load(Ordering::Acquire);
            let chunk_bytes = self.header.chunk_bytes as usize;
            let from = progress.written[chunk].max(PAGE_BYTES + chunk * chunk_bytes) / PAGE_BYTES * PAGE_BYTES;
            let whole = if released { filled.next_multiple_of(PAGE_BYTES) } else { filled / PAGE_BYTES * PAGE_BYTES };
            if from == together.end {
                together.end = whole;
            } else {
                self.write_directly(&together)?;
                together = from..whole;
            }
            if filled > whole {
                self.write_last_page(&mut progress.page, whole, filled)?;
            }
            progress.written[chunk] = filled;
            progress.unsynced = true;
        }
        self.write_directly(&together)?;
        progress.unsynced |= self.write_header(&mut progress.page)?;
        Ok(())
    }

    /// Invariants 1 and 2 allow it for the range.
    fn write_directly(&self, range: &std::ops::Range<usize>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        // SAFETY: within the mapping, since records are; nobody writes to these bytes while the twin is the segment's
        // (invariants 1 and 2), which it is until `finish` takes the lock that the caller holds.
        let bytes = unsafe { std::slice::from_raw_parts(self.shadow.map.pointer().add(range.start), range.len()) };
        self.file.write_all_at(bytes, range.start as u64)
    }

    /// A page of which the owner of its chunk may be filling the rest.
    fn write_last_page(&self, page: &mut AlignedBuffer, from: usize, filled: usize) -> Result<()> {
        let length = filled - from;
        // SAFETY: as for `write_directly`; the bytes end at `filled`.
        let bytes = unsafe { std::slice::from_raw_parts(self.shadow.map.pointer().add(from), length) };
        page[..length].copy_from_slice(bytes);
        page[length..].fill(0);
        self.file.write_all_at(page, from as u64)
    }

    /// Whether there was anything new in it.
    fn write_header(&self, page: &mut AlignedBuffer) -> Result<bool> {
        {
            let mut header = self.page.lock();
            if !header.changed {
                return Ok(false);
            }
            page.copy_from_slice(&header.bytes[..]);
            header.changed = false;
        }
        self.file.write_all_at(page, 0)?;
        Ok(true)
    }

    /// Writes what was sealed, and makes it durable.
    pub fn sync(&self) -> Result<()> {
        let mut progress = self.progress.lock();
        self.write_locked(&mut progress)?;
        if progress.unsynced {
            self.file.sync()?;
            progress.unsynced = false;
        }
        Ok(())
    }

    /// The file has all: its header says so from now on, and the twin is nobody's. Requires that nothing is sealed in it any more
    /// and that it was synced behind that. `None` where it was finished before.
    pub fn finish(&self) -> Result<Option<Shadow>> {
        let mut progress = self.progress.lock();
        if progress.finished {
            return Ok(None);
        }
        let sector: [u8; SECTOR_BYTES] = SegmentHeader { memory: None, ..self.header }.encode();
        progress.page.copy_from_slice(&self.page.lock().bytes[..]);
        progress.page[..SECTOR_BYTES].copy_from_slice(&sector);
        self.file.write_all_at(&progress.page, 0)?;
        progress.finished = true;
        Ok(Some(self.shadow.clone()))
    }
}

impl ChunkOwners {
    /// Whether a writer may still write to a chunk.
    fn is_owned(&self, chunk: usize) -> bool {
        self.owner(chunk).load(Ordering::Acquire)
    }
}
