//! One piece of background work.

use super::compaction_request::CompactionRequest;
use crate::disk::{Job, JobKind};
use crate::engine::state::generation::Generation;
use crate::util::SequenceNumber;
use crate::util::sync::Arc;

/// One piece of background work.
pub(crate) enum Task {
    /// Incorporate a generation; its last number.
    Incorporate(Arc<Generation>, SequenceNumber),
    /// A job of the disk component, and the request that it serves, if any.
    Job(Job, Option<Arc<CompactionRequest>>),
    /// Remove obsolete files.
    Remove,
    /// Move what waits in a Membuffer's insert queues to its partitions.
    Drain(Arc<Generation>),
    /// Make pages of a Memtable's index present: a part of them, so that more urgent work comes next.
    PopulateIndex(Arc<Generation>),
    /// Remove versions from memory that no snapshot needs any more.
    CleanVersions,
    /// A tick of the expiry of keyspaces.
    Expire,
    /// Look which files have expired.
    LookForExpired,
    /// Look for large values that newer data hides.
    LookForDeletedValues,
    /// Create or grow the ballast.
    GrowBallast,
    /// Check whether a full disk has space again.
    LeaveFullDisk,
}

/// Which tasks a worker takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerRole {
    /// All tasks.
    All,
    /// Only tasks that free memory.
    Memory,
}

/// The kind of a task, for the bookkeeping when it ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TaskKind {
    /// An incorporation of the generation with this last number.
    Incorporate(SequenceNumber),
    /// A job of the disk component.
    Job(JobKind),
    /// Anything else.
    Other,
}

impl Task {
    pub(crate) fn kind(&self) -> TaskKind {
        match self {
            Self::Incorporate(_, end) => TaskKind::Incorporate(*end),
            Self::Job(job, _) => TaskKind::Job(job.scope().kind),
            Self::Remove
            | Self::Drain(_)
            | Self::PopulateIndex(_)
            | Self::CleanVersions
            | Self::Expire
            | Self::LookForExpired
            | Self::LookForDeletedValues
            | Self::GrowBallast
            | Self::LeaveFullDisk => TaskKind::Other,
        }
    }
}
