//! The counters of a worker.

use crate::latency::Latencies;

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
}

impl Tally {
    /// Nothing yet.
    pub fn new() -> Self {
        let latencies = Latencies::new();
        Self { ops: 0, found: 0, not_found: 0, wrong: 0, pairs: 0, bytes_written: 0, bytes_read: 0, latencies }
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
    }
}
