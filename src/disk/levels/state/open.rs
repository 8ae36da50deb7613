//! Opening: makes a version of the runs in the manifest, which are checked before they are used. Any thread.

use super::parents::Parents;
use super::rebuild::rebuild;
use super::version::{Level, LevelRun, LevelsVersion};
use crate::branch::{Branch, BranchContext};
use crate::disk::levels::tuning::LevelsTuning;
use crate::manifest::{MANIFEST_NAME, ManifestState};
use crate::util::sync::Arc;
use crate::util::{Error, Result};
use std::collections::BTreeSet;

/// The version that the manifest describes. Reads no branch, except what buffered ones are made of again.
pub fn version(
    context: &Arc<BranchContext>,
    tuning: Arc<LevelsTuning>,
    state: &ManifestState,
) -> Result<Arc<LevelsVersion>> {
    state.check_runs(&mut BTreeSet::new()).map_err(|found| {
        let path = context.storage.path_of(MANIFEST_NAME);
        Error::corruption(&path, 0, "runs of the levels", "consistent runs", found)
    })?;
    let rebuilt = rebuild(context, state, tuning.filter_bits(0))?;
    let mut levels: Vec<Level> = Vec::new();
    // The greatest ids, which are the newest runs, first.
    for (id, run) in state.runs.iter().rev() {
        let part = |file| match rebuilt.buffered.get(file) {
            Some(branch) => Some(Arc::clone(branch)),
            None => Some(Branch::new(context, state.branches.get(file)?.clone())),
        };
        let parts = run.branches.iter().filter_map(part).collect();
        let at = run.level as usize;
        if levels.len() <= at {
            levels.resize_with(at + 1, Level::default);
        }
        levels[at].runs.push(LevelRun::new(*id, parts));
    }
    let parents = Parents::of(levels.iter().flat_map(Level::branches), |file| rebuilt.parents.get(&file).cloned());
    Ok(LevelsVersion::new(levels, parents, tuning))
}
