//! Reads the log back (`protocol.md`, Recovery). One thread, before the store is open; changes no byte of the log.
//!
//! The caller makes the edit durable in the manifest before it creates the next generation, adopts the segments or
//! lets anyone see the store.
//!
//! Invariants:
//! 1. Generations are read in rising order, each merged by number, so records are applied in rising order.
//! 2. A generation that an edit covers is read only through that edit. At most one generation, the newest, has none.
//! 3. Segments are synced before they are read, so what is applied here is durable before the edit that relies on it.
//!    A log that a failed sync has poisoned is read past the page cache, which may hold bytes that the disk has not.
//! 4. In the same life a chunk ends at its first bad header, and then nothing that parses may stand behind that; a
//!    good header with a bad body is no torn record either, since the header is sealed after the body.

mod chunk;
mod merge;
mod replay;
mod rule;
mod scan;

use crate::base::{DatabaseId, Error, FileNumber, Result, SequenceNumber};
use crate::format::log_record::Operations;
use crate::format::manifest_edit::LogRecovered;
use crate::io::{Life, Storage};
use crate::log::halt::read_poison;
use replay::Replay;
use rule::Rule;
use scan::{Scan, SegmentFile, scan};

/// What recovery starts from.
#[derive(Clone, Copy)]
pub struct RecoveryInput<'a> {
    /// The store's directory.
    pub storage: &'a dyn Storage,
    /// The store.
    pub database: DatabaseId,
    /// The earlier recoveries that the manifest knows, by generation.
    pub recovered: &'a [LogRecovered],
    /// Every number up to this one is in branch files, durably.
    pub incorporated: SequenceNumber,
    /// Generations below this one are forgotten.
    pub generations_from: u64,
    /// Edits that the manifest holds. A mark that knows of more means that the manifest was cut short.
    pub manifest_edits: u64,
    /// The present life of machine and mount.
    pub life: Option<Life>,
    /// Follow the power-loss rule whatever the life.
    pub force_cut: bool,
    /// Whether the value file behind a reference is complete. A file that it calls complete must be durable: sync it.
    pub value_complete: &'a dyn Fn(&[u8]) -> Result<bool>,
}

/// A log file of an earlier generation, or one without a use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OldSegment {
    /// The file's name.
    pub name: String,
    /// The number in its name.
    pub number: FileNumber,
    /// Its generation; 0 where it has none.
    pub generation: u64,
    /// The greatest number in it that was applied; zero where it holds nothing that is needed.
    pub last: SequenceNumber,
    /// The file's length.
    pub bytes: u64,
    /// Bytes of its records that were applied.
    pub used: u64,
    /// It holds nothing that is needed.
    pub unused: bool,
}

/// What recovery found.
#[derive(Debug)]
pub struct Recovered {
    /// To be made durable in the manifest before anything else; `None` where no generation is new.
    pub edit: Option<LogRecovered>,
    /// For `Log::adopt`, once the edit is durable.
    pub segments: Vec<OldSegment>,
    /// The first number of the next generation.
    pub next_number: SequenceNumber,
    /// A generation that no segment has.
    pub next_generation: u64,
}

/// Receives each record's operations.
pub type Apply<'a> = dyn FnMut(SequenceNumber, Operations<'_>) -> Result<()> + 'a;

/// Reads all generations back and applies every record above `incorporated`, in rising order of numbers.
pub fn recover(input: RecoveryInput<'_>, apply: &mut Apply<'_>) -> Result<Recovered> {
    let poison = read_poison(input.storage)?;
    let poisoned = |generation| poison.is_some_and(|of| of.is_none_or(|of| of == generation));
    let found = scan(input.storage, input.database, input.generations_from, |generation| !poisoned(generation))?;
    let mut recovery = Recovery::new(input, &found);
    recovery.check_manifest()?;
    let mut segments = &found.segments[..];
    let mut covered = input.recovered.iter().filter(|entry| entry.generation >= input.generations_from).peekable();
    loop {
        let generation = segments.first().map(|segment| segment.header.generation);
        let (rule, generation) = match (covered.peek(), generation) {
            (Some(entry), Some(generation)) if generation <= entry.generation => (Rule::Recovered(entry), generation),
            (Some(entry), _) => (Rule::Recovered(entry), entry.generation),
            (None, Some(generation)) => (recovery.rule(segments, poisoned(generation))?, generation),
            (None, None) => break,
        };
        let count = segments.iter().take_while(|segment| segment.header.generation == generation).count();
        let (these, rest) = segments.split_at(count);
        recovery.generation(generation, rule, these, apply)?;
        if covered.peek().is_some_and(|entry| entry.generation <= generation) {
            covered.next();
        }
        segments = rest;
    }
    Ok(recovery.finish(found))
}

