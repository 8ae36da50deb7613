//! Writeback: copies the records that were sealed since the last time from a shadow to its segment's file, in large
//! writes, direct if the file system supports that. Any thread; one at a time writes back.
//!
//! Invariants:
//! 1. `filled` of a chunk is the end of the last record sealed in it. Its owner stores it after the record (release).
//!    The bytes below it never change while the shadow belongs to the segment. So a thread that has waited until a
//!    number is sealed, or until no thread writes any more, finds the record below `filled`, and may read all bytes
//!    below it without a race.
//! 2. A chunk that its owner has released is never written again (`segment`, invariant 4); all of it may be read.
//! 3. Whole pages are written. After `filled`, a page has zeroes, or the leftover bytes of a released chunk: no record
//!    header of this segment, since it would have been sealed.
//! 4. Once finished, nothing is read from the shadow any more: it may belong to another segment.
//! 5. The system writes a shadow's file back when it likes. If that fails, it may drop the page and read an older one.
//!    So after each copy the system is asked whether a writeback has failed: if not, the copied bytes were the stored
//!    ones.

use super::shadows::Shadow;
use crate::format::log_record::Salt;
use crate::format::log_segment::{Mark, PAGE_BYTES, SECTOR_BYTES, SegmentHeader};
use crate::io::{AlignedBuffer, StorageFile};
use crate::log::basics::chunk_owners::ChunkOwners;
use crate::log::basics::segment_size::SegmentSize;
use crate::util::Result;
use crate::util::planted::planted;
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

/// The header page to be written back.
#[derive(Debug)]
struct HeaderPage {
    bytes: Box<[u8; PAGE_BYTES]>,
    changed: bool,
}

#[derive(Debug)]
struct Progress {
    /// By chunk: the bytes below this position are in the file. Zero for none.
    written: Box<[usize]>,
    /// A page on its way to the file.
    page: AlignedBuffer,
    /// Whether anything was written since the last sync.
    unsynced: bool,
    finished: bool,
}

impl Writeback {
    /// For a segment with this header page, in the file and in the shadow.
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

    /// The shadow.
    pub fn shadow(&self) -> &Shadow {
        &self.shadow
    }

    /// Notes that records are sealed up to a position in a chunk, or in a run that begins with it. Requires ownership.
    #[inline]
    pub fn fill(&self, chunk: usize, position: usize) {
        self.filled[chunk].store(position, Ordering::Release);
    }

    /// Notes a mark, which the next writeback includes.
    pub fn mark(&self, mark: Mark, salt: Salt) {
        let bytes = mark.encode(salt);
        let mut page = self.page.lock();
        page.bytes[mark.offset()..mark.offset() + bytes.len()].copy_from_slice(&bytes);
        page.changed = true;
    }

    /// Writes what was sealed since the last time, and the last mark.
    pub fn write(&self) -> Result<()> {
        self.write_locked(&mut self.progress.lock())
    }

    fn write_locked(&self, progress: &mut Progress) -> Result<()> {
        self.write_records(progress)?;
        if !progress.finished {
            progress.unsynced |= self.write_header(&mut progress.page)?;
        }
        Ok(())
    }

    fn write_records(&self, progress: &mut Progress) -> Result<()> {
        if progress.finished {
            return Ok(());
        }
        // Bytes of several chunks that may be written together.
        let mut together = 0..0;
        for chunk in 0..self.filled.len() {
            if self.filled[chunk].load(Ordering::Acquire) <= progress.written[chunk] {
                continue;
            }
            // In this order: a chunk that was released before its end is read does not change afterwards.
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
        // Invariant 5.
        planted!(self.shadow.map.check_writeback(), Bug::WritebackErrorIgnored => Ok(()))
    }

    /// An error if the system has failed to write the shadow back.
    pub fn check(&self) -> Result<()> {
        let progress = self.progress.lock();
        if progress.finished { Ok(()) } else { self.shadow.map.check_writeback() }
    }

    /// Writes a range directly from the shadow, which invariants 1 and 2 permit.
    fn write_directly(&self, range: &std::ops::Range<usize>) -> Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        // SAFETY: within the mapping, since records are; no thread writes to these bytes while the shadow belongs to
        // the segment (invariants 1 and 2), and it does until `finish` takes the lock that the caller holds.
        let bytes = unsafe { std::slice::from_raw_parts(self.shadow.map.pointer().add(range.start), range.len()) };
        self.file.write_all_at(bytes, range.start as u64)
    }

    /// Writes a page whose other bytes the owner of its chunk may be filling.
    fn write_last_page(&self, page: &mut AlignedBuffer, from: usize, filled: usize) -> Result<()> {
        let length = filled - from;
        // SAFETY: as for `write_directly`; the bytes end at `filled`.
        let bytes = unsafe { std::slice::from_raw_parts(self.shadow.map.pointer().add(from), length) };
        page[..length].copy_from_slice(bytes);
        page[length..].fill(0);
        self.file.write_all_at(page, from as u64)
    }

    /// Writes the header page if it has changed. Returns whether it had.
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

    /// Writes what was sealed and the last mark, and makes both durable.
    pub fn sync(&self) -> Result<()> {
        let mut progress = self.progress.lock();
        self.write_locked(&mut progress)?;
        self.sync_file(&mut progress)
    }

    /// The same without the mark. Before `finish_and_trim`, which makes the mark durable.
    pub fn sync_records(&self) -> Result<()> {
        let mut progress = self.progress.lock();
        self.write_records(&mut progress)?;
        self.sync_file(&mut progress)
    }

    fn sync_file(&self, progress: &mut Progress) -> Result<()> {
        if progress.unsynced {
            self.file.sync()?;
            progress.unsynced = false;
        }
        Ok(())
    }

    /// Ends the use of the shadow: the file has all of it, and from now on its header says so. Requires that no record
    /// is sealed in it any more, and that it was synced after that. `None` if it was finished before.
    pub fn finish(&self) -> Result<Option<Shadow>> {
        self.finish_with(SegmentHeader { shadow: None, ..self.header })
    }

    /// The same, durably and with the last mark; cuts off the chunks behind those of `used`.
    pub fn finish_and_trim(&self, used: SegmentSize) -> Result<Option<Shadow>> {
        let bytes = used.bytes() as u64;
        let shadow = self.finish_with(SegmentHeader { shadow: None, segment_bytes: bytes, ..self.header })?;
        if shadow.is_some() {
            // *Otherwise,* if the file is cut off first: after a power loss the old header says more than the file has.
            self.file.sync()?;
            if bytes < self.header.segment_bytes {
                self.file.set_length(bytes)?;
            }
        }
        Ok(shadow)
    }

    /// Writes a mark that was noted after the end.
    pub fn write_closing_mark(&self) -> Result<()> {
        let mut progress = self.progress.lock();
        self.write_header(&mut progress.page).map(drop)
    }

    fn finish_with(&self, header: SegmentHeader) -> Result<Option<Shadow>> {
        let mut progress = self.progress.lock();
        if progress.finished {
            return Ok(None);
        }
        {
            let mut page = self.page.lock();
            page.bytes[..SECTOR_BYTES].copy_from_slice(&header.encode());
            progress.page.copy_from_slice(&page.bytes[..]);
            page.changed = false;
        }
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
