//! Reads a whole segment and checks every record in it. Changes nothing. Any number of segments at once, one thread for
//! each.
//!
//! Invariant: in the same life only the last record of a chunk may be bad, and then it is torn so that its header does
//! not parse. So no valid header may follow it.

use super::chunk::{Extent, ExtentBuffer, Record};
use super::numbers::Found;
use super::rule::{Bounds, Rule, may_be_torn};
use super::scan::SegmentFile;
use crate::format::log_record::{HEADER_BYTES, Operations, record_length};
use crate::util::limits::OPERATION_MEMORY_BYTES;
use crate::util::{Error, Kind, Result, SequenceNumber};
use std::path::Path;

/// Receives a good record's operations. Whether the record counts is decided later.
pub type Show<'a> = dyn FnMut(SequenceNumber, Operations<'_>) + 'a;

/// What a segment's records are checked against.
#[derive(Clone, Copy, Debug)]
pub struct Checks<'a> {
    /// The rule of its log epoch.
    pub rule: Rule<'a>,
    /// Which numbers must be there.
    pub bounds: Bounds,
}

/// The result for a chunk or a run of chunks.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Where it is.
    pub extent: Extent,
    /// The first byte that was not read as a record.
    pub position: u64,
    /// The last number read; zero if there was none.
    pub last: SequenceNumber,
    /// The first number above `incorporated`; `MAX` if there is none.
    pub first_wanted: SequenceNumber,
    /// Bytes of the records above `incorporated`.
    pub wanted_bytes: u64,
    /// Whether reading stopped in bytes of the shadow.
    pub stopped_in_shadow: bool,
}

impl Chunk {
    /// The file in which reading it stopped.
    pub fn stop_path<'s>(&self, segment: &'s SegmentFile) -> &'s Path {
        match &segment.shadow {
            Some(shadow) if self.stopped_in_shadow => shadow.path(),
            _ => &segment.path,
        }
    }

    /// Whether no record could be read in it.
    pub fn is_empty(&self) -> bool {
        self.position == self.extent.start
    }

    /// Whether a writer could have continued here.
    pub fn has_room(&self) -> bool {
        self.position + HEADER_BYTES as u64 <= self.extent.end
    }
}

/// A record that refers to value files.
#[derive(Debug)]
pub struct Referring {
    /// Its number.
    pub number: SequenceNumber,
    /// Where it starts in its segment.
    pub position: u64,
    /// The references.
    pub references: Vec<Vec<u8>>,
}

/// The result for a segment.
#[derive(Debug, Default)]
pub struct Checked {
    /// Its chunks, in order.
    pub chunks: Vec<Chunk>,
    /// The numbers above `incorporated`, and their memory.
    pub found: Found,
    /// Records with value references, above `incorporated`.
    pub referring: Vec<Referring>,
    /// The greatest number found, whether it is applied or not.
    pub seen_max: SequenceNumber,
}

/// Reads and checks a segment.
pub fn check(segment: &SegmentFile, checks: Checks<'_>) -> Result<Checked> {
    let mut checked = Checked::default();
    let mut buffer = ExtentBuffer::new(segment.header.chunk_bytes);
    let mut chunk = 0;
    while chunk < segment.header.chunks() {
        chunk += checked.chunk(segment, checks, &mut buffer, chunk, &mut |_, _| ())?;
    }
    Ok(checked)
}

impl Checked {
    /// Reads and checks what one writer filled from a chunk on, and shows the good records above `incorporated`. Returns the
    /// number of its chunks.
    pub fn chunk(
        &mut self,
        segment: &SegmentFile,
        checks: Checks<'_>,
        buffer: &mut ExtentBuffer,
        chunk: u64,
        show: &mut Show<'_>,
    ) -> Result<u64> {
        let extent = buffer.load_chunk(segment, chunk)?;
        self.extent(segment, checks, buffer, extent, show)?;
        Ok((extent.end - extent.start) / segment.header.chunk_bytes)
    }

