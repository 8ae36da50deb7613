//! cLSM ("Scaling Concurrent Log-Structured Data Stores", EuroSys 2015), figures 1 and 5 to 11.
//!
//! The paper has up to 400 GB of data, 16 hardware threads and up to 128 threads; data and threads are fewer here. A
//! point is a run for a fixed time on a store that was loaded once. Background work is awaited between points, unless a
//! figure says otherwise.

mod compaction;
mod memory;
mod modify;
mod partitions;
mod production;
mod threads;

pub use compaction::COMPACTION;
pub use memory::MEMORY_SIZE;
pub use modify::MODIFY;
pub use partitions::PARTITIONS;
pub use production::PRODUCTION;
pub use threads::{MIXED, READS, WRITES};

use super::drawing::{Line, Panel};
use super::host::Ran;
use super::stage::Stage;
use crate::choice::Choice;
use crate::engine::{EngineOptions, Factory, Result};
use crate::keys::Order;
use crate::outcome::Outcome;
use crate::session::Step;
use crate::settings::Settings;
use crate::workload::{Arrival, Job, Mix, Workload};

/// Pairs of a block of 4 KiB.
const BLOCK: u64 = 16;
/// "90% of the keys are selected randomly from popular blocks that comprise 10% of the database" (section 5.1).
const POPULAR: Choice = Choice::Hot { operations_percent: 90, keys_percent: 10, block: BLOCK };
/// Writers share the cores with background work: with fewer cores than this, no claim about them can be checked.
const WRITERS_CORES_MIN: usize = 4;

/// The size of a figure's data.
#[derive(Clone, Copy)]
struct Scale {
    keys: u64,
    key_bytes: usize,
    value_bytes: usize,
    memory: u64,
    /// The paper's sizes.
    paper: &'static str,
}

impl Scale {
    fn settings(&self, stage: &Stage<'_>) -> Settings {
        let engine = EngineOptions { memory: Some(self.memory), ..EngineOptions::default() };
        let (num, key_size, value_size) = (Some(self.keys), self.key_bytes, self.value_bytes);
        stage.settings(Settings { num, key_size, value_size, engine, ..Settings::default() })
    }

    /// Keys that are loaded.
    fn keys(&self, stage: &Stage<'_>) -> u64 {
        stage.num.unwrap_or(self.keys)
    }

    fn conditions(&self, stage: &Stage<'_>) -> Vec<String> {
        let keys = self.keys(stage);
        let megabytes = keys * (self.key_bytes + self.value_bytes) as u64 / 1_000_000;
        vec![
            format!(
                "{keys} keys of {} bytes with values of {} bytes: {megabytes} MB (the paper: {})",
                self.key_bytes, self.value_bytes, self.paper
            ),
            format!("{} MiB of memory per engine", stage.memory.unwrap_or(self.memory) >> 20),
            format!(
                "{} cores (the paper: 16 hardware threads), {} s per point",
                stage.cores,
                stage.duration.as_secs_f64()
            ),
        ]
    }

    /// The outcomes of the points, after the load.
    fn behind_load(
        &self,
        stage: &Stage<'_>,
        engine: &dyn Factory,
        title: &str,
        points: &[(usize, Mix)],
    ) -> Result<Vec<Ran>> {
        run(stage, engine, &self.settings(stage), title, points)
    }
}

/// Loads, then runs the points.
fn run(
    stage: &Stage<'_>,
    engine: &dyn Factory,
    settings: &Settings,
    title: &str,
    points: &[(usize, Mix)],
) -> Result<Vec<Ran>> {
    let mut steps = vec![Step { settings: settings.clone(), workload: scattered(&format!("{title}: load")) }];
    steps.extend(points.iter().map(|(threads, mix)| {
        let name = format!("{title}, {threads} threads");
        stage.timed(settings, *threads, Workload { name, job: Job::Mix(mix.clone()) })
    }));
    stage.run_behind_load(engine, steps)
}

/// Neighbours in number are neighbours in key order, so blocks can be popular; they arrive in random order.
fn scattered(name: &str) -> Workload {
    Workload { name: name.into(), job: Job::Fill { order: Order::Sequential, arrival: Arrival::Shuffled } }
}

/// A line of operations per second by threads.
fn line(name: &str, threads: &[usize], ran: &[Ran]) -> Line {
    let names: Vec<String> = threads.iter().map(usize::to_string).collect();
    let places = names.iter().zip(threads).map(|(name, threads)| (&name[..], *threads as f64));
    Line::of(name, places, ran, rate)
}

fn rate(outcome: &Outcome) -> Option<f64> {
    Some(outcome.ops_per_s)
}

/// Operations per second by threads.
fn panel(title: &str, lines: Vec<Line>) -> Panel {
    Panel { title: title.into(), x: "threads".into(), y: "operations a second".into(), x_measured: false, lines }
}
