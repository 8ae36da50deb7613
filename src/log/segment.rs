//! A segment of the current log epoch: a file of chunks, the memory that writers store to (a shadow, or the file
//! itself, mapped), and the owners of its chunks.
//!
//! Any thread. Invariants:
//! 1. The bytes of a chunk are written only by the `LogWriter` that owns the chunk in the memory's `ChunkOwners`. The
//!    owners belong to the memory, not to one use of it: a writer that was idle while a shadow went to another segment
//!    still owns its chunk there, and the next use skips that chunk. So an idle thread pins a chunk but no segment, and
//!    a body that a slow thread is still filling never overwrites another writer's sealed record. A file that is mapped
//!    itself is never used again.
//! 2. The header page is written by the thread that makes the segment, before any other thread sees it. After that only
//!    marks are written there, under the log's state lock while the segment is current.
//! 3. `retired` is set once, before the grace period after which the segment is sealed (`maintenance.rs`, invariant 1).
//! 4. A chunk is handed out once per use of the memory: `claim` advances `next_chunk` over it.

use super::basics::chunk_owners::ChunkOwners;
use super::basics::segment_size::SegmentSize;
use super::settings::LogIdentity;
use super::shadow::shadows::Shadow;
use super::shadow::writeback::Writeback;
use crate::format::log_record::Salt;
use crate::format::log_segment::{Mark, PAGE_BYTES, SegmentHeader};
use crate::io::MappedFile;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::util::{Error, FileNumber, Result, SequenceNumber};
use crossbeam_utils::CachePadded;
use std::path::PathBuf;
use std::ptr::NonNull;

/// The mapped memory of a segment.
#[derive(Debug)]
struct Memory(NonNull<u8>);

// SAFETY: the pointer is to shared mapped memory that any thread may write to by invariants 1 and 2.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

/// Where stores to the memory go.
#[derive(Debug)]
#[allow(clippy::large_enum_variant, reason = "there are few, and the write path saves an indirection")]
enum Place {
    /// To the file, by the kernel.
    File(Arc<dyn MappedFile>),
    /// To a shadow, and from there to the file.
    Shadow(Writeback),
}

/// See the module.
#[derive(Debug)]
pub struct Segment {
    /// Its number, part of its salt.
    pub number: FileNumber,
    /// Its file's name.
    pub name: String,
    /// The salt of its checksums.
    pub salt: Salt,
    /// Made for one large record: only that record's writer gets chunks of it.
    pub dedicated: bool,
    memory: Memory,
    place: Place,
    path: PathBuf,
    size: SegmentSize,
    owners: Arc<ChunkOwners>,
    retired: AtomicBool,
    /// The writer of a dedicated segment is done with it.
    abandoned: AtomicBool,
    /// Its file was cut off behind the last chunk in use.
    trimmed: AtomicBool,
    /// Once sealed: no record in it has a greater number.
    last: AtomicU64,
    /// `next_chunk` at the last sync or the last writeback of the shadow; a hint.
    claimed_at_sync: AtomicUsize,
    /// The failure of a sync. The system reports it only once, so a later successful sync must not be trusted.
    failure: Mutex<Option<Error>>,
    next_chunk: CachePadded<AtomicUsize>,
}

/// What a segment consists of, besides its mapping.
#[derive(Debug)]
pub struct SegmentParts {
    /// See `Segment`.
    pub number: FileNumber,
    /// See `Segment`.
    pub name: String,
    /// Full path, for messages.
    pub path: PathBuf,
    /// Its length.
    pub size: SegmentSize,
    /// The owners of the memory's chunks.
    pub owners: Arc<ChunkOwners>,
    /// See `Segment`.
    pub dedicated: bool,
}

impl Segment {
    /// A segment over a mapped file. Requires a mapping of a header page and all chunks.
    pub fn new(map: Arc<dyn MappedFile>, parts: SegmentParts, identity: &LogIdentity) -> Result<Self> {
        Self::over(Arc::clone(&map), Place::File(map), parts, identity)
    }

    /// A segment with a shadow.
    pub fn with_shadow(writeback: Writeback, parts: SegmentParts, identity: &LogIdentity) -> Result<Self> {
        Self::over(Arc::clone(&writeback.shadow().map), Place::Shadow(writeback), parts, identity)
    }

