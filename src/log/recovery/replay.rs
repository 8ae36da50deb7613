//! Replays one generation: every record of the merge goes through the rule, and those wanted are applied. One thread.

use super::chunk::{Stop, find_header};
use super::merge::Merge;
use super::rule::{Expectation, Missing, Rule, Verdict};
use super::scan::SegmentFile;
use super::{Apply, RecoveryInput};
use crate::base::{Error, Kind, Result, SequenceNumber};
use crate::format::log_record::{HEADER_BYTES, Operations, record_length};
use std::cmp::Reverse;

/// What of a segment is still needed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Live {
    /// Greatest number applied.
    pub last: SequenceNumber,
    /// Bytes of the records applied.
    pub bytes: u64,
}

/// The replay of a generation.
pub struct Replay<'a> {
    input: &'a RecoveryInput<'a>,
    rule: Rule<'a>,
    segments: &'a [SegmentFile],
    first: SequenceNumber,
    merge: Merge<'a>,
    expectation: Expectation<'a>,
    /// The last number of the record before.
    previous: SequenceNumber,
    /// Greatest number seen, applied or not.
    pub seen_max: SequenceNumber,
    /// By segment.
    pub live: Vec<Live>,
}

impl<'a> Replay<'a> {
    /// For the generation that starts at `first` and has these segments.
    pub fn new(
        input: &'a RecoveryInput<'a>,
        rule: Rule<'a>,
        first: SequenceNumber,
        segments: &'a [SegmentFile],
    ) -> Result<Self> {
        let marks = segments.iter().filter_map(|segment| segment.mark);
        let durable = marks.map(|mark| mark.synced_through).max().unwrap_or_default();
        let merge = Merge::new(segments)?;
        if matches!(rule, Rule::SameLife) {
            for stop in &merge.stops {
                nothing_behind(segments, stop)?;
            }
        }
        Ok(Self {
            input,
            rule,
            segments,
            first,
            merge,
            expectation: Expectation::new(rule, first, input.incorporated, durable),
            previous: SequenceNumber::ZERO,
            seen_max: SequenceNumber::ZERO,
            live: vec![Live::default(); segments.len()],
        })
    }

    /// Reads everything.
    pub fn run(&mut self, apply: &mut Apply<'_>) -> Result<()> {
        while self.step(apply)? {}
        if matches!(self.rule, Rule::PowerLoss) {
            self.see_behind_stops()?;
        }
        Ok(())
    }

    /// Records behind a torn one are discarded; the next generation's numbers are above theirs all the same, so that
    /// no number is ever used twice.
    fn see_behind_stops(&mut self) -> Result<()> {
        for stop in &self.merge.stops {
            let mut position = stop.position;
            while let Some((at, header)) = find_header(&self.segments[stop.extent.segment], position, stop.extent.end)?
            {
                self.seen_max = self.seen_max.max(header.number);
                position = at + record_length(0) as u64;
            }
        }
        Ok(())
    }

    /// The cut, and what was skipped below it.
    pub fn finish(self) -> Result<(SequenceNumber, Vec<(SequenceNumber, SequenceNumber)>)> {
        let Self { input, segments, merge, expectation, .. } = self;
        expectation.finish().map_err(|missing| missing_number(input, segments, &merge.stops, missing))
    }

