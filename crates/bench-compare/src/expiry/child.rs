//! The hidden command `expiry-child`: one engine's turn.

use super::{Expiring, opener};
use crate::rounds::disk::Disk;
use crate::rounds::gathered::Gathered;
use crate::rounds::host::Round;
use crate::rounds::pairs::{fill_value, scattered};
use crate::rounds::serve::serve;
use alluvium_bench::engine::Result;
use alluvium_bench::process::device_bytes;
use serde::{Deserialize, Serialize};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

/// Pairs of a batch.
const BATCH_PAIRS: u64 = 1000;
/// How often the space is looked at.
const SAMPLE: Duration = Duration::from_millis(250);
/// The pairs that stay are put this share of the age after the others.
const YOUNGER: f64 = 2.0 / 3.0;
/// The space is watched for this share of the age.
const WATCHED: f64 = 0.5;

/// What a child is started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The engine's name.
    pub engine: String,
    /// The store's directory.
    pub directory: PathBuf,
    /// Memory for the engine.
    pub memory: Option<u64>,
    /// Pairs, of which one in ten stays.
    pub pairs: u64,
    /// Bytes of a value.
    pub value_size: u32,
    /// Seconds after which a pair expires.
    pub age: f64,
    /// Gets of pairs that stay, and of expired ones.
    pub gets: u64,
}

/// Runs; errors are also sent to the parent.
pub fn run() -> Result<()> {
    serve(turn)
}

/// A turn of the engine.
pub fn turn(job: &Job) -> Result<Round> {
    let open = opener(&job.engine).ok_or_else(|| format!("{} is not built in", job.engine))?;
    fs::create_dir_all(&job.directory)?;
    let db = open(&job.directory, job.memory, Duration::from_secs_f64(job.age))?;
    let db = &*db;
    let mut figures = Gathered::default();
    let (old, young) = (job.pairs - job.pairs / 10, job.pairs / 10);
    let started = Instant::now();
    put(job, db, 0..old)?;
    figures.set("load_rate", old as f64 / started.elapsed().as_secs_f64());
    db.settle()?;
    let loaded = Instant::now();
    let after = |age: f64| Duration::from_secs_f64(job.age * age);
    if loaded.duration_since(started) > after(YOUNGER / 2.0) {
        return Err("the load takes too long for this age; choose a greater --age".into());
    }
    sleep_until(loaded + after(YOUNGER));
    put(job, db, old..job.pairs)?;
    db.settle()?;
    let space = || Disk::of(&job.directory).map(|disk| disk.allocated as f64);
    let before = space()?;
    figures.set("before_bytes", before);

    sleep_until(loaded + after(1.0) + Duration::from_secs(2));
    let (expired, device) = (Instant::now(), written()?);
    let mut seen = 0;
    for step in 0..job.gets {
        seen += u64::from(db.has(&scattered(scattered(step, old), job.pairs).to_be_bytes())?);
    }
    figures.set("seen_by_gets", seen as f64 * 1000.0 / job.gets as f64);
    let getting = Instant::now();
    for step in 0..job.gets {
        if !db.has(&scattered(old + scattered(step, young), job.pairs).to_be_bytes())? {
            return Err("a pair is missing that has not expired".into());
        }
    }
    figures.set("get_ns", getting.elapsed().as_nanos() as f64 / job.gets as f64);
    figures.set("seen_by_scan", db.count()? as f64 / young as f64);
    let mut samples = Vec::new();
    while expired.elapsed() < after(WATCHED) {
        samples.push((expired.elapsed(), space()?));
        thread::sleep(SAMPLE);
    }
    let end = space()?;
    figures.set("after_bytes", end);
    figures.set("freed_ratio", end / before);
    let back = samples.iter().find(|(_, space)| before - space >= 0.9 * (before - end));
    figures.set("back_ns", back.map_or(expired.elapsed(), |(when, _)| *when).as_nanos() as f64);
    let written = (written()? - device) as f64;
    figures.set("written_bytes", written);
    figures.set("written_ratio", written / before);
    Ok(figures.0)
}

fn sleep_until(moment: Instant) {
    thread::sleep(moment.saturating_duration_since(Instant::now()));
}

/// Bytes that this process has written to devices.
fn written() -> Result<u64> {
    Ok(device_bytes().ok_or("/proc/self/io has no figures")?.written)
}

fn put(job: &Job, db: &dyn Expiring, steps: Range<u64>) -> Result<()> {
    let mut value = vec![0; job.value_size as usize];
    for first in steps.clone().step_by(BATCH_PAIRS as usize) {
        let owned: Vec<_> = (first..(first + BATCH_PAIRS).min(steps.end))
            .map(|step| {
                fill_value(step, &mut value);
                (scattered(step, job.pairs).to_be_bytes(), value.clone())
            })
            .collect();
        let batch: Vec<(&[u8], &[u8])> = owned.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        db.put_batch(&batch)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::figures::FIGURES;
    use super::*;

    #[test]
    fn every_figure_is_measured() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("store");
        let engine = crate::engines::OURS.to_owned();
        let memory = Some(64 << 20);
        let job = Job { engine, directory, memory, pairs: 2_000, value_size: 50, age: 15.0, gets: 500 };
        let measured = turn(&job).unwrap();
        let missing: Vec<&str> =
            FIGURES.iter().map(|figure| figure.name).filter(|name| !measured.contains_key(*name)).collect();
        assert_eq!(missing, [""; 0]);
        assert_eq!((measured["seen_by_gets"], measured["seen_by_scan"]), (0.0, 1.0), "{measured:?}");
        let json = serde_json::to_string(&job).unwrap();
        assert_eq!(serde_json::from_str::<Job>(&json).unwrap(), job);
    }
}
