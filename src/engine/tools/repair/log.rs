//! What the log still has, as branch files. One thread.
//!
//! Two passes over all segments: the first learns which numbers are there, so that the second knows where the log is cut. The
//! rules are those of recovery (`docs/recovery.md`), but for one: a number that is missing though it was durable is a loss
//! and no end.
//!
//! Invariants:
//! 1. Where the manifest is known, only numbers above what is incorporated are taken, and none that an earlier recovery threw
//!    away: numbers are never used twice, so the number alone tells.
//! 2. Records may come in any order: entries are gathered, sorted and written as files of at most `SPILL_BYTES`.

use super::merge::Source;
use super::ranges::Ranges;
use crate::branch::{BranchBuilder, BranchContext};
use crate::engine::tools::offline::Readers;
use crate::engine::types::repair_report::{Loss, RepairReport};
use crate::format::manifest_edit::LogRecovered;
use crate::io::Storage;
use crate::log::read_poison;
use crate::log::salvage::{FoundRecord, FoundSegment};
use crate::manifest::ManifestState;
use crate::merge::{EntryRef, Retention, VersionFilter};
use crate::util::sync::Arc;
use crate::util::{FileNumber, Kind, Result, SequenceNumber, key};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Memory for entries that wait to be written.
const SPILL_BYTES: usize = 16 << 20;
/// What an entry takes there besides its key and value.
const ENTRY_BYTES: usize = 64;

/// What became of the log.
#[derive(Default)]
pub(crate) struct SavedLog {
    /// Files that hold its entries.
    pub(crate) sources: Vec<Source>,
    /// Segments that are damaged.
    pub(crate) damaged: Vec<FileNumber>,
    /// Every number up to this one is in branch files or lost.
    pub(crate) incorporated: SequenceNumber,
    /// What the manifest is to say of the generations before.
    pub(crate) recovered: LogRecovered,
}

/// What is known of the log before its records are read.
struct Frame<'a> {
    state: Option<&'a ManifestState>,
    /// Every number up to this one is in branch files: by the manifest, else by what the branch files hold.
    incorporated: u64,
    /// Every number up to this one was durable.
    durable: u64,
    epoch: u64,
    /// Where the newest generation begins.
    first: u64,
    same_life: bool,
}

/// Reads all segments, of which none belongs to another store. `branch_max` is the greatest number in a branch file.
pub(crate) fn save(
    storage: &dyn Storage,
    readers: &Readers,
    segments: &[&FoundSegment],
    state: Option<&ManifestState>,
    branch_max: SequenceNumber,
    report: &mut RepairReport,
) -> Result<SavedLog> {
    let database = readers.branches.database;
    let frame = Frame::new(storage, segments, state, branch_max)?;
    let (mut numbers, mut saved) = (Ranges::default(), SavedLog::default());
    for segment in segments {
        let mut damage: Vec<_> = segment.header.clone().err().into_iter().collect();
        damage.extend(segment.records(database, &mut |record| {
            numbers.add(record.number.0, record.last.0);
            Ok(())
        })?);
        if !damage.is_empty() {
            saved.damaged.push(segment.number);
            damage.iter().for_each(|error| report.lose_place(&segment.name(), error));
        }
    }
    let cut = frame.cut(&numbers);
    for (first, last) in frame.missing(&numbers, cut) {
        report.lose(Loss {
            numbers: Some(first..=last),
            ..Loss::of_file("the log".to_owned(), "numbers without a record that can be read")
        });
    }
    let mut named = state.into_iter().flat_map(|state| state.log_segments.range(state.log_files_from..));
    let is_whole = |segment: &&FoundSegment| segment.stated.is_some_and(|header| header.number == segment.number);
    let whole: BTreeSet<_> = segments.iter().copied().filter(is_whole).map(|segment| segment.number).collect();
    let none_known = state.is_none() && segments.is_empty();
    if none_known || segments.iter().any(|segment| segment.stated.is_none()) || named.any(|of| !whole.contains(of)) {
        // With a header its marks are gone, and with them what they knew to be durable: what is cut off may have been, too.
        let last = numbers.max().unwrap_or(0).max(frame.durable).max(frame.incorporated).min(cut);
        report.lose(Loss {
            numbers: Some(last + 1..=SequenceNumber::MAX.0),
            ..Loss::of_file(
                "the log".to_owned(),
                if none_known {
                    "no segment of it is there: the last writes may be gone"
                } else {
                    "a segment or its header is lost: there may have been later numbers"
                },
            )
        });
    }
    let mut spill = Spill { context: &readers.branches, entries: Vec::new(), bytes: 0, sources: Vec::new() };
    for segment in segments {
        segment.records(database, &mut |record| {
            if record.number.0 > cut {
                report.log_records_cut += 1;
                return Ok(());
            }
            if !frame.wants(record.number.0) {
                return Ok(());
            }
            report.log_records_saved += 1;
            spill.take(&record)
        })?;
    }
    spill.write()?;
    saved.sources = spill.sources;
    let seen = numbers.max().unwrap_or(0).max(frame.durable).max(frame.incorporated);
    let known = state.into_iter().flat_map(|state| &state.recovered).map(|entry| entry.next_number.0 - 1).max();
    let seen = seen.max(known.unwrap_or(0)).max(frame.first.saturating_sub(1)).max(branch_max.0);
    saved.incorporated = SequenceNumber(seen);
    saved.recovered = LogRecovered {
        epoch: frame.epoch,
        cut: SequenceNumber(seen),
        skipped: Vec::new(),
        next_number: SequenceNumber(seen + 1),
    };
    Ok(saved)
}

