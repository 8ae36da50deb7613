//! The records of one chunk (or run of chunks), from first to last. One thread.
//!
//! If the segment has a shadow, each record comes from the segment's file, or, if it is not valid there, from the shadow
//! (`shadow/source.rs`). Behind the last valid record the extent has the shadow's bytes, unless only the file has a
//! valid header there: so what follows is checked, and errors name the file that the bytes came from.
//!
//! Invariant: everything that is read from the disk is checked before it is used. A header that does not parse ends the
//! chunk. A header that parses but contradicts what surrounds it is corruption, since no crash produces one.

use super::scan::SegmentFile;
use crate::format::log_record::{ALIGNMENT, HEADER_BYTES, RecordHeader, record_length};
use crate::format::log_segment::PAGE_BYTES;
use crate::io::AlignedBuffer;
use crate::util::{Error, Result, SequenceNumber};
use std::path::Path;

/// A part of a segment that one writer filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte.
    pub start: u64,
    /// First byte after it.
    pub end: u64,
}

/// An extent in memory. Its buffer is reused for one extent after the other.
#[derive(Debug)]
pub struct ExtentBuffer {
    buffer: AlignedBuffer,
    extent: Extent,
    /// The shadow's bytes of the extent.
    shadow: Vec<u8>,
    /// The records that only the shadow had: parts of the extent, ascending.
    only_in_shadow: Vec<Extent>,
    /// From here on the bytes are the shadow's.
    rest_from_shadow: Option<u64>,
    /// A part of the segment that was read ahead, and its bytes.
    ahead: Option<(Extent, AlignedBuffer)>,
}

impl ExtentBuffer {
    /// Empty, with space for a chunk of this many bytes.
    pub fn new(chunk_bytes: u64) -> Self {
        let buffer = AlignedBuffer::new((chunk_bytes as usize).next_multiple_of(PAGE_BYTES));
        let (extent, only_in_shadow) = (Extent { start: 0, end: 0 }, Vec::new());
        Self { buffer, extent, shadow: Vec::new(), only_in_shadow, rest_from_shadow: None, ahead: None }
    }

    /// Reads a part of a segment at once, unless it was read before. Extents in it are copied from there: of the same segment,
    /// whose bytes there must not change.
    pub fn read_ahead(&mut self, segment: &SegmentFile, part: Extent) -> Result<()> {
        let bytes = (part.end - part.start) as usize;
        let used = self.ahead.take().map(|(_, buffer)| buffer).filter(|buffer| bytes <= buffer.len());
        let mut buffer = used.unwrap_or_else(|| AlignedBuffer::new(bytes.next_multiple_of(PAGE_BYTES)));
        segment.file.read_exact_at(&mut buffer[..bytes], part.start)?;
        self.ahead = Some((part, buffer));
        Ok(())
    }

    /// Whether an offset is in the part that was read ahead.
    pub fn is_ahead(&self, offset: u64) -> bool {
        self.ahead.as_ref().is_some_and(|(part, _)| (part.start..part.end).contains(&offset))
    }

    /// Reads the extent that begins with a chunk: the chunk itself, or all chunks of its first record if that is
    /// longer.
    pub fn load_chunk(&mut self, segment: &SegmentFile, chunk: u64) -> Result<Extent> {
        let chunk_bytes = segment.header.chunk_bytes;
        let start = PAGE_BYTES as u64 + chunk * chunk_bytes;
        self.load(segment, Extent { start, end: start + chunk_bytes })?;
        let length = self.header_at(segment, start).map_or(1, |first| record_length(first.body_length as usize) as u64);
        let end = start + length.div_ceil(chunk_bytes) * chunk_bytes;
        if end > segment.header.segment_bytes {
            let room = segment.header.segment_bytes - start;
            let path = self.path_at(segment, start);
            return Err(Error::corruption(path, start + 4, "log record length", room, length));
        }
        if end > self.extent.end {
            self.load(segment, Extent { start, end })?;
        }
        Ok(self.extent)
    }

    /// Reads an extent whose bounds are known.
    pub fn load(&mut self, segment: &SegmentFile, extent: Extent) -> Result<()> {
        let bytes = (extent.end - extent.start) as usize;
        if bytes > self.buffer.len() {
            self.buffer = AlignedBuffer::new(bytes.next_multiple_of(PAGE_BYTES));
        }
        if let Some(shadow) = &segment.shadow {
            self.shadow.resize(bytes, 0);
            shadow.read(&mut self.shadow, extent.start)?;
        }
        match self.ahead.as_ref().filter(|(part, _)| part.start <= extent.start && extent.end <= part.end) {
            Some((part, read)) => {
                let from = (extent.start - part.start) as usize;
                self.buffer[..bytes].copy_from_slice(&read[from..from + bytes]);
            }
            None => segment.file.read_exact_at(&mut self.buffer[..bytes], extent.start)?,
        }
        self.extent = extent;
        self.only_in_shadow.clear();
        self.rest_from_shadow = None;
        if segment.shadow.is_some() {
            self.merge(segment);
        }
        Ok(())
    }

