//! Decides which records of the log count: one log epoch after another, each by its rule.

use super::check::{self, Checked, Checks};
use super::contents::{LogContents, SegmentContents};
use super::input::{Access, RecoveryInput};
use super::missing;
use super::numbers::Numbers;
use super::old_segment::OldSegment;
use super::rule::{Bounds, Decision, Rule, decide, is_skipped};
use super::scan::{Scan, SegmentFile, scan};
use super::write_back::make_durable;
use crate::format::manifest_edit::LogRecovered;
use crate::format::value_file::ValueReference;
use crate::log::basics::names::{Role, file_name};
use crate::log::poison::read_poison;
use crate::util::planted::planted;
use crate::util::sync::Mutex;
use crate::util::{Error, FileNumber, Result, SequenceNumber, parallel};
use std::collections::BTreeSet;

/// The result of recovery.
#[derive(Debug)]
pub struct Recovered {
    /// To be made durable in the manifest before anything else; `None` if no log epoch is new.
    pub edit: Option<LogRecovered>,
    /// For `Log::adopt`, once the edit is durable.
    pub segments: Vec<OldSegment>,
    /// The first number of the next log epoch.
    pub next_number: SequenceNumber,
    /// A log epoch that no segment has.
    pub next_epoch: u64,
    /// Every number up to this one is known to be durable.
    pub synced: SequenceNumber,
    /// The records that count.
    pub contents: LogContents,
    /// Bytes of the shadows that were read. A writer has copied what only they had to the segments.
    pub shadow_bytes: u64,
    /// Numbers behind the first gap, which the power-loss rule has discarded.
    pub discarded: u64,
}

impl Recovered {
    /// The segments in which nothing is needed. `Log::adopt` frees them, so the manifest must not name them any more.
    pub fn unused(&self) -> impl Iterator<Item = FileNumber> {
        self.segments.iter().filter(|segment| segment.unused).map(|segment| segment.number)
    }
}

/// Reads all log epochs and decides which of their records count.
pub fn recover(input: RecoveryInput<'_>) -> Result<Recovered> {
    let poison = read_poison(input.storage)?;
    let poisoned = |epoch| poison.is_some_and(|of| of.is_none_or(|of| of == epoch));
    let found = scan(&input, |epoch| !poisoned(epoch))?;
    let mut recovery = Recovery::new(input, &found);
    recovery.check_manifest()?;
    recovery.check_segments(&found)?;
    let Scan { segments, unused, epoch_max, shadow_bytes } = found;
    let mut segments = segments.into_iter().peekable();
    let mut covered = input.recovered.iter().filter(|entry| entry.epoch >= input.epochs_from).peekable();
    loop {
        let first = segments.peek();
        let (rule, epoch) = match (covered.peek(), first.map(|segment| segment.header.epoch)) {
            (Some(entry), Some(epoch)) if epoch <= entry.epoch => (Rule::Recovered(entry), epoch),
            (Some(entry), _) => (Rule::Recovered(entry), entry.epoch),
            (None, Some(epoch)) => (Rule::PowerLoss, epoch),
            (None, None) => break,
        };
        let mut these = Vec::new();
        while let Some(segment) = segments.next_if(|segment| segment.header.epoch == epoch) {
            these.push(segment);
        }
        let rule = match rule {
            Rule::Recovered(_) => rule,
            _ => recovery.rule(epoch, &these, poisoned(epoch))?,
        };
        recovery.epoch(epoch, rule, these)?;
        if covered.peek().is_some_and(|entry| entry.epoch <= epoch) {
            covered.next();
        }
    }
    if input.access == Access::Write {
        // Everything was checked: only now is a byte of the log changed.
        let is_covered = |epoch| input.recovered.iter().any(|entry| entry.epoch >= epoch);
        for segment in &mut recovery.contents.segments {
            make_durable(input.storage, segment, is_covered(segment.file.header.epoch))?;
        }
    }
    Ok(Recovered { shadow_bytes, ..recovery.finish(unused, epoch_max) })
}

struct Recovery<'a> {
    input: RecoveryInput<'a>,
    /// The next log epoch's first number cannot be below this.
    next: SequenceNumber,
    /// The manifest had this many edits, synced, when the newest mark was left.
    manifest_edit: u64,
    /// Every number up to this one was synced, according to manifest and marks.
    synced: SequenceNumber,
    edit: Option<LogRecovered>,
    old: Vec<OldSegment>,
    contents: LogContents,
    discarded: u64,
}