impl<'a> Frame<'a> {
    fn new(
        storage: &dyn Storage,
        segments: &[&FoundSegment],
        state: Option<&'a ManifestState>,
        branch_max: SequenceNumber,
    ) -> Result<Self> {
        let poison = read_poison(storage)?;
        let headers = || segments.iter().filter_map(|segment| segment.stated.as_ref());
        let newest = headers().map(|header| header.epoch).max().unwrap_or(0);
        let known = state.and_then(|state| state.recovered.last()).map_or(0, |entry| entry.epoch);
        let poisoned = poison.is_some_and(|of| of.is_none_or(|of| of == newest));
        let mut own = headers().filter(|header| header.epoch == newest);
        let same_life = storage.life().is_some() && !poisoned && own.all(|header| header.life == storage.life());
        let first = headers().filter(|header| header.epoch == newest).map(|header| header.first.0).max();
        let marks = segments.iter().filter_map(|segment| segment.mark).map(|mark| mark.synced_through.0);
        let marks = marks.chain(state.map(|state| state.log_synced.0));
        Ok(Self {
            state,
            incorporated: state.map_or(branch_max.0, |state| state.incorporated.0),
            durable: marks.max().unwrap_or(0),
            epoch: newest.max(known),
            first: first.unwrap_or(0),
            // What an earlier recovery has decided is not decided anew.
            same_life: same_life || newest <= known,
        })
    }

    /// The last number that counts.
    fn cut(&self, numbers: &Ranges) -> u64 {
        if self.same_life {
            return u64::MAX;
        }
        let base = self.durable.max(self.incorporated).max(self.first.saturating_sub(1));
        numbers.end_of(base + 1).unwrap_or(base)
    }

    /// Whether a record is to be taken.
    fn wants(&self, number: u64) -> bool {
        let Some(state) = self.state else { return true };
        let thrown_away = |entry: &LogRecovered| {
            (number > entry.cut.0 && number < entry.next_number.0)
                || entry.skipped.iter().any(|(first, last)| (first.0..=last.0).contains(&number))
        };
        number > state.incorporated.0 && !state.recovered.iter().any(thrown_away)
    }

    /// The numbers that should be there and are not.
    fn missing(&self, numbers: &Ranges, cut: u64) -> Vec<(u64, u64)> {
        let last = self.durable.max(numbers.max().unwrap_or(0).min(cut));
        let gaps = numbers.gaps(self.incorporated + 1, last);
        // What an earlier recovery found missing was missing before.
        let mut known = Ranges::default();
        for entry in self.state.into_iter().flat_map(|state| &state.recovered) {
            entry.skipped.iter().for_each(|(first, last)| known.add(first.0, last.0));
            if entry.cut.next() < entry.next_number {
                known.add(entry.cut.0 + 1, entry.next_number.0 - 1);
            }
        }
        gaps.into_iter().flat_map(|(first, last)| known.gaps(first, last)).collect()
    }
}

/// An entry that waits.
struct Waiting {
    key: Vec<u8>,
    number: SequenceNumber,
    kind: Kind,
    value: Vec<u8>,
}

struct Spill<'a> {
    context: &'a Arc<BranchContext>,
    entries: Vec<Waiting>,
    bytes: usize,
    sources: Vec<Source>,
}

impl Spill<'_> {
    fn take(&mut self, record: &FoundRecord<'_>) -> Result<()> {
        for operation in record.operations.clone() {
            let (key, value) = (key::encoded(operation.keyspace, operation.key), operation.value.to_vec());
            self.bytes += ENTRY_BYTES + key.len() + value.len();
            self.entries.push(Waiting { key, number: record.number, kind: operation.kind, value });
        }
        if self.bytes >= SPILL_BYTES { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        self.bytes = 0;
        self.entries.sort_by(|one, other| (&one.key, Reverse(one.number)).cmp(&(&other.key, Reverse(other.number))));
        let retention = Retention::default();
        let mut filter = VersionFilter::new(&retention, false);
        let mut builder = None;
        let mut keep = |entry: EntryRef<'_>| {
            let builder: &mut BranchBuilder = match &mut builder {
                Some(builder) => builder,
                empty => empty.insert(BranchBuilder::create(self.context)?),
            };
            builder.add(entry)
        };
        for Waiting { key, number, kind, value } in self.entries.drain(..) {
            filter.push(EntryRef { key: &key, number, kind, value: &value }, &mut keep)?;
        }
        filter.finish(&mut keep)?;
        if let Some(meta) = builder.map(BranchBuilder::finish).transpose()? {
            self.sources.push(Source { file: meta.file, meta: Some(meta) });
        }
        Ok(())
    }
}
