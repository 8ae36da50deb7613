//! The hidden command `small-child`: reads a job, then runs one round of its scenario for each further line on standard
//! input, and reports the figures of each.

use super::scenario::{Job, Scenario};
use crate::engines::{self, Defaults, OpenDefault};
use crate::rounds::disk::Disk;
use crate::rounds::gathered::Gathered;
use crate::rounds::host::Round;
use crate::rounds::pairs::{KEY_BYTES, fill_value, key};
use crate::rounds::process::Usage;
use crate::rounds::serve::serve;
use alluvium_bench::engine::{Engine, Result};
use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

const VALUE_BYTES: u64 = 100;
/// Pairs of a batch of the large load: one transaction in engines that have them.
const BATCH_PAIRS: u64 = 1000;
const THOUSAND: u64 = 1000;
const BRIEF_PUTS: u64 = 10;
const STEPS_PUTS: u64 = 100;

/// Runs; errors are also sent to the parent.
pub fn run() -> Result<()> {
    serve(|job: &Job| Stores::of(job)?.round(&job.scenario))
}

/// Where and how stores are opened.
struct Stores {
    directory: PathBuf,
    open: OpenDefault,
}

impl Stores {
    fn of(job: &Job) -> Result<Self> {
        let kind = engines::find(&job.engine).ok_or_else(|| format!("there is no engine \"{}\"", job.engine))?;
        let open = kind.open_default.ok_or_else(|| format!("{} cannot be opened with defaults here", job.engine))?;
        Ok(Self { directory: job.directory.clone(), open })
    }

    fn open(&self, name: &str, data_bytes: u64) -> Result<Box<dyn Engine>> {
        let directory = self.directory.join(name);
        fs::create_dir_all(&directory)?;
        let defaults = Defaults { directory, data_bytes, puts_per_transaction: 1, for_point_reads: false };
        Ok((self.open)(&defaults)?.engine)
    }

    /// One round, in a directory that is removed afterwards.
    fn round(&self, scenario: &Scenario) -> Result<Round> {
        fs::create_dir_all(&self.directory)?;
        let mut figures = Gathered::default();
        let done = match scenario {
            Scenario::Sizes { bytes, idle } => self.sizes(*bytes, *idle, &mut figures),
            Scenario::Idle { idle } => self.idle(*idle, &mut figures),
            Scenario::Brief => self.brief(&mut figures),
            Scenario::Steps => self.steps(&mut figures),
            Scenario::Many { stores, idle } => self.many(*stores, *idle, &mut figures),
        };
        let removed = fs::remove_dir_all(&self.directory);
        done?;
        removed?;
        Ok(figures.0)
    }

    fn sizes(&self, bytes: u64, idle: f64, figures: &mut Gathered) -> Result<()> {
        let loads: [(&str, u64); 3] =
            [("empty", 0), ("thousand", THOUSAND), ("large", bytes / (KEY_BYTES + VALUE_BYTES))];
        for (name, pairs) in loads {
            let engine = self.open(name, pairs * (KEY_BYTES + VALUE_BYTES))?;
            // A thousand pairs come one by one, as a small program writes them; more come in batches.
            match pairs {
                0..=THOUSAND => put_singly(&*engine, 0..pairs)?,
                _ => load(&*engine, pairs)?,
            }
            rest(idle);
            let directory = self.directory.join(name);
            figures.disk(&format!("{name}_open"), Disk::of(&directory)?);
            drop(engine);
            figures.disk(&format!("{name}_closed"), Disk::of(&directory)?);
            fs::remove_dir_all(&directory)?;
        }
        Ok(())
    }

    fn idle(&self, idle: f64, figures: &mut Gathered) -> Result<()> {
        let before = Usage::now()?;
        let engine = self.open("store", 0)?;
        put_singly(&*engine, 0..1)?;
        rest(idle);
        figures.usage("idle", before, Usage::now()?, 1);
        drop(engine);
        Ok(())
    }

    fn brief(&self, figures: &mut Gathered) -> Result<()> {
        let started = Instant::now();
        let engine = self.open("store", 0)?;
        put_singly(&*engine, 0..BRIEF_PUTS)?;
        drop(engine);
        fs::remove_dir_all(self.directory.join("store"))?;
        figures.time("brief_ns", started);
        Ok(())
    }

    fn steps(&self, figures: &mut Gathered) -> Result<()> {
        let mut value = Vec::new();
        let started = Instant::now();
        let engine = self.open("store", 0)?;
        figures.time("create_ns", started);
        put_singly(&*engine, 0..STEPS_PUTS)?;
        let started = Instant::now();
        drop(engine);
        figures.time("close_ns", started);
        let started = Instant::now();
        let engine = self.open("store", 0)?;
        figures.time("reopen_ns", started);
        if !engine.get(&key(STEPS_PUTS - 1), &mut value)? {
            return Err("a pair is missing after the store was opened again".into());
        }
        let started = Instant::now();
        drop(engine);
        figures.time("close_again_ns", started);
        Ok(())
    }

    fn many(&self, stores: u32, idle: f64, figures: &mut Gathered) -> Result<()> {
        let before = Usage::now()?;
        let started = Instant::now();
        let mut engines = Vec::new();
        for number in 0..stores {
            let engine = self.open(&format!("store-{number}"), 0)?;
            put_singly(&*engine, 0..1)?;
            engines.push(engine);
        }
        figures.time("many_open_ns", started);
        rest(idle);
        let each = f64::from(stores);
        figures.usage("many", before, Usage::now()?, stores);
        figures.set("many_open_allocated", Disk::of(&self.directory)?.allocated as f64 / each);
        let started = Instant::now();
        drop(engines);
        figures.time("many_close_ns", started);
        figures.set("many_closed_allocated", Disk::of(&self.directory)?.allocated as f64 / each);
        Ok(())
    }
}

fn rest(seconds: f64) {
    std::thread::sleep(Duration::from_secs_f64(seconds));
}

fn value(number: u64) -> [u8; VALUE_BYTES as usize] {
    let mut value = [0; VALUE_BYTES as usize];
    fill_value(number, &mut value);
    value
}

fn put_singly(engine: &dyn Engine, numbers: std::ops::Range<u64>) -> Result<()> {
    for number in numbers {
        engine.put(&key(number), &value(number))?;
    }
    Ok(())
}

fn load(engine: &dyn Engine, pairs: u64) -> Result<()> {
    for first in (0..pairs).step_by(BATCH_PAIRS as usize) {
        let numbers = first..(first + BATCH_PAIRS).min(pairs);
        let owned: Vec<_> = numbers.map(|number| (key(number), value(number))).collect();
        let batch: Vec<(&[u8], &[u8])> = owned.iter().map(|(key, value)| (&key[..], &value[..])).collect();
        engine.put_batch(&batch)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests;
