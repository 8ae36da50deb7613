//! The pairs of an iterator, in chunks that are read without the interpreter. Used by one thread at a time.
//!
//! Invariant: the place where the iterator stands, as its user sees it, is `gap`, or behind the pairs of the chunk that were taken, where
//! there are any. Pairs read ahead do not move it.

use crate::gap::{Gap, Way};
use crate::source::Source;
use alluvium::Result;
use std::ops::Range;

/// The first chunk behind a seek is a pair, since many read just that; each further one has so many times as many.
const PAIRS_FIRST: usize = 1;
const PAIRS_GROWTH: usize = 4;
const PAIRS_MAX: usize = 1024;
/// No further pair is read ahead past this.
const BYTES_MAX: usize = 64 << 10;

/// See the module.
pub struct Walk {
    source: Source,
    gap: Gap,
    chunk: Chunk,
    /// Which way the chunk was read, where there is one.
    way: Option<Way>,
    /// Whether the source goes on behind the chunk.
    goes_on: bool,
    pairs: usize,
}

/// Pairs, one behind the other.
#[derive(Default)]
struct Chunk {
    bytes: Vec<u8>,
    /// Where each key begins, and where it ends and its value begins.
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

impl Walk {
    /// Stands where a walk of this way begins.
    pub fn new(source: Source, way: Way) -> Self {
        let gap = way.beginning();
        Self { source, gap, chunk: Chunk::default(), way: None, goes_on: false, pairs: PAIRS_FIRST }
    }

    /// Takes the next pair, if it has been read.
    pub fn take(&mut self, way: Way) -> Option<(&[u8], &[u8])> {
        if self.way != Some(way) || self.chunk.taken == self.chunk.pairs.len() {
            return None;
        }
        let (key, value) = self.chunk.pair(self.chunk.taken);
        self.chunk.taken += 1;
        Some((&self.chunk.bytes[key], &self.chunk.bytes[value]))
    }

    /// Reads more pairs, where `take` has none. An error is told once the pairs before it are taken.
    pub fn read(&mut self, way: Way) -> Result<()> {
        let turns = self.way != Some(way);
        self.note_gap();
        if turns {
            self.pairs = PAIRS_FIRST;
        }
        if turns || !self.goes_on {
            self.goes_on = false;
            self.way = None;
            self.source.begin(&self.gap, way)?;
        }
        self.way = Some(way);
        let pairs = if self.source.is_noted() { 1 } else { self.pairs };
        self.pairs = PAIRS_MAX.min(self.pairs * PAIRS_GROWTH);
        self.goes_on = true;
        while self.chunk.pairs.len() < pairs && self.chunk.bytes.len() < BYTES_MAX {
            match self.source.next(way, &mut |key, value| self.chunk.push(key, value)) {
                Ok(true) => {}
                Ok(false) => break,
                Err(error) => {
                    self.goes_on = false;
                    return if self.chunk.pairs.is_empty() { Err(error) } else { Ok(()) };
                }
            }
        }
        Ok(())
    }

    /// Goes to a gap.
    pub fn go(&mut self, gap: Gap) {
        self.forget();
        self.gap = gap;
    }

    /// Moves the gap behind what was taken, and empties the chunk.
    fn note_gap(&mut self) {
        if let (Some(way), Some(key)) = (self.way, self.chunk.last_taken()) {
            self.gap = way.past(key);
        }
        self.chunk.clear();
    }

    fn forget(&mut self) {
        self.chunk.clear();
        self.way = None;
        self.goes_on = false;
    }
}
