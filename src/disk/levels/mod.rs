//! The levels: a tunable leveled or tiered LSM tree (Kanda §2, §4.1) over the same branch files as the trunk. In a leveled
//! one, merges may place keys past levels that do not have them (SkipStore §4).
//!
//! - `state`: what readers use: immutable versions, their levels and runs.
//! - `plan`: what is worth doing. `jobs`: does it. `apply`: turns the result into a new version and a manifest edit.
//! - `read`: gets, cursors, checks.
//!
//! Invariants:
//! 1. Level 0 has one run for each incorporation. Runs of a level are ordered by age, and for every key everything in a
//!    level is newer than everything in deeper levels. So a get may stop at its first hit.
//! 2. The part files of a run have disjoint key ranges. All versions of a key in a run are in one part file.
//! 3. With one run per level (leveled), each level below level 0 has at most one run, apart from those of invariant 4. Merges
//!    take part files of a level and the part files of the next one that they overlap. Level 0 is merged into the base level, which is never below
//!    a level that has data (`state/targets.rs`). With more runs (tiered), merges take whole runs and add one run to the
//!    next level.
//! 4. With skipping, a level below level 0 may have further runs above its own one, the oldest: of keys that skipped levels
//!    and wait to be merged. They may have skipped only levels without a version of them (`jobs/absence.rs`).
//! 5. The branches of such runs may be in memory only. Then each of their entries has a place in a branch file, which is
//!    kept for it (`state/parents.rs`), and which no run has.
//! 6. A branch file is in the manifest if and only if it is in one run of the newest version, or is kept for an entry of one.

mod apply;
mod jobs;
#[allow(clippy::module_inception)]
mod levels;
mod options;
mod plan;
mod read;
mod state;
#[cfg(test)]
mod tests;
mod tuning;

pub use apply::applied::Applied;
pub use jobs::job::Job;
pub use jobs::outcome::Outcome;
pub use levels::Levels;
pub use options::{LevelFilters, LevelsOptions};
pub use read::verify::{check_runs, check_stored, check_structure};
pub use state::rebuild::salvage as salvage_buffered;
pub use state::version::LevelsVersion;
#[cfg(test)]
pub use tests::inconsistent;
pub use tuning::LevelsTuning;
