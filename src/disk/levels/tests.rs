//! The levels over real branches on the simulated disk, against `BTreeMap` models.

mod buffers;
mod case_study;
mod crafted;
mod goldens;
mod hazards;
mod jobs;
mod model;
mod rig;
mod waiting;

use super::state::version::LevelsVersion;
use crate::util::sync::Arc;

/// The version with the runs of a level in the wrong order, or with a run twice, for tests of `check_structure`.
pub fn inconsistent(version: &LevelsVersion) -> Arc<LevelsVersion> {
    let mut levels = version.levels().to_vec();
    if let Some(level) = levels.iter_mut().find(|level| !level.runs.is_empty()) {
        level.runs.push(level.runs[0].clone());
    }
    LevelsVersion::new(levels, version.parents().clone(), Arc::clone(version.tuning()))
}
