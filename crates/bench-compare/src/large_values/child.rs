//! The hidden command `large-values-child`: one engine's turn.

use crate::engines::keyspaces::{KeyspaceSetup, NamedKeyspace, opener};
use crate::rounds::disk::Disk;
use crate::rounds::gathered::Gathered;
use crate::rounds::host::Round;
use crate::rounds::pairs::{fill_value, scattered};
use crate::rounds::serve::serve;
use alluvium_bench::engine::Result;
use alluvium_bench::process::{cpu_time, device_bytes};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::PathBuf;
use std::time::Instant;

/// Bytes after which the space is looked at.
const SAMPLE_BYTES: u64 = 64 << 20;
const MIB: f64 = (1 << 20) as f64;

/// What a child is started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The engine's name.
    pub engine: String,
    /// The store's directory.
    pub directory: PathBuf,
    /// Memory for the engine.
    pub memory: Option<u64>,
    /// Bytes of all values at a time, about.
    pub bytes: u64,
    /// How many times these bytes are written over them.
    pub overwrites: u32,
    /// Bytes of the smallest value.
    pub smallest: u64,
    /// Bytes of the largest value.
    pub largest: u64,
}

/// Runs; errors are also sent to the parent.
pub fn run() -> Result<()> {
    serve(turn)
}

/// The values that are there: of each key the seed and the length of its value.
struct Values {
    current: Vec<(u64, u64)>,
    next_seed: u64,
    buffer: Vec<u8>,
}

/// A turn of the engine.
pub fn turn(job: &Job) -> Result<Round> {
    let open = opener(&job.engine).ok_or_else(|| format!("{} has no keyspaces here", job.engine))?;
    fs::create_dir_all(&job.directory)?;
    let setup = KeyspaceSetup {
        directory: job.directory.clone(),
        memory: job.memory,
        blobs_from: Some(job.smallest / 2),
        ..KeyspaceSetup::default()
    };
    let mut store = open(&setup)?;
    store.create("data")?;
    let keyspace = &*store.keyspace("data")?;
    let mut figures = Gathered::default();
    let mut values = Values { current: Vec::new(), next_seed: 0, buffer: Vec::new() };
    let (device, used) = (written()?, cpu_time());

    let started = Instant::now();
    let mut put = 0;
    while put < job.bytes {
        values.current.push((0, 0));
        put += values.put(job, keyspace, values.current.len() - 1)?;
    }
    figures.set("load_rate", put as f64 / MIB / started.elapsed().as_secs_f64());

    let (mut overwritten, mut longest, mut peak, mut sampled) = (0, 0.0_f64, 0, 0);
    let started = Instant::now();
    for step in 0.. {
        if overwritten >= job.bytes * u64::from(job.overwrites) {
            break;
        }
        let at = random(step) % values.current.len() as u64;
        let begun = Instant::now();
        overwritten += values.put(job, keyspace, at as usize)?;
        longest = longest.max(begun.elapsed().as_nanos() as f64);
        if overwritten - sampled >= SAMPLE_BYTES {
            sampled = overwritten;
            peak = peak.max(Disk::of(&job.directory)?.allocated);
        }
    }
    let written_in = started.elapsed().as_secs_f64();
    figures.set("overwrite_rate", overwritten as f64 / MIB / written_in);
    figures.set("overwrite_max_ns", longest);
    let settling = Instant::now();
    keyspace.flush()?;
    figures.time("settle_ns", settling);
    figures.set("settled_rate", overwritten as f64 / MIB / started.elapsed().as_secs_f64());
    let all = (put + overwritten) as f64;
    figures.set("cpu_ns", (cpu_time() - used).as_nanos() as f64 / (all / MIB));
    figures.set("device_ratio", (written()? - device) as f64 / all);
    let live: u64 = values.current.iter().map(|(_, length)| length).sum();
    let space = || Ok::<_, String>(Disk::of(&job.directory)?.allocated as f64 / live as f64);
    let settled = space()?;
    figures.set("settled_ratio", settled);
    figures.set("peak_ratio", settled.max(peak as f64 / live as f64));
    gets(&mut values, keyspace, &mut figures)?;
    keyspace.compact()?;
    figures.set("compacted_ratio", space()?);
    Ok(figures.0)
}

/// Bytes that this process has written to devices.
fn written() -> Result<u64> {
    Ok(device_bytes().ok_or("/proc/self/io has no figures")?.written)
}

/// SplitMix64 of a number.
fn random(number: u64) -> u64 {
    let mut bits = [0; 8];
    fill_value(number, &mut bits);
    u64::from_le_bytes(bits)
}

impl Values {
    /// Puts another value for a key; returns its length.
    fn put(&mut self, job: &Job, keyspace: &dyn NamedKeyspace, at: usize) -> Result<u64> {
        let seed = self.next_seed;
        self.next_seed += 1;
        // Each doubling of the length is as frequent.
        let doublings = (job.largest as f64 / job.smallest as f64).log2();
        let share = random(seed ^ (1 << 63)) as f64 / u64::MAX as f64;
        let length = ((job.smallest as f64 * (doublings * share).exp2()) as u64).clamp(job.smallest, job.largest);
        self.buffer.resize(usize::try_from(length)?, 0);
        fill_value(seed, &mut self.buffer);
        keyspace.put(&(at as u64).to_be_bytes(), &self.buffer)?;
        self.current[at] = (seed, length);
        Ok(length)
    }
}

/// Random gets, each of which must find the last value.
fn gets(values: &mut Values, keyspace: &dyn NamedKeyspace, figures: &mut Gathered) -> Result<()> {
    let (count, mut found, mut bytes, mut spent) = (values.current.len() as u64, Vec::new(), 0, 0.0);
    for step in 0..count {
        let at = scattered(step, count);
        let started = Instant::now();
        let is_there = keyspace.get(&at.to_be_bytes(), &mut found)?;
        spent += started.elapsed().as_secs_f64();
        let (seed, length) = values.current[at as usize];
        values.buffer.resize(usize::try_from(length)?, 0);
        fill_value(seed, &mut values.buffer);
        if !is_there || found != values.buffer {
            return Err(format!("the value {at} was not found as it was put").into());
        }
        bytes += length;
    }
    figures.set("get_rate", bytes as f64 / MIB / spent);
    figures.set("get_ns", spent * 1e9 / count as f64);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::figures::FIGURES;
    use super::*;
    use crate::engines::keyspaces::select_with_keyspaces;

    #[test]
    fn every_engine_is_measured_and_every_figure_is_there() {
        for kind in select_with_keyspaces(&[]).unwrap().taken {
            if !super::super::NAMES.contains(&kind.name) {
                continue;
            }
            let folder = tempfile::tempdir().unwrap();
            let directory = folder.path().join("store");
            let (smallest, largest) = (256 << 10, 1 << 20);
            let (memory, bytes) = (Some(64 << 20), 10 << 20);
            let job = Job { engine: kind.name.into(), directory, memory, bytes, overwrites: 2, smallest, largest };
            let measured = turn(&job).unwrap();
            let missing: Vec<&str> =
                FIGURES.iter().map(|figure| figure.name).filter(|name| !measured.contains_key(*name)).collect();
            assert_eq!(missing, [""; 0], "{}", kind.name);
            assert!(measured["settled_ratio"] >= 1.0 && measured["device_ratio"] > 0.0, "{measured:?}");
            let json = serde_json::to_string(&job).unwrap();
            assert_eq!(serde_json::from_str::<Job>(&json).unwrap(), job);
        }
    }
}