impl<'a> Recovery<'a> {
    fn new(input: RecoveryInput<'a>, found: &Scan) -> Self {
        let recovered = input.recovered.iter().map(|entry| entry.next_number).max().unwrap_or_default();
        let marks = || found.segments.iter().filter_map(|segment| segment.mark);
        let marked = marks().map(|mark| mark.synced_through).max().unwrap_or_default();
        let synced = input.incorporated.max(input.synced).max(marked);
        let first = found.segments.iter().map(|segment| segment.header.first).max().unwrap_or_default();
        let next = [SequenceNumber(1), synced.next(), recovered, first].into_iter().max();
        Self {
            input,
            next: next.unwrap_or_default(),
            synced,
            manifest_edit: marks().map(|mark| mark.manifest_edit).max().unwrap_or(0),
            edit: None,
            old: Vec::new(),
            contents: LogContents { incorporated: input.incorporated, ..LogContents::default() },
            discarded: 0,
        }
    }

    /// `docs/recovery.md`, R8. This is checked first: a manifest without its last edits also expects another log.
    fn check_manifest(&self) -> Result<()> {
        let (marked, found) = (self.manifest_edit, self.input.manifest_edits);
        if marked <= found || self.input.access == Access::ReadBesideWriter {
            return Ok(());
        }
        Err(missing::missing_edits(self.input.storage, marked, found))
    }

    /// `docs/recovery.md`, D3: every segment that the manifest names existed under this name and with this header.
    fn check_segments(&self, found: &Scan) -> Result<()> {
        let forgotten = found.unused.iter().filter(|file| file.epoch < self.input.epochs_from);
        let there = found.segments.iter().map(|segment| segment.header.number);
        let there: BTreeSet<_> = there.chain(forgotten.map(|file| file.number)).collect();
        let counts = self.input.segments.range(self.input.files_from..);
        match counts.into_iter().find(|number| !there.contains(number)) {
            None => Ok(()),
            Some(number) => {
                let path = self.input.storage.path_of(&file_name(*number, Role::Segment));
                let expected = "the file, which the manifest names";
                Err(Error::corruption(&path, 0, "log segment", expected, "no such file, or one without records"))
            }
        }
    }

