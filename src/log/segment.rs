//! A segment of this generation: a mapped file of chunks, or its twin in shared memory, and who owns which chunk of it.
//!
//! Any thread. Invariants:
//! 1. The bytes of a chunk are written only by the `LogWriter` that owns the chunk in the file's `ChunkOwners`. The
//!    owners belong to the file, not to one use of it: a writer that sat idle over the file's recycling still owns its
//!    chunk there, and the next use passes over that chunk. So an idle thread pins a chunk and no segment, and a
//!    body that a slow thread is still filling never lands on somebody's sealed record.
//! 2. The header page is written by the thread that makes the segment, before anyone else sees it, and from then on
//!    only (marks) under the log's state lock while the segment is current.
//! 3. `retired` is set once, before the grace period after which the segment is sealed (see `keeper`).
//! 4. A chunk is handed out once per use of the file: `claim` takes it off `next_chunk`.

use super::chunk_owners::ChunkOwners;
use super::settings::LogIdentity;
use super::shadow::copy::Shadow;
use super::shadow::writeback::Writeback;
use crate::format::log_record::Salt;
use crate::format::log_segment::{Mark, PAGE_BYTES, SegmentHeader};
use crate::io::MappedFile;
use crate::util::sync::{Arc, AtomicBool, AtomicU64, AtomicUsize, Mutex, Ordering};
use crate::util::{Error, FileNumber, Result, SequenceNumber};
use crossbeam_utils::CachePadded;
use std::path::PathBuf;
use std::ptr::NonNull;

/// What a file's next use takes over from this one.
pub type Reuse = (Arc<dyn MappedFile>, Arc<ChunkOwners>);

/// The mapped memory of a segment.
#[derive(Debug)]
struct Memory(NonNull<u8>);

// SAFETY: the pointer is to shared mapped memory that any thread may write to by invariants 1 and 2.
unsafe impl Send for Memory {}
// SAFETY: as for `Send`.
unsafe impl Sync for Memory {}

/// Where what is stored to the memory goes.
#[derive(Debug)]
enum Place {
    /// To the file, by the kernel.
    File(Arc<dyn MappedFile>),
    /// To a twin, and from there to the file.
    Shadow(Writeback),
}

/// See the module.
#[derive(Debug)]
pub struct Segment {
    /// Its number, part of its salt.
    pub number: FileNumber,
    /// Its file's name.
    pub name: String,
    /// What its checksums are salted with.
    pub salt: Salt,
    /// Made for one large record: nobody but that record's writer gets a chunk of it.
    pub dedicated: bool,
    memory: Memory,
    place: Place,
    path: PathBuf,
    chunk_bytes: usize,
    chunks: usize,
    owners: Arc<ChunkOwners>,
    retired: AtomicBool,
    /// The writer of a dedicated segment is done with it.
    abandoned: AtomicBool,
    /// Once sealed: no record in it has a greater number.
    last: AtomicU64,
    /// Chunks made writable ahead since the last sync; a hint.
    populated: AtomicUsize,
    /// `next_chunk` at the last sync, or when the twin was last written out; a hint.
    claimed_at_sync: AtomicUsize,
    /// The failure of a sync, which the system tells only once: whoever syncs after it must not believe a success.
    failure: Mutex<Option<Error>>,
    next_chunk: CachePadded<AtomicUsize>,
}

/// What a segment is made of, besides its mapping.
#[derive(Debug)]
pub struct SegmentParts {
    /// See `Segment`.
    pub number: FileNumber,
    /// See `Segment`.
    pub name: String,
    /// Full path, for messages.
    pub path: PathBuf,
    /// Length of a chunk.
    pub chunk_bytes: usize,
    /// How many chunks.
    pub chunks: usize,
    /// The owners of the mapping's chunks.
    pub owners: Arc<ChunkOwners>,
    /// See `Segment`.
    pub dedicated: bool,
}

impl Segment {
    /// A segment over a mapped file. Requires a mapping of a header page and all chunks.
    pub fn new(map: Arc<dyn MappedFile>, parts: SegmentParts, identity: &LogIdentity) -> Result<Self> {
        Self::over(Arc::clone(&map), Place::File(map), parts, identity)
    }

