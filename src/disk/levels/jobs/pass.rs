//! The I/O of incorporations and compactions. Heavy, no lock; one thread for each.
//!
//! Rules:
//! 1. Sources are read in age order, so nothing is reordered.
//! 2. Tombstones are dropped, and operands become values although nothing older was found, only if no older data
//!    overlaps the range of the inputs (`Compaction::bottom`).
//! 3. A file that overlaps no other input is not read: the result refers to it (`runs/reuse.rs`).
//! 4. In a leveled store, new files of level 0 end where files of the base level begin, so that they fall into small
//!    groups. New files of a deeper level end where they would overlap more than `OVERLAPPED_FILES_MAX` files of the next level.

use super::absence::Absence;
use super::skip_writer::{SkipWriter, Skipped, Skips, Written};
use crate::branch::{Branch, BranchContext};
use crate::disk::levels::plan::compaction::{Compaction, Output};
use crate::disk::levels::state::version::LevelsVersion;
use crate::disk::levels::tuning::{LevelsTuning, OVERLAPPED_FILES_MAX};
use crate::disk::runs::from_memory::FromMemory;
use crate::disk::runs::ingest::IngestForm;
use crate::disk::runs::merged_run::MergedRun;
use crate::disk::runs::output::{NewParts, OutputWriter};
use crate::disk::runs::pass::{PassOutput, PassRules};
use crate::disk::runs::reuse;
use crate::disk::runs::run::Key;
use crate::util::planted::planted;
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result};
use std::collections::BTreeSet;

/// What a compaction has made.
#[derive(Debug)]
pub struct Compacted {
    /// For the output level.
    pub run: MergedRun,
    /// For deeper levels.
    pub skipped: Vec<Skipped>,
    pub skips: Skips,
}

/// What every pass needs.
#[derive(Clone, Copy)]
pub struct Pass<'a> {
    pub context: &'a Arc<BranchContext>,
    pub tuning: &'a LevelsTuning,
    pub rules: PassRules<'a>,
}

