//! The records of the log after recovery has decided which of them count. They are read by ranges of numbers, as often
//! as needed. Any thread.
//!
//! Invariant: `read` returns exactly the records that recovery decided on. Every byte is checked again, since it is
//! read from the disk again.

use super::check::Chunk;
use super::chunk::{Extent, ExtentBuffer};
use super::rule::{Decision, is_skipped};
use super::scan::SegmentFile;
use crate::format::log_record::{HEADER_BYTES, Operations};
use crate::util::{Error, FileNumber, Kind, Result, SequenceNumber};
use std::ops::RangeInclusive;

/// Receives a record's operations.
pub type Apply<'a> = dyn FnMut(SequenceNumber, Operations<'_>) -> Result<()> + 'a;

/// A segment as recovery found it.
#[derive(Debug)]
pub(super) struct SegmentContents {
    pub(super) file: SegmentFile,
    /// Those with records that are wanted.
    pub(super) chunks: Vec<Chunk>,
    /// All of it that writers filled.
    pub(super) extents: Vec<Extent>,
    /// The index of the decision about its log epoch.
    pub(super) decision: usize,
}

/// See the module.
#[derive(Debug, Default)]
pub struct LogContents {
    pub(super) segments: Vec<SegmentContents>,
    /// By log epoch, ascending.
    pub(super) decisions: Vec<Decision>,
    /// (last number of a few records, bytes that they take in memory), ascending.
    pub(super) sizes: Vec<(u64, u64)>,
    pub(super) value_files: Vec<FileNumber>,
    pub(super) incorporated: SequenceNumber,
    /// The greatest number that any log epoch can have.
    pub(super) last: SequenceNumber,
}

impl LogContents {
    /// The value files that its records refer to. None may be removed before the records are applied.
    pub fn value_files(&self) -> &[FileNumber] {
        &self.value_files
    }

    /// No record of the newest log epoch with a greater number counts; `None` if there is no log.
    pub fn cut(&self) -> Option<SequenceNumber> {
        self.decisions.last().map(|decision| decision.cut)
    }

    /// Divides all numbers above the incorporated ones into ranges whose entries take at most about `bytes_max` bytes
    /// of memory. A larger record has a range of its own. There is no range without entries.
    pub fn ranges(&self, bytes_max: u64) -> Vec<RangeInclusive<SequenceNumber>> {
        let total: u64 = self.sizes.iter().map(|(_, bytes)| bytes).sum();
        // An even number of equal parts: two threads that fill one each end together.
        let parts = match total.div_ceil(bytes_max.max(1)) {
            few @ 0..3 => few,
            parts => parts.next_multiple_of(2),
        };
        let (mut ranges, mut first, mut filled) = (Vec::new(), self.incorporated.next(), 0);
        for (at, (last, bytes)) in self.sizes.iter().enumerate() {
            filled += bytes;
            let Some((_, next)) = self.sizes.get(at + 1) else {
                ranges.push(first..=self.last);
                break;
            };
            // As close to equal parts as the pieces allow.
            let due = total * (ranges.len() as u64 + 1) / parts;
            if filled + next / 2 >= due && (first.0..self.last.0).contains(last) {
                ranges.push(first..=SequenceNumber(*last));
                first = SequenceNumber(last + 1);
            }
        }
        ranges
    }

    /// About the bytes that all entries take in memory.
    pub fn memory_bytes(&self) -> u64 {
        self.sizes.iter().map(|(_, bytes)| bytes).sum()
    }

    /// Calls `apply` for the records with numbers in a range: chunk by chunk, each in ascending order. Voids have
    /// nothing to apply.
    pub fn read(&self, range: &RangeInclusive<SequenceNumber>, apply: &mut Apply<'_>) -> Result<()> {
        let mut buffer: Option<ExtentBuffer> = None;
        for segment in &self.segments {
            for chunk in &segment.chunks {
                if chunk.first_wanted > *range.end() || chunk.last < *range.start() {
                    continue;
                }
                let buffer = buffer.get_or_insert_with(|| ExtentBuffer::new(segment.file.header.chunk_bytes));
                buffer.load(&segment.file, chunk.extent)?;
                self.read_chunk(segment, chunk, buffer, range, apply)?;
            }
        }
        Ok(())
    }

    fn read_chunk(
        &self,
        segment: &SegmentContents,
        chunk: &Chunk,
        buffer: &ExtentBuffer,
        range: &RangeInclusive<SequenceNumber>,
        apply: &mut Apply<'_>,
    ) -> Result<()> {
        let Decision { cut, skipped } = &self.decisions[segment.decision];
        let end = (*range.end()).min(*cut);
        let mut records = buffer.records(&segment.file);
        while records.position() < chunk.position {
            let position = records.position();
            let changed = |found: &str| {
                let expected = "the record that was read here before";
                Error::corruption(&segment.file.path, position, "log record", expected, found)
            };
            let record = records.step()?.ok_or_else(|| changed("no valid record"))?;
            let body = record.body.ok_or_else(|| changed("a body with another checksum"))?;
            let (number, kind) = (record.header.number, record.header.kind);
            if number > end {
                return Ok(());
            }
            if number < *range.start() || kind == Kind::Void || is_skipped(skipped, number) {
                continue;
            }
            let operations = Operations::parse(kind, body).ok_or_else(|| {
                let at = position + HEADER_BYTES as u64;
                Error::corruption(&segment.file.path, at, "log record body", "operations", kind as u8)
            })?;
            apply(number, operations)?;
        }
        Ok(())
    }
}
