//! Finds the log's files in the store's directory, and distinguishes those that hold records from those that do not.
//! One thread, before the store is open.

use super::input::{Access, RecoveryInput};
use super::old_segment::OldSegment;
use crate::format::log_record::Salt;
use crate::format::log_segment::{Mark, PAGE_BYTES, SECTOR_BYTES, SegmentHeader};
use crate::io::{OpenMode, Storage, StorageFile};
use crate::log::basics::names::{Role, parse_file_name};
use crate::log::shadow::source;
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
    /// Its shadow, which may have more.
    pub shadow: Option<ShadowFile>,
}

/// The shadow of a segment.
#[derive(Debug)]
pub struct ShadowFile {
    file: Arc<dyn StorageFile>,
    /// Whether the power-loss rule applies: then unreadable bytes are bytes that are not there.
    is_optional: bool,
}

impl ShadowFile {
    /// Its path, for messages.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// Reads from it.
    pub fn read(&self, buffer: &mut [u8], offset: u64) -> Result<()> {
        match self.file.read_exact_at(buffer, offset) {
            Err(error) if self.is_optional && error.is_damage() => {
                buffer.fill(0);
                Ok(())
            }
            read => read,
        }
    }
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
    /// Bytes of the shadows that are read.
    pub shadow_bytes: u64,
}

/// Scans the directory. `trusts_cache` says for a log epoch whether reads may be served by the page cache.
pub fn scan(input: &RecoveryInput<'_>, trusts_cache: impl Fn(u64) -> bool) -> Result<Scan> {
    let RecoveryInput { storage, database, epochs_from, files_from, access, .. } = *input;
    let mode = if access == Access::Write { OpenMode::ReadWrite } else { OpenMode::Read };
    let mut found = Scan::default();
    for name in storage.list()? {
        let Some((number, role)) = parse_file_name(&name) else { continue };
        if role == Role::Shadow {
            // Found by the header of its segment.
            continue;
        }
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
                let Opened { header, mark, shadow } = with_shadow(input, &name, (header, page), &*file, trusts_cache)?;
                found.epoch_max = found.epoch_max.max(header.epoch);
                found.shadow_bytes += if shadow.is_some() { header.segment_bytes } else { 0 };
                let file = if trusts_cache { file } else { storage.open(&name, OpenMode::ReadDirect)? };
                let (path, salt) = (storage.path_of(&name), Salt::new(database, header.number));
                found.segments.push(SegmentFile { path, name, header, salt, mark, file, shadow });
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
    mark: Option<Mark>,
    shadow: Option<ShadowFile>,
}

/// Looks for the shadow of a segment. In the same life it must be there and belong to the segment, and its marks count.
/// In another life, after a failed sync, or with `force_cut`, it may be missing, and any page of it may be old: its
/// valid records count, its marks do not (`docs/recovery.md`, H2).
fn with_shadow(
    input: &RecoveryInput<'_>,
    name: &str,
    (mut header, mut page): (SegmentHeader, Box<[u8; PAGE_BYTES]>),
    file: &dyn StorageFile,
    trusted: bool,
) -> Result<Opened> {
    let storage = input.storage;
    let mark =
        |page: &[u8; PAGE_BYTES], header: &SegmentHeader| Mark::newest(page, Salt::new(input.database, header.number));
    // An edit covers only what was durable in the file before the edit.
    let covered = input.recovered.iter().any(|entry| entry.epoch >= header.epoch);
    for _ in 0..LOOKS_MAX {
        if planted!(covered || header.shadow.is_none(), Bug::ShadowIgnored => true) {
            break;
        }
        let is_same = input.life.is_some() && header.life == input.life && trusted && !input.force_cut;
        let same_life = planted!(is_same, Bug::ShadowMarksTrusted => true);
        let shadow = source::find(storage, &header)?;
        if let (Some(file), false) = (&shadow, same_life) {
            let shadow = ShadowFile { file: Arc::clone(file), is_optional: true };
            return Ok(Opened { mark: mark(&page, &header), header, shadow: Some(shadow) });
        }
        if let Some(file) = shadow
            && let Some(shadow_page) = source::page_of(&*file, &page)?
        {
            let marks = [mark(&shadow_page, &header), mark(&page, &header)];
            let newest = marks.into_iter().flatten().max_by_key(|mark| mark.counter);
            let shadow = ShadowFile { file, is_optional: false };
            return Ok(Opened { mark: newest, header, shadow: Some(shadow) });
        }
        // A writer may just have finished the segment.
        let before = header;
        (header, page) = read_page(storage, name, file)?;
        if header == before {
            if same_life && input.segments.contains(&header.number) {
                let synced = mark(&page, &header).map(|mark| mark.synced_through).unwrap_or_default();
                let synced = synced.max(input.synced).max(input.incorporated);
                return Err(source::missing(storage, &storage.path_of(name), &header, synced));
            }
            break;
        }
    }
    Ok(Opened { mark: mark(&page, &header), header, shadow: None })
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