    /// See the module.
    fn merge(&mut self, segment: &SegmentFile) {
        let Extent { start, end } = self.extent;
        let (mut position, mut last) = (start, SequenceNumber::ZERO);
        let valid = |bytes: &[u8], position: u64, last: SequenceNumber| {
            let header = RecordHeader::decode(bytes.first_chunk()?, segment.salt, position)?;
            let body = bytes.get(HEADER_BYTES..HEADER_BYTES + header.body_length as usize)?;
            let length = record_length(body.len());
            let fits = header.number > last && length <= bytes.len();
            (fits && header.accepts(body, segment.salt, position)).then_some((header.number, length))
        };
        loop {
            let at = (position - start) as usize;
            if let Some((number, length)) = valid(&self.buffer[at..(end - start) as usize], position, last) {
                (position, last) = (position + length as u64, number);
            } else if let Some((number, length)) = valid(&self.shadow[at..], position, last) {
                self.buffer[at..at + length].copy_from_slice(&self.shadow[at..at + length]);
                let record = Extent { start: position, end: position + length as u64 };
                match self.only_in_shadow.last_mut() {
                    Some(before) if before.end == record.start => before.end = record.end,
                    _ => self.only_in_shadow.push(record),
                }
                (position, last) = (record.end, number);
            } else {
                break;
            }
        }
        let at = (position - start) as usize;
        let in_shadow = find_header(&self.shadow[at..], segment, position);
        if in_shadow.is_some() && self.find_header(segment, position).is_none() {
            self.buffer[at..(end - start) as usize].copy_from_slice(&self.shadow[at..]);
            self.rest_from_shadow = Some(position);
        }
    }

    /// The file that the bytes at a position came from.
    pub fn path_at<'s>(&self, segment: &'s SegmentFile, position: u64) -> &'s Path {
        match &segment.shadow {
            Some(shadow) if self.is_from_shadow(position) => shadow.path(),
            _ => &segment.path,
        }
    }

    /// Whether the bytes at a position came from the shadow.
    pub fn is_from_shadow(&self, position: u64) -> bool {
        let inside = |part: &Extent| (part.start..part.end).contains(&position);
        self.only_in_shadow.iter().any(inside) || self.rest_from_shadow.is_some_and(|from| position >= from)
    }

    /// The valid records that only the shadow had, with their offsets in the segment.
    pub fn only_in_shadow(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let at = |position: u64| (position - self.extent.start) as usize;
        self.only_in_shadow.iter().map(move |part| (part.start, &self.buffer[at(part.start)..at(part.end)]))
    }

    /// The bytes from a position of the segment to the extent's end.
    fn from(&self, position: u64) -> &[u8] {
        &self.buffer[(position - self.extent.start) as usize..(self.extent.end - self.extent.start) as usize]
    }

    fn header_at(&self, segment: &SegmentFile, position: u64) -> Option<RecordHeader> {
        let bytes = self.from(position).first_chunk()?;
        RecordHeader::decode(bytes, segment.salt, position)
    }

    /// The records of the extent, from the first one on.
    pub fn records<'a>(&'a self, segment: &'a SegmentFile) -> Records<'a> {
        Records { segment, buffer: self, position: self.extent.start, last: SequenceNumber::ZERO }
    }

    /// The first valid header at or after `position`.
    pub fn find_header(&self, segment: &SegmentFile, position: u64) -> Option<(u64, RecordHeader)> {
        find_header(self.from(position), segment, position)
    }
}

/// The first valid header in the bytes that start at `position`.
fn find_header(bytes: &[u8], segment: &SegmentFile, position: u64) -> Option<(u64, RecordHeader)> {
    let tag = segment.salt.tag().to_le_bytes();
    for offset in (0..bytes.len()).step_by(ALIGNMENT) {
        let header = bytes[offset..].first_chunk::<HEADER_BYTES>()?;
        let at = position + offset as u64;
        if header[22..] == tag
            && let Some(header) = RecordHeader::decode(header, segment.salt, at)
        {
            return Some((at, header));
        }
    }
    None
}

/// A record whose header is valid.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Where it starts in the segment.
    pub position: u64,
    /// Its header.
    pub header: RecordHeader,
    /// Its body; `None` if its checksum is wrong.
    pub body: Option<&'a [u8]>,
}

/// An iteration over the records of an extent.
#[derive(Debug)]
pub struct Records<'a> {
    segment: &'a SegmentFile,
    buffer: &'a ExtentBuffer,
    position: u64,
    last: SequenceNumber,
}

impl<'a> Records<'a> {
    /// The first byte that was not read as a record.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The last number read; zero if there was none.
    pub fn last(&self) -> SequenceNumber {
        self.last
    }

    /// The next record; `None` if no valid header follows. A record without a body ends the iteration and is not
    /// skipped.
    pub fn step(&mut self) -> Result<Option<Record<'a>>> {
        let (position, segment) = (self.position, self.segment);
        if position + HEADER_BYTES as u64 > self.buffer.extent.end {
            return Ok(None);
        }
        let Some(header) = self.buffer.header_at(segment, position) else { return Ok(None) };
        let room = self.buffer.extent.end - position;
        let length = record_length(header.body_length as usize) as u64;
        if length > room {
            let path = self.buffer.path_at(segment, position);
            return Err(Error::corruption(path, position + 4, "log record length", room, length));
        }
        if header.number <= self.last {
            let expected = format!("more than {}", self.last);
            let path = self.buffer.path_at(segment, position);
            return Err(Error::corruption(path, position + 8, "log record number", expected, header.number));
        }
        let body = &self.buffer.from(position)[HEADER_BYTES..HEADER_BYTES + header.body_length as usize];
        let body = header.accepts(body, segment.salt, position).then_some(body);
        if body.is_some() {
            self.position += length;
            self.last = header.number;
        }
        Ok(Some(Record { position, header, body }))
    }
}