impl Pass<'_> {
    /// Writes the data from memory as a run of level 0. `None` if `progress` ended it.
    pub fn incorporate(&self, version: &LevelsVersion, source: FromMemory<'_>) -> Result<Option<NewParts>> {
        let cuts = if self.tuning.is_leveled() { bounds(version, version.targets().base(), 1) } else { Vec::new() };
        let writer = self.writer(version, 0, &cuts).split_at_gaps_from(self.tuning.small_file_bytes());
        let mut output = PassOutput::new(self.rules, writer);
        let bottom = source.is_oldest && version.levels().is_empty();
        source.entries.seek_first()?;
        if !output.copy(source.entries, source.tombstones, None, bottom)? {
            return Ok(None);
        }
        output.finish().map(Some)
    }

    /// Makes one run of the inputs, and part files of deeper levels of the keys that skip. `None` if `progress` ended it.
    pub fn compact(&self, version: &LevelsVersion, compaction: &Compaction) -> Result<Option<Compacted>> {
        if compaction.is_move() {
            let run = MergedRun { parts: NewParts::default(), reused: compaction.parts().cloned().collect() };
            return Ok(Some(Compacted { run, skipped: Vec::new(), skips: moved(compaction, compaction.parts()) }));
        }
        let (lower, upper) = (&compaction.range.lower, &compaction.range.upper);
        let bottom = planted!(compaction.bottom, Bug::TombstoneDroppedEarly => true);
        // Oldest first.
        let mut inside: Vec<&Arc<Branch>> = compaction.inputs.iter().rev().flat_map(|input| &input.parts).collect();
        // Small files are merged because they are files.
        let may_reuse = !matches!(compaction.output, Output::Into { level: 0, .. });
        let sizes = if may_reuse { self.tuning.small_file_bytes() } else { u64::MAX }..=u64::MAX;
        let reused: Vec<Arc<Branch>> =
            reuse::choose(&inside, (lower, Some(upper)), bottom, &sizes, self.rules.retention.filtering())
                .into_iter()
                .cloned()
                .collect();
        let reused: Vec<_> = reused.into_iter().filter(|branch| branch.in_buffer().is_none()).collect();
        inside.retain(|branch| !reused.iter().any(|reused| Arc::ptr_eq(reused, branch)));
        let levels = compaction.output.level()..=compaction.deepest;
        let cuts: Vec<Vec<Key>> = levels.clone().map(|level| self.cuts(version, compaction, level)).collect();
        let writers = levels.clone().zip(&cuts).map(|(level, cuts)| {
            let writer = self.writer(version, level, cuts);
            let until = match compaction.buffers {
                true if compaction.is_output_buffered() => u64::MAX,
                true if level > compaction.output.level() => self.tuning.usable_buffer_bytes(),
                _ => 0,
            };
            match until {
                0 => writer.split_at_gaps_from(self.tuning.small_file_bytes()),
                until => writer.buffered(until, self.tuning.small_buffered_bytes()),
            }
        });
        let writers = writers.collect();
        let writer = SkipWriter::new(*levels.start(), writers, Absence::new(version, compaction)?);
        let mut output = PassOutput::new(self.rules, writer);
        reused.iter().for_each(|branch| output.add_reused(branch));
        if !output.copy_branches(inside, (lower, Some(upper)), bottom)? {
            return Ok(None);
        }
        let Written { parts, skipped, mut skips } = output.finish()?;
        for (count, more) in skips.iter_mut().zip(moved(compaction, reused.iter())) {
            *count += more;
        }
        Ok(Some(Compacted { run: MergedRun { parts, reused }, skipped, skips }))
    }

    /// Where files of a level end: those of the output level as the next level's files do, those for keys that skip as
    /// the files of their own level do, with which they will be merged.
    fn cuts(&self, version: &LevelsVersion, compaction: &Compaction, level: usize) -> Vec<Key> {
        if !self.tuning.is_leveled() {
            return Vec::new();
        }
        if compaction.is_output_buffered() {
            return bounds(version, level, 1);
        }
        let below = if level == compaction.output.level() { level + 1 } else { level };
        bounds(version, below, OVERLAPPED_FILES_MAX)
    }

    /// For files of a level.
    fn writer<'b>(&'b self, version: &LevelsVersion, level: usize, cuts: &'b [Key]) -> OutputWriter<'b> {
        let height =
            if self.tuning.is_leveled() { version.targets().height(level) } else { version.height(level) as usize };
        let small = self.tuning.small_file_bytes();
        let writer = OutputWriter::new(self.context, cuts, small, self.tuning.shape.file_bytes);
        // What comes from memory is young, also if there is no other level yet.
        writer.with_filter_bits(self.tuning.filter_bits(height)).deepest(height == 0 && level > 0)
    }
}

/// How an ingest writes files for level 0: as an incorporation does.
pub fn ingest_form(tuning: &LevelsTuning, version: &LevelsVersion) -> IngestForm {
    let (cuts, height) = match tuning.is_leveled() {
        true => (bounds(version, version.targets().base(), 1), version.targets().height(0)),
        false => (Vec::new(), version.height(0) as usize),
    };
    IngestForm {
        cuts: cuts.into(),
        bytes_min: tuning.small_file_bytes(),
        bytes_max: tuning.shape.file_bytes,
        filter_bits: tuning.filter_bits(height),
    }
}

/// The entries of files that were not rewritten but went to the next level: one level further than without a move.
fn moved<'a>(compaction: &Compaction, files: impl Iterator<Item = &'a Arc<Branch>>) -> Skips {
    let files: BTreeSet<FileNumber> = files.map(|file| file.meta().file).collect();
    let above = compaction.inputs.iter().filter(|input| input.level < compaction.output.level());
    let parts = above.flat_map(|input| &input.parts).filter(|part| files.contains(&part.meta().file));
    let mut skips = Skips::default();
    skips[1] = parts.map(|part| part.meta().entries).sum();
    skips
}

/// The smallest keys of every so many files of a level's own run.
fn bounds(version: &LevelsVersion, level: usize, step: usize) -> Vec<Key> {
    let own = version.levels().get(level).and_then(|level| level.runs.last());
    let files = own.into_iter().flat_map(|run| run.run.parts());
    files.step_by(step).skip(1).map(|branch| branch.meta().key_min[..].into()).collect()
}
