//! One measurement as it is kept: the figures of a workload, and everything that decides whether another may be compared
//! with it.

use alluvium_bench::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A measurement.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// The figures.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// The engine's version.
    pub version: String,
    /// What the engine was set to.
    pub settings: BTreeMap<String, String>,
    /// Processor time of other programs meanwhile, percent of the machine's.
    pub other_load_percent: f64,
    /// Whether that was more than permitted, in every attempt.
    pub disturbed: bool,
    /// The source that was measured.
    pub commit: String,
    /// Which repetition, counted from 1.
    pub repeat: u32,
    /// The workloads on the store up to this one.
    pub path: String,
    /// What held the engine to its memory: a kind of cgroup, or "none".
    pub limit: String,
    /// The seed of the generated work.
    pub seed: u64,
    /// Keys that the first workload loaded; `num` counts those that later ones added, too.
    pub load: u64,
}

/// What two measurements must share to be the same one.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// The source.
    pub commit: String,
    /// The engine.
    pub engine: String,
    /// The workloads on the store up to this one.
    pub path: String,
    /// What they ran under.
    pub conditions: Conditions,
    /// Which repetition.
    pub repeat: u32,
}

/// What measurements of different engines must share to be compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Conditions {
    /// Keys loaded.
    pub num: u64,
    /// Threads.
    pub threads: usize,
    /// Memory for everything, MiB.
    pub memory_mib: u64,
    /// Whether every write waited for the disk.
    pub sync: bool,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// The seed.
    pub seed: u64,
    /// What held the engine to its memory.
    pub limit: String,
}

impl Record {
    /// What it is compared under.
    pub fn conditions(&self) -> Conditions {
        Conditions {
            num: self.load,
            threads: self.outcome.threads,
            memory_mib: self.outcome.memory_mb.unwrap_or(0.0) as u64,
            sync: self.outcome.sync,
            key_size: self.outcome.key_size,
            value_size: self.outcome.value_size,
            seed: self.seed,
            limit: self.limit.clone(),
        }
    }

    /// What it is.
    pub fn identity(&self) -> Identity {
        Identity {
            commit: self.commit.clone(),
            engine: self.outcome.engine.clone(),
            path: self.path.clone(),
            conditions: self.conditions(),
            repeat: self.repeat,
        }
    }
}