    /// A segment with a twin.
    pub fn with_twin(write_out: Writeback, parts: SegmentParts, identity: &LogIdentity) -> Result<Self> {
        Self::over(Arc::clone(&write_out.shadow().map), Place::Shadow(write_out), parts, identity)
    }

    fn over(map: Arc<dyn MappedFile>, place: Place, parts: SegmentParts, identity: &LogIdentity) -> Result<Self> {
        let bytes = segment_file_bytes(parts.chunks, parts.chunk_bytes);
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
            chunk_bytes: parts.chunk_bytes,
            chunks: parts.chunks,
            owners: parts.owners,
            retired: AtomicBool::new(false),
            abandoned: AtomicBool::new(false),
            last: AtomicU64::new(u64::MAX),
            populated: AtomicUsize::new(0),
            claimed_at_sync: AtomicUsize::new(0),
            failure: Mutex::new(None),
            next_chunk: CachePadded::new(AtomicUsize::new(0)),
        })
    }

    /// Leaves a mark. Requires the log's state lock.
    pub fn write_mark(&self, mark: Mark) {
        let bytes = mark.encode(self.salt);
        // SAFETY: a mark lies within the header page; the state lock keeps others away (invariant 2). The kernel may
        // write the page back meanwhile: a torn mark fails its checksum and leaves the one in the other sector.
        unsafe {
            let to = self.memory.0.as_ptr().add(mark.offset());
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, bytes.len());
        }
        if let Place::Shadow(write_out) = &self.place {
            write_out.mark(mark, self.salt);
        }
    }

    /// Notes that records are sealed in a chunk, or a run of chunks that begins with it, up to a position. Requires ownership.
    #[inline]
    pub fn fill(&self, chunk: usize, position: usize) {
        if let Place::Shadow(write_out) = &self.place {
            write_out.fill(chunk, position);
        }
    }

    /// Hands out `count` adjacent chunks that nobody owns, or `None` where the segment has none left.
    pub fn claim(&self, count: usize) -> Option<usize> {
        loop {
            let next = self.next_chunk.load(Ordering::Relaxed);
            let found = self.owners.free_run(next, count);
            let used = found.map_or(self.chunks, |first| first + count);
            if self.next_chunk.compare_exchange(next, used, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                continue;
            }
            // Of chunks behind `next_chunk` nobody but who moved it there takes any.
            match found {
                Some(first) if self.owners.take(first, count) => return Some(first),
                Some(_) => {}
                None => return None,
            }
        }
    }

    /// Whether none was handed out yet, and idle writers leave no room for `count` adjacent chunks.
    pub fn never_fits(&self, count: usize) -> bool {
        self.claimed() == 0 && self.owners.free_run(0, count).is_none()
    }

    /// Gives up the ownership of chunks. Requires that the caller owned them, and writes no more there.
    pub fn release(&self, first: usize, count: usize) {
        self.owners.release(first, count);
    }

    /// Where a chunk starts in the file.
    pub fn chunk_position(&self, chunk: usize) -> usize {
        PAGE_BYTES + chunk * self.chunk_bytes
    }

    /// The memory of `length` bytes at `position`. Whoever writes there owns the chunk (invariant 1).
    #[inline]
    pub fn memory_at(&self, position: usize, length: usize) -> *mut u8 {
        debug_assert!(position >= PAGE_BYTES && position + length <= self.chunk_position(self.chunks));
        // SAFETY: within the mapping, since writers stay within the chunks that they own.
        unsafe { self.memory.0.as_ptr().add(position) }
    }

    /// Whether another segment has taken this one's place. Acquire, for the reader's own peace: the order that counts
    /// comes from the fence in `Sequencer::announce`.
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

    /// How many chunks it has.
    pub fn chunks(&self) -> usize {
        self.chunks
    }

    /// Chunks handed out so far.
    pub fn claimed(&self) -> usize {
        self.next_chunk.load(Ordering::Relaxed).min(self.chunks)
    }

    /// Bytes of the chunks handed out so far.
    pub fn claimed_bytes(&self) -> u64 {
        (self.claimed() * self.chunk_bytes) as u64
    }

    /// Bytes of the file.
    pub fn file_bytes(&self) -> usize {
        segment_file_bytes(self.chunks, self.chunk_bytes)
    }

    /// Takes the segment's pages out of memory; those of a twin stay for the next segment.
    pub fn rest(&self) {
        if let Place::File(map) = &self.place {
            map.rest();
        }
    }

    /// Makes everything stored in it durable. Once failed it fails for ever.
    pub fn sync(&self) -> Result<()> {
        self.once_failed_for_ever(|| match &self.place {
            Place::File(map) => map.sync(),
            Place::Shadow(write_out) => write_out.sync(),
        })
    }

    /// Whether so much stands in a twin alone that it should be written out ahead of the next sync: half of the segment.
    pub fn wants_write_out(&self) -> bool {
        let before = self.claimed_at_sync.load(Ordering::Relaxed);
        self.has_twin() && 2 * self.claimed().saturating_sub(before) >= self.chunks
    }

    /// Writes a twin out; the next sync makes it durable. A failure is one of that sync, too.
    pub fn write_out(&self) -> Result<()> {
        match &self.place {
            Place::File(_) => Ok(()),
            Place::Shadow(write_out) => self.once_failed_for_ever(|| write_out.write()),
        }
    }

    /// Whether it has a twin, or had one.
    pub fn has_twin(&self) -> bool {
        matches!(self.place, Place::Shadow(_))
    }

    /// Gives the twin up, where there is one. Requires that the segment was synced after its last record was sealed.
    pub fn give_up_twin(&self) -> Result<Option<Shadow>> {
        let mut shadow = None;
        if let Place::Shadow(write_out) = &self.place {
            self.once_failed_for_ever(|| {
                shadow = write_out.finish()?;
                Ok(())
            })?;
        }
        Ok(shadow)
    }

    fn once_failed_for_ever(&self, act: impl FnOnce() -> Result<()>) -> Result<()> {
        let mut failure = self.failure.lock();
        if let Some(error) = &*failure {
            return Err(error.clone());
        }
        // The kernel write-protects every page that it writes back, those made ready ahead among them.
        self.claimed_at_sync.store(self.claimed(), Ordering::Relaxed);
        self.populated.store(0, Ordering::Relaxed);
        act().map_err(|error| {
            let error = match error {
                // The mapping may be older than the file's present name.
                Error::Io { operation, source, .. } => Error::Io { operation, path: self.path.clone(), source },
                other => other,
            };
            *failure = Some(error.clone());
            error
        })
    }

    /// How many chunks to keep writable ahead: as many as were handed out since the last sync, up to `most`. A store
    /// that syncs every write must not have the pages ahead written again and again.
    fn ahead(&self, most: usize) -> usize {
        self.claimed().saturating_sub(self.claimed_at_sync.load(Ordering::Relaxed)).min(most)
    }

    /// Whether fewer than half of the chunks that should be writable ahead are.
    pub fn wants_pages(&self, most: usize) -> bool {
        let claimed = self.claimed();
        if self.has_twin() {
            return false;
        }
        let ready = self.populated.load(Ordering::Relaxed).saturating_sub(claimed);
        claimed < self.chunks && 2 * ready < self.ahead(most)
    }

    /// Makes pages writable ahead of the chunks handed out. Returns how many chunks of the next segment should be.
    pub fn populate(&self, most: usize) -> usize {
        let claimed = self.claimed();
        let ahead = self.ahead(most);
        let until = (claimed + ahead).min(self.chunks);
        self.populate_chunks(claimed, until);
        claimed + ahead - until
    }

    /// Makes the pages of some chunks writable ahead.
    pub fn populate_chunks(&self, from: usize, until: usize) {
        let from = from.max(self.populated.load(Ordering::Relaxed));
        if from < until && until <= self.chunks {
            // A twin's pages are there from the start.
            if let Place::File(map) = &self.place {
                map.prepare(self.chunk_position(from), (until - from) * self.chunk_bytes);
            }
            self.populated.store(until, Ordering::Relaxed);
        }
    }

    /// What the file's next use needs; nothing where it was not mapped.
    pub fn reuse(&self) -> Option<Reuse> {
        match &self.place {
            Place::File(map) => Some((Arc::clone(map), Arc::clone(&self.owners))),
            Place::Shadow(_) => None,
        }
    }
}

/// Bytes of a file with so many chunks.
pub fn segment_file_bytes(chunks: usize, chunk_bytes: usize) -> usize {
    PAGE_BYTES + chunks * chunk_bytes
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
