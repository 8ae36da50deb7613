//! Errors about numbers: one that must be there and is missing, or one that is there twice; also of manifest edits. Only
//! on error paths; the segments are read again to find the position.

use super::check::{Checked, Chunk};
use super::chunk::ExtentBuffer;
use super::rule::{Missing, Why};
use super::scan::SegmentFile;
use crate::format::log_record::RecordHeader;
use crate::io::{OpenMode, Storage};
use crate::util::{Error, SequenceNumber};
use std::cmp::Reverse;

const MANIFEST: &str = "MANIFEST";

/// The error for a number that must be there. It is unknown which chunk contained it. The best guess is a chunk with
/// good records after the position where reading stopped; then an empty chunk between chunks that began before and
/// after the number, since chunks are handed out in order and used at once; then the chunk that was read closest to the
/// number.
#[cold]
pub fn missing(storage: &dyn Storage, segments: &[SegmentFile], checked: &[Checked], missing: Missing) -> Error {
    let Missing { number, why } = missing;
    let places: Vec<Place<'_>> =
        segments.iter().zip(checked).flat_map(|(segment, of)| of.chunks.iter().map(move |of| (segment, of))).collect();
    let before = || places.iter().enumerate().filter(|(_, (_, chunk))| chunk.last < number);
    let broken = || {
        let mut before = before().map(|(at, _)| at);
        before.find(|at| {
            let (segment, chunk) = places[*at];
            let following = first_header_after(segment, chunk);
            following.is_some_and(|(at, header)| header.number >= number || at == chunk.position)
        })
    };
    let nearest = || before().min_by_key(|(_, (_, chunk))| Reverse(chunk.last)).map(|(at, _)| at);
    let what = "log record";
    let expected = match why {
        Why::Durable => format!("number {number}, which was durable"),
        Why::TooMany => format!("number {number}, because more are missing than threads can have taken"),
    };
    match broken().or_else(|| emptied(&places, number)).or_else(nearest) {
        Some(at) => {
            let (segment, chunk) = places[at];
            let mut found = format!("no valid record after number {}", chunk.last);
            // The chunk that was handed out next may also be the lost one, and may be in another file.
            if let Some((next, empty)) = places.get(at + 1)
                && empty.is_empty()
                && !chunk.is_empty()
            {
                let (start, name) = (empty.extent.start, &next.name);
                found.push_str(&format!(", and nothing in the next chunk, at offset {start} of {name}"));
            }
            if chunk.stopped_in_shadow {
                found.push_str("; Options::force_cut (--force-cut) opens without what follows");
            }
            Error::corruption(chunk.stop_path(segment), chunk.position, what, expected, found)
        }
        None => Error::corruption(storage.path(), 0, what, expected, "no segment that can contain it"),
    }
}

/// The error for a manifest that has only `found` edits, although `marked` were durable according to the log: it was cut
/// short, or is an older copy.
#[cold]
pub fn missing_edits(storage: &dyn Storage, marked: u64, found: u64) -> Error {
    let length = storage.open(MANIFEST, OpenMode::Read).and_then(|file| file.length()).unwrap_or_default();
    let expected = format!("at least {marked}, which were durable according to the log");
    Error::corruption(&storage.path_of(MANIFEST), length, "manifest edits", expected, found)
}

/// A chunk and its segment.
type Place<'a> = (&'a SegmentFile, &'a Chunk);

/// The first empty chunk that comes before one that begins above `number`, and after one that begins below it.
fn emptied(places: &[Place<'_>], number: SequenceNumber) -> Option<usize> {
    let above = |chunk: &Chunk| !chunk.is_empty() && chunk.first_wanted > number && chunk.last > number;
    let end = places.iter().position(|(_, chunk)| above(chunk))?;
    let used = places[..end].iter().rposition(|(_, chunk)| !chunk.is_empty()).map_or(0, |at| at + 1);
    (used < end).then_some(used)
}

/// The first valid header at or after the position where reading a chunk stopped. Unreadable bytes are skipped.
fn first_header_after(segment: &SegmentFile, chunk: &Chunk) -> Option<(u64, RecordHeader)> {
    let mut buffer = ExtentBuffer::new(segment.header.chunk_bytes);
    buffer.load(segment, chunk.extent).ok()?;
    buffer.find_header(segment, chunk.position)
}

/// The error for a number that two records have. It names the second one.
#[cold]
pub fn duplicate(segments: &[SegmentFile], checked: &[Checked], number: u64) -> Error {
    let mut places = Vec::new();
    for (segment, of) in segments.iter().zip(checked) {
        let mut buffer = ExtentBuffer::new(segment.header.chunk_bytes);
        for chunk in &of.chunks {
            if buffer.load(segment, chunk.extent).is_err() {
                continue;
            }
            let mut records = buffer.records(segment);
            while let Ok(Some(record)) = records.step() {
                let Some(body) = record.body else { break };
                let last = record.header.last_number(body).unwrap_or(record.header.number);
                if (record.header.number.0..=last.0).contains(&number) {
                    places.push((segment, record.position));
                }
            }
        }
    }
    let (segment, position) = match places[..] {
        [_, second, ..] => second,
        [only] => only,
        [] => (&segments[0], 0),
    };
    let expected = "a number that no other record has";
    Error::corruption(&segment.path, position + 8, "log record number", expected, SequenceNumber(number))
}
