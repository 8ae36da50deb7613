//! Checks of a whole version: whether it has what reads rely on, whether it is what the manifest says, and whether newer
//! versions are where reads look first. Any thread.

use crate::branch::BranchContext;
use crate::disk::levels::state::open;
use crate::disk::levels::state::version::{Level, LevelsVersion};
use crate::disk::levels::tuning::LevelsTuning;
use crate::disk::runs::run;
use crate::disk::runs::run_cursor::version_order;
use crate::format::manifest_edit::LevelsShape;
use crate::manifest::ManifestState;
use crate::util::sync::Arc;
use crate::util::{FileNumber, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Whether the runs of each level are in age order, their files in key order and disjoint, and the deeper levels of a
/// leveled store that does not skip levels are one run each. Only an internal error could break this, because opening checks what comes from disk.
pub fn check_structure(version: &LevelsVersion) -> Result<(), String> {
    for (at, level) in version.levels().iter().enumerate() {
        if let Some([newer, older]) = level.runs.array_windows().find(|[newer, older]| newer.id <= older.id) {
            return Err(format!("level {at} has run {} before run {}", newer.id.0, older.id.0));
        }
        let tuning = version.tuning();
        if at > 0 && tuning.is_leveled() && !tuning.skips() && level.runs.len() > 1 {
            return Err(format!("level {at} of a leveled store has {} runs", level.runs.len()));
        }
        for level_run in &level.runs {
            let parts = level_run.run.parts();
            if parts.is_empty() {
                return Err(format!("run {} is empty", level_run.id.0));
            }
            if let Some([one, other]) = parts.array_windows().find(|[one, other]| !run::follows(one, other)) {
                return Err(format!("branches {} and {} overlap in a run", one.meta().file, other.meta().file));
            }
        }
    }
    Ok(())
}

/// Whether a version is what the manifest says: the same runs at the same levels, with the same files.
pub fn check_runs(version: &LevelsVersion, state: &ManifestState) -> Result<(), String> {
    let mut count = 0;
    for (level, level_run) in version.runs() {
        count += 1;
        let files: Vec<FileNumber> = level_run.run.parts().iter().map(|part| part.meta().file).collect();
        let stored = state.runs.get(&level_run.id);
        if !stored.is_some_and(|stored| stored.level as usize == level && stored.branches == files) {
            return Err(format!("run {} of level {level} with {files:?} is stored as {stored:?}", level_run.id.0));
        }
    }
    if count != state.runs.len() {
        return Err(format!("a version of {count} runs, of which {} are stored", state.runs.len()));
    }
    check_parents(version, state)
}

/// Whether the branches in memory, and the entries that they have of each parent, are those that are stored.
fn check_parents(version: &LevelsVersion, state: &ManifestState) -> Result<(), String> {
    let branches = version.levels().iter().flat_map(Level::branches);
    let buffered: BTreeSet<FileNumber> =
        branches.filter(|branch| branch.in_buffer().is_some()).map(|branch| branch.meta().file).collect();
    if !buffered.iter().eq(state.buffered.keys()) {
        return Err(format!("branches {buffered:?} are in memory, and {:?} are stored", state.buffered.keys()));
    }
    let mut stored: BTreeMap<FileNumber, u64> = BTreeMap::new();
    for items in state.buffered.values().flat_map(|buffered| &buffered.parents) {
        *stored.entry(items.parent).or_default() += items.count();
    }
    let kept: BTreeMap<FileNumber, u64> = version.parents().iter().map(|(file, parent)| (file, parent.items)).collect();
    if kept != stored {
        return Err(format!("the parents have {kept:?} entries in memory, and {stored:?} are stored"));
    }
    Ok(())
}

/// Checks the runs that a consistent manifest (`ManifestState::check`) describes, with `deep` also the order of versions.
/// Calls `report` with each result; an error from `report` ends the check.
pub fn check_stored(
    context: &Arc<BranchContext>,
    (shape, state): (LevelsShape, &ManifestState),
    deep: bool,
    report: &mut dyn FnMut(Result<()>) -> Result<()>,
) -> Result<()> {
    let tuning = Arc::new(LevelsTuning::new(shape, 0, 0, Arc::default()));
    let version = match open::version(context, tuning, state) {
        Ok(version) => version,
        Err(error) => return report(Err(error)),
    };
    report(Ok(()))?;
    let runs: Vec<_> = version.runs().map(|(_, level_run)| Arc::clone(&level_run.run)).collect();
    if !deep || version_order::is_ordered_by_numbers(&runs, &[], None) {
        return Ok(());
    }
    report(version_order::check_versions(&runs, &[], None, context))
}
