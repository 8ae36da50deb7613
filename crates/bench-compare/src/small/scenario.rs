//! What is done with a small store, and the job that a child gets. Plain data.

use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// One kind of measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Scenario {
    /// Bytes on disk: an empty store, 1,000 pairs, and `bytes` of data; open and idle for `idle` seconds, then closed.
    Sizes {
        /// Bytes of keys and values in the large one.
        bytes: u64,
        /// Seconds to wait before an open store is looked at.
        idle: f64,
    },
    /// What the process has while one store is open and idle.
    Idle {
        /// Seconds to wait.
        idle: f64,
    },
    /// Open a new store, put ten pairs, close it and remove its directory.
    Brief,
    /// Open a new store, put a hundred pairs, close, open again, read one pair, close. The steps are timed separately.
    Steps,
    /// Many stores open at once in one process, one pair in each.
    Many {
        /// Their number.
        stores: u32,
        /// Seconds to wait before the process is looked at.
        idle: f64,
    },
}

impl Scenario {
    /// Its name in messages.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Sizes { .. } => "sizes",
            Self::Idle { .. } => "idle",
            Self::Brief => "brief",
            Self::Steps => "steps",
            Self::Many { .. } => "many",
        }
    }

    /// Whether a round must not see memory that an earlier round left to the process.
    pub fn needs_fresh_process(&self) -> bool {
        matches!(self, Self::Idle { .. } | Self::Many { .. })
    }
}

/// What a child is started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The engine's name.
    pub engine: String,
    /// A directory for its stores; it exists only during a round.
    pub directory: PathBuf,
    /// What to do in each round.
    pub scenario: Scenario,
}
