//! The disk component of a store: makes new versions out of old ones. Any thread; `apply` under the caller's edit
//! mutex.
//!
//! Readers use `Version` alone. See `job.rs` for the life of a job.
//!
//! Invariants:
//! 1. A component, its versions, its jobs and its outcomes are of one kind, which is fixed while the store is open.
//! 2. The `pick` functions are pure functions of the version, the running jobs, and what the component remembers of
//!    jobs that changed nothing or failed.

use super::job::{Applied, Job, Outcome};
use super::kind::{DiskComponent, kind_of};
use super::levels::{Levels, LevelsTuning};
use super::runs::figures::Written;
use super::runs::from_memory::FromMemory;
use super::runs::ingest::IngestWriter;
use super::runs::jobs::progress::Progress;
use super::runs::output::NewParts;
use super::runs::requested_range::RequestedRange;
use super::trunk::{Trunk, TrunkOptions};
use super::version::Version;
use crate::branch::{Branch, BranchContext};
use crate::format::manifest_edit::ManifestEdit;
use crate::manifest::ManifestState;
use crate::merge::{Expired, MergeOperators, Retention};
use crate::util::sync::Arc;
use crate::util::{Error, KeyspaceId, Result};

/// Which component a store has, and its tuning.
#[derive(Clone, Debug)]
pub struct ComponentOptions {
    /// The component of a new store; a store with another one is refused. `None`: a trunk, or what the store has.
    pub chosen: Option<DiskComponent>,
    /// The tuning of a trunk. A store with levels takes the size of a Memtable from it.
    pub trunk: TrunkOptions,
    /// The memory budget of the store, bytes; 0 if the component only reads.
    pub memory: u64,
}

impl ComponentOptions {
    /// Options that accept any store.
    pub fn any(memtable_bytes: u64) -> Self {
        Self { chosen: None, trunk: TrunkOptions::new(memtable_bytes), memory: 0 }
    }

    /// Sets the operators that merges fold operands with.
    pub fn with_merge_operators(mut self, operators: &Arc<MergeOperators>) -> Self {
        self.trunk.merge_operators = Arc::clone(operators);
        self
    }

    /// Refuses a store that has another component than the chosen one.
    pub fn check(&self, state: &ManifestState) -> Result<()> {
        let Some(chosen) = self.chosen.as_ref().filter(|chosen| !chosen.is_of(state.levels.as_ref())) else {
            return Ok(());
        };
        let (found, asked) = (kind_of(state.levels.as_ref()), chosen.kind());
        let differs = match state.levels {
            Some(shape) if found == asked => format!("has other knobs than `disk_component` names: {shape:?}"),
            _ => format!("is {found}, and `disk_component` asks for {asked}"),
        };
        Err(Error::InvalidArgument(format!(
            "the store {differs}; an opening does not change the component of a store, so leave `disk_component` unset (on \
             the command line --component), or convert the closed store (`Db::convert`, `alluvium convert`)"
        )))
    }
}

/// Why a job failed for lack of disk space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureCause {
    /// The disk was known to be full when the job began.
    DiskFullBefore,
    /// The job itself found that there was no space.
    FoundNoSpace,
}

/// See the module.
#[derive(Debug)]
pub enum Component {
    /// The STBε-tree.
    Trunk(Trunk),
    /// The levels.
    Levels(Levels),
}

impl Component {
    /// The edit that gives a new store its first, empty version.
    pub fn create_edit(options: &ComponentOptions) -> Result<ManifestEdit> {
        let branch_bytes = Some(options.trunk.branch_bytes);
        let edit = match &options.chosen {
            Some(DiskComponent::Levels(levels)) => Levels::create_edit(levels.shape(options.trunk.branch_bytes)?),
            Some(DiskComponent::Trunk) | None => Trunk::create_edit(),
        };
        Ok(ManifestEdit { branch_bytes, ..edit })
    }