struct Recovery<'a> {
    input: RecoveryInput<'a>,
    /// The next generation's first number cannot be below this.
    next: SequenceNumber,
    /// The manifest had this edit, synced, when the newest mark was left.
    manifest_edit: u64,
    edit: Option<LogRecovered>,
    old: Vec<OldSegment>,
}

impl<'a> Recovery<'a> {
    fn new(input: RecoveryInput<'a>, found: &Scan) -> Self {
        let recovered = input.recovered.iter().map(|entry| entry.next_number).max().unwrap_or_default();
        let marks = || found.segments.iter().filter_map(|segment| segment.mark);
        let marked = marks().map(|mark| mark.synced_through.next()).max().unwrap_or_default();
        let first = found.segments.iter().map(|segment| segment.header.first).max().unwrap_or_default();
        let next = [SequenceNumber(1), input.incorporated.next(), recovered, marked, first].into_iter().max();
        Self {
            input,
            next: next.unwrap_or_default(),
            manifest_edit: marks().map(|mark| mark.manifest_edit).max().unwrap_or(0),
            edit: None,
            old: Vec::new(),
        }
    }

    /// `docs/recovery.md`, R8. First of all, since without its last edits the manifest also expects another log.
    fn check_manifest(&self) -> Result<()> {
        let (marked, found) = (self.manifest_edit, self.input.manifest_edits);
        if marked <= found {
            return Ok(());
        }
        let expected = format!("at least {marked}, which the log knows to be durable");
        Err(Error::corruption(&self.input.storage.path_of("MANIFEST"), 0, "manifest edits", expected, found))
    }

    /// The rule for a generation that no edit covers.
    fn rule(&self, segments: &[SegmentFile], poisoned: bool) -> Result<Rule<'static>> {
        if let (Some(edit), Some(segment)) = (&self.edit, segments.first()) {
            let expected = format!("none after {}, which no edit covers", edit.generation);
            let found = segment.header.generation;
            return Err(Error::corruption(&segment.path, 32, "log generation", expected, found));
        }
        let generation = segments.first().map_or(0, |segment| segment.header.generation);
        let mut these = segments.iter().filter(|segment| segment.header.generation == generation);
        let same = self.input.life.is_some() && these.all(|segment| segment.header.life == self.input.life);
        Ok(if same && !poisoned && !self.input.force_cut { Rule::SameLife } else { Rule::PowerLoss })
    }

    fn generation(
        &mut self,
        generation: u64,
        rule: Rule<'_>,
        segments: &[SegmentFile],
        apply: &mut Apply<'_>,
    ) -> Result<()> {
        let before = self.input.recovered.iter().rev().find(|entry| entry.generation < generation);
        let first = match segments.first() {
            Some(segment) => segment.header.first,
            None => before.map_or(SequenceNumber::ZERO, |entry| entry.next_number),
        };
        if let Some(odd) = segments.iter().find(|segment| segment.header.first != first) {
            let what = "first number of a log generation";
            return Err(Error::corruption(&odd.path, 40, what, first, odd.header.first));
        }
        let mut replay = Replay::new(&self.input, rule, first, segments)?;
        replay.run(apply)?;
        self.next = self.next.max(replay.seen_max.next());
        for (segment, live) in segments.iter().zip(&replay.live) {
            self.old.push(OldSegment {
                name: segment.name.clone(),
                number: segment.header.number,
                generation,
                last: live.last,
                bytes: segment.header.segment_bytes,
                used: live.bytes,
                unused: live.bytes == 0,
            });
        }
        let (cut, skipped) = replay.finish()?;
        if !matches!(rule, Rule::Recovered(_)) {
            self.edit = Some(LogRecovered { generation, cut, skipped, next_number: SequenceNumber::ZERO });
        }
        Ok(())
    }

    fn finish(mut self, found: Scan) -> Recovered {
        if let Some(edit) = &mut self.edit {
            self.next = self.next.max(edit.cut.next());
            edit.next_number = self.next;
        }
        self.old.extend(found.unused);
        let recovered = self.input.recovered.iter().map(|entry| entry.generation).max().unwrap_or(0);
        let generation = found.generation_max.max(recovered) + 1;
        Recovered {
            edit: self.edit,
            segments: self.old,
            next_number: self.next,
            next_generation: generation.max(self.input.generations_from),
        }
    }
}

#[cfg(test)]
mod tests;
