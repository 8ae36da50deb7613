//! The write path: a thread's place in the log, and the two halves of writing a record there.
//!
//! A `LogWriter` belongs to one thread at a time and may be handed on with its half-used chunk. The calls for one
//! record are, in this order (`docs/concurrency.md`, W): `prepare`, `Sequencer::announce` and `is_current`,
//! `Sequencer::take`, `seal` or `seal_void`. `cancel` undoes `prepare` until a number is taken.
//!
//! Invariants:
//! 1. A writer writes only to chunks that it owns (`segment`, invariant 1), and there only after its last record.
//! 2. Numbers rise within a chunk: its writer takes them one after the other and seals in the same order.
//! 3. A record longer than a chunk is the first of a run of exactly as many chunks as it needs. Recovery finds the end
//!    of the run from that record's length alone. So if the large record is cancelled, the run is given up and never
//!    filled with other records.
//! 4. Nothing is written to a segment after the segment was sealed (`maintenance.rs`, invariant 1).

use super::log::Log;
use super::segment::Segment;
use crate::format::log_record::{BODY_BYTES_MAX, FLAG_DISCARDED, FLAG_RUN, HEADER_BYTES, RecordHeader, record_length};
use crate::util::checksum::checksum;
use crate::util::sync::{Arc, AtomicU64, Ordering};
use crate::util::{Error, Kind, Result, SequenceNumber};

/// One thread's place in the log. See the module.
#[derive(Debug, Default)]
pub struct LogWriter {
    place: Option<Place>,
    prepared: Option<Prepared>,
}

/// The chunks that the writer owns, and how far they are filled.
#[derive(Debug)]
struct Place {
    segment: Arc<Segment>,
    first_chunk: usize,
    chunks: usize,
    position: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug)]
struct Prepared {
    kind: Kind,
    body_length: u32,
    body_checksum: u32,
}

impl Place {
    fn fits(&self, length: usize) -> bool {
        length <= self.end - self.position && !self.segment.is_retired() && (self.chunks == 1 || self.fits_run(length))
    }

    /// Invariant 3.
    fn fits_run(&self, length: usize) -> bool {
        self.position > self.segment.chunk_position(self.first_chunk)
            || self.segment.chunk_position(self.chunks - 1) < self.segment.chunk_position(0) + length
    }
}

impl LogWriter {
    /// Moves to chunks that were just claimed.
    pub(super) fn enter(&mut self, segment: Arc<Segment>, first_chunk: usize, chunks: usize) {
        self.leave();
        let (position, end) = (segment.chunk_position(first_chunk), segment.chunk_position(first_chunk + chunks));
        self.place = Some(Place { segment, first_chunk, chunks, position, end });
    }

    /// Gives the chunks up.
    pub(super) fn leave(&mut self) {
        self.prepared = None;
        if let Some(place) = self.place.take() {
            place.segment.release(place.first_chunk, place.chunks);
            if place.segment.dedicated {
                place.segment.abandon();
            }
        }
    }

    /// Forgets the prepared body.
    fn cancel(&mut self) {
        self.prepared = None;
        if self.place.as_ref().is_some_and(|place| place.segment.dedicated) {
            self.leave();
        }
    }

    fn fill(&mut self, kind: Kind, body_bytes: usize, fill: impl FnOnce(&mut [u8])) {
        let Some(place) = &self.place else { unreachable!("a writer enters a chunk before it fills it") };
        let length = record_length(body_bytes);
        assert!(length <= place.end - place.position);
        let record = place.segment.memory_at(place.position, length);
        // SAFETY: invariant 1, and the assertion: the bytes lie in chunks that this writer owns, and `&mut self`
        // excludes its other calls. The header's page is touched here, so that sealing does not fault; the zeroes also
        // erase a stale header.
        let body = unsafe {
            std::ptr::write_bytes(record, 0, HEADER_BYTES);
            std::slice::from_raw_parts_mut(record.add(HEADER_BYTES), body_bytes)
        };
        fill(body);
        let body_checksum = checksum(body, place.segment.salt.at(place.position as u64));
        self.prepared = Some(Prepared { kind, body_length: body_bytes as u32, body_checksum });
    }

