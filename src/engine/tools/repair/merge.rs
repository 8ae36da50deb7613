//! Merges many branch files into few, by sequence number. Heavy I/O; one thread.
//!
//! Invariants:
//! 1. Every entry has a sequence number. So files may come in any order, and two files may hold the same entry.
//! 2. At most `FAN_IN` chains are read at once, so memory does not grow with the number of files.

use super::chain::{Chain, FileReading, FileReadings};
use super::value_check::ValueCheck;
use crate::branch::{Branch, BranchBuilder, BranchContext, file_name, salvage_range_tombstones};
use crate::disk::OutputWriter;
use crate::engine::types::repair_report::{Loss, LostKeys, RepairReport};
use crate::format::manifest_edit::BranchMeta;
use crate::merge::{Cursor, EntryRef, MergeCursor, NO_RANGE_TOMBSTONES, RangeTombstones, Retention, VersionFilter};
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result, SequenceNumber};

/// Chains merged at once.
const FAN_IN: usize = 32;
/// Size of the files written.
const PART_BYTES: u64 = 32 << 20;

/// The warning for lost key ranges.
pub(crate) const OLDER_VERSIONS_WARNING: &str =
    "in the key ranges that were lost, keys may show an older value, and deleted keys may be back";

/// A file to merge.
pub(crate) struct SourceFile {
    pub(crate) file: FileNumber,
    /// The file's own metadata; `None` if unreadable.
    pub(crate) meta: Option<BranchMeta>,
}

/// Merges files into the part files of one run with the newest version of each key. With `bottom` there is no older
/// data elsewhere, so tombstones are dropped. Returns the new files, and what could be read of the old ones.
pub(crate) fn merge(
    context: &Arc<BranchContext>,
    sources: Vec<SourceFile>,
    bottom: bool,
    values: &mut ValueCheck<'_>,
    report: &mut RepairReport,
) -> Result<(Vec<BranchMeta>, Vec<FileReading>)> {
    let files: Vec<_> = sources.iter().map(|source| (source.file, source.meta.clone())).collect();
    let tombstones = files.iter().map(|(file, meta)| range_tombstones(context, *file, meta.as_ref(), report));
    let tombstones = RangeTombstones::union(&tombstones.collect::<Result<Vec<_>>>()?);
    let mut merge = Merge { context, report, readings: FileReadings::default() };
    let mut chains = chains(sources);
    while chains.len() > FAN_IN {
        let some = chains.split_off(chains.len() - FAN_IN);
        let merged = merge.copy(some, &NO_RANGE_TOMBSTONES, false, None)?;
        chains.insert(0, merged.into_iter().map(|meta| meta.file).collect());
    }
    let parts = merge.copy(chains, &tombstones, bottom, Some(values))?;
    let readings = std::mem::take(&mut *merge.readings.lock());
    Ok((parts, readings))
}

/// Groups files into as few chains of disjoint key ranges as possible. A file with an unknown range forms a chain of
/// its own.
fn chains(sources: Vec<SourceFile>) -> Vec<Vec<FileNumber>> {
    let (mut known, mut chains) = (Vec::new(), Vec::new());
    for source in sources {
        match source.meta {
            Some(meta) => known.push(meta),
            None => chains.push(vec![source.file]),
        }
    }
    known.sort_by(|one, other| one.key_min.cmp(&other.key_min));
    let mut open: Vec<(Vec<u8>, Vec<FileNumber>)> = Vec::new();
    for meta in known {
        // Best fit: of the chains that end before this file, the one that ends last.
        let fits = open.iter_mut().filter(|(end, _)| *end < meta.key_min).max_by(|one, other| one.0.cmp(&other.0));
        match fits {
            Some((end, files)) => {
                *end = meta.key_max;
                files.push(meta.file);
            }
            None => open.push((meta.key_max, vec![meta.file])),
        }
    }
    chains.extend(open.into_iter().map(|(_, files)| files));
    chains
}

/// A merge in progress.
struct Merge<'a> {
    context: &'a Arc<BranchContext>,
    report: &'a mut RepairReport,
    readings: FileReadings,
}

