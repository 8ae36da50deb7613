//! Checks of the levels of an edit and of a state. Pure. The cost is that of the runs that the edit changes, plus one
//! pass over all runs if something is dropped.

use super::ManifestState;
use super::validate::{Checked, require};
use crate::format::filter_page::REMAINDER_BITS_MAX;
use crate::format::manifest_edit::{BranchMeta, LevelsShape, ManifestEdit, RunChange, RunId};
use crate::util::FileNumber;
use std::collections::BTreeSet;

/// Levels that no store needs.
const LEVELS_MAX: u32 = 64;
/// Numbers of a shape that no store needs.
const SHAPE_MAX: u32 = 1 << 16;

impl ManifestState {
    /// Checks the shape of the levels, and that a store has either levels or a trunk.
    pub(super) fn levels_fit(&self, edit: &ManifestEdit) -> Checked {
        if let Some(shape) = &edit.levels {
            check_shape(shape)?;
            let known = self.levels.unwrap_or(*shape);
            require!(*shape == known, "the shape of the levels changes from {known:?} to {shape:?}");
        }
        let has_levels = self.levels.or(edit.levels).is_some();
        let has_trunk = self.root.or(edit.root).is_some() || !self.nodes.is_empty() || !edit.nodes.is_empty();
        require!(!(has_levels && has_trunk), "the store has both levels and trunk nodes");
        require!(has_levels || edit.runs.is_empty(), "a run changes, but the store has no levels");
        Ok(())
    }

    /// Checks the changed runs: they lose branches that they have and gain branches that exist and are in no other run,
    /// their branches have disjoint key ranges, and no run has a branch that is dropped.
    pub(super) fn runs_fit(&self, edit: &ManifestEdit) -> Checked {
        let mut seen = BTreeSet::new();
        let mut gained = BTreeSet::new();
        for change in &edit.runs {
            require!(seen.insert(change.id), "run {} changes twice", change.id.0);
            self.run_fits(edit, change)?;
            for file in &change.added {
                require!(gained.insert(*file), "branch {file} joins two runs");
            }
        }
        let lost: BTreeSet<FileNumber> = edit.runs.iter().flat_map(|change| change.dropped.iter().copied()).collect();
        let gone = edit.branches_dropped.iter().chain(&edit.buffered_dropped).copied().collect::<BTreeSet<_>>();
        if let Some(file) = gained.intersection(&gone).next() {
            return Err(format!("branch {file} is dropped and joins a run"));
        }
        // One pass, and only if a branch may be in two runs or in use although it is dropped.
        let moved = |file: &FileNumber| gained.contains(file) || gone.contains(file);
        if gained.iter().chain(&gone).any(|file| self.branch_of_run(file).is_some()) {
            for (id, run) in &self.runs {
                let kept = run.branches.iter().find(|file| moved(file) && !lost.contains(file));
                if let Some(file) = kept {
                    return Err(format!("branch {file} is dropped or joins another run, but is in run {}", id.0));
                }
            }
        }
        Ok(())
    }

    fn run_fits(&self, edit: &ManifestEdit, change: &RunChange) -> Checked {
        let id = change.id.0;
        require!(id < u64::MAX, "run {id} is not a valid run number");
        require!(change.level < LEVELS_MAX, "run {id} is at level {}", change.level);
        let known = self.runs.get(&change.id);
        let level = known.map_or(change.level, |run| run.level);
        require!(change.level == level, "run {id} moves from level {level} to {}", change.level);
        let before: BTreeSet<FileNumber> = known.into_iter().flat_map(|run| run.branches.iter().copied()).collect();
        let mut lost = BTreeSet::new();
        for file in &change.dropped {
            require!(
                before.contains(file) && lost.insert(*file),
                "run {id} loses branch {file}, which it does not have"
            );
        }
        let after = self.changed_run(edit, change);
        let expected = before.len() - lost.len() + change.added.len();
        require!(after.len() == expected, "run {id} gains a branch that does not exist");
        check_run(change.id, &after)
    }

    /// Checks the runs of the whole state: their branches exist, are in no other run and have disjoint key ranges, and
    /// a leveled store without skipping has one run for each deeper level. Adds the branches to `branches`.
    pub fn check_runs(&self, branches: &mut BTreeSet<FileNumber>) -> Checked {
        let Some(shape) = &self.levels else {
            require!(self.runs.is_empty(), "the store has runs, but no levels");
            return Ok(());
        };
        check_shape(shape)?;
        let mut levels = BTreeSet::new();
        for (id, run) in &self.runs {
            let is_alone = levels.insert(run.level) || run.level == 0 || shape.runs_per_level > 1 || shape.max_skip > 0;
            require!(is_alone, "level {} of a leveled store has two runs", run.level);
            require!(*id < self.next_run, "run {} is not below the next run number", id.0);
            require!(!run.branches.is_empty(), "run {} has no branches", id.0);
            let mut metas = Vec::with_capacity(run.branches.len());
            for file in &run.branches {
                let Some(meta) = self.branch_of_run(file) else {
                    return Err(format!("branch {file} of run {} does not exist", id.0));
                };
                require!(branches.insert(*file), "branch {file} is in two runs");
                metas.push(meta);
            }
            check_run(*id, &metas)?;
        }
        Ok(())
    }
}

/// Checks that branches, in the order of their smallest keys, have disjoint ranges.
fn check_run(id: RunId, branches: &[&BranchMeta]) -> Checked {
    match branches.array_windows().find(|[one, other]| !one.ends_before(&other.key_min)) {
        Some([one, other]) => Err(format!("branches {} and {} of run {} overlap", one.file, other.file, id.0)),
        None => Ok(()),
    }
}

fn check_shape(shape: &LevelsShape) -> Checked {
    let numbers = [shape.size_ratio, shape.runs_per_level, shape.level0_runs, shape.merge_percent];
    let fits = numbers.iter().all(|number| (1..=SHAPE_MAX).contains(number))
        && shape.size_ratio >= 2
        && shape.merge_percent <= 100
        && shape.file_bytes > 0
        && shape.base_bytes > 0
        && (1..=REMAINDER_BITS_MAX).contains(&shape.filter_bits)
        && shape.filter_bits_above <= REMAINDER_BITS_MAX
        && shape.max_skip <= SHAPE_MAX
        && (shape.max_skip == 0 || (shape.runs_per_level == 1 && (1..=SHAPE_MAX).contains(&shape.skip_runs)));
    require!(fits, "levels of an impossible shape: {shape:?}");
    Ok(())
}
