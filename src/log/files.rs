//! The files of the log: how a segment's file is made, reused and removed. Not on the write path.
//!
//! Invariants:
//! 1. A file is called `{number}.log` only if it has a valid header, followed by real zeroes or old records. A new file
//!    is first written completely and synced under the name `{number}.log.new`.
//! 2. To recycle a file, it is renamed, the directory is synced, and only then is its header rewritten and synced. So
//!    the number in its name is never below the one in its header. If it is above, the file holds nothing that counts:
//!    its old records were incorporated before it was recycled.
//! 3. No record is written to a segment before its name and header are durable and the manifest names it. So if a
//!    segment that the manifest names is missing, its contents are lost, whatever they were.

use super::basics::chunk_owners::ChunkOwners;
use super::basics::names::{Role, file_name};
use super::basics::segment_size::SegmentSize;
use super::basics::zeroes::fill_with_zeroes;
use super::segment::{Segment, SegmentParts, header_page};
use super::settings::{LogIdentity, NameSegment};
use super::shadow::shadows::Shadow;
use super::shadow::writeback::Writeback;
use crate::format::log_segment::{Mark, PAGE_BYTES, SegmentHeader};
use crate::io::{OpenMode, Storage};
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result, SequenceNumber};

/// A file that is kept for reuse.
#[derive(Debug)]
pub struct FreeFile {
    /// Its name.
    pub name: String,
    /// Its length.
    pub bytes: u64,
}

/// The size and identity of a segment that will be made.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The log that it belongs to.
    pub identity: &'a LogIdentity,
    /// Its length.
    pub size: SegmentSize,
    /// Whether it is for one large record.
    pub dedicated: bool,
    /// The newest mark, copied so that it outlives the segment that contains it.
    pub mark: Option<Mark>,
    /// Written first; of the same size.
    pub shadow: Option<&'a Shadow>,
}

impl Plan<'_> {
    fn header(&self, number: FileNumber) -> SegmentHeader {
        SegmentHeader {
            database: self.identity.database,
            number,
            epoch: self.identity.epoch,
            first: self.identity.first,
            life: self.identity.life,
            segment_bytes: self.size.bytes() as u64,
            chunk_bytes: self.size.chunk_bytes as u64,
            shadow: self.shadow.and_then(|shadow| shadow.number),
        }
    }
}

/// Makes a segment with a new file.
pub fn create_segment(storage: &dyn Storage, number: FileNumber, plan: Plan<'_>) -> Result<Segment> {
    let fresh = file_name(number, Role::New);
    let header = plan.header(number);
    let page = header_page(&header, plan.mark);
    if let Some(shadow) = plan.shadow {
        shadow.begin(&page);
    }
    let made = write_fresh(storage, &fresh, &header, &page).and_then(|()| {
        let name = file_name(number, Role::Segment);
        storage.rename(&fresh, &name)?;
        storage.sync_directory()?;
        start(storage, number, plan, page)
    });
    made.inspect_err(|_| {
        // A file that is not written completely only takes space; recovery would drop it, too.
        let _ = storage.remove(&fresh);
    })
}

/// Makes a segment from a file of the same length that was used before.
pub fn reuse_segment(storage: &dyn Storage, file: &FreeFile, number: FileNumber, plan: Plan<'_>) -> Result<Segment> {
    let name = file_name(number, Role::Segment);
    let page = header_page(&plan.header(number), plan.mark);
    if let Some(shadow) = plan.shadow {
        shadow.begin(&page);
    }
    storage.rename(&file.name, &name)?;
    storage.sync_directory()?;
    // By one write of one page, not through the mapping. A kill between two stores would leave a header that is neither
    // old nor new, and a store that does not open.
    let header = storage.open(&name, OpenMode::ReadWrite)?;
    header.write_all_at(&page[..], 0)?;
    header.sync()?;
    start(storage, number, plan, page)
}

/// A segment over a finished file.
fn start(storage: &dyn Storage, number: FileNumber, plan: Plan<'_>, page: Box<[u8; PAGE_BYTES]>) -> Result<Segment> {
    let name = file_name(number, Role::Segment);
    if let Some(shadow) = plan.shadow {
        let file = storage.open(&name, OpenMode::WriteDirect)?;
        let writeback = Writeback::new(shadow.clone(), file, plan.header(number), page);
        let parts = parts(storage, number, plan, Arc::clone(&shadow.owners));
        return Segment::with_shadow(writeback, parts, plan.identity);
    }
    let owners = Arc::new(ChunkOwners::new(plan.size.chunks));
    Segment::new(storage.map(&name)?, parts(storage, number, plan, owners), plan.identity)
}

fn parts(storage: &dyn Storage, number: FileNumber, plan: Plan<'_>, owners: Arc<ChunkOwners>) -> SegmentParts {
    let name = file_name(number, Role::Segment);
    SegmentParts { number, path: storage.path_of(&name), name, size: plan.size, owners, dedicated: plan.dedicated }
}

/// Writes a segment's file: a header page, then zeroes.
fn write_fresh(storage: &dyn Storage, name: &str, header: &SegmentHeader, page: &[u8; PAGE_BYTES]) -> Result<()> {
    let file = storage.open(name, OpenMode::Create)?;
    file.write_all_at(page, 0)?;
    fill_with_zeroes(&*file, page.len(), header.segment_bytes as usize)
}

/// Invariant 3. If there is no space for the edit, the file is removed again. After another failure it is unknown
/// whether the edit is durable, so the file stays.
pub fn name_segment(
    storage: &dyn Storage,
    segment: &Segment,
    synced: SequenceNumber,
    name: &NameSegment,
) -> Result<u64> {
    name(segment.number, synced).inspect_err(|error| {
        if error.is_disk_full() {
            // A file that remains here is found as a stray at the next opening.
            let _ = storage.remove(&segment.name);
        }
    })
}
