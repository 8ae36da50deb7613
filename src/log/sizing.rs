//! How large the next segment is: segments begin small and grow with the write rate, so that a store that is hardly
//! written takes little space. Pure; the log calls it under its state lock.

use super::basics::segment_size::SegmentSize;
use super::settings::LogOptions;
use crate::util::limits::IO_ALIGNMENT;
use std::time::Duration;

/// Bytes of chunks in the first segment.
const FIRST_BYTES: usize = 32 << 10;
/// Bytes of chunks in a segment that is made on a full disk.
const SCARCE_BYTES: usize = 256 << 10;
/// A segment that was used up in less time is followed by a larger one.
const FAST: Duration = Duration::from_secs(1);
/// A segment that lasted longer is followed by a smaller one.
const SLOW: Duration = Duration::from_secs(10);
/// By how much the next one is larger or smaller.
const STEP: usize = 4;
/// The next segment is made ready late in growing segments up to this size.
const SMALL_BYTES: usize = 64 << 10;
/// Chunks of a segment: many, because a segment is full once every chunk has an owner, however little the owners have
/// written. Small segments have fewer.
const CHUNKS: usize = 512;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub struct Sizing {
    options: LogOptions,
    /// Bytes of chunks in the next segment.
    next_bytes: usize,
    /// When the current segment began.
    began: Duration,
}

impl Sizing {
    /// The first segment begins now.
    pub fn new(options: LogOptions, now: Duration) -> Self {
        Self { options, next_bytes: FIRST_BYTES.min(options.segment_bytes), began: now }
    }

    /// The size of the next segment; a small one if the disk is full.
    pub fn next(&self, scarce: bool) -> SegmentSize {
        self.of(if scarce { SCARCE_BYTES } else { self.next_bytes })
    }

    /// The greatest size.
    pub fn largest(&self) -> SegmentSize {
        self.of(self.options.segment_bytes)
    }

    /// A segment for one record of this length.
    pub fn dedicated(&self, record_bytes: usize) -> SegmentSize {
        let chunk_bytes = self.options.chunk_bytes;
        SegmentSize { chunks: record_bytes.div_ceil(chunk_bytes), chunk_bytes }
    }

    fn of(&self, bytes: usize) -> SegmentSize {
        let LogOptions { segment_bytes, chunk_bytes, .. } = self.options;
        let bytes = bytes.min(segment_bytes);
        let chunk_bytes = (bytes / CHUNKS).next_power_of_two().clamp(IO_ALIGNMENT.min(chunk_bytes), chunk_bytes);
        SegmentSize { chunks: (bytes / chunk_bytes).max(1), chunk_bytes }
    }

    /// Whether so many chunks of a segment are in use that the next one should be made ready. A fast writer fills a
    /// small segment before the next one can be ready, and a slow one needs it late or not at all.
    pub fn is_partly_used(&self, size: SegmentSize, chunks_in_use: usize) -> bool {
        let is_small = size.record_bytes() <= SMALL_BYTES && size.bytes() < self.largest().bytes();
        4 * chunks_in_use >= size.chunks * if is_small { 3 } else { 1 }
    }

    /// Notes that the current segment is used up and another one begins.
    pub fn note_switch(&mut self, now: Duration) {
        let lasted = now.saturating_sub(self.began);
        if lasted < FAST {
            self.next_bytes = self.next_bytes.saturating_mul(STEP).min(self.options.segment_bytes);
        } else if lasted > SLOW {
            self.next_bytes = (self.next_bytes / STEP).max(FIRST_BYTES.min(self.options.segment_bytes));
        }
        self.began = now;
    }

    /// Makes the next segments at least so large that a few records of this length fit.
    pub fn note_record(&mut self, record_bytes: usize) {
        let wanted = record_bytes.saturating_mul(STEP).max(self.next_bytes);
        self.next_bytes = wanted.next_power_of_two().min(self.options.segment_bytes);
    }

    /// Notes that nothing was written for a while: the next segment is small again.
    pub fn note_rest(&mut self) {
        self.next_bytes = FIRST_BYTES.min(self.options.segment_bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPTIONS: LogOptions = LogOptions {
        segment_bytes: 8 << 20,
        chunk_bytes: 16 << 10,
        budget_bytes: 1 << 30,
        deterministic: false,
        scarce: false,
    };

    fn size(chunks: usize, chunk_bytes: usize) -> SegmentSize {
        SegmentSize { chunks, chunk_bytes }
    }

    #[test]
    fn segments_grow_while_they_fill_fast_and_shrink_while_they_do_not() {
        let mut now = Duration::ZERO;
        let mut sizing = Sizing::new(OPTIONS, now);
        let mut sizes = vec![sizing.next(false)];
        for seconds in [0.1, 0.9, 0.9, 0.9, 0.9, 5.0, 11.0, 11.0, 0.9] {
            now += Duration::from_secs_f64(seconds);
            sizing.note_switch(now);
            sizes.push(sizing.next(false));
        }
        let kib = |size: &SegmentSize| size.record_bytes() >> 10;
        assert_eq!(sizes.iter().map(kib).collect::<Vec<_>>(), [32, 128, 512, 2048, 8192, 8192, 8192, 2048, 512, 2048]);
        assert_eq!((sizes[0], sizes[4]), (size(8, 4096), size(512, 16 << 10)));
        assert_eq!(sizing.next(true), size(64, 4096));
        assert_eq!(sizing.largest(), size(512, 16 << 10));
        sizing.note_rest();
        assert_eq!(sizing.next(false), size(8, 4096));
    }

    #[test]
    fn large_records_ask_for_segments_that_hold_some() {
        let mut sizing = Sizing::new(OPTIONS, Duration::ZERO);
        sizing.note_record(100 << 10);
        assert_eq!(sizing.next(false).record_bytes(), 512 << 10);
        sizing.note_record(1 << 10);
        assert_eq!(sizing.next(false).record_bytes(), 512 << 10, "never smaller");
        sizing.note_record(7 << 20);
        assert_eq!(sizing.next(false), sizing.largest());
        assert_eq!(sizing.dedicated(20 << 20), size(1280, 16 << 10));
    }

    #[test]
    fn the_next_segment_is_made_early_except_after_small_ones() {
        let sizing = Sizing::new(OPTIONS, Duration::ZERO);
        assert!(!sizing.is_partly_used(size(8, 4096), 5) && sizing.is_partly_used(size(8, 4096), 6));
        assert!(!sizing.is_partly_used(size(512, 4096), 127) && sizing.is_partly_used(size(512, 4096), 128));
        // If there are no larger ones, a writer may wait for it.
        let options = LogOptions { segment_bytes: 20 << 10, chunk_bytes: 4096, ..OPTIONS };
        assert!(Sizing::new(options, Duration::ZERO).is_partly_used(size(5, 4096), 2));
    }

    #[test]
    fn tiny_limits_are_kept() {
        let options = LogOptions { segment_bytes: 20 << 10, chunk_bytes: 8 << 10, ..OPTIONS };
        let sizing = Sizing::new(options, Duration::ZERO);
        assert_eq!(sizing.next(false), size(5, 4096));
        let options = LogOptions { segment_bytes: 4096, chunk_bytes: 4096, ..OPTIONS };
        assert_eq!(Sizing::new(options, Duration::ZERO).next(true), size(1, 4096));
    }
}
