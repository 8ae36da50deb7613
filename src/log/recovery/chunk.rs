//! Reads the records of one chunk (or run of chunks), first to last. One thread.
//!
//! Invariant: everything that is read off the disk is checked before it is believed. A header that does not parse ends
//! the chunk; a header that parses but contradicts its surroundings is corruption, since no crash makes one.

use super::scan::{SegmentFile, Window};
use crate::base::{Error, Result, SequenceNumber};
use crate::format::log_record::{ALIGNMENT, HEADER_BYTES, RecordHeader, record_length};
use crate::format::log_segment::PAGE_BYTES;

/// Reads this much at a time while it looks for headers.
const SCAN_BYTES: usize = 64 << 10;

/// A stretch of a segment that one writer filled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Which segment, as an index.
    pub segment: usize,
    /// First byte.
    pub start: u64,
    /// First byte past it.
    pub end: u64,
}

/// Where reading of an extent stopped.
#[derive(Clone, Copy, Debug)]
pub struct Stop {
    /// The extent.
    pub extent: Extent,
    /// The first byte that was not read as a record.
    pub position: u64,
    /// The last number read; zero where there was none.
    pub last: SequenceNumber,
}

/// The extent that starts at a chunk, and its first header, if there is one.
pub fn first_record(
    segments: &[SegmentFile],
    segment: usize,
    chunk: u64,
    window: &mut Window,
) -> Result<(Extent, Option<RecordHeader>)> {
    let SegmentFile { header, .. } = &segments[segment];
    let start = PAGE_BYTES as u64 + chunk * header.chunk_bytes;
    let first = read_header(&segments[segment], start, window)?;
    let length = first.map_or(1, |first| record_length(first.body_length as usize) as u64);
    let end = start + length.div_ceil(header.chunk_bytes) * header.chunk_bytes;
    if end > header.segment_bytes {
        let room = header.segment_bytes - start;
        return Err(Error::corruption(&segments[segment].path, start + 4, "log record length", room, length));
    }
    Ok((Extent { segment, start, end }, first))
}

fn read_header(segment: &SegmentFile, position: u64, window: &mut Window) -> Result<Option<RecordHeader>> {
    let bytes = window.get(segment, position, HEADER_BYTES)?;
    Ok(bytes.first_chunk().and_then(|bytes| RecordHeader::decode(bytes, segment.salt, position)))
}

/// The first header that parses between `position` and the end of an extent.
pub fn find_header(segment: &SegmentFile, position: u64, end: u64) -> Result<Option<(u64, RecordHeader)>> {
    let mut window = Window::new(SCAN_BYTES + PAGE_BYTES);
    let tag = segment.salt.tag().to_le_bytes();
    let mut at = position;
    while at + HEADER_BYTES as u64 <= end {
        let length = (SCAN_BYTES as u64).min(end - at) as usize;
        let bytes = window.get(segment, at, length)?;
        let mut offset = 0;
        while let Some(bytes) = bytes[offset..].first_chunk::<HEADER_BYTES>() {
            let here = at + offset as u64;
            if bytes[22..] == tag
                && let Some(header) = RecordHeader::decode(bytes, segment.salt, here)
            {
                return Ok(Some((here, header)));
            }
            offset += ALIGNMENT;
        }
        at += offset as u64;
    }
    Ok(None)
}

/// A place in an extent, in front of a record.
#[derive(Debug)]
pub struct ChunkCursor {
    extent: Extent,
    position: u64,
    header: RecordHeader,
    window: Window,
}

impl ChunkCursor {
    /// Stands in front of the extent's first record.
    pub fn new(extent: Extent, first: RecordHeader, window: Window) -> Self {
        Self { extent, position: extent.start, header: first, window }
    }

    /// The record's header.
    pub fn header(&self) -> &RecordHeader {
        &self.header
    }

    /// Which segment the record is in.
    pub fn segment(&self) -> usize {
        self.extent.segment
    }

    /// Where the record starts.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The record's body, or `None` where its checksum fails.
    pub fn body(&mut self, segments: &[SegmentFile]) -> Result<Option<&[u8]>> {
        let segment = &segments[self.extent.segment];
        let length = self.header.body_length as usize;
        let body = self.window.get(segment, self.position + HEADER_BYTES as u64, length)?;
        Ok(self.header.accepts(body, segment.salt, self.position).then_some(body))
    }

    /// Moves to the next record; returns where reading stopped if there is none.
    pub fn advance(&mut self, segments: &[SegmentFile]) -> Result<Option<Stop>> {
        let segment = &segments[self.extent.segment];
        let last = self.header.number;
        let position = self.position + record_length(self.header.body_length as usize) as u64;
        self.position = position;
        let stop = Stop { extent: self.extent, position, last };
        if position + HEADER_BYTES as u64 > self.extent.end {
            return Ok(Some(stop));
        }
        let Some(header) = read_header(segment, position, &mut self.window)? else { return Ok(Some(stop)) };
        let room = self.extent.end - position;
        let length = record_length(header.body_length as usize) as u64;
        if length > room {
            return Err(Error::corruption(&segment.path, position + 4, "log record length", room, length));
        }
        if header.number <= last {
            let expected = format!("more than {last}");
            return Err(Error::corruption(&segment.path, position + 8, "log record number", expected, header.number));
        }
        self.header = header;
        Ok(None)
    }

    /// Gives up in front of the present record.
    pub fn stop(&self, last: SequenceNumber) -> Stop {
        Stop { extent: self.extent, position: self.position, last }
    }

    /// The window, for the next cursor.
    pub fn into_window(self) -> Window {
        self.window
    }
}
