//! The hidden command `range-delete-child`: one engine's turn.

use crate::engines::keyspaces::{KeyspaceSetup, NamedKeyspace, opener};
use crate::rounds::disk::Disk;
use crate::rounds::gathered::Gathered;
use crate::rounds::host::Round;
use crate::rounds::pairs::{fill_value, scattered};
use crate::rounds::serve::serve;
use alluvium_bench::engine::Result;
use serde::{Deserialize, Serialize};
use std::fs;
use std::ops::Range;
use std::path::PathBuf;
use std::time::Instant;

/// Pairs of a batch of the load.
const BATCH_PAIRS: u64 = 1000;
/// Pairs that a seek reads: the one it finds, and the next.
const SEEK_PAIRS: u64 = 2;

/// What a child is started with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Job {
    /// The engine's name.
    pub engine: String,
    /// The store's directory.
    pub directory: PathBuf,
    /// Memory for the engine.
    pub memory: Option<u64>,
    /// Pairs of the range. As many are outside, half of them before it.
    pub pairs: u64,
    /// Seeks of a figure.
    pub seeks: u64,
    /// Their longest time.
    pub seconds: f64,
}

/// Runs; errors are also sent to the parent.
pub fn run() -> Result<()> {
    serve(turn)
}

/// A turn of the engine.
pub fn turn(job: &Job) -> Result<Round> {
    let open = opener(&job.engine).ok_or_else(|| format!("{} has no keyspaces here", job.engine))?;
    fs::create_dir_all(&job.directory)?;
    let setup = KeyspaceSetup { directory: job.directory.clone(), memory: job.memory, ..KeyspaceSetup::default() };
    let mut store = open(&setup)?;
    store.create("data")?;
    let mut figures = Gathered::default();
    let keyspace = store.keyspace("data")?;
    let keyspace = &*keyspace;
    let started = Instant::now();
    load(keyspace, job.pairs * 2)?;
    figures.time("load_ns", started);
    keyspace.flush()?;
    let before = Disk::of(&job.directory)?;
    figures.disk("loaded", before);
    seeks(job, keyspace, "before", 0, &mut figures)?;

    let logged = store.logged_bytes()?;
    let (from, to) = (job.hole().start.to_be_bytes(), job.hole().end.to_be_bytes());
    let started = Instant::now();
    keyspace.delete_range(&from, &to)?;
    figures.time("delete_ns", started);
    figures.set("delete_logged", (store.logged_bytes()? - logged) as f64);
    let deleted = Disk::of(&job.directory)?;
    figures.set("delete_grown", deleted.allocated as f64 - before.allocated as f64);
    let hole = job.pairs;
    seeks(job, keyspace, "deleted", hole, &mut figures)?;

    let started = Instant::now();
    keyspace.flush()?;
    figures.time("flush_ns", started);
    figures.disk("flushed", Disk::of(&job.directory)?);
    seeks(job, keyspace, "flushed", hole, &mut figures)?;

    let started = Instant::now();
    keyspace.compact()?;
    figures.time("compact_ns", started);
    figures.disk("compacted", Disk::of(&job.directory)?);
    seeks(job, keyspace, "compacted", hole, &mut figures)?;
    Ok(figures.0)
}

impl Job {
    fn hole(&self) -> Range<u64> {
        self.pairs / 2..self.pairs / 2 + self.pairs
    }
}

fn load(keyspace: &dyn NamedKeyspace, pairs: u64) -> Result<()> {
    for first in (0..pairs).step_by(BATCH_PAIRS as usize) {
        let numbers = (first..(first + BATCH_PAIRS).min(pairs)).map(|step| scattered(step, pairs));
        let owned: Vec<_> = numbers.map(|number| (number.to_be_bytes(), value(number))).collect();
        let batch: Vec<(&[u8], &[u8])> = owned.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        keyspace.put_batch(&batch)?;
    }
    Ok(())
}

fn value(number: u64) -> [u8; 8] {
    let mut value = [0; 8];
    fill_value(number, &mut value);
    value
}

/// Seeks outside the range and into it, and compares what they find. `deleted` pairs are missing at its start.
fn seeks(job: &Job, keyspace: &dyn NamedKeyspace, when: &str, deleted: u64, figures: &mut Gathered) -> Result<()> {
    let (hole, all) = (job.hole(), job.pairs * 2);
    let outside = all - hole.end.min(all) + hole.start - SEEK_PAIRS;
    // The last keys have no next one.
    let place = |step| {
        let number = scattered(step, outside);
        if number < hole.start { number } else { number + (hole.end - hole.start) }
    };
    let outside_ns = timed_seeks(job, keyspace, place, |number| {
        let next = number + 1;
        (number, if deleted > 0 && hole.contains(&next) { hole.end } else { next })
    })?;
    let into_ns = timed_seeks(
        job,
        keyspace,
        |step| hole.start + scattered(step, hole.end - hole.start),
        |number| if deleted > 0 { (hole.end, hole.end + 1) } else { (number, number + 1) },
    )?;
    figures.set(&format!("{when}_outside_ns"), outside_ns);
    figures.set(&format!("{when}_into_ns"), into_ns);
    figures.set(&format!("{when}_ratio"), into_ns / outside_ns);
    Ok(())
}

/// The mean time of a seek to these places, each of which must find two keys.
fn timed_seeks(
    job: &Job,
    keyspace: &dyn NamedKeyspace,
    place: impl Fn(u64) -> u64,
    expected: impl Fn(u64) -> (u64, u64),
) -> Result<f64> {
    let mut done = 0;
    let started = Instant::now();
    while done < job.seeks && started.elapsed().as_secs_f64() < job.seconds {
        let number = place(done);
        let mut found = [0u64; SEEK_PAIRS as usize];
        let mut at = 0;
        keyspace.seek(&number.to_be_bytes(), SEEK_PAIRS, &mut |key, _| {
            found[at] = key.try_into().map_or(u64::MAX, u64::from_be_bytes);
            at += 1;
        })?;
        let (first, next) = expected(number);
        if found != [first, next] {
            return Err(format!("a seek to {number} found {found:?} instead of {first} and {next}").into());
        }
        done += 1;
    }
    Ok(started.elapsed().as_nanos() as f64 / done.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::super::figures::FIGURES;
    use super::*;
    use crate::engines::keyspaces::select_with_keyspaces;

    #[test]
    fn every_engine_deletes_a_range_and_every_figure_is_measured() {
        for kind in select_with_keyspaces(&[]).unwrap().taken {
            let folder = tempfile::tempdir().unwrap();
            let directory = folder.path().join("store");
            let memory = Some(64 << 20);
            let job = Job { engine: kind.name.into(), directory, memory, pairs: 2000, seeks: 500, seconds: 5.0 };
            let measured = turn(&job).unwrap();
            let missing: Vec<&str> =
                FIGURES.iter().map(|figure| figure.name).filter(|name| !measured.contains_key(*name)).collect();
            assert_eq!(missing, [""; 0], "{}", kind.name);
            assert!(measured["delete_logged"] > 0.0 && measured["flushed_into_ns"] > 0.0, "{measured:?}");
            let json = serde_json::to_string(&job).unwrap();
            assert_eq!(serde_json::from_str::<Job>(&json).unwrap(), job);
        }
    }
}