impl Merge<'_> {
    /// Merges chains into new files. Values are checked if `values` is given.
    fn copy(
        &mut self,
        chains: Vec<Vec<FileNumber>>,
        tombstones: &RangeTombstones,
        bottom: bool,
        mut values: Option<&mut ValueCheck<'_>>,
    ) -> Result<Vec<BranchMeta>> {
        let chains = chains.into_iter().map(|files| Chain::new(self.context, files, &self.readings)).collect();
        let mut cursor = MergeCursor::new(chains);
        let retention = Retention::default();
        let mut filter = VersionFilter::new(&retention, bottom).with_tombstones(tombstones);
        let mut writer = OutputWriter::new(self.context, &[], 0, PART_BYTES);
        writer.add_range_tombstones(tombstones.retained(&retention, bottom));
        let mut keep = |entry: EntryRef<'_>| {
            let entry = match &mut values {
                Some(values) => values.entry_to_keep(entry, self.report)?,
                None => entry,
            };
            writer.add(entry)
        };
        cursor.seek_first()?;
        while cursor.valid() {
            filter.push(cursor.entry(), &mut keep)?;
            cursor.next()?;
        }
        filter.finish(&mut keep)?;
        let parts = writer.finish()?.take();
        Ok(parts.iter().map(|part| part.meta().clone()).collect())
    }
}

/// The readable range tombstones of a file. Reports the others as lost.
fn range_tombstones(
    context: &Arc<BranchContext>,
    file: FileNumber,
    meta: Option<&BranchMeta>,
    report: &mut RepairReport,
) -> Result<RangeTombstones> {
    let mut tombstones = salvage_range_tombstones(context, file)?;
    // Of an ingest whose number is only in the manifest.
    if let Some(meta) = meta.filter(|_| tombstones.numbers().last() == Some(&SequenceNumber::ZERO)) {
        tombstones.set_number(meta.number_max);
    }
    let expected = meta.map_or(0, |meta| meta.range_tombstones);
    if tombstones.count() < expected {
        let what = format!("{} of {expected} range tombstones are left", tombstones.count());
        report.lose(Loss { keys: Some(LostKeys::between(None, None)), ..Loss::of_file(file_name(file), what) });
        report.warn(OLDER_VERSIONS_WARNING);
    }
    Ok(tombstones)
}

/// Copies all readable entries of one file, with all versions, to a new file; `None` if nothing is readable.
pub(crate) fn rewrite(
    context: &Arc<BranchContext>,
    meta: &BranchMeta,
    values: &mut ValueCheck<'_>,
    report: &mut RepairReport,
) -> Result<(Option<BranchMeta>, Vec<FileReading>)> {
    let readings = FileReadings::default();
    let mut cursor = Chain::of(context, meta, &readings);
    let mut builder: Option<BranchBuilder> = None;
    cursor.seek_first()?;
    while cursor.valid() {
        let builder: &mut BranchBuilder = match &mut builder {
            Some(builder) => builder,
            empty => empty.insert(BranchBuilder::create(context)?),
        };
        builder.add(values.entry_to_keep(cursor.entry(), report)?)?;
        cursor.next()?;
    }
    let tombstones = range_tombstones(context, meta.file, Some(meta), report)?;
    if !tombstones.is_empty() {
        match &mut builder {
            Some(builder) => builder,
            empty => empty.insert(BranchBuilder::create(context)?),
        }
        .set_range_tombstones(tombstones);
    }
    let meta = builder.map(BranchBuilder::finish).transpose()?;
    let readings = std::mem::take(&mut *readings.lock());
    Ok((meta, readings))
}

/// Reports what a file lost. `meta` is the expected content, from the manifest or from the file itself.
pub(crate) fn report_reading(reading: &FileReading, meta: Option<&BranchMeta>, report: &mut RepairReport) {
    if let Some(meta) = meta {
        report.entries_lost += meta.entries.saturating_sub(reading.entries);
    }
    if is_complete(reading, meta) {
        return;
    }
    for stretch in &reading.lost {
        report.lose(Loss {
            bytes: Some(stretch.bytes.clone()),
            keys: Some(LostKeys::between(stretch.after.as_deref(), stretch.before.as_deref())),
            ..Loss::of_file(file_name(reading.file), &stretch.error)
        });
    }
    // A truncated file ends without a damaged page.
    let reaches_end = meta.is_some_and(|meta| reading.last_key.as_ref() == Some(&meta.key_max));
    let has_end = reading.lost.iter().any(|stretch| stretch.before.is_none());
    if !has_end && (!reaches_end || reading.lost.is_empty()) {
        report.lose(Loss {
            keys: Some(LostKeys::between(reading.last_key.as_deref(), None)),
            ..Loss::of_file(file_name(reading.file), "the file ends early")
        });
    }
    report.warn(OLDER_VERSIONS_WARNING);
}

/// Whether all entries that the file had were read. Without metadata this is unknown, and the answer is no.
pub(crate) fn is_complete(reading: &FileReading, meta: Option<&BranchMeta>) -> bool {
    meta.is_some_and(|meta| reading.entries >= meta.entries)
}

/// The metadata that a branch file states about itself; `None` if unreadable.
pub(crate) fn own_meta(context: &Arc<BranchContext>, file: FileNumber) -> Result<Option<BranchMeta>> {
    match Branch::read_meta(context, file) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(error),
    }
}
