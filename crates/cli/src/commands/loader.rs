//! Gathers pairs into batches and writes them, for commands that load many, and tells the figures of it.

use crate::failure::Failure;
use crate::input::Pair;
use crate::process;
use crate::progress::Progress;
use crate::report::{Report, grouped};
use alluvium::{Db, WriteBatch};
use std::time::{Duration, Instant};

/// A batch goes out with this many bytes even if it has fewer pairs than asked for.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// What was loaded.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loaded {
    /// Pairs.
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Since the beginning.
    pub elapsed: Duration,
}

/// See the module.
pub struct Loader<'a> {
    db: &'a Db,
    batch_pairs: u64,
    progress: &'a Progress,
    batch: WriteBatch,
    batch_bytes: usize,
    loaded: Loaded,
    started: Instant,
}

impl<'a> Loader<'a> {
    /// Nothing yet. So many pairs are written together.
    pub fn new(db: &'a Db, batch_pairs: u64, progress: &'a Progress) -> Self {
        let (batch, loaded, started) = (WriteBatch::new(), Loaded::default(), Instant::now());
        Self { db, batch_pairs, progress, batch, batch_bytes: 0, loaded, started }
    }

    /// Writes a pair, or keeps it for the next batch.
    pub fn add(&mut self, pair: Pair) -> Result<(), Failure> {
        self.batch_bytes += pair.key.len() + pair.value.len();
        self.batch.put(pair.key, pair.value);
        if self.batch.len() as u64 >= self.batch_pairs || self.batch_bytes >= BATCH_BYTES_MAX {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Failure> {
        let batch = std::mem::take(&mut self.batch);
        let (keys, bytes) = (batch.len() as u64, std::mem::take(&mut self.batch_bytes) as u64);
        self.db.write(batch)?;
        self.loaded.keys += keys;
        self.loaded.bytes += bytes;
        self.progress.advance(self.loaded.keys);
        Ok(())
    }

    /// Writes what is left, also behind an error, and waits until all of it is on the disk.
    pub fn finish(&mut self) -> Result<(), Failure> {
        if !self.batch.is_empty() {
            self.write()?;
        }
        Ok(self.db.sync()?)
    }

    /// What was loaded so far.
    pub fn loaded(&self) -> Loaded {
        Loaded { elapsed: self.started.elapsed(), ..self.loaded }
    }
}

impl Loaded {
    /// Adds the figures of how much it was and how fast.
    pub fn tell(&self, report: &mut Report) {
        // A load of nothing takes no time; a rate of it is 0, not an error.
        let seconds = self.elapsed.as_secs_f64();
        let rate = |number: f64| number / seconds.max(1e-9);
        report
            .count("keys", "keys", self.keys)
            .size("bytes", "keys and values", self.bytes)
            .decimal("seconds", "seconds, until on the disk", seconds)
            .add("keys_per_second", "keys/s", rate(self.keys as f64).into(), grouped(rate(self.keys as f64) as u64))
            .decimal("megabytes_per_second", "MB/s", rate(self.bytes as f64 / 1e6));
    }
}

/// Waits for background work where that was asked for, and adds the figures of the store and of the process.
pub fn tell_end(report: &mut Report, db: &Db, settle: bool) -> Result<(), Failure> {
    if settle {
        let before = Instant::now();
        db.settle()?;
        report.decimal("settle_seconds", "seconds of background work after it", before.elapsed().as_secs_f64());
    }
    report.decimal("write_amplification", "write amplification so far", db.stats().write_amplification());
    match process::peak_resident_bytes() {
        Some(bytes) => report.size("peak_resident_bytes", "peak memory of the process", bytes),
        None => report.member("peak_resident_bytes", serde_json::Value::Null),
    };
    Ok(())
}
