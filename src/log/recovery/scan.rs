//! Finds the log's files in the store's directory, and distinguishes those that hold records from those that do not.
//! One thread, before the store is open.

use super::input::{Access, RecoveryInput};
use super::old_segment::OldSegment;
use crate::format::log_record::Salt;
use crate::format::log_segment::{Mark, PAGE_BYTES, SECTOR_BYTES, SegmentHeader};
use crate::io::{OpenMode, Storage, StorageFile};
use crate::log::files::{Role, parse_file_name};
use crate::log::poison::leave_poison;
use crate::log::shadow::reader::{self, ShadowReader};
use crate::util::planted::planted;
use crate::util::sync::Arc;
use crate::util::{DatabaseId, Error, FileNumber, Result, SequenceNumber};
use std::path::{Path, PathBuf};

/// How often a segment's header is read while a writer changes it.
const LOOKS_MAX: u32 = 3;

/// A segment with records of a log epoch that is not forgotten.
#[derive(Debug)]
pub struct SegmentFile {
    /// Its name.
    pub name: String,
    /// Full path, for messages.
    pub path: PathBuf,
    /// Its header.
    pub header: SegmentHeader,
    /// The salt of its checksums.
    pub salt: Salt,
    /// Its newest mark.
    pub mark: Option<Mark>,
    /// Open for aligned reads.
    pub file: Arc<dyn StorageFile>,
}

/// The log files of the directory.
#[derive(Debug, Default)]
pub struct Scan {
    /// By log epoch, then number.
    pub segments: Vec<SegmentFile>,
    /// Files that hold nothing that counts.
    pub unused: Vec<OldSegment>,
    /// The greatest log epoch in a header.
    pub epoch_max: u64,
    /// Bytes of the segments that were found in shared memory.
    pub memory_bytes: u64,
}

/// Scans the directory. For a writer it syncs every segment that counts, so that nothing that recovery has read can be
/// lost later. `trusts_cache` says for a log epoch whether reads may be served by the page cache.
pub fn scan(input: &RecoveryInput<'_>, trusts_cache: impl Fn(u64) -> bool) -> Result<Scan> {
    let RecoveryInput { storage, database, epochs_from, files_from, access, .. } = *input;
    let mode = if access == Access::Write { OpenMode::ReadWrite } else { OpenMode::Read };
    let mut found = Scan::default();
    for name in storage.list()? {
        let Some((number, role)) = parse_file_name(&name) else { continue };
        if role != Role::Segment && access != Access::Write {
            // A writer may be renaming it just now, and it holds nothing that counts.
            continue;
        }
        let file = storage.open(&name, mode)?;
        let counted = role == Role::Segment && number >= files_from;
        let header = if counted { Some(read_page(storage, &name, &*file)?) } else { None };
        match header {
            Some((header, page)) if counts(&storage.path_of(&name), number, &header, database, epochs_from)? => {
                let trusts_cache = trusts_cache(header.epoch);
                let Opened { header, page, file, from_shadow } =
                    with_shadow(input, &name, (header, page, file), trusts_cache)?;
                if access == Access::Write {
                    file.sync().inspect_err(|error| sync_failed(input, header.epoch, error))?;
                }
                found.epoch_max = found.epoch_max.max(header.epoch);
                found.memory_bytes += if from_shadow { header.segment_bytes } else { 0 };
                let file =
                    if trusts_cache || from_shadow { file } else { storage.open(&name, OpenMode::ReadDirect)? };
                let salt = Salt::new(database, header.number);
                let mark = Mark::newest(&page, salt);
                found.segments.push(SegmentFile { path: storage.path_of(&name), name, header, salt, mark, file });
            }
            other => {
                let epoch = other.map_or(0, |(header, _)| header.epoch);
                found.epoch_max = found.epoch_max.max(epoch);
                let bytes = file.length()?;
                let last = SequenceNumber::ZERO;
                found.unused.push(OldSegment { name, number, epoch, last, bytes, used: 0, unused: true });
            }
        }
    }
    found.segments.sort_by_key(|segment| (segment.header.epoch, segment.header.number));
    Ok(found)
}

