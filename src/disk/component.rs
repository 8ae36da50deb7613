//! The disk component of a store: makes new versions out of old ones. Any thread; `apply` under the caller's edit
//! mutex.
//!
//! Readers use `Version` alone. See `job.rs` for the life of a job.
//!
//! Invariants:
//! 1. A component, its versions, its jobs and its outcomes are of one kind, which is fixed when the store is created.
//! 2. The `pick` functions are pure functions of the version, the running jobs, and what the component remembers of
//!    jobs that changed nothing or failed.

use super::job::{Applied, Job, Outcome};
use super::runs::figures::Written;
use super::runs::from_memory::FromMemory;
use super::runs::progress::Progress;
use super::runs::requested_range::RequestedRange;
use super::trunk::{Trunk, TrunkOptions};
use super::version::Version;
use crate::branch::BranchContext;
use crate::format::manifest_edit::ManifestEdit;
use crate::manifest::ManifestState;
use crate::merge::Retention;
use crate::util::Result;
use crate::util::sync::Arc;

/// Which component a store has, and its tuning.
#[derive(Clone, Debug)]
pub enum ComponentOptions {
    /// The STBε-tree.
    Trunk(TrunkOptions),
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
}

impl Component {
    /// The edit that gives a new store its first, empty version.
    pub fn create_edit(options: &ComponentOptions) -> ManifestEdit {
        let ComponentOptions::Trunk(options) = options;
        ManifestEdit { branch_bytes: Some(options.branch_bytes), ..Trunk::create_edit() }
    }

    /// The component and its version, as the manifest has them, which has the sizes of the tree, too.
    pub fn open(
        context: Arc<BranchContext>,
        options: ComponentOptions,
        state: &ManifestState,
    ) -> Result<(Self, Version)> {
        let ComponentOptions::Trunk(options) = options;
        let branch_bytes = state.branch_bytes.unwrap_or(options.branch_bytes);
        let options = options.with_branch_bytes(branch_bytes);
        let (trunk, tree) = Trunk::open(context, options, state)?;
        Ok((Self::Trunk(trunk), Version::Trunk(tree)))
    }

    /// The size from which all sizes of the tree follow, bytes.
    pub fn branch_bytes(&self) -> u64 {
        let Self::Trunk(trunk) = self;
        trunk.branch_bytes()
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
        let (Self::Trunk(trunk), Version::Trunk(tree)) = (self, version);
        Ok(trunk.incorporate(tree, source, retention, progress)?.map(Outcome::Trunk))
    }

    /// The most urgent work that no running job has claimed; `None` if there is nothing to do.
    pub fn pick(&self, version: &Version, retention: &Retention) -> Option<Job> {
        let (Self::Trunk(trunk), Version::Trunk(tree)) = (self, version);
        trunk.pick(tree, retention).map(Job::Trunk)
    }

    /// Work that a requested compaction of a key range still needs.
    pub fn pick_requested(&self, version: &Version, range: &RequestedRange, retention: &Retention) -> Option<Job> {
        let (Self::Trunk(trunk), Version::Trunk(tree)) = (self, version);
        trunk.pick_requested(tree, range, retention).map(Job::Trunk)
    }

    /// Work that makes scans cheaper, where scans have already cost as much as the work. For when `pick` finds nothing.
    pub fn pick_for_scans(&self, version: &Version) -> Option<Job> {
        let (Self::Trunk(trunk), Version::Trunk(tree)) = (self, version);
        trunk.pick_for_scans(tree).map(Job::Trunk)
    }

    /// For a full disk: work that frees space. Jobs that failed on the full disk (`note_failed`) are left out.
    pub fn pick_to_free_space(&self, version: &Version) -> Option<Job> {
        let (Self::Trunk(trunk), Version::Trunk(tree)) = (self, version);
        trunk.pick_to_free_space(tree).map(Job::Trunk)
    }

    /// Does a job's I/O. Heavy, no lock. If `progress` ends it, its outcome changes nothing.
    pub fn run(&self, job: &Job, version: &Version, retention: &Retention, progress: &dyn Progress) -> Result<Outcome> {
        let (Self::Trunk(trunk), Job::Trunk(job), Version::Trunk(tree)) = (self, job, version);
        trunk.run(job, tree, retention, progress).map(Outcome::Trunk)
    }

    /// Turns an outcome into an edit and a new version. Fast. The caller holds the edit mutex, and `version` is the
    /// newest. The caller logs the edit, publishes the version, calls `Applied::finish`, and only then applies the next
    /// outcome.
    pub fn apply(&self, outcome: Outcome, version: &Version) -> Applied {
        let (Self::Trunk(trunk), Outcome::Trunk(outcome), Version::Trunk(tree)) = (self, outcome, version);
        Applied::Trunk(trunk.apply(outcome, tree))
    }

    /// About how many bytes a requested compaction still has to read; `None` if nothing is left to do, whatever jobs
    /// run.
    pub fn remaining(&self, version: &Version, range: &RequestedRange, retention: &Retention) -> Option<u64> {
        let (Self::Trunk(trunk), Version::Trunk(tree)) = (self, version);
        trunk.remaining(tree, range, retention)
    }

    /// Removes its records of files and nodes that the version does not refer to.
    pub fn forget_unreferenced(&self, version: &Version) {
        let (Self::Trunk(trunk), Version::Trunk(tree)) = (self, version);
        trunk.forget_unreferenced(tree);
    }

    /// The job found no space for its result, or the manifest found none for its edit. With `DiskFullBefore`,
    /// `pick_to_free_space` leaves the job out until `clear_failures`. With `FoundNoSpace`, the other pick functions
    /// leave it out until `release_backoff` reports enough free space.
    pub fn note_failed(&self, job: &Job, cause: FailureCause) {
        let (Self::Trunk(trunk), Job::Trunk(job)) = (self, job);
        match cause {
            FailureCause::DiskFullBefore => trunk.note_failed_on_full_disk(job),
            FailureCause::FoundNoSpace => trunk.note_found_no_space(job),
        }
    }

    /// There is more free space than before: what failed on the full disk may be picked again.
    pub fn clear_failures(&self) {
        let Self::Trunk(trunk) = self;
        trunk.clear_failures();
    }

    /// Whether jobs wait for `release_backoff`.
    pub fn is_backed_off(&self) -> bool {
        let Self::Trunk(trunk) = self;
        trunk.is_backed_off()
    }

    /// `available` bytes are free: waiting jobs that need no more may be picked again.
    pub fn release_backoff(&self, available: u64) {
        let Self::Trunk(trunk) = self;
        trunk.release_backoff(available);
    }

    /// What it has written since it was opened.
    pub fn written(&self) -> Written {
        let Self::Trunk(trunk) = self;
        trunk.written()
    }
}
