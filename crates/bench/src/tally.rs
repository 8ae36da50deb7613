//! The counters of a worker.

use crate::latency::Latencies;
use std::time::Duration;

/// Counters and latencies of one worker, or of all.
#[derive(Debug)]
pub struct Tally {
    /// Operations.
    pub ops: u64,
    /// Reads that found their key.
    pub found: u64,
    /// Reads that did not find it.
    pub not_found: u64,
    /// Values or keys that cannot be right.
    pub wrong: u64,
    /// Pairs that scans visited.
    pub pairs: u64,
    /// Bytes of keys and values put.
    pub bytes_written: u64,
    /// Bytes of keys and values read.
    pub bytes_read: u64,
    /// Latencies.
    pub latencies: Latencies,
    /// Gets, of loaded keys and of absent ones.
    pub gets: u64,
    /// The sum of their latencies.
    pub gets_time: Duration,
}

impl Tally {
    /// Nothing yet.
    pub fn new() -> Self {
        let (ops, found, not_found, wrong, pairs, bytes_written, bytes_read) = (0, 0, 0, 0, 0, 0, 0);
        let (latencies, gets, gets_time) = (Latencies::new(), 0, Duration::ZERO);
        Self { ops, found, not_found, wrong, pairs, bytes_written, bytes_read, latencies, gets, gets_time }
    }

    /// The mean latency of gets; `None` without any.
    pub fn get_mean_us(&self) -> Option<f64> {
        (self.gets > 0).then(|| self.gets_time.as_secs_f64() * 1e6 / self.gets as f64)
    }

    /// Adds another worker's.
    pub fn merge(&mut self, other: &Self) {
        self.ops += other.ops;
        self.found += other.found;
        self.not_found += other.not_found;
        self.wrong += other.wrong;
        self.pairs += other.pairs;
        self.bytes_written += other.bytes_written;
        self.bytes_read += other.bytes_read;
        self.latencies.merge(&other.latencies);
        self.gets += other.gets;
        self.gets_time += other.gets_time;
    }
}
