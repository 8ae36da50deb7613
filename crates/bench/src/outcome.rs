//! The result of a workload. One JSON object; a child process writes it, its parent reads it.

use crate::engine::{Buffered, Level};
use serde::{Deserialize, Serialize};

/// The figures of one workload on one engine. The latency of an operation runs from the end of the previous operation
/// to its own end, as its thread sees it: it includes making the key, a few nanoseconds. A batch is timed as a whole:
/// percentiles count a pair's share of it, the longest time is the whole batch's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Outcome {
    /// The engine.
    pub engine: String,
    /// The workload.
    pub workload: String,
    /// Threads that ran it.
    pub threads: usize,
    /// Keys in the store when it was done.
    pub num: u64,
    /// Bytes of a key.
    pub key_size: usize,
    /// Bytes of a key that are the same in all keys.
    #[serde(default)]
    pub key_prefix: usize,
    /// Pairs after the first that a scan of `seekrandom` reads.
    #[serde(default = "crate::settings::seek_nexts")]
    pub seek_nexts: u64,
    /// Bytes of a value.
    pub value_size: usize,
    /// Pairs per batch.
    pub batch_size: usize,
    /// Memory that the engine was given.
    pub memory_mb: Option<f64>,
    /// Whether every write was synced.
    pub sync: bool,

    /// Operations done; each pair of a batch or of a full scan is one.
    pub ops: u64,
    /// Operations of the background thread.
    pub background_ops: u64,
    /// Gets and read-modify-writes that found their key.
    pub found: u64,
    /// Those that did not find it.
    pub not_found: u64,
    /// Values that cannot be right; counted only if values are checked.
    pub wrong: u64,
    /// Pairs that scans visited.
    pub pairs_scanned: u64,
    /// Bytes of keys and values that users wrote.
    pub user_bytes_written: u64,
    /// Bytes of keys and values that users read.
    pub user_bytes_read: u64,

    /// Time of the operations, without settling.
    pub elapsed_s: f64,
    /// Operations per second of that time.
    pub ops_per_s: f64,
    /// Pairs visited per second of that time.
    pub pairs_per_s: f64,
    /// Operations per second of the background thread.
    pub background_ops_per_s: f64,
    /// Time until background work was done, after the operations.
    pub settle_s: f64,
    /// Processor time (user and system, all threads of the process, operations and settling) per operation of all
    /// threads.
    pub cpu_us_per_op: f64,
    /// The same without settling.
    pub cpu_us_per_op_run: f64,

    /// The median latency.
    pub p50_us: f64,
    /// The mean latency of gets, in a mix with other operations, too. `None` if there were none.
    pub get_mean_us: Option<f64>,
    /// The 90th percentile.
    pub p90_us: f64,
    /// The 99th.
    pub p99_us: f64,
    /// The 99.9th.
    pub p999_us: f64,
    /// The longest operation.
    pub max_ms: f64,
    /// The longest gap between two reads of the clock, in the same time, of a thread that does nothing else.
    pub control_gap_ms: f64,
    /// The harness's own time per operation, in nanoseconds, measured on an engine that does nothing: it is part of
    /// every time and rate here.
    pub harness_ns: f64,
    /// The median latency of the background thread. `None` without one.
    pub background_p50_us: Option<f64>,
    /// The 99th percentile of the background thread.
    pub background_p99_us: Option<f64>,
    /// The distribution of latencies.
    pub latency: Vec<Percentile>,
    /// Throughput over time.
    pub series: Vec<Sample>,
    /// Time for which writers were slowed or stopped, by the engine's own counters.
    pub stalled_ms: Option<f64>,
    /// Memory components that were written to files, settling included.
    pub buffers_written: Option<u64>,
    /// Items that compactions placed 0, 1, 2 and so on levels further than the level that they write to, settling
    /// included. `None` if the engine does not count them.
    pub skipped: Option<Vec<u64>>,
    /// What compactions left in memory, settling included. `None` if the engine leaves nothing there.
    pub buffered: Option<Buffered>,
    /// The levels on disk after settling, the newest first; empty if the engine does not tell.
    pub levels: Vec<Level>,

    /// Bytes written to data files per user byte written, settling included. `None` if nothing was written. Of the
    /// workload `rest`: per byte of live data.
    pub write_amp: Option<f64>,
    /// Bytes written to the log per user byte written.
    pub log_amp: Option<f64>,
    /// The source of `write_amp`: the engine's counters, or the kernel's (dirtied pages, minus the log if its bytes are
    /// known).
    pub write_amp_source: Source,
    /// Bytes read from the device per user byte read.
    pub read_amp: Option<f64>,
    /// Bytes read from and written to the device, including the log, per user byte read and written; settling included.
    pub io_amp: Option<f64>,
    /// Blocks of 4 KiB read from the device per operation.
    pub device_reads_per_op: Option<f64>,
    /// Disk space of all files except the log's, per live user byte, after settling.
    pub space_amp: f64,
    /// Disk space of all files, including the log's, per live user byte: the mean of samples while the operations run,
    /// at `series`'s interval. `None` for fills, workloads that delete, and workloads that only read.
    pub files_mean: Option<f64>,
    /// The maximum of these samples.
    pub files_peak: Option<f64>,
    /// Disk space of all files except the log's.
    pub data_mb: f64,
    /// Disk space of the log, preallocated and recycled files included.
    pub log_mb: f64,
    /// The peak resident memory, including pages of mapped files.
    pub peak_rss_mb: f64,
    /// Whether the peak is of this workload alone, not of the process so far.
    pub peak_rss_own: bool,
}

/// A point of the distribution of latencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Percentile {
    /// This percentage of operations took at most …
    pub percent: f64,
    /// … this long.
    pub us: f64,
}

/// Throughput over a short time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The end of that time, since the start.
    pub at_s: f64,
    /// Operations per second in it.
    pub ops_per_s: f64,
}

/// Which counter measured the bytes written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Source {
    /// The engine.
    Engine,
    /// The kernel, for the process.
    Kernel,
    /// Nobody.
    #[default]
    None,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_comes_back_and_has_the_promised_members() {
        let outcome = Outcome {
            engine: "e".into(),
            workload: "fillseq".into(),
            write_amp: Some(1.5),
            latency: vec![Percentile { percent: 50.0, us: 1.25 }],
            series: vec![Sample { at_s: 0.1, ops_per_s: 1e6 }],
            write_amp_source: Source::Kernel,
            ..Outcome::default()
        };
        let json = serde_json::to_value(&outcome).unwrap();
        for member in [
            "workload",
            "threads",
            "num",
            "ops_per_s",
            "cpu_us_per_op",
            "p50_us",
            "p99_us",
            "p999_us",
            "max_ms",
            "write_amp",
            "log_amp",
            "space_amp",
            "files_mean",
            "files_peak",
            "peak_rss_mb",
            "settle_s",
            "read_amp",
            "series",
            "latency",
            "control_gap_ms",
        ] {
            assert!(json.get(member).is_some(), "{member}");
        }
        assert_eq!(json["write_amp_source"], "kernel");
        assert!(json["log_amp"].is_null());
        assert_eq!(serde_json::from_value::<Outcome>(json).unwrap(), outcome);
        let old: Outcome = serde_json::from_str(r#"{"workload":"a","extra":1}"#).unwrap();
        assert_eq!(old.workload, "a");
    }
}
