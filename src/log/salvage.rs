//! Reads log segments without trusting any of them: for `verify`, which lists all damage, and for repair. One thread.
//!
//! Invariants:
//! 1. A record is found by its own salted header wherever it is, so that neither a lost header page nor a damaged
//!    record before it hides it. Records of an earlier use of a recycled file have another salt and are not found.
//! 2. A record counts only if its header and body checksums are right and its body parses.
//! 3. Memory is one window, enlarged for the largest record, whose length a checksum covers.

use super::basics::names::{Role, file_name, parse_file_name};
use super::shadow::source;
use crate::format::log_record::{ALIGNMENT, HEADER_BYTES, Operations, RecordHeader, Salt, record_length};
use crate::format::log_segment::{Mark, PAGE_BYTES, SECTOR_BYTES, SegmentHeader};
use crate::io::{AlignedBuffer, OpenMode, Storage, StorageFile};
use crate::util::sync::Arc;
use crate::util::{DatabaseId, Error, FileNumber, Result, SequenceNumber};
use std::collections::HashSet;
use std::path::Path;

/// Bytes read at once, except for larger records.
const WINDOW_BYTES: usize = 256 << 10;

/// A file with a segment's name.
#[derive(Debug)]
pub struct FoundSegment {
    /// The number in its name.
    pub number: FileNumber,
    /// Its length.
    pub bytes: u64,
    /// Its header, or what is wrong with it.
    pub header: Result<SegmentHeader>,
    /// The header page's contents if its own checksum is right, though the file may be too short for it.
    pub stated: Option<SegmentHeader>,
    /// Its newest mark, if there is such a header.
    pub mark: Option<Mark>,
    file: Arc<dyn StorageFile>,
    /// Its shadow, which may have more.
    shadow: Option<Arc<dyn StorageFile>>,
}

/// A valid record.
#[derive(Debug)]
pub struct FoundRecord<'a> {
    /// Its number.
    pub number: SequenceNumber,
    /// The last number that it covers.
    pub last: SequenceNumber,
    /// Its operations.
    pub operations: Operations<'a>,
}

/// Receives a valid record.
pub type Visit<'a> = dyn FnMut(FoundRecord<'_>) -> Result<()> + 'a;

/// All files with segments' names, by number.
pub fn found_segments(storage: &dyn Storage) -> Result<Vec<FoundSegment>> {
    let mut found = Vec::new();
    for name in storage.list()? {
        if let Some((number, Role::Segment)) = parse_file_name(&name) {
            found.push(FoundSegment::open(storage, number)?);
        }
    }
    found.sort_by_key(|segment| segment.number);
    Ok(found)
}

impl FoundSegment {
    /// The file with this number.
    pub fn open(storage: &dyn Storage, number: FileNumber) -> Result<Self> {
        let file = storage.open(&file_name(number, Role::Segment), OpenMode::ReadDirect)?;
        let (path, bytes) = (file.path().to_path_buf(), file.length()?);
        let page = match read_page(&*file, bytes, &path) {
            Err(error) if !error.is_damage() => return Err(error),
            page => page,
        };
        let decoded = page.as_ref().map_err(Error::clone).and_then(|page| decoded_header(page, number, &path));
        let stated = decoded.as_ref().ok().copied();
        let (mut mark, mut shadow) = (None, None);
        if let (Some(header), Ok(page)) = (stated, page)
            && let Some(page) = page.first_chunk()
        {
            let salt = Salt::new(header.database, number);
            mark = Mark::newest(page, salt);
            shadow = source::find(storage, &header)?;
            // In another life the marks of a shadow do not count (`docs/recovery.md`, H2).
            if let Some(shadow) = &shadow
                && header.life.is_some()
                && header.life == storage.life()
                && let Some(page) = source::page_of(&**shadow, page)?
            {
                mark = [mark, Mark::newest(&page, salt)].into_iter().flatten().max_by_key(|mark| mark.counter);
            }
        }
        let header = decoded.and_then(|header| match header.segment_bytes {
            wanted if bytes < wanted => Err(Error::corruption(&path, bytes, "length of a log segment", wanted, bytes)),
            _ => Ok(header),
        });
        Ok(Self { number, bytes, header, stated, mark, file, shadow })
    }

    /// Its name.
    pub fn name(&self) -> String {
        file_name(self.number, Role::Segment)
    }

    /// Calls `visit` for every valid record of the store `database`, in file order, first those of the file, then those
    /// that only the shadow has. Returns the damage: valid headers with a bad body, and whatever else cannot be read.
    pub fn records(&self, database: DatabaseId, visit: &mut Visit<'_>) -> Result<Vec<Error>> {
        let mut seen = HashSet::new();
        let mut damage = self.records_in(database, &*self.file, &mut |position, record| {
            if self.shadow.is_some() {
                seen.insert(position);
            }
            visit(record)
        })?;
        if let Some(shadow) = &self.shadow {
            let found = self.records_in(database, &**shadow, &mut |position, record| {
                if seen.contains(&position) { Ok(()) } else { visit(record) }
            })?;
            damage.extend(found);
        }
        Ok(damage)
    }

