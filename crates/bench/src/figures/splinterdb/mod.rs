//! SplinterDB ("Closing the Bandwidth Gap for NVMe Key-Value Stores", USENIX ATC 2020), figures 5 to 12 and table 1.
//!
//! The paper has 24-byte keys, values of 100 bytes and 1 KiB, 80 GiB of them with memory for a tenth or less, 32 cores,
//! and every engine at its best number of threads. Here the data is small and memory is a tenth of it, if an engine can
//! run with that; the threads are the machine's cores. The caller decides how engines are limited to their memory
//! (`Stage::host`).
//!
//! The time of a load includes settling: postponed work is not done. Write amplification excludes the log, a constant
//! that every engine adds; I/O amplification includes it.

mod memory;
mod scans;
mod sequential;
mod threads;
mod ycsb;

pub use memory::{LARGE_VALUES, SMALL_VALUES};
pub use scans::SCANS;
pub use sequential::NEAR_SEQUENTIAL;
pub use threads::{INSERTS, READS};
pub use ycsb::{AMPLIFICATION, LATENCY, YCSB};

use super::Figure;
use super::drawing::{Drawing, Line, Panel, Ruling};
use super::host::Ran;
use super::stage::Stage;
use crate::catalogue;
use crate::engine::{EngineOptions, Factory, Result};
use crate::outcome::Outcome;
use crate::session::Step;
use crate::settings::Settings;

const KEY_BYTES: usize = 24;
/// The memory that engines need to work as designed: one or two write buffers, filters, some cache.
const MEMORY_MIN: u64 = 96 << 20;

/// I/O amplification: bytes read and written, including the log, divided by the bytes of keys and values that the user
/// wrote and read.
const MOVED: &str = "device bytes per user byte";

/// One of the paper's two sets of data.
struct Data {
    title: &'static str,
    value_size: usize,
    /// Percentage of keys that have the smaller pairs, so that both halves have about as many bytes.
    keys_percent: u64,
}

const SMALL: Data = Data { title: "100 B values", value_size: 100, keys_percent: 100 };
const LARGE: Data = Data { title: "1 KiB values", value_size: 1024, keys_percent: 12 };
/// Number of keys with the smaller values, such that memory for a tenth is more than `MEMORY_MIN`.
const KEYS: u64 = 10_000_000;

impl Data {
    fn keys(&self, stage: &Stage<'_>) -> u64 {
        (stage.num.unwrap_or(KEYS) * self.keys_percent / 100).max(1)
    }

    fn bytes(&self, stage: &Stage<'_>) -> u64 {
        self.keys(stage) * (KEY_BYTES + self.value_size) as u64
    }

    /// A tenth of the data, unless the user chose another size.
    fn memory(&self, stage: &Stage<'_>) -> u64 {
        stage.memory.unwrap_or((self.bytes(stage) / 10).max(MEMORY_MIN))
    }

    fn settings(&self, stage: &Stage<'_>, threads: usize) -> Settings {
        let engine = EngineOptions { memory: Some(self.memory(stage)), ..EngineOptions::default() };
        let num = Some(self.keys(stage));
        Settings { num, key_size: KEY_BYTES, value_size: self.value_size, threads, engine, ..Settings::default() }
    }

    fn condition(&self, stage: &Stage<'_>) -> String {
        let (bytes, memory) = (self.bytes(stage), self.memory(stage));
        format!(
            "{}: {} keys of {KEY_BYTES} bytes, {} MB, with {} MiB of memory per engine, {:.0}% of the data",
            self.title,
            self.keys(stage),
            bytes / 1_000_000,
            memory >> 20,
            memory as f64 / bytes as f64 * 100.0
        )
    }
}

/// The machine's cores, or the number that the user chose.
fn cores(stage: &Stage<'_>) -> usize {
    stage.threads_max.unwrap_or(stage.cores)
}

/// The outcomes of one engine.
struct Runs {
    engine: String,
    ran: Vec<Ran>,
}

/// Named workloads as steps: the first loads the store, the others run for the stage's time.
fn steps(stage: &Stage<'_>, settings: &Settings, workloads: &[&str]) -> Result<Vec<Step>> {
    let step = |(at, name): (usize, &&str)| {
        let workload = catalogue::named(name, settings)?;
        let load = Step { settings: settings.clone(), workload: workload.clone() };
        Ok(if at == 0 { load } else { stage.timed(settings, settings.threads, workload) })
    };
    workloads.iter().enumerate().map(step).collect()
}

/// Runs workloads by name, one after the other on one store.
fn run(factory: &dyn Factory, stage: &Stage<'_>, settings: &Settings, workloads: &[&str]) -> Result<Runs> {
    let ran = stage.run(factory, steps(stage, settings, workloads)?)?;
    Ok(Runs { engine: factory.name().to_string(), ran })
}

/// Operations per second; those of a fill include the time to settle.
fn rate(outcome: &Outcome) -> f64 {
    let settled = if outcome.workload.starts_with("load") || outcome.workload.starts_with("fill") {
        outcome.settle_s
    } else {
        0.0
    };
    outcome.ops as f64 / (outcome.elapsed_s + settled).max(1e-9)
}

/// A panel with a point for each phase for which `height` returns a value.
fn by_phase(title: &str, y: &str, phases: &[&str], runs: &[Runs], height: impl Fn(&Outcome) -> Option<f64>) -> Panel {
    let places = || phases.iter().enumerate().map(|(at, phase)| (*phase, at as f64 + 1.0));
    let lines = runs.iter().map(|runs| Line::of(&runs.engine, places(), &runs.ran, &height)).collect();
    Panel { title: title.into(), x: "phase".into(), y: y.into(), x_measured: false, lines }
}

/// A panel with a point for each number, such as a number of threads, for which `height` returns a value; each engine's
/// outcomes are in the order of the numbers.
fn by_number(
    (title, x, y): (&str, &str, &str),
    numbers: &[u64],
    runs: &[Runs],
    height: impl Fn(&Outcome) -> Option<f64>,
) -> Panel {
    let names: Vec<String> = numbers.iter().map(u64::to_string).collect();
    let places = || names.iter().zip(numbers).map(|(name, number)| (&name[..], *number as f64));
    let lines = runs.iter().map(|runs| Line::of(&runs.engine, places(), &runs.ran, &height)).collect();
    Panel { title: title.into(), x: x.into(), y: y.into(), x_measured: false, lines }
}

fn drawing(
    figure: &Figure,
    stage: &Stage<'_>,
    mut conditions: Vec<String>,
    panels: Vec<Panel>,
    rulings: Vec<Ruling>,
) -> Drawing {
    conditions.push(format!(
        "the paper: 80 GiB, 32 cores; here {} cores and {} s per point, except loads",
        stage.cores,
        stage.duration.as_secs_f64()
    ));
    Drawing::of(figure, conditions, panels, rulings)
}
