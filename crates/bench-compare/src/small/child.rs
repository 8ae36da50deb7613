//! The hidden command `small-child`: reads a job, then runs one round of its scenario for each further line on standard
//! input, and reports the figures of each.

use super::disk::Disk;
use super::host::{Answer, Round};
use super::process::Usage;
use super::scenario::{Job, Scenario};
use crate::engines::{self, Defaults, OpenDefault};
use alluvium_bench::engine::{Engine, Result};
use std::fs;
use std::io::{BufRead, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

const KEY_BYTES: u64 = 8;
const VALUE_BYTES: u64 = 100;
/// Pairs of a batch of the large load: one transaction in engines that have them.
const BATCH_PAIRS: u64 = 1000;
const THOUSAND: u64 = 1000;
const BRIEF_PUTS: u64 = 10;
const STEPS_PUTS: u64 = 100;

/// Runs; errors are also sent to the parent.
pub fn run() -> Result<()> {
    let mut lines = std::io::stdin().lock().lines();
    let text = lines.next().ok_or("no job on standard input")??;
    let job: Job = serde_json::from_str(&text).map_err(|error| format!("the job on standard input: {error}"))?;
    crate::child::die_with_parent();
    crate::child::raise_file_limit();
    let stores = Stores::of(&job)?;
    for line in lines {
        line?;
        match stores.round(&job.scenario) {
            Ok(figures) => tell(&Answer::Measured { figures })?,
            Err(error) => {
                tell(&Answer::Failed { error: error.to_string() })?;
                return Err(error);
            }
        }
    }
    Ok(())
}

fn tell(answer: &Answer) -> Result<()> {
    let mut out = std::io::stdout().lock();
    serde_json::to_writer(&mut out, answer)?;
    out.write_all(b"\n")?;
    Ok(out.flush()?)
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
        let mut figures = Figures::default();
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

    fn sizes(&self, bytes: u64, idle: f64, figures: &mut Figures) -> Result<()> {
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

    fn idle(&self, idle: f64, figures: &mut Figures) -> Result<()> {
        let before = Usage::now()?;
        let engine = self.open("store", 0)?;
        put_singly(&*engine, 0..1)?;
        rest(idle);
        figures.usage("idle", before, Usage::now()?, 1);
        drop(engine);
        Ok(())
    }

    fn brief(&self, figures: &mut Figures) -> Result<()> {
        let started = Instant::now();
        let engine = self.open("store", 0)?;
        put_singly(&*engine, 0..BRIEF_PUTS)?;
        drop(engine);
        fs::remove_dir_all(self.directory.join("store"))?;
        figures.time("brief_ns", started);
        Ok(())
    }

    fn steps(&self, figures: &mut Figures) -> Result<()> {
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

    fn many(&self, stores: u32, idle: f64, figures: &mut Figures) -> Result<()> {
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

/// The figures of a round.
#[derive(Default)]
struct Figures(Round);

impl Figures {
    fn set(&mut self, name: &str, number: f64) {
        self.0.insert(name.to_owned(), number);
    }

    fn time(&mut self, name: &str, since: Instant) {
        self.set(name, since.elapsed().as_nanos() as f64);
    }

    fn disk(&mut self, prefix: &str, disk: Disk) {
        self.set(&format!("{prefix}_allocated"), disk.allocated as f64);
        self.set(&format!("{prefix}_length"), disk.length as f64);
    }

    /// What `stores` stores added to the process: threads in all, the rest of each.
    fn usage(&mut self, prefix: &str, before: Usage, now: Usage, stores: u32) {
        let more = |now: u64, before: u64| now as f64 - before as f64;
        let each = f64::from(stores);
        self.set(&format!("{prefix}_threads"), more(now.threads, before.threads));
        self.set(&format!("{prefix}_descriptors"), more(now.descriptors, before.descriptors) / each);
        self.set(&format!("{prefix}_resident"), more(now.resident, before.resident) / each);
        self.set(&format!("{prefix}_anonymous"), more(now.anonymous, before.anonymous) / each);
        self.set(&format!("{prefix}_reserved"), more(now.reserved, before.reserved) / each);
    }
}

fn rest(seconds: f64) {
    std::thread::sleep(Duration::from_secs_f64(seconds));
}

/// Keys in no order, all different.
fn key(number: u64) -> [u8; KEY_BYTES as usize] {
    number.wrapping_mul(0x9e37_79b9_7f4a_7c15).to_be_bytes()
}

/// Bytes that do not compress.
fn value(number: u64) -> [u8; VALUE_BYTES as usize] {
    let mut state = number.wrapping_mul(0xd134_2543_de82_ef95) | 1;
    std::array::from_fn(|_| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 24) as u8
    })
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