/// A segment as it will be read.
struct Opened {
    header: SegmentHeader,
    page: Box<[u8; PAGE_BYTES]>,
    file: Arc<dyn StorageFile>,
    /// From its shadow.
    from_shadow: bool,
}

/// Looks for the shadow of a segment. For a writer it copies what only the shadow has to the file. The shadow is
/// memory, so it is trusted in every life and after every failed sync. It may be missing only under the power-loss
/// rule.
fn with_shadow(
    input: &RecoveryInput<'_>,
    name: &str,
    (mut header, mut page, file): (SegmentHeader, Box<[u8; PAGE_BYTES]>, Arc<dyn StorageFile>),
    trusted: bool,
) -> Result<Opened> {
    let storage = input.storage;
    // An edit covers only what was durable in the file before the edit.
    let covered = input.recovered.iter().any(|entry| entry.epoch >= header.epoch);
    for _ in 0..LOOKS_MAX {
        if planted!(covered || header.memory.is_none(), Bug::ShadowIgnored => true) {
            break;
        }
        if let Some(shadow) = reader::find(storage, &header, &page[..])? {
            if input.access == Access::Write {
                reader::restore(&*shadow, &*file, header.segment_bytes)?;
                file.read_exact_at(&mut page[..], 0)?;
                break;
            }
            let reader = ShadowReader::new(shadow, file, &page[..]);
            let page = reader.page()?;
            return Ok(Opened { header, page, file: Arc::new(reader), from_shadow: true });
        }
        // A writer may just have finished the segment.
        let before = header;
        (header, page) = read_page(storage, name, &*file)?;
        if header == before {
            let same_life = input.life.is_some() && header.life == input.life && trusted && !input.force_cut;
            if same_life && input.segments.contains(&header.number) {
                return Err(reader::missing(storage, &storage.path_of(name), &header));
            }
            break;
        }
    }
    Ok(Opened { header, page, file, from_shadow: false })
}

/// Poisons the log after a failed sync. Otherwise the next opening would sync successfully, although this failure has
/// dropped pages, and would trust the page cache. A log epoch that an edit covers was synced before that edit, and
/// nothing was written to it since.
fn sync_failed(input: &RecoveryInput<'_>, epoch: u64, error: &Error) {
    if input.recovered.iter().all(|recovered| recovered.epoch < epoch) {
        // If the disk permits it. The caller gets the error of the sync.
        let _ = leave_poison(input.storage, epoch, &error.to_string());
    }
}

fn read_page(
    storage: &dyn Storage,
    name: &str,
    file: &dyn StorageFile,
) -> Result<(SegmentHeader, Box<[u8; PAGE_BYTES]>)> {
    let path = storage.path_of(name);
    let length = file.length()?;
    if length < PAGE_BYTES as u64 {
        return Err(Error::corruption(&path, 0, "length of a log segment", "a header page", length));
    }
    let mut page = Box::new([0; PAGE_BYTES]);
    file.read_exact_at(&mut page[..], 0)?;
    let Some(sector) = page.first_chunk::<SECTOR_BYTES>() else { unreachable!("a page is longer than a sector") };
    let header = SegmentHeader::decode(sector, &path)?;
    if length < header.segment_bytes {
        return Err(Error::corruption(&path, length, "length of a log segment", header.segment_bytes, length));
    }
    Ok((header, page))
}

/// Whether the segment's records count; an error if the file is not what its name says.
fn counts(
    path: &Path,
    number: FileNumber,
    header: &SegmentHeader,
    database: DatabaseId,
    epochs_from: u64,
) -> Result<bool> {
    let bad = |offset, what, expected, found| Err(Error::corruption(path, offset, what, expected, found));
    if header.database != database {
        return bad(16, "database id of a log segment", database.to_string(), header.database.to_string());
    }
    if header.number > number {
        return bad(24, "number of a log segment", number.to_string(), header.number.to_string());
    }
    // A smaller number in the header: the file was renamed for reuse, but not yet prepared.
    Ok(header.number == number && header.epoch >= epochs_from)
}
