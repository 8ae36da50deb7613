//! The output of a compaction: part files of the output level, and of deeper levels for the keys that skip (SkipStore
//! §4.1, §4.2). One thread.
//!
//! Invariants:
//! 1. All versions of a key that the merge retains go to one level. *Otherwise:* a snapshot reads past the version that
//!    it needs.
//! 2. Range tombstones stay in the output level.

use super::absence::Absence;
use crate::branch::Origin;
use crate::disk::levels::options::LEVELED_LEVELS;
use crate::disk::runs::figures::SKIPS;
use crate::disk::runs::output::{NewParts, OutputWriter};
use crate::disk::runs::run::Key;
use crate::disk::runs::sink::Sink;
use crate::merge::{EntryRef, RangeTombstones};
use crate::util::Result;

/// Entries, by how many levels further than the output level they were placed.
pub type Skips = [u64; SKIPS];

const _: () = assert!(SKIPS >= LEVELED_LEVELS, "a key can skip all levels");

/// Part files for a deeper level.
#[derive(Debug)]
pub struct Skipped {
    pub level: usize,
    pub parts: NewParts,
}

/// What a compaction has written.
#[derive(Debug, Default)]
pub struct Written {
    /// Of the output level.
    pub parts: NewParts,
    pub skipped: Vec<Skipped>,
    pub skips: Skips,
}

/// See the module.
pub struct SkipWriter<'a> {
    output: usize,
    /// For the output level and each deeper one.
    writers: Vec<OutputWriter<'a>>,
    absence: Absence<'a>,
    /// The last key, and how far it skips.
    key: Vec<u8>,
    skip: usize,
    skips: Skips,
}

impl<'a> SkipWriter<'a> {
    /// Writes to `output` with the first of the writers, of which there is at least one, and to the deeper levels with
    /// the others.
    pub fn new(output: usize, writers: Vec<OutputWriter<'a>>, absence: Absence<'a>) -> Self {
        debug_assert!(!writers.is_empty());
        Self { output, writers, absence, key: Vec::new(), skip: 0, skips: Skips::default() }
    }
}

impl Sink for SkipWriter<'_> {
    type Parts = Written;
    const TAKES_ORIGINS: bool = true;

    fn add(&mut self, entry: EntryRef<'_>, origin: Option<Origin>) -> Result<()> {
        if self.writers.len() > 1 && *entry.key != *self.key {
            self.key.clear();
            self.key.extend_from_slice(entry.key);
            self.skip = self.absence.deepest_of(entry.key)?.saturating_sub(self.output).min(self.writers.len() - 1);
        }
        self.skips[self.skip] += 1;
        Sink::add(&mut self.writers[self.skip], entry, origin)
    }

    fn add_range_tombstones(&mut self, tombstones: RangeTombstones) {
        self.writers[0].add_range_tombstones(tombstones);
    }

    fn add_reused(&mut self, key: Key) {
        self.writers[0].add_reused(key);
    }

    fn bytes(&self) -> u64 {
        self.writers.iter().map(OutputWriter::bytes).sum()
    }

    fn finish(self) -> Result<(Written, u64)> {
        let mut written = Written { skips: self.skips, ..Written::default() };
        let mut bytes = 0;
        for (level, writer) in (self.output..).zip(self.writers) {
            let parts = writer.finish()?;
            bytes += parts.written().bytes;
            if level == self.output {
                written.parts = parts;
            } else if parts.iter().next().is_some() {
                written.skipped.push(Skipped { level, parts });
            }
        }
        Ok((written, bytes))
    }
}
