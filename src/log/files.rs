//! The files of the log: their names, how a segment's file is made, reused and removed. Off the write path.
//!
//! Invariants:
//! 1. A file is called `{number}.log` only when it has a valid header and real zeroes or old records behind it: a new
//!    one is written whole and synced under the name `{number}.log.new` first.
//! 2. A recycled file is renamed, the directory synced, and only then its header rewritten and synced. So its name's
//!    number is never below its header's; where it is above, the file holds nothing (its old records were
//!    incorporated before it was recycled).
//! 3. No record is written to a segment before both name and header are durable, and the manifest names it. So a segment that the
//!    manifest names and that is not there is lost, whatever it held.

use super::chunk_owners::ChunkOwners;
use super::segment::{Reuse, Segment, SegmentParts, header_page, segment_file_bytes};
use super::settings::{LogIdentity, NameSegment};
use super::shadow::copy::Shadow;
use super::shadow::writeback::Writeback;
use crate::format::log_segment::{Mark, PAGE_BYTES, SegmentHeader};
use crate::io::{OpenMode, Storage};
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result, SequenceNumber};

/// The file that a failed sync leaves behind.
pub const POISON: &str = "POISON";
/// Zeroes are written in pieces of this size.
const PIECE_BYTES: usize = 1 << 20;

/// What the name of a file of the log says about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// A segment.
    Segment,
    /// A former segment, kept for reuse.
    Free,
    /// Not finished.
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

/// Takes a name apart; `None` where it is no file of the log.
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

/// A file without a use, of the standard length.
#[derive(Debug)]
pub struct FreeFile {
    /// Its name.
    pub name: String,
    /// Its mapping and owners, where it was a segment of this process.
    pub reuse: Option<Reuse>,
}

/// The size and identity of a segment to be made.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// Whose it is.
    pub identity: &'a LogIdentity,
    /// How many chunks.
    pub chunks: usize,
    /// How long each.
    pub chunk_bytes: usize,
    /// For one large record.
    pub dedicated: bool,
    /// The newest mark, carried on so that it outlives the segment that it stands in.
    pub mark: Option<Mark>,
    /// Memory to write to first, for a segment of the standard size that is not dedicated.
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

/// Makes a segment from nothing.
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
        // A file that could not be written whole only takes room; recovery would drop it, too.
        let _ = storage.remove(&fresh);
    })
}

/// Makes a segment from a file that served before.
pub fn reuse_segment(storage: &dyn Storage, file: FreeFile, number: FileNumber, plan: Plan<'_>) -> Result<Segment> {
    let name = file_name(number, Role::Segment);
    // A slow thread may still write to the file's mapping; then it stays mapped.
    let reuse = file.reuse.filter(|(_, owners)| plan.shadow.is_none() || owners.owned() > 0);
    let plan = if reuse.is_some() { Plan { shadow: None, ..plan } } else { plan };
    let page = header_page(&plan.header(number), plan.mark);
    if let Some(shadow) = plan.shadow {
        shadow.begin(&page);
    }
    storage.rename(&file.name, &name)?;
    storage.sync_directory()?;
    // By one write of one page, not through the mapping: a kill between two stores would leave a header that is neither old
    // nor new, and a store that does not open.
    let header = storage.open(&name, OpenMode::ReadWrite)?;
    header.write_all_at(&page[..], 0)?;
    header.sync()?;
    start(storage, number, plan, reuse, page)
}

/// A segment over a file that is ready.
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
        let write_out = Writeback::new(shadow.clone(), file, plan.header(number), page);
        return Segment::with_twin(write_out, parts(storage, number, plan, Arc::clone(&shadow.owners)), plan.identity);
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

/// Writes real zeroes: a hole could not be filled on a full disk, and a store to the mapping has no way to say so.
fn write_fresh(storage: &dyn Storage, name: &str, header: &SegmentHeader, page: &[u8; PAGE_BYTES]) -> Result<()> {
    let file = storage.open(name, OpenMode::Create)?;
    let bytes = header.segment_bytes as usize;
    file.write_all_at(page, 0)?;
    let zeroes = vec![0; PIECE_BYTES.min(bytes - page.len())];
    let mut at = page.len();
    while at < bytes {
        let piece = zeroes.len().min(bytes - at);
        file.write_all_at(&zeroes[..piece], at as u64)?;
        at += piece;
    }
    file.sync()
}

/// Invariant 3. Where the disk is full for it the file goes again; after another failure nobody knows whether it was named, and it
/// stays.
pub fn name_segment(
    storage: &dyn Storage,
    segment: &Segment,
    synced: SequenceNumber,
    name: &NameSegment,
) -> Result<u64> {
    name(segment.number, synced).inspect_err(|error| {
        if error.is_disk_full() {
            // What is left behind is found as stray at the next opening.
            let _ = storage.remove(&segment.name);
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip_and_others_are_left_alone() {
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