    /// The rule for a log epoch that no edit covers.
    fn rule(&self, epoch: u64, segments: &[SegmentFile], poisoned: bool) -> Result<Rule<'static>> {
        if let (Some(edit), Some(segment)) = (&self.edit, segments.first()) {
            let expected = format!("at most {}: one log epoch may lack a recovery edit", edit.epoch);
            return Err(Error::corruption(&segment.path, 32, "log epoch", expected, epoch));
        }
        let same = self.input.life.is_some() && segments.iter().all(|segment| segment.header.life == self.input.life);
        let complete = self.input.access != Access::ReadBesideWriter;
        let same = same && complete && !poisoned && !self.input.force_cut;
        Ok(if planted!(same, Bug::GapSkippedAfterPowerLoss => true) { Rule::SameLife } else { Rule::PowerLoss })
    }

    fn epoch(&mut self, epoch: u64, rule: Rule<'_>, segments: Vec<SegmentFile>) -> Result<()> {
        let before = self.input.recovered.iter().rev().find(|entry| entry.epoch < epoch);
        let first = match segments.first() {
            Some(segment) => segment.header.first,
            None => before.map_or(SequenceNumber::ZERO, |entry| entry.next_number),
        };
        if let Some(odd) = segments.iter().find(|segment| segment.header.first != first) {
            let what = "first number of a log epoch";
            return Err(Error::corruption(&odd.path, 40, what, first, odd.header.first));
        }
        let marks = segments.iter().filter_map(|segment| segment.mark);
        let durable = marks.map(|mark| mark.synced_through).max().unwrap_or_default().max(self.input.synced);
        let bounds = Bounds { first, incorporated: self.input.incorporated, durable };
        let checks = Checks { rule, bounds };
        let numbers = Mutex::new(Numbers::default());
        // With a running writer, reads in the order in which it writes: a record after a gap shows that there is more
        // to be read.
        let threads = if self.input.access == Access::ReadBesideWriter { 1 } else { self.input.threads };
        let checked = parallel::map(threads, segments.len(), |segment| {
            let mut checked = check::check(&segments[segment], checks)?;
            // Each result is added immediately, in any order: the results of the readers take more memory than their
            // sum.
            numbers.lock().add(std::mem::take(&mut checked.found));
            Ok(checked)
        });
        let checked = checked.into_iter().collect::<Result<Vec<Checked>>>()?;
        let mut numbers = numbers.into_inner();
        let seen_max = checked.iter().map(|segment| segment.seen_max).max().unwrap_or_default();
        self.next = self.next.max(seen_max.next());
        let decision = self.decide(checks, &segments, &checked, &mut numbers)?;
        self.contents.sizes.extend(numbers.sizes(decision.cut.0));
        if matches!(rule, Rule::PowerLoss) {
            self.discarded += numbers.count_above(decision.cut.0);
        }
        for (file, checked) in segments.into_iter().zip(checked) {
            self.keep(file, checked, &decision);
        }
        if !matches!(rule, Rule::Recovered(_)) {
            let Decision { cut, skipped } = decision.clone();
            self.edit = Some(LogRecovered { epoch, cut, skipped, next_number: SequenceNumber::ZERO });
        }
        self.contents.decisions.push(decision);
        Ok(())
    }

    /// The decision about a log epoch. A record whose value file is incomplete counts as missing.
    fn decide(
        &self,
        checks: Checks<'_>,
        segments: &[SegmentFile],
        checked: &[Checked],
        numbers: &mut Numbers,
    ) -> Result<Decision> {
        let Checks { rule, bounds } = checks;
        let chunks = || checked.iter().flat_map(|segment| &segment.chunks);
        let mut chunk_ends: Vec<u64> = chunks().filter(|chunk| chunk.has_room()).map(|chunk| chunk.last.0).collect();
        let mut decide = |numbers: &Numbers| {
            let present = numbers.present().map_err(|number| missing::duplicate(segments, checked, number))?;
            decide(&rule, &bounds, &present, &mut chunk_ends)
                .map_err(|missing| missing::missing(self.input.storage, segments, checked, missing))
        };
        let decision = decide(numbers)?;
        let referring = checked.iter().enumerate();
        let mut referring: Vec<_> = referring
            .flat_map(|(segment, checked)| checked.referring.iter().map(move |of| (of.number, segment, of)))
            .collect();
        referring.sort_unstable_by_key(|(number, ..)| *number);
        for (number, segment, record) in referring {
            if number > decision.cut || is_skipped(&decision.skipped, number) {
                continue;
            }
            let Some(missing) = self.missing_value(&record.references)? else { continue };
            if matches!(rule, Rule::SameLife) || number <= bounds.durable {
                // The file was complete before the record was sealed, or durable before the record was. So it has been
                // damaged.
                let (path, what) = (&segments[segment].path, "value file of a log record");
                let expected = format!("{missing}, the value of number {number}");
                return Err(Error::corruption(path, record.position, what, expected, "a missing or damaged file"));
            }
            // No later reference changes the decision: after a power loss the cut is here, and otherwise this is
            // corruption.
            numbers.remove(number.0);
            return decide(numbers);
        }
        Ok(decision)
    }

    /// The name of the first value file that is not complete.
    fn missing_value(&self, references: &[Vec<u8>]) -> Result<Option<String>> {
        for bytes in references {
            if !(self.input.value_complete)(bytes)? {
                let reference = ValueReference::decode(bytes);
                return Ok(Some(reference.map_or("a malformed reference".into(), |of| format!("{}.value", of.file))));
            }
        }
        Ok(None)
    }

    /// What is needed to read a segment again, and to adopt it.
    fn keep(&mut self, file: SegmentFile, checked: Checked, decision: &Decision) {
        let wanted = || checked.chunks.iter().filter(|chunk| chunk.first_wanted <= decision.cut);
        let used = wanted().map(|chunk| chunk.wanted_bytes).sum();
        self.old.push(OldSegment {
            name: file.name.clone(),
            number: file.header.number,
            epoch: file.header.epoch,
            last: wanted().map(|chunk| chunk.last.min(decision.cut)).max().unwrap_or_default(),
            bytes: file.header.segment_bytes,
            used,
            unused: used == 0,
        });
        let counts = checked.referring.iter().filter(|of| of.number <= decision.cut);
        let references = counts.flat_map(|of| &of.references).filter_map(|bytes| ValueReference::decode(bytes));
        self.contents.value_files.extend(references.map(|reference| reference.file));
        let decision = self.contents.decisions.len();
        let extents = checked.chunks.iter().map(|chunk| chunk.extent).collect();
        let chunks = checked.chunks.into_iter().filter(|chunk| chunk.wanted_bytes > 0).collect();
        self.contents.segments.push(SegmentContents { file, chunks, extents, decision });
    }

    fn finish(mut self, unused: Vec<OldSegment>, epoch_max: u64) -> Recovered {
        if let Some(edit) = &mut self.edit {
            self.next = self.next.max(edit.cut.next());
            edit.next_number = self.next;
        }
        self.old.extend(unused);
        let recovered = self.input.recovered.iter().map(|entry| entry.epoch).max().unwrap_or(0);
        let epoch = epoch_max.max(recovered) + 1;
        self.contents.last = SequenceNumber(self.next.0 - 1);
        Recovered {
            edit: self.edit,
            segments: self.old,
            next_number: self.next,
            next_epoch: epoch.max(self.input.epochs_from),
            synced: self.synced,
            contents: self.contents,
            shadow_bytes: 0,
            discarded: self.discarded,
        }
    }
}
