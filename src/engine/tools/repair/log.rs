//! Copies what is readable of the log into branch files. One thread.
//!
//! Repair makes two passes over all segments. The first pass collects the numbers of all records. The second pass then
//! knows where the log is cut, and copies the records. The rules are those of recovery (`docs/recovery.md`) with one
//! exception: a durable number that is missing is a loss and does not end the log.
//!
//! Invariants:
//! 1. If the manifest is readable, only numbers above the incorporated number are copied, and none that an earlier
//!    recovery discarded. Numbers are never reused, so the number alone decides.
//! 2. Records may come in any order. Entries are collected, sorted, and written as files of at most `SPILL_BYTES`.

use super::merge::SourceFile;
use super::number_ranges::NumberRanges;
use crate::branch::{BranchBuilder, BranchContext};
use crate::engine::tools::offline::Readers;
use crate::engine::types::repair_report::{Loss, RepairReport};
use crate::format::manifest_edit::LogRecovered;
use crate::io::Storage;
use crate::log::read_poison;
use crate::log::salvage::{FoundRecord, FoundSegment};
use crate::manifest::ManifestState;
use crate::merge::{EntryRef, RangeTombstone, RangeTombstones, Retention, VersionFilter};
use crate::util::sync::Arc;
use crate::util::{FileNumber, Kind, Result, SequenceNumber, key};
use std::cmp::Reverse;
use std::collections::BTreeSet;

/// Memory for entries that are not written yet.
const SPILL_BYTES: usize = 16 << 20;
/// Memory of an entry besides its key and value.
const ENTRY_BYTES: usize = 64;

/// The log as repair finds it. No segment belongs to another store.
pub(crate) struct DamagedLog<'a> {
    pub(crate) segments: &'a [&'a FoundSegment],
    /// The manifest, if readable.
    pub(crate) state: Option<&'a ManifestState>,
    /// The greatest number in a branch file.
    pub(crate) branch_max: SequenceNumber,
}

/// The salvaged log.
#[derive(Default)]
pub(crate) struct SalvagedLog {
    /// Branch files with the entries of the log.
    pub(crate) sources: Vec<SourceFile>,
    /// Damaged segments.
    pub(crate) damaged: Vec<FileNumber>,
    /// Every number up to this one is in branch files or lost.
    pub(crate) incorporated: SequenceNumber,
    /// The manifest's record of the old log epochs.
    pub(crate) recovered: LogRecovered,
}

/// What the manifest, the segment headers and the marks say about the log.
struct LogState<'a> {
    manifest: Option<&'a ManifestState>,
    /// Every number up to this one is in branch files: according to the manifest, or else to the branch files.
    incorporated: u64,
    /// Every number up to this one was durable.
    durable: u64,
    epoch: u64,
    /// First number of the newest log epoch.
    first: u64,
    same_life: bool,
}

/// Copies the log into branch files, and reports what is lost.
pub(crate) fn salvage(
    storage: &dyn Storage,
    readers: &Readers,
    log: &DamagedLog<'_>,
    report: &mut RepairReport,
) -> Result<SalvagedLog> {
    let DamagedLog { segments, state, branch_max } = *log;
    let database = readers.branches.database;
    let known = LogState::new(storage, log)?;
    let (mut numbers, mut salvaged) = (NumberRanges::default(), SalvagedLog::default());
    for segment in segments {
        let mut damage: Vec<_> = segment.header.clone().err().into_iter().collect();
        damage.extend(segment.records(database, &mut |record| {
            numbers.add(record.number.0, record.last.0);
            Ok(())
        })?);
        if !damage.is_empty() {
            salvaged.damaged.push(segment.number);
            damage.iter().for_each(|error| report.lose_place(&segment.name(), error));
        }
    }
    let cut = known.cut(&numbers);
    for (first, last) in known.missing(&numbers, cut) {
        report.lose(Loss {
            numbers: Some(first..=last),
            ..Loss::of_file("the log".to_owned(), "no readable record has these numbers")
        });
    }
    let mut named = state.into_iter().flat_map(|state| state.log_segments.range(state.log_files_from..));
    let has_header = |segment: &&FoundSegment| segment.stated.is_some_and(|header| header.number == segment.number);
    let present: BTreeSet<_> = segments.iter().copied().filter(has_header).map(|segment| segment.number).collect();
    let none_known = state.is_none() && segments.is_empty();
    if none_known
        || segments.iter().any(|segment| segment.stated.is_none())
        || named.any(|number| !present.contains(number))
    {
        // Without the header its marks are lost, which say what was durable. So numbers after the cut may have been
        // durable.
        let last = numbers.max().unwrap_or(0).max(known.durable).max(known.incorporated).min(cut);
        report.lose(Loss {
            numbers: Some(last + 1..=SequenceNumber::MAX.0),
            ..Loss::of_file(
                "the log".to_owned(),
                if none_known {
                    "no log segment exists: the last writes may be gone"
                } else {
                    "a segment or its header is lost: later writes may be gone"
                },
            )
        });
    }
    let mut spill = Spill::new(&readers.branches);
    for segment in segments {
        segment.records(database, &mut |record| {
            if record.number.0 > cut {
                report.log_records_cut += 1;
                return Ok(());
            }
            if !known.is_needed(record.number.0) {
                return Ok(());
            }
            report.log_records_saved += 1;
            spill.take(&record)
        })?;
    }
    spill.write()?;
    salvaged.sources = spill.sources;
    let seen = numbers.max().unwrap_or(0).max(known.durable).max(known.incorporated);
    let recovered = state.into_iter().flat_map(|state| &state.recovered).map(|entry| entry.next_number.0 - 1).max();
    let seen = seen.max(recovered.unwrap_or(0)).max(known.first.saturating_sub(1)).max(branch_max.0);
    salvaged.incorporated = SequenceNumber(seen);
    salvaged.recovered = LogRecovered {
        epoch: known.epoch,
        cut: SequenceNumber(seen),
        skipped: Vec::new(),
        next_number: SequenceNumber(seen + 1),
    };
    Ok(salvaged)
}