    /// The component and its version, as the manifest has them, which has its kind and its sizes, too.
    pub fn open(
        context: Arc<BranchContext>,
        options: ComponentOptions,
        state: &ManifestState,
    ) -> Result<(Self, Version)> {
        let branch_bytes = state.branch_bytes.unwrap_or(options.trunk.branch_bytes);
        if let Some(shape) = state.levels {
            let operators = options.trunk.merge_operators;
            let tuning = LevelsTuning::new(shape, branch_bytes, options.memory, operators);
            let (levels, version) = Levels::open(context, tuning, state)?;
            return Ok((Self::Levels(levels), Version::Levels(version)));
        }
        let (trunk, tree) = Trunk::open(context, options.trunk.with_branch_bytes(branch_bytes), state)?;
        Ok((Self::Trunk(trunk), Version::Trunk(tree)))
    }

    /// The size from which all sizes of the component follow, bytes: about that of a Memtable.
    pub fn branch_bytes(&self) -> u64 {
        match self {
            Self::Trunk(trunk) => trunk.branch_bytes(),
            Self::Levels(levels) => levels.memtable_bytes(),
        }
    }

    /// Writes the data from memory, which is newer than everything in the version, as branch files. Heavy I/O, no lock.
    /// Outcomes are applied in the order of `through`. `None` if `progress` ended it: then nothing was done.
    pub fn incorporate(
        &self,
        version: &Version,
        source: FromMemory<'_>,
        retention: &Retention,
        progress: &dyn Progress,
    ) -> Result<Option<Outcome>> {
        Ok(match (self, version) {
            (Self::Trunk(trunk), Version::Trunk(tree)) => {
                trunk.incorporate(tree, source, retention, progress)?.map(Outcome::Trunk)
            }
            (Self::Levels(levels), Version::Levels(version)) => {
                levels.incorporate(version, source, retention, progress)?.map(Outcome::Levels)
            }
            _ => of_another_kind(),
        })
    }

    /// A writer for sorted pairs that become a run of the component without having been in memory.
    pub fn ingest_writer(&self, version: &Version) -> IngestWriter {
        match (self, version) {
            (Self::Trunk(trunk), Version::Trunk(tree)) => trunk.ingest_writer(tree),
            (Self::Levels(levels), Version::Levels(version)) => levels.ingest_writer(version),
            _ => of_another_kind(),
        }
    }

    /// What makes these files, which have their number, the newest run. Everything in the version has a lower number, for
    /// the keys in their range.
    pub fn ingested(&self, parts: NewParts, user_bytes: u64) -> Outcome {
        match self {
            Self::Trunk(trunk) => Outcome::Trunk(trunk.ingested(parts, user_bytes)),
            Self::Levels(levels) => Outcome::Levels(levels.ingested(parts)),
        }
    }

    /// The most urgent work that no running job has claimed; `None` if there is nothing to do.
    pub fn pick(&self, version: &Version, retention: &Retention) -> Option<Job> {
        match (self, version) {
            (Self::Trunk(trunk), Version::Trunk(tree)) => trunk.pick(tree, retention).map(Job::Trunk),
            (Self::Levels(levels), Version::Levels(version)) => levels.pick(version, retention).map(Job::Levels),
            _ => of_another_kind(),
        }
    }

    /// Work after which incorporations may add a run to the version, and if there is none, whether a running job does it.
    pub fn pick_room(&self, version: &Version, retention: &Retention) -> (Option<Job>, bool) {
        match (self, version) {
            (Self::Trunk(trunk), Version::Trunk(tree)) => {
                let (job, is_running) = trunk.pick_room(tree, retention);
                (job.map(Job::Trunk), is_running)
            }
            // Their shape bounds the runs.
            _ => (None, false),
        }
    }

    /// Work that a requested compaction of a key range still needs.
    pub fn pick_requested(&self, version: &Version, range: &RequestedRange, retention: &Retention) -> Option<Job> {
        match (self, version) {
            // A trunk has everything in files.
            (Self::Trunk(_), Version::Trunk(_)) if range.buffered_below.is_some() => None,
            (Self::Trunk(trunk), Version::Trunk(tree)) => trunk.pick_requested(tree, range, retention).map(Job::Trunk),
            (Self::Levels(levels), Version::Levels(version)) => {
                levels.pick_requested(version, range, retention).map(Job::Levels)
            }
            _ => of_another_kind(),
        }
    }

