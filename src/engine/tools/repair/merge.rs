//! Many branch files into few: what they hold, merged by sequence number. Heavy I/O; one thread.
//!
//! Invariants:
//! 1. Every entry has a number, so files may come in any order and hold the same entries twice.
//! 2. At most `FAN_IN` chains are read at once: memory does not grow with the number of files.

use super::chain::{BlockingPages, Chain, Readings};
use super::values::Values;
use crate::branch::{Branch, BranchBuilder, BranchContext, file_name, salvage_range_tombstones};
use crate::disk::OutputWriter;
use crate::engine::types::repair_report::{Loss, LostKeys, RepairReport};
use crate::format::manifest_edit::BranchMeta;
use crate::merge::{Cursor, EntryRef, MergeCursor, NO_RANGE_TOMBSTONES, RangeTombstones, Retention, VersionFilter};
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result};

/// Chains that are merged at once.
const FAN_IN: usize = 32;
/// Size of the files written.
const PART_BYTES: u64 = 32 << 20;

/// The warning for lost key ranges.
pub(crate) const OLDER: &str =
    "in the key ranges that were lost, keys may show an older value, and deleted keys may be back";

/// A file to be merged, and what it says of itself where it still can.
pub(crate) struct Source {
    pub(crate) file: FileNumber,
    pub(crate) meta: Option<BranchMeta>,
}

/// Merges files into parts that form one run: of each key the newest version. With `bottom` there is nothing older
/// elsewhere, so tombstones go. Says what the files had and what was lost of them.
pub(crate) fn merge(
    context: &Arc<BranchContext>,
    sources: Vec<Source>,
    bottom: bool,
    values: &mut Values<'_>,
    report: &mut RepairReport,
) -> Result<(Vec<BranchMeta>, Vec<BlockingPages>)> {
    let readings = Readings::default();
    let files: Vec<_> = sources.iter().map(|source| (source.file, source.meta.clone())).collect();
    let pieces = files.iter().map(|(file, meta)| range_tombstones(context, *file, meta.as_ref(), report));
    let tombstones = RangeTombstones::union(&pieces.collect::<Result<Vec<_>>>()?);
    let mut chains = chains(sources);
    while chains.len() > FAN_IN {
        let some = chains.split_off(chains.len() - FAN_IN);
        let merged = copy(context, some, &NO_RANGE_TOMBSTONES, false, None, report, &readings)?;
        chains.insert(0, merged.into_iter().map(|meta| meta.file).collect());
    }
    let parts = copy(context, chains, &tombstones, bottom, Some(values), report, &readings)?;
    let readings = std::mem::take(&mut *readings.lock());
    Ok((parts, readings))
}

/// Groups files into as few chains of disjoint key ranges as can be. Files whose range is not known stand alone.
fn chains(sources: Vec<Source>) -> Vec<Vec<FileNumber>> {
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
        // The chain that ends last of those that end before this file: others stay for files that begin sooner.
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

fn copy(
    context: &Arc<BranchContext>,
    chains: Vec<Vec<FileNumber>>,
    tombstones: &RangeTombstones,
    bottom: bool,
    mut values: Option<&mut Values<'_>>,
    report: &mut RepairReport,
    readings: &Readings,
) -> Result<Vec<BranchMeta>> {
    let chains = chains.into_iter().map(|files| Chain::new(context, files, readings)).collect();
    let mut cursor = MergeCursor::new(chains);
    let retention = Retention::default();
    let mut filter = VersionFilter::new(&retention, bottom).with_tombstones(tombstones);
    let mut writer = OutputWriter::new(context, &[], 0, PART_BYTES);
    writer.add_range_tombstones(tombstones.retained(&retention, bottom));
    let mut keep = |entry: EntryRef<'_>| {
        let entry = match &mut values {
            Some(values) => values.kept(entry, report)?,
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

/// The range tombstones that can be read of a file; says how many that it should have had are lost.
fn range_tombstones(
    context: &Arc<BranchContext>,
    file: FileNumber,
    meta: Option<&BranchMeta>,
    report: &mut RepairReport,
) -> Result<RangeTombstones> {
    let tombstones = salvage_range_tombstones(context, file)?;
    let expected = meta.map_or(0, |meta| meta.range_tombstones);
    if tombstones.count() < expected {
        let wrong = format!("of {expected} range tombstones {} are left", tombstones.count());
        report.lose(Loss { keys: Some(LostKeys::between(None, None)), ..Loss::of_file(file_name(file), wrong) });
        report.warn(OLDER);
    }
    Ok(tombstones)
}

/// Writes what can be read of one file to a new one, every version of it; `None` where nothing can be read.
pub(crate) fn rewrite(
    context: &Arc<BranchContext>,
    meta: &BranchMeta,
    values: &mut Values<'_>,
    report: &mut RepairReport,
) -> Result<(Option<BranchMeta>, Vec<BlockingPages>)> {
    let readings = Readings::default();
    let mut cursor = Chain::new(context, vec![meta.file], &readings);
    let mut builder: Option<BranchBuilder> = None;
    cursor.seek_first()?;
    while cursor.valid() {
        let builder: &mut BranchBuilder = match &mut builder {
            Some(builder) => builder,
            empty => empty.insert(BranchBuilder::create(context)?),
        };
        builder.add(values.kept(cursor.entry(), report)?)?;
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

/// Lists what a file lost. `meta` is what the manifest, or else the file itself, says that it had.
pub(crate) fn report_reading(reading: &BlockingPages, meta: Option<&BranchMeta>, report: &mut RepairReport) {
    if let Some(meta) = meta {
        report.entries_lost += meta.entries.saturating_sub(reading.entries);
    }
    if is_whole(reading, meta) {
        return;
    }
    for stretch in &reading.lost {
        report.lose(Loss {
            bytes: Some(stretch.bytes.clone()),
            keys: Some(LostKeys::between(stretch.after.as_deref(), stretch.before.as_deref())),
            ..Loss::of_file(file_name(reading.file), &stretch.error)
        });
    }
    // A file that was cut short ends without a damaged page.
    let reaches_end = meta.is_some_and(|meta| reading.last_key.as_ref() == Some(&meta.key_max));
    let has_end = reading.lost.iter().any(|stretch| stretch.before.is_none());
    if !has_end && (!reaches_end || reading.lost.is_empty()) {
        report.lose(Loss {
            keys: Some(LostKeys::between(reading.last_key.as_deref(), None)),
            ..Loss::of_file(file_name(reading.file), "the file ends early")
        });
    }
    report.warn(OLDER);
}

/// Whether everything was read that the file had, as far as anything says how much that was.
pub(crate) fn is_whole(reading: &BlockingPages, meta: Option<&BranchMeta>) -> bool {
    meta.is_some_and(|meta| reading.entries >= meta.entries)
}

/// What a branch file says of itself; `None` where it no longer can.
pub(crate) fn own_meta(context: &Arc<BranchContext>, file: FileNumber) -> Result<Option<BranchMeta>> {
    match Branch::read_meta(context, file) {
        Ok(meta) => Ok(Some(meta)),
        Err(error) if error.is_damage() => Ok(None),
        Err(error) => Err(error),
    }
}
