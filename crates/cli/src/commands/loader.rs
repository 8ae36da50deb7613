//! Collects pairs into batches, writes them, and reports the load statistics. Sorted pairs are ingested instead, all at once. For
//! commands that load many pairs.

use crate::failure::Failure;
use crate::input::Pair;
use crate::process;
use crate::progress::Progress;
use crate::report::{Report, grouped};
use alluvium::{Db, Ingest, Keyspace, WriteBatch, WriteOptions};
use std::time::{Duration, Instant};

/// A batch of this many bytes is written even if it has fewer pairs than `batch_pairs`.
const BATCH_BYTES_MAX: usize = 4 << 20;

/// So many pairs of an ingest are added between two reports of progress.
const INGESTED_PER_REPORT: u64 = 1024;

/// Statistics of a load.
#[derive(Clone, Copy, Debug, Default)]
pub struct Loaded {
    /// Number of pairs.
    pub keys: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
    /// Time since the start.
    pub elapsed: Duration,
}

/// Writes pairs in batches, or ingests them.
pub struct Loader<'a> {
    db: &'a Db,
    keyspace: Keyspace,
    options: WriteOptions,
    batch_pairs: u64,
    progress: &'a Progress,
    batch: WriteBatch,
    batch_bytes: usize,
    /// In place of batches, if the pairs are sorted.
    ingest: Option<Ingest>,
    /// What was loaded before.
    before: Loaded,
    loaded: Loaded,
    started: Instant,
}

impl<'a> Loader<'a> {
    /// An empty loader that writes batches of `batch_pairs` pairs to the keyspace.
    pub fn new(
        db: &'a Db,
        (keyspace, options): (Keyspace, WriteOptions),
        batch_pairs: u64,
        progress: &'a Progress,
    ) -> Self {
        Self {
            db,
            keyspace,
            options,
            batch_pairs,
            progress,
            batch: WriteBatch::new(),
            batch_bytes: 0,
            ingest: None,
            before: Loaded::default(),
            loaded: Loaded::default(),
            started: Instant::now(),
        }
    }

    /// An empty loader that ingests pairs, which come in ascending order of their keys.
    pub fn of_sorted(db: &'a Db, keyspace: Keyspace, progress: &'a Progress) -> Result<Self, Failure> {
        let ingest = Some(keyspace.ingest()?);
        Ok(Self { ingest, ..Self::new(db, (keyspace, WriteOptions::default()), 1, progress) })
    }

    /// Counts on from what other loaders have loaded.
    #[cfg(feature = "rocksdb")]
    pub fn after(self, before: Loaded) -> Self {
        Self { before, loaded: before, ..self }
    }

    /// Adds a pair to the ingest, or to the batch, which is written when it is full.
    pub fn add(&mut self, pair: Pair) -> Result<(), Failure> {
        if let Some(ingest) = &mut self.ingest {
            ingest.put(&pair.key, &pair.value)?;
            self.loaded.keys += 1;
            self.loaded.bytes += (pair.key.len() + pair.value.len()) as u64;
            if self.loaded.keys.is_multiple_of(INGESTED_PER_REPORT) {
                self.progress.advance(self.loaded.keys);
            }
            return Ok(());
        }
        self.batch_bytes += pair.key.len() + pair.value.len();
        self.batch.within(&self.keyspace).put(pair.key, pair.value);
        if self.batch.len() as u64 >= self.batch_pairs || self.batch_bytes >= BATCH_BYTES_MAX {
            self.write()?;
        }
        Ok(())
    }

    fn write(&mut self) -> Result<(), Failure> {
        let batch = std::mem::take(&mut self.batch);
        let (keys, bytes) = (batch.len() as u64, std::mem::take(&mut self.batch_bytes) as u64);
        self.db.write_with(batch, self.options)?;
        self.loaded.keys += keys;
        self.loaded.bytes += bytes;
        self.progress.advance(self.loaded.keys);
        Ok(())
    }

    /// Drops what was to be ingested: nothing of it is loaded.
    pub fn abandon(&mut self) {
        self.ingest = None;
        self.loaded = self.before;
    }

    /// Ends the ingest, or writes the last batch, even after an error, and makes everything durable in branch files, so that the next
    /// command need not replay the log. If the disk has no space for that, the log keeps it.
    pub fn finish(&mut self) -> Result<(), Failure> {
        if let Some(ingest) = self.ingest.take() {
            ingest.commit()?;
            self.progress.advance(self.loaded.keys);
            return Ok(());
        }
        if !self.batch.is_empty() {
            self.write()?;
        }
        match self.db.flush() {
            Err(error) if error.is_disk_full() => Ok(self.db.sync()?),
            done => Ok(done?),
        }
    }

    /// Statistics so far.
    pub fn loaded(&self) -> Loaded {
        Loaded { elapsed: self.started.elapsed(), ..self.loaded }
    }
}

impl Loaded {
    /// Adds the amount and the rates to the report.
    pub fn add_to(&self, report: &mut Report) {
        // An empty load may take no time; its rate is 0, not an error.
        let seconds = self.elapsed.as_secs_f64();
        let rate = |number: f64| number / seconds.max(1e-9);
        report
            .count("keys", "keys", self.keys)
            .size("bytes", "keys and values", self.bytes)
            .decimal("seconds", "seconds, including the flush", seconds)
            .add("keys_per_second", "keys/s", rate(self.keys as f64).into(), grouped(rate(self.keys as f64) as u64))
            .decimal("megabytes_per_second", "MB/s", rate(self.bytes as f64 / 1e6));
    }
}

/// Waits for background work if `settle` is set, and adds statistics of the store and the process to the report.
pub fn add_final_statistics(report: &mut Report, db: &Db, settle: bool) -> Result<(), Failure> {
    if settle {
        let before = Instant::now();
        db.settle()?;
        report.decimal("settle_seconds", "seconds of background work after the load", before.elapsed().as_secs_f64());
    }
    report.decimal("write_amplification", "write amplification so far", db.stats().write_amplification());
    match process::peak_resident_bytes() {
        Some(bytes) => report.size("peak_resident_bytes", "peak memory of the process", bytes),
        None => report.member("peak_resident_bytes", serde_json::Value::Null),
    };
    Ok(())
}
