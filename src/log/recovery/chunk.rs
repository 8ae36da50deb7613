//! The records of one chunk (or run of chunks), from first to last. One thread.
//!
//! Invariant: everything that is read from the disk is checked before it is used. A header that does not parse ends the
//! chunk. A header that parses but contradicts what surrounds it is corruption, since no crash produces one.

use super::scan::SegmentFile;
use crate::format::log_record::{ALIGNMENT, HEADER_BYTES, RecordHeader, record_length};
use crate::format::log_segment::PAGE_BYTES;
use crate::io::AlignedBuffer;
use crate::util::{Error, Result, SequenceNumber};

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
}

impl ExtentBuffer {
    /// Empty, with space for a chunk of this many bytes.
    pub fn new(chunk_bytes: u64) -> Self {
        let buffer = AlignedBuffer::new((chunk_bytes as usize).next_multiple_of(PAGE_BYTES));
        Self { buffer, extent: Extent { start: 0, end: 0 } }
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
            return Err(Error::corruption(&segment.path, start + 4, "log record length", room, length));
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
        segment.file.read_exact_at(&mut self.buffer[..bytes], extent.start)?;
        self.extent = extent;
        Ok(())
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
        let tag = segment.salt.tag().to_le_bytes();
        let bytes = self.from(position);
        let mut offset = 0;
        while let Some(header) = bytes[offset..].first_chunk::<HEADER_BYTES>() {
            let at = position + offset as u64;
            if header[22..] == tag
                && let Some(header) = RecordHeader::decode(header, segment.salt, at)
            {
                return Some((at, header));
            }
            offset += ALIGNMENT;
            if offset >= bytes.len() {
                break;
            }
        }
        None
    }
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
            return Err(Error::corruption(&segment.path, position + 4, "log record length", room, length));
        }
        if header.number <= self.last {
            let expected = format!("more than {}", self.last);
            return Err(Error::corruption(&segment.path, position + 8, "log record number", expected, header.number));
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
