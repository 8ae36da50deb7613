//! The pairs of an iterator, in chunks that are read detached from the interpreter. Used by one thread at a time.
//!
//! Invariant: the position that the user sees is behind the pairs that were taken from the chunk; if none were taken,
//! it is `gap`. Pairs that were read ahead do not move it.

use crate::errors::Outcome;
use crate::gap::{Direction, Gap};
use crate::source::Source;
use std::ops::Range;

/// The first chunk after a seek is one pair, because many users read only that. Each further chunk has `PAIRS_GROWTH`
/// times as many.
const PAIRS_FIRST: usize = 1;
const PAIRS_GROWTH: usize = 4;
const PAIRS_MAX: usize = 1024;
/// The read-ahead stops at this size.
const BYTES_MAX: usize = 64 << 10;

/// See the module.
pub struct Scan {
    source: Source,
    gap: Gap,
    chunk: Chunk,
    /// The direction in which the chunk was read, if there is one.
    direction: Option<Direction>,
    /// Whether the source is positioned to continue behind the chunk.
    goes_on: bool,
    pairs: usize,
}

/// Consecutive pairs.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// The start of each key, and its end, where the value starts.
    pairs: Vec<(usize, usize)>,
    taken: usize,
}

impl Chunk {
    fn push(&mut self, key: &[u8], value: &[u8]) {
        let begin = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.pairs.push((begin, self.bytes.len()));
        self.bytes.extend_from_slice(value);
    }

    fn pair(&self, at: usize) -> (Range<usize>, Range<usize>) {
        let (key, value) = self.pairs[at];
        let end = self.pairs.get(at + 1).map_or(self.bytes.len(), |(begin, _)| *begin);
        (key..value, value..end)
    }

    fn last_taken(&self) -> Option<&[u8]> {
        let last = self.taken.checked_sub(1)?;
        Some(&self.bytes[self.pair(last).0])
    }

    fn clear(&mut self) {
        self.bytes.clear();
        self.pairs.clear();
        self.taken = 0;
    }
}

impl Scan {
    /// Creates a scan, positioned at its start in this direction.
    pub fn new(source: Source, direction: Direction) -> Self {
        let gap = direction.beginning();
        Self { source, gap, chunk: Chunk::default(), direction: None, goes_on: false, pairs: PAIRS_FIRST }
    }

    /// Takes the next pair if it was read ahead, and nothing has changed since.
    pub fn take(&mut self, direction: Direction) -> Option<(&[u8], &[u8])> {
        if self.source.has_changed() { None } else { self.take_read(direction) }
    }

    /// Takes the next pair if it has been read; after `read`, whatever happens meanwhile.
    pub fn take_read(&mut self, direction: Direction) -> Option<(&[u8], &[u8])> {
        if self.direction != Some(direction) || self.chunk.taken == self.chunk.pairs.len() {
            return None;
        }
        let (key, value) = self.chunk.pair(self.chunk.taken);
        self.chunk.taken += 1;
        Some((&self.chunk.bytes[key], &self.chunk.bytes[value]))
    }

    /// Reads more pairs when `take` has none. An error is returned once the pairs before it have been taken.
    pub fn read(&mut self, direction: Direction) -> Outcome<()> {
        let begins = self.direction != Some(direction) || self.source.has_changed();
        self.note_gap();
        if begins {
            self.pairs = PAIRS_FIRST;
            self.goes_on = false;
        }
        self.direction = Some(direction);
        let pairs = if self.source.records_reads() { 1 } else { self.pairs };
        self.pairs = PAIRS_MAX.min(self.pairs * PAIRS_GROWTH);
        let chunk = &mut self.chunk;
        let read = self.source.read(&self.gap, self.goes_on, direction, &mut |key, value| {
            chunk.push(key, value);
            chunk.pairs.len() < pairs && chunk.bytes.len() < BYTES_MAX
        });
        self.goes_on = read.is_ok();
        if self.chunk.pairs.is_empty() { read } else { Ok(()) }
    }

    /// Moves to a gap.
    pub fn go(&mut self, gap: Gap) {
        self.forget();
        self.gap = gap;
    }

    /// Moves the gap behind the pairs that were taken, and empties the chunk.
    fn note_gap(&mut self) {
        if let (Some(direction), Some(key)) = (self.direction, self.chunk.last_taken()) {
            self.gap = direction.past(key);
        }
        self.chunk.clear();
    }

    fn forget(&mut self) {
        self.chunk.clear();
        self.direction = None;
        self.goes_on = false;
    }
}