impl<'a> LogState<'a> {
    fn new(storage: &dyn Storage, log: &DamagedLog<'a>) -> Result<Self> {
        let DamagedLog { segments, state, branch_max } = *log;
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
            manifest: state,
            incorporated: state.map_or(branch_max.0, |state| state.incorporated.0),
            durable: marks.max().unwrap_or(0),
            epoch: newest.max(known),
            first: first.unwrap_or(0),
            // A decision of an earlier recovery stands.
            same_life: same_life || newest <= known,
        })
    }

    /// The last number that is kept.
    fn cut(&self, numbers: &NumberRanges) -> u64 {
        if self.same_life {
            return u64::MAX;
        }
        let base = self.durable.max(self.incorporated).max(self.first.saturating_sub(1));
        numbers.end_of(base + 1).unwrap_or(base)
    }

    /// Whether a record is needed: its number is neither incorporated nor discarded by an earlier recovery.
    fn is_needed(&self, number: u64) -> bool {
        let Some(state) = self.manifest else { return true };
        let discarded = |entry: &LogRecovered| {
            (number > entry.cut.0 && number < entry.next_number.0)
                || entry.skipped.iter().any(|(first, last)| (first.0..=last.0).contains(&number))
        };
        number > state.incorporated.0 && !state.recovered.iter().any(discarded)
    }

    /// The numbers that should exist and are missing, as ranges.
    fn missing(&self, numbers: &NumberRanges, cut: u64) -> Vec<(u64, u64)> {
        let last = self.durable.max(numbers.max().unwrap_or(0).min(cut));
        let gaps = numbers.gaps(self.incorporated + 1, last);
        // Numbers that an earlier recovery found missing are not reported again.
        let mut known = NumberRanges::default();
        for entry in self.manifest.into_iter().flat_map(|state| &state.recovered) {
            entry.skipped.iter().for_each(|(first, last)| known.add(first.0, last.0));
            if entry.cut.next() < entry.next_number {
                known.add(entry.cut.0 + 1, entry.next_number.0 - 1);
            }
        }
        gaps.into_iter().flat_map(|(first, last)| known.gaps(first, last)).collect()
    }
}

/// An entry that is not written yet.
struct PendingEntry {
    key: Vec<u8>,
    number: SequenceNumber,
    kind: Kind,
    value: Vec<u8>,
}

/// Collects entries and range tombstones, and writes them as sorted branch files.
struct Spill<'a> {
    context: &'a Arc<BranchContext>,
    entries: Vec<PendingEntry>,
    deleted: Vec<RangeTombstone>,
    bytes: usize,
    sources: Vec<SourceFile>,
}

impl<'a> Spill<'a> {
    fn new(context: &'a Arc<BranchContext>) -> Self {
        Self { context, entries: Vec::new(), deleted: Vec::new(), bytes: 0, sources: Vec::new() }
    }

    fn take(&mut self, record: &FoundRecord<'_>) -> Result<()> {
        for operation in record.operations.clone() {
            if operation.kind == Kind::RangeDelete {
                let (start, end) = (operation.key, operation.range_end());
                let tombstone = RangeTombstone::of_user_keys(operation.keyspace, start, end, record.number);
                self.bytes += ENTRY_BYTES + tombstone.start.len() + tombstone.end.len();
                self.deleted.push(tombstone);
                continue;
            }
            let (key, value) = (key::encoded(operation.keyspace, operation.key), operation.value.to_vec());
            self.bytes += ENTRY_BYTES + key.len() + value.len();
            self.entries.push(PendingEntry { key, number: record.number, kind: operation.kind, value });
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
        for PendingEntry { key, number, kind, value } in self.entries.drain(..) {
            filter.push(EntryRef { key: &key, number, kind, value: &value }, &mut keep)?;
        }
        filter.finish(&mut keep)?;
        if !self.deleted.is_empty() {
            let builder = match &mut builder {
                Some(builder) => builder,
                empty => empty.insert(BranchBuilder::create(self.context)?),
            };
            builder.set_range_tombstones(RangeTombstones::new(self.deleted.drain(..)));
        }
        if let Some(meta) = builder.map(BranchBuilder::finish).transpose()? {
            self.sources.push(SourceFile { file: meta.file, meta: Some(meta) });
        }
        Ok(())
    }
}
