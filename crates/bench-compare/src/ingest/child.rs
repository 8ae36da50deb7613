//! The hidden command `ingest-child`: one engine's turn.

use crate::engines::keyspaces::{KeyspaceSetup, KeyspaceStore, NamedKeyspace, opener};
use crate::rounds::disk::Disk;
use crate::rounds::gathered::Gathered;
use crate::rounds::host::Round;
use crate::rounds::pairs::{fill_value, scattered};
use crate::rounds::serve::serve;
use alluvium_bench::engine::Result;
use alluvium_bench::process::{cpu_time, device_bytes};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Pairs of a batch.
const BATCH_PAIRS: u64 = 1000;

/// What a child is started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The engine's name.
    pub engine: String,
    /// The directory of the stores.
    pub directory: PathBuf,
    /// Memory for the engine.
    pub memory: Option<u64>,
    /// Pairs that are ingested.
    pub pairs: u64,
    /// Bytes of a value.
    pub value_size: u32,
    /// Gets after the ingest.
    pub gets: u64,
}

/// Runs; errors are also sent to the parent.
pub fn run() -> Result<()> {
    serve(turn)
}

/// A turn of the engine.
pub fn turn(job: &Job) -> Result<Round> {
    let mut figures = Gathered::default();
    let directory = job.directory.join("ingest");
    let store = job.open(&directory)?;
    let keyspace = &*store.keyspace("data")?;
    let (before, used) = (written()?, cpu_time());
    let started = Instant::now();
    keyspace.ingest(job.pairs, job.value_size as usize, &fill_value)?;
    figures.time("ingest_ns", started);
    figures.set("ingest_rate", job.pairs as f64 / started.elapsed().as_secs_f64());
    let started = Instant::now();
    keyspace.flush()?;
    figures.time("settle_ns", started);
    figures.set("cpu_ns", (cpu_time() - used).as_nanos() as f64 / job.pairs as f64);
    let (device, files) = ((written()? - before) as f64, Disk::of(&directory)?.length as f64);
    figures.set("device_bytes", device);
    figures.set("file_length", files);
    figures.set("device_ratio", device / files);
    gets(job, keyspace, &mut figures)?;

    let store = job.open(&job.directory.join("put"))?;
    let keyspace = &*store.keyspace("data")?;
    let started = Instant::now();
    put(job, keyspace)?;
    keyspace.flush()?;
    figures.set("put_rate", job.pairs as f64 / started.elapsed().as_secs_f64());
    Ok(figures.0)
}

/// Bytes that this process has written to devices.
fn written() -> Result<u64> {
    Ok(device_bytes().ok_or("/proc/self/io has no figures")?.written)
}

impl Job {
    fn open(&self, directory: &Path) -> Result<Box<dyn KeyspaceStore>> {
        let open = opener(&self.engine).ok_or_else(|| format!("{} has no keyspaces here", self.engine))?;
        fs::create_dir_all(directory)?;
        let setup = KeyspaceSetup { directory: directory.to_owned(), memory: self.memory, ..KeyspaceSetup::default() };
        let mut store = open(&setup)?;
        store.create("data")?;
        Ok(store)
    }
}

/// Random gets, each of which must find its value.
fn gets(job: &Job, keyspace: &dyn NamedKeyspace, figures: &mut Gathered) -> Result<()> {
    let (mut found, mut expected) = (Vec::new(), vec![0; job.value_size as usize]);
    let started = Instant::now();
    for step in 0..job.gets {
        let number = scattered(step, job.pairs);
        let is_there = keyspace.get(&number.to_be_bytes(), &mut found)?;
        fill_value(number, &mut expected);
        if !is_there || found != expected {
            return Err(format!("the pair {number} was not found as it was ingested").into());
        }
    }
    figures.set("get_ns", started.elapsed().as_nanos() as f64 / job.gets as f64);
    Ok(())
}

fn put(job: &Job, keyspace: &dyn NamedKeyspace) -> Result<()> {
    for first in (0..job.pairs).step_by(BATCH_PAIRS as usize) {
        let numbers = first..(first + BATCH_PAIRS).min(job.pairs);
        let owned: Vec<_> = numbers
            .map(|number| {
                let mut value = vec![0; job.value_size as usize];
                fill_value(number, &mut value);
                (number.to_be_bytes(), value)
            })
            .collect();
        let batch: Vec<(&[u8], &[u8])> = owned.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        keyspace.put_batch(&batch)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::figures::FIGURES;
    use super::*;
    use crate::engines::keyspaces::select_with_keyspaces;

    #[test]
    fn every_engine_ingests_and_every_figure_is_measured() {
        for kind in select_with_keyspaces(&[]).unwrap().taken {
            if !super::super::NAMES.contains(&kind.name) {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let directory = folder.path().join("store");
            let memory = Some(64 << 20);
            let job = Job { engine: kind.name.into(), directory, memory, pairs: 20_000, value_size: 50, gets: 500 };
            let measured = turn(&job).unwrap();
            let missing: Vec<&str> =
                FIGURES.iter().map(|figure| figure.name).filter(|name| !measured.contains_key(*name)).collect();
            assert_eq!(missing, [""; 0], "{}", kind.name);
            assert!(measured["file_length"] > 20_000.0 * 50.0, "{measured:?}");
            let json = serde_json::to_string(&job).unwrap();
            assert_eq!(serde_json::from_str::<Job>(&json).unwrap(), job);
        }
    }
}
