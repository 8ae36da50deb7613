//! How large, how long and with which options a run is; the same for all engines.

use crate::choice::Choice;
use crate::engine::EngineOptions;
use crate::keys::{KEY_BYTES, Keys, Order};
use crate::values::VALUE_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Threads at most.
const THREADS_MAX: usize = 1024;
/// Pairs of a batch at most.
const BATCH_MAX: usize = 1_000_000;

/// What the thread does that shows how long the machine itself takes a thread away.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// Sleeps a millisecond, reads the clock, and so on: costs nothing, and knows less about a machine without free cores.
    #[default]
    Sleeping,
    /// Does nothing but read the clock, which takes a core; its processor time is not counted.
    Spinning,
}

/// The size and shape of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Keys of a fill, and operations of every other workload unless `ops` or `duration` says otherwise. `None`: a million; or,
    /// where there is a duration, as many keys as a fill gets done in it.
    pub num: Option<u64>,
    /// Operations of a workload that is no fill, all threads together.
    pub ops: Option<u64>,
    /// How long a workload runs, instead of a number of operations. Fills with a given `num` load all of it.
    pub duration: Option<Duration>,
    /// Threads that do the workload.
    pub threads: usize,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// Pairs that fills and overwrites put at once.
    pub batch_size: usize,
    /// Pairs behind the first that `seekrandom` reads.
    pub seek_nexts: u64,
    /// Keys in key order among 100 of `fillnear`.
    pub sequential_percent: u8,
    /// Overrides the distribution of YCSB's workloads.
    pub distribution: Option<Choice>,
    /// The work follows from it.
    pub seed: u64,
    /// Whether values read are compared with what may have been written, and every loaded key must be found.
    pub check: bool,
    /// Whether a workload ends with waiting for background work.
    pub settle: bool,
    /// Work on the store that is there, with the keys `0..num` in it, and never remove it.
    pub use_existing: bool,
    /// How the keys of an existing store lie; a fill says it anew.
    pub order: Order,
    /// The control thread.
    pub control: Control,
    /// Time between two points of the throughput series.
    pub sample_every: Duration,
    /// What the engine is told.
    pub engine: EngineOptions,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            num: None,
            ops: None,
            duration: None,
            threads: 1,
            key_size: 8,
            value_size: 100,
            batch_size: 1,
            seek_nexts: 50,
            sequential_percent: 90,
            distribution: None,
            seed: 1,
            check: false,
            settle: true,
            use_existing: false,
            order: Order::Random,
            control: Control::Sleeping,
            sample_every: Duration::from_millis(100),
            engine: EngineOptions::default(),
        }
    }
}

impl Settings {
    /// Keys of a fill, and operations of other workloads, where nothing else is said.
    pub const NUM_DEFAULT: u64 = 1_000_000;

    /// Keys that a fill loads, if it is bounded by their number.
    pub fn fill_keys(&self) -> Option<u64> {
        match (self.num, self.duration) {
            (Some(num), _) => Some(num),
            (None, None) => Some(Self::NUM_DEFAULT),
            (None, Some(_)) => None,
        }
    }

    /// Operations of a workload that is no fill, if it is bounded by their number.
    pub fn operations(&self) -> Option<u64> {
        self.duration.is_none().then(|| self.ops.or(self.num).unwrap_or(Self::NUM_DEFAULT))
    }

    /// What is wrong with it, for people.
    pub fn validate(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, low: u64, high: u64| {
            let good = (low..=high).contains(&value);
            if good { Ok(()) } else { Err(format!("{name} is {low} to {high}, not {value}")) }
        };
        within("the number of threads", self.threads as u64, 1, THREADS_MAX as u64)?;
        within("the key size", self.key_size as u64, *KEY_BYTES.start() as u64, *KEY_BYTES.end() as u64)?;
        within("the value size", self.value_size as u64, 0, VALUE_BYTES_MAX as u64)?;
        within("the batch size", self.batch_size as u64, 1, BATCH_MAX as u64)?;
        within("the sequential share", u64::from(self.sequential_percent), 0, 100)?;
        if let Some(num) = self.num {
            within("the number of keys", num, 1, 1 << 48)?;
        }
        if let Some(ops) = self.ops {
            within("the number of operations", ops, 1, 1 << 48)?;
        }
        let keys = self.num.unwrap_or(Self::NUM_DEFAULT);
        if keys > Keys::numbers_max(self.key_size) {
            return Err(format!(
                "keys of {} bytes cannot tell {keys} keys apart, and as many missing ones",
                self.key_size
            ));
        }
        if self.duration.is_some_and(|duration| duration.is_zero()) || self.sample_every.is_zero() {
            return Err("a duration is more than 0".to_string());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_durations() {
        let second = Some(Duration::from_secs(1));
        let settings = |num, ops, duration| Settings { num, ops, duration, ..Settings::default() };
        let bounds = |settings: Settings| (settings.fill_keys(), settings.operations());
        assert_eq!(bounds(settings(None, None, None)), (Some(1_000_000), Some(1_000_000)));
        assert_eq!(bounds(settings(Some(5), None, None)), (Some(5), Some(5)));
        assert_eq!(bounds(settings(Some(5), Some(2), None)), (Some(5), Some(2)));
        assert_eq!(bounds(settings(Some(5), Some(2), second)), (Some(5), None));
        assert_eq!(bounds(settings(None, None, second)), (None, None));
    }

    #[test]
    fn nonsense_is_refused() {
        let good = Settings::default();
        assert_eq!(good.validate(), Ok(()));
        for bad in [
            Settings { threads: 0, ..good.clone() },
            Settings { threads: 1_000_000, ..good.clone() },
            Settings { key_size: 1, ..good.clone() },
            Settings { key_size: 1 << 20, ..good.clone() },
            Settings { value_size: usize::MAX, ..good.clone() },
            Settings { batch_size: 0, ..good.clone() },
            Settings { num: Some(0), ..good.clone() },
            Settings { ops: Some(0), ..good.clone() },
            Settings { num: Some(40_000), key_size: 2, ..good.clone() },
            Settings { sequential_percent: 101, ..good.clone() },
            Settings { duration: Some(Duration::ZERO), ..good.clone() },
        ] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
    }
}
