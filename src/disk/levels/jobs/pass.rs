//! The I/O of incorporations and compactions. Heavy, no lock; one thread for each.
//!
//! Rules:
//! 1. Sources are read in age order, so nothing is reordered.
//! 2. Tombstones are dropped, and operands become values although nothing older was found, only if no older data
//!    overlaps the range of the inputs (`Compaction::bottom`).
//! 3. A file that overlaps no other input is not read: the result refers to it (`runs/reuse.rs`).
//! 4. In a leveled store, new files of level 0 end where files of the base level begin, so that they fall into small
//!    groups. New files of a deeper level end where they would overlap more than `OVERLAPPED_FILES_MAX` files of the next level.

use crate::branch::{Branch, BranchContext};
use crate::disk::levels::options::{LevelsTuning, OVERLAPPED_FILES_MAX};
use crate::disk::levels::plan::compaction::{Compaction, Output};
use crate::disk::levels::state::version::LevelsVersion;
use crate::disk::runs::from_memory::FromMemory;
use crate::disk::runs::merged_run::MergedRun;
use crate::disk::runs::output::{NewParts, OutputWriter};
use crate::disk::runs::pass::{PassOutput, PassRules};
use crate::disk::runs::reuse;
use crate::disk::runs::run::Key;
use crate::util::Result;
use crate::util::planted::planted;
use crate::util::sync::Arc;

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
        let mut output = self.output(version, 0, &cuts);
        let bottom = source.is_oldest && version.levels().is_empty();
        source.entries.seek_first()?;
        if !output.copy(source.entries, source.tombstones, None, bottom)? {
            return Ok(None);
        }
        output.finish().map(Some)
    }

    /// Makes one run of the inputs. `None` if `progress` ended it.
    pub fn compact(&self, version: &LevelsVersion, compaction: &Compaction) -> Result<Option<MergedRun>> {
        if compaction.is_move() {
            let reused = compaction.parts().cloned().collect();
            return Ok(Some(MergedRun { parts: NewParts::default(), reused }));
        }
        let below = compaction.output.level() + 1;
        let cuts = if self.tuning.is_leveled() { bounds(version, below, OVERLAPPED_FILES_MAX) } else { Vec::new() };
        let (lower, upper) = (&compaction.range.lower, &compaction.range.upper);
        let bottom = planted!(compaction.bottom, Bug::TombstoneDroppedEarly => true);
        // Oldest first.
        let mut inside: Vec<&Arc<Branch>> = compaction.inputs.iter().rev().flat_map(|input| &input.parts).collect();
        // Small files are merged because they are files.
        let may_reuse = !matches!(compaction.output, Output::Into { level: 0, .. });
        let sizes = if may_reuse { self.tuning.small_file_bytes() } else { u64::MAX }..=u64::MAX;
        let reused: Vec<Arc<Branch>> =
            reuse::choose(&inside, (lower, Some(upper)), bottom, &sizes).into_iter().cloned().collect();
        inside.retain(|branch| !reused.iter().any(|reused| Arc::ptr_eq(reused, branch)));
        let mut output = self.output(version, compaction.output.level(), &cuts);
        reused.iter().for_each(|branch| output.add_reused(branch));
        if !output.copy_branches(inside, (lower, Some(upper)), bottom)? {
            return Ok(None);
        }
        Ok(Some(MergedRun { parts: output.finish()?, reused }))
    }

    /// For files of a level.
    fn output<'b>(&'b self, version: &LevelsVersion, level: usize, cuts: &'b [Key]) -> PassOutput<'b> {
        let height =
            if self.tuning.is_leveled() { version.targets().height(level) } else { version.height(level) as usize };
        let small = self.tuning.small_file_bytes();
        let writer = OutputWriter::new(self.context, cuts, small, self.tuning.shape.file_bytes);
        let writer = writer.split_at_gaps_from(small).with_filter_bits(self.tuning.filter_bits(height));
        PassOutput::new(self.rules, writer)
    }
}

/// The smallest keys of every so many files of a level.
fn bounds(version: &LevelsVersion, level: usize, step: usize) -> Vec<Key> {
    let files = version.levels().get(level).into_iter().flat_map(|level| level.branches());
    files.step_by(step).skip(1).map(|branch| branch.meta().key_min[..].into()).collect()
}