    fn extent(
        &mut self,
        segment: &SegmentFile,
        checks: Checks<'_>,
        buffer: &ExtentBuffer,
        extent: Extent,
        show: &mut Show<'_>,
    ) -> Result<()> {
        let mut records = buffer.records(segment);
        let (mut first_wanted, mut wanted_bytes) = (SequenceNumber::MAX, 0);
        while let Some(record) = records.step()? {
            let Record { position, header, body } = record;
            self.seen_max = self.seen_max.max(header.number);
            if header.number < checks.bounds.first {
                let expected = format!("at least {}", checks.bounds.first);
                let path = buffer.path_at(segment, position);
                return Err(Error::corruption(path, position + 8, "log record number", expected, header.number));
            }
            let Some(body) = body else {
                if !may_be_torn(&checks.rule, &checks.bounds, header.number) {
                    let (what, expected) = ("log record body checksum", format!("{:#010x}", header.body_checksum));
                    let path = buffer.path_at(segment, position);
                    return Err(Error::corruption(path, position + 16, what, expected, "another body"));
                }
                break;
            };
            let last = self.record(buffer.path_at(segment, position), checks, &record, body, show)?;
            if last > checks.bounds.incorporated {
                first_wanted = first_wanted.min(header.number);
                wanted_bytes += record_length(body.len()) as u64;
            }
        }
        let (position, last) = (records.position(), records.last());
        match checks.rule {
            Rule::SameLife => check_nothing_follows(segment, buffer, position)?,
            Rule::PowerLoss => self.note_discarded(segment, buffer, position),
            Rule::Recovered(_) => {}
        }
        let stopped_in_shadow = buffer.is_from_shadow(position);
        self.chunks.push(Chunk { extent, position, last, first_wanted, wanted_bytes, stopped_in_shadow });
        Ok(())
    }

    /// Adds one good record. Returns its last number.
    fn record(
        &mut self,
        path: &Path,
        checks: Checks<'_>,
        record: &Record<'_>,
        body: &[u8],
        show: &mut Show<'_>,
    ) -> Result<SequenceNumber> {
        let Record { position, header, .. } = *record;
        let malformed = || {
            let at = position + HEADER_BYTES as u64;
            Error::corruption(path, at, "log record body", "operations", header.kind as u8)
        };
        let (number, last) = (header.number, header.last_number(body).ok_or_else(malformed)?);
        self.seen_max = self.seen_max.max(last);
        if last <= checks.bounds.incorporated {
            return Ok(last);
        }
        if header.kind == Kind::Void {
            if last > number {
                self.found.run(number.0, last.0);
            } else {
                self.found.record(number.0, 0);
            }
            return Ok(last);
        }
        let (mut bytes, mut references) = (0, Vec::new());
        let operations = Operations::parse(header.kind, body).ok_or_else(malformed)?;
        show(number, operations.clone());
        for operation in operations {
            bytes += OPERATION_MEMORY_BYTES + operation.key.len() + operation.value.len();
            if operation.kind == Kind::ValueReference {
                references.push(operation.value.to_vec());
            }
        }
        self.found.record(number.0, bytes as u64);
        if !references.is_empty() {
            self.referring.push(Referring { number, position, references });
        }
        Ok(last)
    }

    /// Records after a torn one are discarded. The numbers of the next log epoch are above theirs anyway, so that no
    /// number is used twice.
    fn note_discarded(&mut self, segment: &SegmentFile, buffer: &ExtentBuffer, mut position: u64) {
        while let Some((at, header)) = buffer.find_header(segment, position) {
            self.seen_max = self.seen_max.max(header.number);
            position = at + record_length(0) as u64;
        }
    }
}

/// See the module's invariant.
fn check_nothing_follows(segment: &SegmentFile, buffer: &ExtentBuffer, position: u64) -> Result<()> {
    match buffer.find_header(segment, position) {
        None => Ok(()),
        Some((at, header)) => {
            let found = format!("record {} at offset {at} after a bad one", header.number);
            Err(Error::corruption(&segment.path, position, "log record header", "the end of its chunk", found))
        }
    }
}
