//! What the histograms say. Plain data.

use super::Call;
use std::fmt;
use std::time::Duration;

/// How long the calls of one kind took. Times are correct to 1%.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Latency {
    /// The kind.
    pub call: Call,
    /// How many calls there were, failed ones included.
    pub count: u64,
    /// The mean.
    pub mean: Duration,
    /// The median.
    pub p50: Duration,
    /// Nine of ten took at most this long.
    pub p90: Duration,
    /// 99 of 100.
    pub p99: Duration,
    /// 999 of 1000.
    pub p999: Duration,
    /// The longest.
    pub max: Duration,
}

/// How long calls took since the store was opened, or since the last `Db::reset_latencies`. `Display` prints a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Latencies(pub(super) Vec<Latency>);

impl Latencies {
    /// Those of one kind of call; `None` if there was none.
    pub fn get(&self, call: Call) -> Option<&Latency> {
        self.0.iter().find(|latency| latency.call == call)
    }

    /// All kinds of calls that there were.
    pub fn iter(&self) -> impl Iterator<Item = &Latency> {
        self.0.iter()
    }

    /// Whether there was no call.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [count, mean, p50, p90, p99, p999, max] = ["calls", "mean", "p50", "p90", "p99", "p99.9", "max"];
        write!(f, "{:6} {count:>12} {mean:>10} {p50:>10} {p90:>10} {p99:>10} {p999:>10} {max:>10}", "")?;
        for Latency { call, count, mean, p50, p90, p99, p999, max } in &self.0 {
            write!(f, "\n{call:6} {count:>12}")?;
            for time in [mean, p50, p90, p99, p999, max] {
                write!(f, " {:>10}", format!("{time:.1?}"))?;
            }
        }
        Ok(())
    }
}
