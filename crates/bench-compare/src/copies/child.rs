//! The hidden command `copies-child`: one engine's turn.

use super::{Copied, Engine, engine};
use crate::rounds::disk::Disk;
use crate::rounds::gathered::Gathered;
use crate::rounds::host::Round;
use crate::rounds::pairs::{fill_value, scattered};
use crate::rounds::serve::serve;
use alluvium_bench::engine::Result;
use serde::{Deserialize, Serialize};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// What a child is started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The engine's name.
    pub engine: String,
    /// The directory of the stores, which must be on one file system.
    pub directory: PathBuf,
    /// Memory for the engine.
    pub memory: Option<u64>,
    /// Pairs that are loaded.
    pub pairs: u64,
    /// Bytes of a value.
    pub value_size: u32,
    /// For how long the writer is alone.
    pub seconds: f64,
}

/// Runs; errors are also sent to the parent.
pub fn run() -> Result<()> {
    serve(turn)
}

/// What the writer did since it was last asked.
#[derive(Debug, Default)]
struct Writing {
    puts: AtomicU64,
    /// Of the longest put.
    longest_ns: AtomicU64,
    ends: AtomicBool,
}

/// A turn of the engine.
pub fn turn(job: &Job) -> Result<Round> {
    let Engine { open, count } = engine(&job.engine).ok_or_else(|| format!("{} is not built in", job.engine))?;
    fs::create_dir_all(&job.directory)?;
    let path = |name: &str| job.directory.join(name);
    let (store, checkpoint, backups) = (path("store"), path("checkpoint"), path("backups"));
    fs::create_dir(&store)?;
    let db = open(&store, job.memory)?;
    let db = &*db;
    let mut value = vec![0; job.value_size as usize];
    for step in 0..job.pairs {
        fill_value(step, &mut value);
        db.put(&scattered(step, job.pairs).to_be_bytes(), &value)?;
    }
    db.settle()?;
    let mut figures = Gathered::default();
    figures.set("store_bytes", Disk::of(&store)?.length as f64);
    let alone = || {
        thread::sleep(Duration::from_secs_f64(job.seconds));
        Ok(())
    };
    let writing = Writing::default();
    thread::scope(|scope| {
        let writer = scope.spawn(|| write(job, db, &writing));
        let measured = (|| {
            figures.beside("alone", &writing, alone)?;
            figures.beside("checkpoint", &writing, || db.checkpoint(&checkpoint))?;
            figures.set("checkpoint_bytes", own_bytes(&checkpoint)? as f64);
            figures.beside("backup", &writing, || db.backup(&backups))?;
            let first = Disk::of(&backups)?.allocated as f64;
            figures.set("backup_bytes", first);
            let between = figures.beside("between", &writing, alone)?;
            figures.set("between_bytes", (between * (8 + u64::from(job.value_size))) as f64);
            figures.beside("again", &writing, || db.backup(&backups))?;
            figures.set("again_bytes", Disk::of(&backups)?.allocated as f64 - first);
            Ok(())
        })();
        writing.ends.store(true, Ordering::Relaxed);
        let written = writer.join().map_err(|_| "the writer has panicked")?;
        measured.and(written)
    })?;
    let started = Instant::now();
    let found = count(&checkpoint)?;
    figures.time("open_ns", started);
    if found != job.pairs {
        return Err(format!("the checkpoint has {found} of {} pairs", job.pairs).into());
    }
    Ok(figures.0)
}

/// Overwrites random pairs until it should end.
fn write(job: &Job, db: &dyn Copied, writing: &Writing) -> Result<()> {
    let mut value = vec![0; job.value_size as usize];
    for step in job.pairs.. {
        if writing.ends.load(Ordering::Relaxed) {
            break;
        }
        fill_value(step, &mut value);
        let key = scattered(step.wrapping_mul(7), job.pairs).to_be_bytes();
        let started = Instant::now();
        db.put(&key, &value)?;
        writing.longest_ns.fetch_max(started.elapsed().as_nanos() as u64, Ordering::Relaxed);
        writing.puts.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

impl Gathered {
    /// Times `work`, and what the writer did meanwhile. A put that is longer than the work counts in what follows, too. Returns
    /// the puts.
    fn beside(&mut self, name: &str, writing: &Writing, work: impl FnOnce() -> Result<()>) -> Result<u64> {
        writing.puts.store(0, Ordering::Relaxed);
        writing.longest_ns.store(0, Ordering::Relaxed);
        let started = Instant::now();
        work()?;
        let (spent, puts) = (started.elapsed(), writing.puts.load(Ordering::Relaxed));
        self.set(&format!("{name}_ns"), spent.as_nanos() as f64);
        self.set(&format!("{name}_rate"), puts as f64 / spent.as_secs_f64());
        self.set(&format!("{name}_max_ns"), writing.longest_ns.load(Ordering::Relaxed) as f64);
        Ok(puts)
    }
}

/// Bytes of the blocks of files that have no other name.
fn own_bytes(directory: &Path) -> Result<u64> {
    let mut bytes = 0;
    for entry in fs::read_dir(directory)? {
        let metadata = entry?.metadata()?;
        if metadata.is_file() && metadata.nlink() == 1 {
            bytes += metadata.blocks() * 512;
        }
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::super::figures::FIGURES;
    use super::*;

    #[test]
    fn every_engine_is_copied_and_every_figure_is_measured() {
        for name in super::super::NAMES.iter().filter(|name| engine(name).is_some()) {
            let folder = tempfile::tempdir().unwrap();
            let directory = folder.path().join("stores");
            let memory = Some(64 << 20);
            let job = Job { engine: (*name).into(), directory, memory, pairs: 2_000, value_size: 100, seconds: 0.05 };
            let measured = turn(&job).unwrap();
            let missing: Vec<&str> =
                FIGURES.iter().map(|figure| figure.name).filter(|name| !measured.contains_key(*name)).collect();
            assert_eq!(missing, [""; 0], "{name}");
            assert!(measured["backup_bytes"] > 0.0 && measured["alone_rate"] > 0.0, "{measured:?}");
            let json = serde_json::to_string(&job).unwrap();
            assert_eq!(serde_json::from_str::<Job>(&json).unwrap(), job);
        }
    }
}
