//! The files of the log: their names, and how a segment's file is made, reused and removed. Not on the write path.
//!
//! Invariants:
//! 1. A file is called `{number}.log` only if it has a valid header, followed by real zeroes or old records. A new file
//!    is first written completely and synced under the name `{number}.log.new`.
//! 2. To recycle a file, it is renamed, the directory is synced, and only then is its header rewritten and synced. So
//!    the number in its name is never below the one in its header. If it is above, the file holds nothing that counts:
//!    its old records were incorporated before it was recycled.
//! 3. No record is written to a segment before its name and header are durable and the manifest names it. So if a
//!    segment that the manifest names is missing, its contents are lost, whatever they were.

use super::chunk_owners::ChunkOwners;
use super::segment::{Reuse, Segment, SegmentParts, header_page, segment_file_bytes};
use super::settings::{LogIdentity, NameSegment};
use super::shadow::copy::Shadow;
use super::shadow::writeback::Writeback;
use crate::format::log_segment::{Mark, PAGE_BYTES, SegmentHeader};
use crate::io::{AlignedBuffer, OpenMode, Storage};
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result, SequenceNumber};

/// The file that a failed sync leaves.
pub const POISON: &str = "POISON";
/// Zeroes are written in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// What kind of log file a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A segment.
    Segment,
    /// A former segment, kept for reuse.
    Free,
    /// A segment that is not finished.
    New,
}

/// The name of a file of the log.
pub fn file_name(number: FileNumber, role: Role) -> String {
    match role {
        Role::Segment => format!("{number}.log"),
        Role::Free => format!("{number}.free"),
        Role::New => format!("{number}.log.new"),
    }
}

/// Parses a name. `None` if it is not that of a log file.
pub fn parse_file_name(name: &str) -> Option<(FileNumber, Role)> {
    let (digits, extension) = name.split_once('.')?;
    let role = match extension {
        "log" => Role::Segment,
        "free" => Role::Free,
        "log.new" => Role::New,
        _ => return None,
    };
    let number = FileNumber(digits.parse().ok()?);
    (file_name(number, role) == name).then_some((number, role))
}

/// A file of the standard length that is kept for reuse.
#[derive(Debug)]
pub struct FreeFile {
    /// Its name.
    pub name: String,
    /// Its mapping and chunk owners, if it was a segment of this process.
    pub reuse: Option<Reuse>,
}

/// The size and identity of a segment that will be made.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The log that it belongs to.
    pub identity: &'a LogIdentity,
    /// The number of chunks.
    pub chunks: usize,
    /// The length of a chunk.
    pub chunk_bytes: usize,
    /// Whether it is for one large record.
    pub dedicated: bool,
    /// The newest mark, copied so that it outlives the segment that contains it.
    pub mark: Option<Mark>,
    /// Shared memory to write to first; only for a segment of the standard size that is not dedicated.
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
            segment_bytes: segment_file_bytes(self.chunks, self.chunk_bytes) as u64,
            chunk_bytes: self.chunk_bytes as u64,
            memory: self.shadow.map(|shadow| shadow.piece),
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
        start(storage, number, plan, None, page)
    });
    made.inspect_err(|_| {
        // A file that is not written completely only takes space; recovery would drop it, too.
        let _ = storage.remove(&fresh);
    })
}

/// Makes a segment from a file that was used before.
pub fn reuse_segment(storage: &dyn Storage, file: FreeFile, number: FileNumber, plan: Plan<'_>) -> Result<Segment> {
    let name = file_name(number, Role::Segment);
    // A slow thread may still write to the file's mapping. Then it stays mapped.
    let reuse = file.reuse.filter(|(_, owners)| plan.shadow.is_none() || owners.owned() > 0);
    let plan = if reuse.is_some() { Plan { shadow: None, ..plan } } else { plan };
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
    start(storage, number, plan, reuse, page)
}

/// A segment over a finished file.
fn start(
    storage: &dyn Storage,
    number: FileNumber,
    plan: Plan<'_>,
    reuse: Option<Reuse>,
    page: Box<[u8; PAGE_BYTES]>,
) -> Result<Segment> {
    let name = file_name(number, Role::Segment);
    if let Some(shadow) = plan.shadow {
        let file = storage.open(&name, OpenMode::WriteDirect)?;
        let writeback = Writeback::new(shadow.clone(), file, plan.header(number), page);
        return Segment::with_shadow(
            writeback,
            parts(storage, number, plan, Arc::clone(&shadow.owners)),
            plan.identity,
        );
    }
    let (map, owners) = match reuse {
        Some(reuse) => reuse,
        None => (storage.map(&name)?, Arc::new(ChunkOwners::new(plan.chunks))),
    };
    Segment::new(map, parts(storage, number, plan, owners), plan.identity)
}

fn parts(storage: &dyn Storage, number: FileNumber, plan: Plan<'_>, owners: Arc<ChunkOwners>) -> SegmentParts {
    let name = file_name(number, Role::Segment);
    SegmentParts {
        number,
        path: storage.path_of(&name),
        name,
        chunk_bytes: plan.chunk_bytes,
        chunks: plan.chunks,
        owners,
        dedicated: plan.dedicated,
    }
}

/// Writes real zeroes. A hole could not be filled on a full disk, and a store to the mapping cannot report that.
fn write_fresh(storage: &dyn Storage, name: &str, header: &SegmentHeader, page: &[u8; PAGE_BYTES]) -> Result<()> {
    let file = storage.open(name, OpenMode::Create)?;
    let bytes = header.segment_bytes as usize;
    file.write_all_at(page, 0)?;
    // Pages of the kernel that are only read take no memory. The allocator would keep a megabyte for each thread.
    let zeroes = AlignedBuffer::new(PIECE_BYTES.min((bytes - page.len()).next_multiple_of(PAGE_BYTES)).max(PAGE_BYTES));
    let mut at = page.len();
    while at < bytes {
        let piece = zeroes.len().min(bytes - at);
        file.write_all_at(&zeroes[..piece], at as u64)?;
        at += piece;
    }
    file.sync()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_other_names_are_rejected() {
        for role in [Role::Segment, Role::Free, Role::New] {
            for number in [1, 999_999, 1_000_000, u64::MAX] {
                let number = FileNumber(number);
                assert_eq!(parse_file_name(&file_name(number, role)), Some((number, role)));
            }
        }
        for name in ["", "LOCK", "1.log", "0000001.log", "+00001.log", "000001.branch", "000001.log.tmp", "000001"] {
            assert_eq!(parse_file_name(name), None, "{name}");
        }
    }
}