    fn records_in(
        &self,
        database: DatabaseId,
        file: &dyn StorageFile,
        visit: &mut dyn FnMut(u64, FoundRecord<'_>) -> Result<()>,
    ) -> Result<Vec<Error>> {
        let salt = Salt::new(database, self.number);
        let mut window = Window::new(file, self.bytes);
        let mut damage = Vec::new();
        let mut at = PAGE_BYTES as u64;
        while let Some((position, header)) = window.find_header(at, salt, &mut damage)? {
            let length = record_length(header.body_length as usize) as u64;
            at = position + ALIGNMENT as u64;
            let body_at = position + HEADER_BYTES as u64;
            let body = match window.get(body_at, header.body_length as usize) {
                Ok(body) => body.filter(|body| header.accepts(body, salt, position)),
                Err(error) if error.is_damage() => None,
                Err(error) => return Err(error),
            };
            let record = body.and_then(|body| {
                let (last, operations) = (header.last_number(body)?, Operations::parse(header.kind, body)?);
                Some(FoundRecord { number: header.number, last, operations })
            });
            match record {
                Some(record) => {
                    visit(position, record)?;
                    at = position + length;
                }
                None => {
                    let expected = format!("the body of number {}", header.number);
                    damage.push(Error::corruption(file.path(), position, "log record", expected, "other bytes"));
                }
            }
        }
        Ok(damage)
    }
}

fn read_page(file: &dyn StorageFile, bytes: u64, path: &Path) -> Result<AlignedBuffer> {
    if bytes < PAGE_BYTES as u64 {
        return Err(Error::corruption(path, 0, "length of a log segment", "a header page", bytes));
    }
    let mut page = AlignedBuffer::new(PAGE_BYTES);
    file.read_exact_at(&mut page, 0)?;
    Ok(page)
}

fn decoded_header(page: &[u8], number: FileNumber, path: &Path) -> Result<SegmentHeader> {
    let Some(sector) = page.first_chunk::<SECTOR_BYTES>() else { unreachable!("a page is longer than a sector") };
    let header = SegmentHeader::decode(sector, path)?;
    if header.number > number {
        return Err(Error::corruption(path, 24, "number of a log segment", number, header.number));
    }
    Ok(header)
}

/// A part of the file in memory.
struct Window<'a> {
    file: &'a dyn StorageFile,
    length: u64,
    buffer: AlignedBuffer,
    start: u64,
    filled: usize,
}

impl<'a> Window<'a> {
    fn new(file: &'a dyn StorageFile, bytes: u64) -> Self {
        let length = bytes - bytes % PAGE_BYTES as u64;
        Self { file, length, buffer: AlignedBuffer::new(WINDOW_BYTES), start: 0, filled: 0 }
    }

    /// These bytes of the file; `None` if it ends before.
    fn get(&mut self, at: u64, bytes: usize) -> Result<Option<&[u8]>> {
        if at + bytes as u64 > self.length {
            return Ok(None);
        }
        if at < self.start || at + bytes as u64 > self.start + self.filled as u64 {
            let start = at - at % PAGE_BYTES as u64;
            let needed = ((at - start) as usize + bytes).next_multiple_of(PAGE_BYTES);
            if needed > self.buffer.len() {
                self.buffer = AlignedBuffer::new(needed);
            }
            self.filled = 0;
            let filled = (self.buffer.len() as u64).min(self.length - start) as usize;
            self.file.read_exact_at(&mut self.buffer[..filled], start)?;
            (self.start, self.filled) = (start, filled);
        }
        let from = (at - self.start) as usize;
        Ok(Some(&self.buffer[from..from + bytes]))
    }

    /// The first valid header at or after `at`. Unreadable pages are skipped and reported.
    fn find_header(&mut self, at: u64, salt: Salt, damage: &mut Vec<Error>) -> Result<Option<(u64, RecordHeader)>> {
        let tag = salt.tag().to_le_bytes();
        let mut at = at;
        while at + HEADER_BYTES as u64 <= self.length {
            let bytes = (WINDOW_BYTES / 2).min((self.length - at) as usize);
            let bytes = match self.get(at, bytes) {
                Ok(bytes) => bytes.unwrap_or_default(),
                Err(error) if error.is_damage() => match self.get(at, PAGE_BYTES.min(bytes)) {
                    Ok(bytes) => bytes.unwrap_or_default(),
                    Err(error) => {
                        damage.push(error);
                        at = (at + 1).next_multiple_of(PAGE_BYTES as u64);
                        continue;
                    }
                },
                Err(error) => return Err(error),
            };
            let mut offset = 0;
            while let Some(header) = bytes.get(offset..).and_then(|rest| rest.first_chunk::<HEADER_BYTES>()) {
                let here = at + offset as u64;
                if header[22..] == tag
                    && let Some(header) = RecordHeader::decode(header, salt, here)
                {
                    return Ok(Some((here, header)));
                }
                offset += ALIGNMENT;
            }
            at += offset.max(ALIGNMENT) as u64;
        }
        Ok(None)
    }
}