    /// The same on a full disk: what failed there is left out, instead of what waits for space.
    pub fn pick_requested_on_full_disk(
        &self,
        version: &Version,
        range: &RequestedRange,
        retention: &Retention,
    ) -> Option<Job> {
        match (self, version) {
            (Self::Trunk(trunk), Version::Trunk(tree)) => {
                trunk.pick_requested_on_full_disk(tree, range, retention).map(Job::Trunk)
            }
            (Self::Levels(levels), Version::Levels(version)) => {
                levels.pick_requested_on_full_disk(version, range, retention).map(Job::Levels)
            }
            _ => of_another_kind(),
        }
    }

    /// Work that makes scans cheaper, where scans have already cost half as much as the work. For when `pick` finds nothing.
    /// The levels have none: their shape bounds what scans cost.
    pub fn pick_for_scans(&self, version: &Version) -> Option<Job> {
        match (self, version) {
            (Self::Trunk(trunk), Version::Trunk(tree)) => trunk.pick_for_scans(tree).map(Job::Trunk),
            (Self::Levels(_), Version::Levels(_)) => None,
            _ => of_another_kind(),
        }
    }

    /// Work for quiet times, which makes reads cheaper and is limited by what users have written. At most one such job runs
    /// at a time, and what `Job::charge` returns is applied before it. The levels have none: their shape bounds what reads
    /// cost.
    pub fn pick_when_quiet(&self, version: &Version) -> Option<Job> {
        match (self, version) {
            (Self::Trunk(trunk), Version::Trunk(tree)) => trunk.pick_when_quiet(tree).map(Job::Trunk),
            (Self::Levels(_), Version::Levels(_)) => None,
            _ => of_another_kind(),
        }
    }

    /// For a full disk: work that frees space. Jobs that failed on the full disk (`note_failed`) are left out.
    pub fn pick_to_free_space(&self, version: &Version) -> Option<Job> {
        match (self, version) {
            (Self::Trunk(trunk), Version::Trunk(tree)) => trunk.pick_to_free_space(tree).map(Job::Trunk),
            (Self::Levels(levels), Version::Levels(version)) => levels.pick_to_free_space(version).map(Job::Levels),
            _ => of_another_kind(),
        }
    }

    /// Does a job's I/O. Heavy, no lock. If `progress` ends it, its outcome changes nothing.
    pub fn run(&self, job: &Job, version: &Version, retention: &Retention, progress: &dyn Progress) -> Result<Outcome> {
        match (self, job, version) {
            (Self::Trunk(trunk), Job::Trunk(job), Version::Trunk(tree)) => {
                trunk.run(job, tree, retention, progress).map(Outcome::Trunk)
            }
            (Self::Levels(levels), Job::Levels(job), Version::Levels(version)) => {
                levels.run(job, version, retention, progress).map(Outcome::Levels)
            }
            _ => of_another_kind(),
        }
    }

    /// Turns an outcome into an edit and a new version. Fast. The caller holds the edit mutex, and `version` is the
    /// newest. The caller logs the edit, publishes the version, calls `Applied::finish`, and only then applies the next
    /// outcome.
    pub fn apply(&self, outcome: Outcome, version: &Version) -> Applied {
        match (self, outcome, version) {
            (Self::Trunk(trunk), Outcome::Trunk(outcome), Version::Trunk(tree)) => {
                Applied::Trunk(trunk.apply(outcome, tree))
            }
            (Self::Levels(levels), Outcome::Levels(outcome), Version::Levels(version)) => {
                Applied::Levels(levels.apply(outcome, version))
            }
            _ => of_another_kind(),
        }
    }