    fn over(map: Arc<dyn MappedFile>, place: Place, parts: SegmentParts, identity: &LogIdentity) -> Result<Self> {
        let bytes = parts.size.bytes();
        let (Some(pointer), true) = (NonNull::new(map.pointer()), map.length() >= bytes) else {
            return Err(Error::corruption(&parts.path, 0, "length of a log segment", bytes, map.length()));
        };
        Ok(Self {
            number: parts.number,
            name: parts.name,
            salt: Salt::new(identity.database, parts.number),
            dedicated: parts.dedicated,
            memory: Memory(pointer),
            place,
            path: parts.path,
            size: parts.size,
            owners: parts.owners,
            retired: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            trimmed: AtomicBool::new(false),
            last: AtomicU64::new(u64::MAX),
            claimed_at_sync: AtomicUsize::new(0),
            failure: Mutex::new(None),
            next_chunk: CachePadded::new(AtomicUsize::new(0)),
        })
    }

    /// Leaves a mark. Requires the log's state lock.
    pub fn write_mark(&self, mark: Mark) {
        let bytes = mark.encode(self.salt);
        // SAFETY: a mark lies within the header page; the state lock excludes other threads (invariant 2). The kernel
        // may write the page back meanwhile: a torn mark fails its checksum and leaves the one in the other sector.
        unsafe {
            let to = self.memory.0.as_ptr().add(mark.offset());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        if let Place::Shadow(writeback) = &self.place {
            writeback.mark(mark, self.salt);
        }
    }

    /// Makes the last mark visible to the next opening, after the shadow was released.
    pub fn write_closing_mark(&self) -> Result<()> {
        match &self.place {
            Place::File(_) => Ok(()),
            Place::Shadow(writeback) => writeback.write_closing_mark(),
        }
    }

    /// Notes that records are sealed up to a position in a chunk, or in a run of chunks that begins with it. Requires
    /// ownership.
    #[inline]
    pub fn fill(&self, chunk: usize, position: usize) {
        if let Place::Shadow(writeback) = &self.place {
            writeback.fill(chunk, position);
        }
    }

    /// Hands out `count` adjacent chunks without owners; `None` if the segment has none left.
    pub fn claim(&self, count: usize) -> Option<usize> {
        loop {
            let next = self.next_chunk.load(Ordering::Relaxed);
            let found = self.owners.free_run(next, count);
            let used = found.map_or(self.size.chunks, |first| first + count);
            if self.next_chunk.compare_exchange(next, used, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                continue;
            }
            // Only the thread that advanced `next_chunk` takes chunks before its new value.
            match found {
                Some(first) if self.owners.take(first, count) => return Some(first),
                Some(_) => {}
                None => return None,
            }
        }
    }

    /// Whether no chunk was handed out yet, and idle writers leave no `count` adjacent chunks.
    pub fn never_fits(&self, count: usize) -> bool {
        self.claimed() == 0 && self.owners.free_run(0, count).is_none()
    }

    /// Whether a writer owns a chunk.
    pub fn is_owned(&self, chunk: usize) -> bool {
        self.owners.owner(chunk).load(Ordering::Acquire)
    }

    /// Gives up the ownership of chunks. Requires that the caller owned them and writes no more there.
    pub fn release(&self, first: usize, count: usize) {
        self.owners.release(first, count);
    }

    /// Notes a failure of the shadow's writeback by the system, which fails every later sync.
    pub fn check_writeback(&self) -> Result<()> {
        match &self.place {
            Place::File(_) => Ok(()),
            Place::Shadow(writeback) => self.fail_permanently(|| writeback.check()),
        }
    }

    /// Where a chunk starts in the file.
    pub fn chunk_position(&self, chunk: usize) -> usize {
        PAGE_BYTES + chunk * self.size.chunk_bytes
    }

    /// The memory of `length` bytes at `position`. Only the owner of the chunk may write there (invariant 1).
    #[inline]
    pub fn memory_at(&self, position: usize, length: usize) -> *mut u8 {
        debug_assert!(position >= PAGE_BYTES && position + length <= self.chunk_position(self.size.chunks));
        // SAFETY: within the mapping, since writers stay within the chunks that they own.
        unsafe { self.memory.0.as_ptr().add(position) }
    }

    /// Whether another segment is current now. Acquire is not needed for correctness: the order that counts comes from
    /// the fence in `Sequencer::announce`.
    #[inline]
    pub fn is_retired(&self) -> bool {
        self.retired.load(Ordering::Acquire)
    }

    /// See invariant 3.
    pub fn retire(&self) {
        self.retired.store(true, Ordering::Release);
    }

    /// The writer of a dedicated segment is done with it.
    pub fn abandon(&self) {
        self.abandoned.store(true, Ordering::Release);
    }

    /// See `abandon`.
    pub fn is_abandoned(&self) -> bool {
        self.abandoned.load(Ordering::Acquire)
    }

    /// Notes at sealing that every record in it has a number `<= last`.
    pub fn set_last(&self, last: SequenceNumber) {
        self.last.store(last.0, Ordering::Release);
    }

    /// See `set_last`.
    pub fn last(&self) -> SequenceNumber {
        SequenceNumber(self.last.load(Ordering::Acquire))
    }

    /// Its length.
    pub fn size(&self) -> SegmentSize {
        self.size
    }

    /// Chunks handed out so far.
    pub fn claimed(&self) -> usize {
        self.next_chunk.load(Ordering::Relaxed).min(self.size.chunks)
    }

    /// Bytes of the chunks handed out so far.
    pub fn claimed_bytes(&self) -> u64 {
        (self.claimed() * self.size.chunk_bytes) as u64
    }

    /// Drops the segment's pages from memory. Those of a shadow stay for the next segment.
    pub fn release_pages(&self) {
        if let Place::File(map) = &self.place {
            map.rest();
        }
    }

    /// Makes all stores to it durable. Once it has failed it always fails.
    pub fn sync(&self) -> Result<()> {
        self.fail_permanently(|| match &self.place {
            Place::File(map) => map.sync(),
            Place::Shadow(writeback) => writeback.sync(),
        })
    }

    /// The same for records; a mark becomes durable with `release_shadow_and_trim`.
    pub fn sync_records(&self) -> Result<()> {
        self.fail_permanently(|| match &self.place {
            Place::File(map) => map.sync(),
            Place::Shadow(writeback) => writeback.sync_records(),
        })
    }

    /// Whether so much is only in a shadow (half of the segment) that it should be written back before the next sync.
    pub fn wants_writeback(&self) -> bool {
        let before = self.claimed_at_sync.load(Ordering::Relaxed);
        self.has_shadow() && 2 * self.claimed().saturating_sub(before) >= self.size.chunks
    }

    /// Writes a shadow back; the next sync makes it durable. A failure fails that sync, too.
    pub fn write_back(&self) -> Result<()> {
        match &self.place {
            Place::File(_) => Ok(()),
            Place::Shadow(writeback) => self.fail_permanently(|| writeback.write()),
        }
    }

    /// Whether its file may become another segment: all of it is there, and no slow thread may still write to a mapping
    /// of it.
    pub fn is_reusable(&self) -> bool {
        self.has_shadow() && !self.trimmed.load(Ordering::Relaxed)
    }

    /// Whether it has a shadow, or had one.
    pub fn has_shadow(&self) -> bool {
        matches!(self.place, Place::Shadow(_))
    }

    /// Releases the shadow, if there is one. Requires that the segment was synced after its last record was sealed.
    pub fn release_shadow(&self) -> Result<Option<Shadow>> {
        self.finish(|writeback| writeback.finish())
    }

    /// The same, and makes the last mark durable. The file then ends behind the last chunk in use, or behind the header
    /// page if all of its numbers are `<= incorporated`.
    pub fn release_shadow_and_trim(&self, incorporated: SequenceNumber) -> Result<Option<Shadow>> {
        let chunks = if self.last() <= incorporated { 0 } else { self.claimed() };
        let used = SegmentSize { chunks, ..self.size };
        self.trimmed.store(true, Ordering::Relaxed);
        self.finish(|writeback| writeback.finish_and_trim(used))
    }

    fn finish(&self, act: impl FnOnce(&Writeback) -> Result<Option<Shadow>>) -> Result<Option<Shadow>> {
        let mut shadow = None;
        if let Place::Shadow(writeback) = &self.place {
            self.fail_permanently(|| {
                shadow = act(writeback)?;
                Ok(())
            })?;
        }
        Ok(shadow)
    }

    fn fail_permanently(&self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut failure = self.failure.lock();
        if let Some(error) = &*failure {
            return Err(error.clone());
        }
        self.claimed_at_sync.store(self.claimed(), Ordering::Relaxed);
        act().map_err(|error| {
            let error = match error {
                // The mapping may be older than the file's present name.
                Error::Io { operation, source, .. } => Error::Io { operation, path: self.path.clone(), source },
                other => other,
            };
            // The file has its blocks, so this is no full disk that passes.
            let error = if error.is_disk_full() { Error::ReadOnly { reason: error.to_string() } } else { error };
            *failure = Some(error.clone());
            error
        })
    }
}

/// The header page of a segment.
pub fn header_page(header: &SegmentHeader, mark: Option<Mark>) -> Box<[u8; PAGE_BYTES]> {
    let sector = header.encode();
    let mut page = Box::new([0; PAGE_BYTES]);
    page[..sector.len()].copy_from_slice(&sector);
    if let Some(mark) = mark {
        let bytes = mark.encode(Salt::new(header.database, header.number));
        page[mark.offset()..mark.offset() + bytes.len()].copy_from_slice(&bytes);
    }
    page
}
