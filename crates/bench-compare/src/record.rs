//! A stored measurement: the figures of a workload, and everything that decides whether another one may be compared
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
    /// The engine's settings.
    pub settings: BTreeMap<String, String>,
    /// Processor time of other programs meanwhile, in percent of the machine's.
    pub other_load_percent: f64,
    /// Whether that was more than permitted, in every attempt.
    pub disturbed: bool,
    /// The source that was measured.
    pub commit: String,
    /// The repetition, counted from 1.
    pub repeat: u32,
    /// The workloads on the store up to this one.
    pub path: String,
    /// What limited the engine's memory: a kind of cgroup, or "none".
    pub limit: String,
    /// The seed of the generated work.
    pub seed: u64,
    /// Keys that the first workload loaded; `num` also counts those that later ones added.
    pub load: u64,
}

/// What two records of the same measurement have in common.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Identity {
    /// The source.
    pub commit: String,
    /// The engine.
    pub engine: String,
    /// The workloads on the store up to this one.
    pub path: String,
    /// Their conditions.
    pub conditions: Conditions,
    /// The repetition.
    pub repeat: u32,
}

/// What measurements of different engines must have in common to be compared.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Conditions {
    /// Keys loaded.
    pub num: u64,
    /// Threads.
    pub threads: usize,
    /// All memory, in MiB.
    pub memory_mib: u64,
    /// Whether every write was synced.
    pub sync: bool,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a key that are the same in all keys.
    pub key_prefix: usize,
    /// Pairs after the first that a scan of `seekrandom` reads.
    pub seek_nexts: u64,
    /// Bytes of a value.
    pub value_size: usize,
    /// The seed.
    pub seed: u64,
    /// What limited the engine's memory.
    pub limit: String,
}

impl Record {
    /// Its conditions.
    pub fn conditions(&self) -> Conditions {
        Conditions {
            num: self.load,
            threads: self.outcome.threads,
            memory_mib: self.outcome.memory_mb.unwrap_or(0.0) as u64,
            sync: self.outcome.sync,
            key_size: self.outcome.key_size,
            key_prefix: self.outcome.key_prefix,
            seek_nexts: self.outcome.seek_nexts,
            value_size: self.outcome.value_size,
            seed: self.seed,
            limit: self.limit.clone(),
        }
    }

    /// Its identity.
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