    fn step(&mut self, apply: &mut Apply<'_>) -> Result<bool> {
        let Some(cursor) = self.merge.current() else { return Ok(false) };
        let (header, segment, position) = (*cursor.header(), cursor.segment(), cursor.position());
        let number = header.number;
        self.seen_max = self.seen_max.max(number);
        let path = &self.segments[segment].path;
        if number <= self.previous || number < self.first {
            let expected = format!("more than {}", self.previous.max(SequenceNumber(self.first.0.saturating_sub(1))));
            return Err(Error::corruption(path, position + 8, "log record number", expected, number));
        }
        let Some(body) = cursor.body(self.segments)? else {
            if !self.expectation.may_be_torn(number) {
                let what = "log record body checksum";
                return Err(Error::corruption(path, position + 16, what, "the one of the body", header.body_checksum));
            }
            self.merge.stop();
            return Ok(true);
        };
        let malformed = || {
            Error::corruption(path, position + HEADER_BYTES as u64, "log record body", "operations", header.kind as u8)
        };
        let last = header.last_number(body).ok_or_else(malformed)?;
        self.previous = last;
        self.seen_max = self.seen_max.max(last);
        let verdict = self.expectation.reach(number, last);
        let verdict = match verdict {
            Ok(verdict) => verdict,
            Err(missing) => return Err(self.missing_here(missing)),
        };
        if verdict == Verdict::Wanted {
            let operations = Operations::parse(header.kind, body).ok_or_else(malformed)?;
            if header.kind == Kind::Void || values_complete(self.input, &operations)? {
                self.expectation.accept(last);
                let live = &mut self.live[segment];
                live.last = last;
                live.bytes += record_length(body.len()) as u64;
                if header.kind != Kind::Void {
                    apply(number, operations)?;
                }
            } else if matches!(self.rule, Rule::SameLife) {
                // The file was whole before the record was sealed, and nothing was lost since: somebody damaged it.
                let (expected, found) = (format!("the value of number {number}"), "a missing or damaged file");
                return Err(Error::corruption(path, position, "value file of a log record", expected, found));
            }
        }
        if let Some(stop) = self.merge.advance()?
            && matches!(self.rule, Rule::SameLife)
        {
            nothing_behind(self.segments, &stop)?;
        }
        Ok(true)
    }

    #[cold]
    fn missing_here(&mut self, missing: Missing) -> Error {
        // The chunks still open have not stopped; each stands in front of a number greater than the missing one.
        missing_number(self.input, self.segments, &self.merge.stops, missing)
    }
}

fn values_complete(input: &RecoveryInput<'_>, operations: &Operations<'_>) -> Result<bool> {
    for operation in operations.clone() {
        if operation.kind == Kind::ValueReference && !(input.value_complete)(operation.value)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// In the same life only the last record of a chunk may be bad.
fn nothing_behind(segments: &[SegmentFile], stop: &Stop) -> Result<()> {
    let segment = &segments[stop.extent.segment];
    match find_header(segment, stop.position, stop.extent.end)? {
        None => Ok(()),
        Some((position, header)) => {
            let found = format!("record {} at offset {position} behind a bad one", header.number);
            Err(Error::corruption(&segment.path, stop.position, "log record header", "the end of its chunk", found))
        }
    }
}

/// The error for a number that must be there. Which chunk it was in nobody can know; the best guess is one in which
/// good records stand behind the place where reading stopped, then the one that was read nearest to the number, then
/// the one that was handed out first.
#[cold]
fn missing_number(input: &RecoveryInput<'_>, segments: &[SegmentFile], stops: &[Stop], missing: Missing) -> Error {
    let Missing(number) = missing;
    let before = || stops.iter().filter(|stop| stop.last < number);
    let broken = before().find(|stop| {
        let behind = find_header(&segments[stop.extent.segment], stop.position, stop.extent.end);
        matches!(behind, Ok(Some((_, header))) if header.number >= number) || is_torn(segments, stop)
    });
    let what = "log record";
    let expected = format!("number {number}, which was durable");
    match broken.or_else(|| before().min_by_key(|stop| Reverse(stop.last))) {
        Some(stop) => {
            let found = format!("nothing that parses behind number {}", stop.last);
            Error::corruption(&segments[stop.extent.segment].path, stop.position, what, expected, found)
        }
        None => Error::corruption(input.storage.path(), 0, what, expected, "no segment that could hold it"),
    }
}

/// Whether a good header with a bad body stopped the reading.
fn is_torn(segments: &[SegmentFile], stop: &Stop) -> bool {
    let behind = find_header(&segments[stop.extent.segment], stop.position, stop.extent.end);
    matches!(behind, Ok(Some((position, _))) if position == stop.position)
}