    /// About how many bytes a requested compaction still has to read; `None` if nothing is left to do, whatever jobs
    /// run.
    pub fn remaining(&self, version: &Version, range: &RequestedRange, retention: &Retention) -> Option<u64> {
        match (self, version) {
            (Self::Trunk(_), Version::Trunk(_)) if range.buffered_below.is_some() => None,
            (Self::Trunk(trunk), Version::Trunk(tree)) => trunk.remaining(tree, range, retention),
            (Self::Levels(levels), Version::Levels(version)) => levels.remaining(version, range, retention),
            _ => of_another_kind(),
        }
    }

    /// From how many bytes on a deleted range is worth a compaction, whatever part of the store it is. In a tiered store such a
    /// compaction rewrites all runs, so there it is the part alone that counts.
    pub fn freed_bytes_min(&self) -> u64 {
        match self {
            Self::Levels(levels) if !levels.is_leveled() => u64::MAX,
            _ => self.branch_bytes(),
        }
    }

    /// The keyspaces in a branch of which at least half has expired, as far as the numbers of the branch tell.
    pub fn half_expired(&self, branch: &Branch, expired: &Expired) -> Vec<KeyspaceId> {
        match self {
            Self::Trunk(trunk) => trunk.half_expired(branch, expired),
            Self::Levels(levels) => levels.half_expired(branch, expired),
        }
    }

    /// Removes its records of files and nodes that the version does not refer to.
    pub fn forget_unreferenced(&self, version: &Version) {
        match (self, version) {
            (Self::Trunk(trunk), Version::Trunk(tree)) => trunk.forget_unreferenced(tree),
            (Self::Levels(levels), Version::Levels(version)) => levels.forget_unreferenced(version),
            _ => of_another_kind(),
        }
    }

    /// The job found no space for its result, or the manifest found none for its edit. With `DiskFullBefore`,
    /// `pick_to_free_space` leaves the job out until `clear_failures`. With `FoundNoSpace`, the other pick functions
    /// leave it out until `release_backoff` reports enough free space.
    pub fn note_failed(&self, job: &Job, cause: FailureCause) {
        match (self, job, cause) {
            (Self::Trunk(trunk), Job::Trunk(job), FailureCause::DiskFullBefore) => trunk.note_failed_on_full_disk(job),
            (Self::Trunk(trunk), Job::Trunk(job), FailureCause::FoundNoSpace) => trunk.note_found_no_space(job),
            (Self::Levels(levels), Job::Levels(job), FailureCause::DiskFullBefore) => {
                levels.note_failed_on_full_disk(job);
            }
            (Self::Levels(levels), Job::Levels(job), FailureCause::FoundNoSpace) => levels.note_found_no_space(job),
            _ => of_another_kind(),
        }
    }

    /// There is more free space than before: what failed on the full disk may be picked again.
    pub fn clear_failures(&self) {
        match self {
            Self::Trunk(trunk) => trunk.clear_failures(),
            Self::Levels(levels) => levels.clear_failures(),
        }
    }

    /// Whether jobs wait for `release_backoff`.
    pub fn is_backed_off(&self) -> bool {
        match self {
            Self::Trunk(trunk) => trunk.is_backed_off(),
            Self::Levels(levels) => levels.is_backed_off(),
        }
    }

    /// `available` bytes are free: waiting jobs that need no more may be picked again.
    pub fn release_backoff(&self, available: u64) {
        match self {
            Self::Trunk(trunk) => trunk.release_backoff(available),
            Self::Levels(levels) => levels.release_backoff(available),
        }
    }

    /// The entries that scans have taken from branches in memory since it was opened.
    pub fn buffered_rows(&self) -> u64 {
        match self {
            Self::Trunk(_) => 0,
            Self::Levels(levels) => levels.buffered_rows(),
        }
    }

    /// What it has written since it was opened.
    pub fn written(&self) -> Written {
        match self {
            Self::Trunk(trunk) => trunk.written(),
            Self::Levels(levels) => levels.written(),
        }
    }
}

/// A version, job or outcome of one kind met a component of another kind, which invariant 1 excludes.
fn of_another_kind() -> ! {
    unreachable!("a component, its versions and its jobs are of one kind")
}
