//! The records of a log that is being written: those up to a synced number, read from the segments' files. One thread at a
//! time for each `Tail`.
//!
//! Invariants:
//! 1. Records up to `through` are in the files, and everything is checked as for a log epoch that was recovered up to there.
//!    What follows may be torn. Each number must be there.
//! 2. `through` is chosen before the segments are listed. A record is in a chunk that was handed out before it took its number,
//!    so the list has all chunks with records up to `through`.
//! 3. A chunk is *done*, and not read again, if all of its records were in the file when it was read. Its writer had left it
//!    before the numbers up to `Left::last` were taken, so none of its records has a greater number; and they were synced
//!    through that. A chunk that was handed out but not taken yet has no owner either; it has no record up to `through`.

use super::check::{Checked, Checks, Show};
use super::chunk::{Extent, ExtentBuffer};
use super::contents::{LogContents, SegmentContents};
use super::missing;
use super::numbers::Numbers;
use super::rule::{Bounds, Rule, decide};
use super::scan::SegmentFile;
use crate::format::log_segment::PAGE_BYTES;
use crate::format::manifest_edit::LogRecovered;
use crate::io::Storage;
use crate::util::planted::planted;
use crate::util::{FileNumber, Result, SequenceNumber};
use std::collections::HashMap;

/// So many bytes are read at once.
const AHEAD_BYTES: u64 = 1 << 20;

/// A segment of a running log.
#[derive(Debug)]
pub struct LiveSegment {
    /// Open for direct reads.
    pub file: SegmentFile,
    /// For each chunk that was handed out: whether no writer owns it.
    pub is_left: Vec<bool>,
}

/// Which records are wanted.
#[derive(Clone, Copy, Debug)]
pub struct TailRange {
    /// The log epoch.
    pub epoch: u64,
    /// The first number of the epoch.
    pub first: SequenceNumber,
    /// Those with greater numbers.
    pub after: SequenceNumber,
    /// Those with numbers up to this one, which are synced.
    pub through: SequenceNumber,
    /// The last number that was taken when the segments had been listed.
    pub last: SequenceNumber,
}

/// What a chunk, or a run of chunks, is known to have.
#[derive(Clone, Copy, Debug)]
struct Left {
    /// No record in it has a greater number.
    last: SequenceNumber,
    is_done: bool,
    chunks: u64,
}

/// What earlier reads have found out, so that later ones need not read everything again.
#[derive(Debug, Default)]
pub struct Tail {
    chunks: HashMap<(FileNumber, u64), Left>,
}

impl Tail {
    /// The records of a range. The segments are all that may have some of them. They are shown while they are looked for, in no
    /// order; those up to `through` count once this has returned.
    pub fn read(
        &mut self,
        storage: &dyn Storage,
        segments: Vec<LiveSegment>,
        range: TailRange,
        show: &mut Show<'_>,
    ) -> Result<LogContents> {
        let TailRange { epoch, first, after, through, .. } = range;
        self.chunks.retain(|(file, _), _| segments.iter().any(|segment| segment.file.header.number == *file));
        let edit = LogRecovered { epoch, cut: through, skipped: Vec::new(), next_number: through.next() };
        let bounds = Bounds { first, incorporated: after, durable: through };
        let checks = Checks { rule: Rule::Recovered(&edit), bounds };
        let mut numbers = Numbers::default();
        let (mut files, mut checked) = (Vec::new(), Vec::new());
        for segment in segments {
            let mut found = self.segment(&segment, checks, range, show)?;
            numbers.add(std::mem::take(&mut found.found));
            files.push(segment.file);
            checked.push(found);
        }
        let present = numbers.present().map_err(|number| missing::duplicate(&files, &checked, number))?;
        let decision = decide(&checks.rule, &bounds, &present, &mut [])
            .map_err(|missing| missing::missing(storage, &files, &checked, missing))?;
        let sizes = numbers.sizes(through.0);
        let segments = files.into_iter().zip(checked).map(|(file, checked)| SegmentContents {
            file,
            chunks: checked.chunks.into_iter().filter(|chunk| chunk.wanted_bytes > 0).collect(),
            extents: Vec::new(),
            decision: 0,
        });
        let segments = segments.collect();
        Ok(LogContents {
            segments,
            decisions: vec![decision],
            sizes,
            value_files: Vec::new(),
            incorporated: after,
            last: through,
        })
    }

    /// Reads the chunks from one on that are not done, unless it was read ahead.
    fn read_ahead(&self, segment: &LiveSegment, buffer: &mut ExtentBuffer, chunk: u64) -> Result<()> {
        let LiveSegment { file, is_left } = segment;
        let chunk_bytes = file.header.chunk_bytes;
        let start = PAGE_BYTES as u64 + chunk * chunk_bytes;
        if buffer.is_ahead(start) {
            return Ok(());
        }
        let most = (AHEAD_BYTES / chunk_bytes).max(1).min(is_left.len() as u64 - chunk);
        let is_done = |chunk| self.chunks.get(&(file.header.number, chunk)).is_some_and(|known| known.is_done);
        let count = (chunk..chunk + most).take_while(|chunk| !is_done(*chunk)).count() as u64;
        buffer.read_ahead(file, Extent { start, end: start + count * chunk_bytes })
    }

    fn segment(
        &mut self,
        segment: &LiveSegment,
        checks: Checks<'_>,
        range: TailRange,
        show: &mut Show<'_>,
    ) -> Result<Checked> {
        let LiveSegment { file, is_left } = segment;
        let mut checked = Checked::default();
        let mut buffer = ExtentBuffer::new(file.header.chunk_bytes);
        let mut chunk = 0;
        while let Some(is_left) = is_left.get(chunk as usize) {
            let place = (file.header.number, chunk);
            let known = self.chunks.get(&place).copied();
            if let Some(done) = known.filter(|known| known.is_done) {
                chunk += done.chunks;
                continue;
            }
            self.read_ahead(segment, &mut buffer, chunk)?;
            let chunks = checked.chunk(file, checks, &mut buffer, chunk, show)?;
            let has_record = checked
                .chunks
                .last()
                .is_some_and(|found| !found.is_empty() && found.last.min(found.first_wanted) <= range.through);
            if planted!(*is_left && has_record, Bug::ChunkDoneEarly => has_record) {
                let last = known.map_or(range.last, |known| known.last);
                let is_done = planted!(last <= range.through, Bug::ChunkDoneEarly => true);
                self.chunks.insert(place, Left { last, is_done, chunks });
            }
            chunk += chunks;
        }
        Ok(checked)
    }
}
