//! `Event`: something that a store has done, or that has happened to it.

use crate::engine::types::stats::BackgroundTask;
use std::fmt;
use std::time::Duration;

/// Something that a store has done, or that has happened to it. `Display` gives one line for a log.
///
/// Each state has its end: after `Began` comes `Ended` of the same task, after `Stalled` comes `StallEnded`, after `DiskFull`
/// comes `DiskHasSpace`, unless the store is closed or fails before.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// A background task began that writes branch files or looks through them.
    Began(BackgroundTask),
    /// It ended.
    Ended {
        /// The task, with what it has read and written.
        task: BackgroundTask,
        /// Why it did not finish its work. After most errors it is tried again.
        error: Option<String>,
    },
    /// Writes wait for memory, since all memory generations are full.
    Stalled,
    /// No write waits for memory any more.
    StallEnded {
        /// How long there were such writes.
        lasted: Duration,
    },
    /// The disk is full: puts get `Error::DiskFull` from now on, deletes and reads continue.
    DiskFull {
        /// What found no space.
        reason: String,
    },
    /// Puts are accepted again.
    DiskHasSpace,
    /// What was kept for followers (`Db::changes`) is given up, and the stream begins anew: followers get `Error::ChangesTooOld`.
    ChangesLost {
        /// Why.
        reason: String,
    },
    /// The store has failed, for example because a sync did: it is read-only until it is opened again.
    Failed {
        /// Why.
        reason: String,
    },
    /// The listener was slower than the store for so long that events were left out.
    Missed {
        /// How many.
        events: u64,
    },
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Began(task) => write!(f, "began: {task}"),
            Self::Ended { task, error: None } => write!(f, "done: {task}, {} bytes written", task.bytes_written),
            Self::Ended { task, error: Some(error) } => write!(f, "not finished: {task}: {error}"),
            Self::Stalled => f.write_str("writes wait for memory"),
            Self::StallEnded { lasted } => {
                write!(f, "writes no longer wait for memory, after {} ms", lasted.as_millis())
            }
            Self::DiskFull { reason } => write!(f, "the disk is full, puts are refused: {reason}"),
            Self::DiskHasSpace => f.write_str("the disk has space again"),
            Self::ChangesLost { reason } => write!(f, "what was kept for followers is given up: {reason}"),
            Self::Failed { reason } => write!(f, "the store has failed and is read-only: {reason}"),
            Self::Missed { events } => write!(f, "{events} events were left out, since the listener was too slow"),
        }
    }
}
