//! Pieces of background work of the store's disk component. A job may run on any thread; its outcome is applied under
//! the edit mutex.
//!
//! Life: a `pick` function of `Component` makes a job, which claims what it works on. `Component::run` does the I/O.
//! `Component::apply` turns the outcome into an edit and a new version. The caller logs the edit, publishes the version
//! and calls `Applied::finish`. The claim is released when the last of job, outcome and applied change is dropped, so
//! the caller keeps the job, or the applied change, until the version is published.

use super::levels;
use super::runs::jobs::job_scope::JobScope;
use super::trunk;
use super::version::Version;
use crate::format::manifest_edit::ManifestEdit;
use crate::util::sync::Arc;
use std::fmt;

/// Work that a component has picked.
#[derive(Debug)]
pub enum Job {
    /// Of a trunk.
    Trunk(trunk::Job),
    /// Of levels.
    Levels(levels::Job),
}

impl Job {
    /// Of a job for quiet times: the free space on the disk that it and what must follow it need; 0 for other jobs.
    pub fn space_when_quiet(&self) -> u64 {
        match self {
            Self::Trunk(job) => job.space_when_quiet(),
            Self::Levels(_) => 0,
        }
    }

    /// What must be applied and published before the job begins, so that it counts even if the job never ends.
    pub fn charge(&self) -> Option<Outcome> {
        match self {
            Self::Trunk(job) => job.charge().map(Outcome::Trunk),
            Self::Levels(_) => None,
        }
    }

    /// What it works on.
    pub fn scope(&self) -> JobScope {
        match self {
            Self::Trunk(job) => job.scope(),
            Self::Levels(job) => job.scope(),
        }
    }
}

impl fmt::Display for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Trunk(job) => job.fmt(f),
            Self::Levels(job) => job.fmt(f),
        }
    }
}

/// The result of a job or an incorporation. If it is dropped without being applied, its claim is released and its files
/// become obsolete.
#[derive(Debug)]
pub enum Outcome {
    /// Of a trunk.
    Trunk(trunk::Outcome),
    /// Of levels.
    Levels(levels::Outcome),
}

impl Outcome {
    /// Whether it is a merge, whose inputs can be removed once it is published.
    pub fn is_merge(&self) -> bool {
        match self {
            Self::Trunk(outcome) => outcome.is_merge(),
            Self::Levels(outcome) => outcome.is_merge(),
        }
    }
}

/// A change that is ready: first to be logged, then published, then finished.
#[derive(Debug)]
#[must_use]
pub enum Applied {
    /// Of a trunk.
    Trunk(trunk::Applied),
    /// Of levels.
    Levels(levels::Applied),
}

impl Applied {
    /// Whether there is nothing to log and nothing to publish.
    pub fn is_empty(&self) -> bool {
        match self {
            Self::Trunk(applied) => applied.is_empty(),
            Self::Levels(applied) => applied.is_empty(),
        }
    }

    /// The edit to log. Empty if nothing changed.
    pub fn edit(&mut self) -> &mut ManifestEdit {
        match self {
            Self::Trunk(applied) => &mut applied.edit,
            Self::Levels(applied) => &mut applied.edit,
        }
    }

    /// The version to publish once the edit is durable.
    pub fn version(&self) -> Version {
        match self {
            Self::Trunk(applied) => Version::Trunk(Arc::clone(&applied.tree)),
            Self::Levels(applied) => Version::Levels(Arc::clone(&applied.version)),
        }
    }

    /// Releases the files that the new version does not refer to. Call it once the version is published. (If logging
    /// the edit failed and its fate is unknown, drop the value instead: then no file is touched.)
    pub fn finish(self) {
        match self {
            Self::Trunk(applied) => applied.finish(),
            Self::Levels(applied) => applied.finish(),
        }
    }
}
