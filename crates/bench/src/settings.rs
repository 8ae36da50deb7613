//! The size, duration and options of a run; the same for all engines.

use crate::choice::Choice;
use crate::engine::EngineOptions;
use crate::keys::{KEY_BYTES, Keys, Order};
use crate::values::VALUE_BYTES_MAX;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Maximum number of threads.
const THREADS_MAX: usize = 1024;
/// Maximum number of pairs in a batch.
const BATCH_MAX: usize = 1_000_000;

/// What the control thread does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Control {
    /// Sleeps a millisecond and reads the clock, repeatedly: costs nothing, and detects less on a machine without free
    /// cores.
    #[default]
    Sleeping,
    /// Only reads the clock, which occupies a core; its processor time is not counted.
    Spinning,
}

/// The settings of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Settings {
    /// Keys of a fill, and operations of every other workload unless `ops` or `duration` is set. `None`: a million; or,
    /// with a duration, as many keys as a fill loads in it.
    pub num: Option<u64>,
    /// Operations of a workload that is not a fill, over all threads.
    pub ops: Option<u64>,
    /// How long a workload runs, instead of a number of operations. Fills with a given `num` load all of it.
    pub duration: Option<Duration>,
    /// Threads that run the workload.
    pub threads: usize,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a key, at its start, that are the same in all keys.
    #[serde(default)]
    pub key_prefix: usize,
    /// Bytes of a value.
    pub value_size: usize,
    /// The percentage to which values compress, about; 100: not at all.
    #[serde(default = "incompressible")]
    pub value_percent: u8,
    /// Pairs per batch in fills and overwrites.
    pub batch_size: usize,
    /// Pairs after the first that `seekrandom` reads.
    pub seek_nexts: u64,
    /// Percentage of keys in key order in `fillnear`.
    pub sequential_percent: u8,
    /// Overrides the distribution of YCSB's workloads.
    pub distribution: Option<Choice>,
    /// The seed of the workload.
    pub seed: u64,
    /// Whether values read are compared with those that may have been written, and every loaded key must be found.
    pub check: bool,
    /// Whether a workload waits for background work at its end.
    pub settle: bool,
    /// Use the existing store, with the keys `0..num` in it, and never remove it.
    pub use_existing: bool,
    /// The key order of an existing store; a fill overrides it.
    pub order: Order,
    /// The control thread.
    pub control: Control,
    /// Time between two points of the throughput series.
    pub sample_every: Duration,
    /// The engine's settings.
    pub engine: EngineOptions,
}

/// The default, which results had before it could be chosen everywhere.
pub(crate) fn seek_nexts() -> u64 {
    50
}

fn incompressible() -> u8 {
    100
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            num: None,
            ops: None,
            duration: None,
            threads: 1,
            key_size: 8,
            key_prefix: 0,
            value_size: 100,
            value_percent: incompressible(),
            batch_size: 1,
            seek_nexts: seek_nexts(),
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
    /// The default for keys of a fill, and operations of other workloads.
    pub const NUM_DEFAULT: u64 = 1_000_000;

    /// Bytes of a key that distinguish it from others.
    pub fn own_key_bytes(&self) -> usize {
        self.key_size.saturating_sub(self.key_prefix)
    }

    /// The keys of an order.
    pub fn keys(&self, order: Order) -> Keys {
        Keys::new(order, self.key_size).sharing(self.key_prefix)
    }

    /// Keys that a fill loads, if their number is limited.
    pub fn fill_keys(&self) -> Option<u64> {
        match (self.num, self.duration) {
            (Some(num), _) => Some(num),
            (None, None) => Some(Self::NUM_DEFAULT),
            (None, Some(_)) => None,
        }
    }

    /// Operations of a workload that is not a fill, if their number is limited.
    pub fn operations(&self) -> Option<u64> {
        self.duration.is_none().then(|| self.ops.or(self.num).unwrap_or(Self::NUM_DEFAULT))
    }

    /// What is wrong with the settings, as text.
    pub fn validate(&self) -> Result<(), String> {
        let within = |name: &str, value: u64, low: u64, high: u64| {
            let good = (low..=high).contains(&value);
            if good { Ok(()) } else { Err(format!("{name} must be from {low} to {high}, not {value}")) }
        };
        within("the number of threads", self.threads as u64, 1, THREADS_MAX as u64)?;
        within("the key size", self.key_size as u64, *KEY_BYTES.start() as u64, *KEY_BYTES.end() as u64)?;
        within("the value size", self.value_size as u64, 0, VALUE_BYTES_MAX as u64)?;
        within("the percentage of compressed values", self.value_percent.into(), 5, 100)?;
        within("the batch size", self.batch_size as u64, 1, BATCH_MAX as u64)?;
        within("the sequential share", u64::from(self.sequential_percent), 0, 100)?;
        if let Some(num) = self.num {
            within("the number of keys", num, 1, 1 << 48)?;
        }
        if let Some(ops) = self.ops {
            within("the number of operations", ops, 1, 1 << 48)?;
        }
        let (keys, own) = (self.num.unwrap_or(Self::NUM_DEFAULT), self.own_key_bytes());
        if own < *KEY_BYTES.start() || keys > Keys::numbers_max(own) {
            return Err(format!(
                "keys of {} bytes, of which {} are the same in all, are too short for {keys} different keys and as many \
                 missing ones",
                self.key_size, self.key_prefix
            ));
        }
        if self.duration.is_some_and(|duration| duration.is_zero()) || self.sample_every.is_zero() {
            return Err("a duration must be more than 0".to_string());
        }
        Ok(())
    }
}

/// A number of the command line that must be above zero, such as seconds or megabytes.
///
/// # Errors
/// It is no number, or not between 0 and a billion.
pub fn positive(text: &str) -> std::result::Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| format!("\"{text}\" is not a number"))?;
    if number > 0.0 && number < 1e9 { Ok(number) } else { Err("a number above 0 and below a billion is needed".into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_that_must_be_positive() {
        assert_eq!([positive("0.5"), positive("3")], [Ok(0.5), Ok(3.0)]);
        assert!(["0", "-1", "1e9", "inf", "NaN", "much"].iter().all(|text| positive(text).is_err()));
    }

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
            Settings { value_percent: 101, ..good.clone() },
            Settings { batch_size: 0, ..good.clone() },
            Settings { num: Some(0), ..good.clone() },
            Settings { ops: Some(0), ..good.clone() },
            Settings { num: Some(40_000), key_size: 2, ..good.clone() },
            Settings { num: Some(40_000), key_size: 26, key_prefix: 24, ..good.clone() },
            Settings { key_prefix: 8, ..good.clone() },
            Settings { key_prefix: usize::MAX, ..good.clone() },
            Settings { sequential_percent: 101, ..good.clone() },
            Settings { duration: Some(Duration::ZERO), ..good.clone() },
        ] {
            assert!(bad.validate().is_err(), "{bad:?}");
        }
    }
}