    fn seal(&mut self, number: SequenceNumber, kind: Kind, flags: u8, run: Option<SequenceNumber>) {
        let (Some(place), Some(mut prepared)) = (&mut self.place, self.prepared.take()) else {
            unreachable!("sealing needs a prepared record")
        };
        let length = record_length(prepared.body_length as usize);
        let record = place.segment.memory_at(place.position, length);
        if let Some(last) = run {
            let body = last.0.to_le_bytes();
            assert_eq!(prepared.body_length as usize, body.len());
            prepared.body_checksum = checksum(&body, place.segment.salt.at(place.position as u64));
            // SAFETY: invariant 1; the body has exactly these bytes, as asserted.
            unsafe { std::ptr::copy_nonoverlapping(body.as_ptr(), record.add(HEADER_BYTES), body.len()) }
        }
        let Prepared { body_length, body_checksum, .. } = prepared;
        let header = RecordHeader { body_length, number, body_checksum, kind, flags };
        let [first, second, third] = header.encode(place.segment.salt, place.position as u64).map(u64::to_le);
        // SAFETY: invariant 1; records start at multiples of 8 of a page-aligned mapping, so each word is aligned. The
        // release store of the first word orders the body and the other words before it: a reader that sees the word,
        // in this process or through the kernel's copy after a kill, sees the record.
        unsafe {
            let words = record.cast::<u64>();
            words.add(1).write(second);
            words.add(2).write(third);
            AtomicU64::from_ptr(words).store(first, Ordering::Release);
        }
        place.position += length;
        place.segment.fill(place.first_chunk, place.position);
        if place.segment.dedicated {
            self.leave();
        }
    }
}

impl Drop for LogWriter {
    fn drop(&mut self) {
        self.leave();
    }
}

impl Log {
    /// A writer without a chunk. It gets one with its first record.
    pub fn writer(&self) -> LogWriter {
        LogWriter::default()
    }

    /// Before the announcement: writes the body of a record and computes its checksum. May wait for the next segment.
    /// Fails if the disk is full or the log takes no more writes. A record that was prepared earlier is forgotten.
    #[inline]
    pub fn prepare(
        &self,
        writer: &mut LogWriter,
        kind: Kind,
        body_bytes: usize,
        fill: impl FnOnce(&mut [u8]),
    ) -> Result<()> {
        self.check()?;
        if writer.prepared.is_some() {
            writer.cancel();
        }
        if body_bytes > BODY_BYTES_MAX {
            return Err(Error::InvalidArgument(format!("a log record of {body_bytes} bytes")));
        }
        let length = record_length(body_bytes);
        if !writer.place.as_ref().is_some_and(|place| place.fits(length)) {
            self.refill(writer, length)?;
        }
        writer.fill(kind, body_bytes, fill);
        Ok(())
    }

    /// After `Sequencer::announce`: whether the prepared record may still be sealed where it is. If not, the caller
    /// withdraws its announcement, cancels, and prepares again.
    #[inline]
    pub fn is_current(&self, writer: &LogWriter) -> bool {
        writer.place.as_ref().is_some_and(|place| !place.segment.is_retired())
    }

    /// Gives the prepared record its number and makes it valid. Cannot fail. Requires `is_current` after the
    /// announcement.
    #[inline]
    pub fn seal(&self, writer: &mut LogWriter, number: SequenceNumber) {
        let kind = writer.prepared.as_ref().map_or(Kind::Void, |prepared| prepared.kind);
        writer.seal(number, kind, 0, None);
    }

    /// For a write that failed after it took its number: the prepared record becomes a void.
    #[cfg_attr(not(test), expect(dead_code, reason = "for a write that fails after it took a number"))]
    pub fn seal_void(&self, writer: &mut LogWriter, number: SequenceNumber) {
        writer.seal(number, Kind::Void, FLAG_DISCARDED, None);
    }

    /// Seals a void for all numbers from `first` to `last`. Requires a prepared void with a body of 8 bytes, and that
    /// no record of its own has a number between the two.
    #[cfg_attr(
        not(test),
        expect(
            dead_code,
            reason = "for a write to unlogged keyspaces that took many numbers and covers them with one record"
        )
    )]
    pub fn seal_run(&self, writer: &mut LogWriter, first: SequenceNumber, last: SequenceNumber) {
        assert!(first <= last);
        writer.seal(first, Kind::Void, FLAG_RUN, Some(last));
    }

    /// Forgets the prepared body.
    pub fn cancel(&self, writer: &mut LogWriter) {
        writer.cancel();
    }
}
